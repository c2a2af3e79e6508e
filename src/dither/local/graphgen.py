"""A synthetic graph from edge-local reports (LDPGen; Qin et al. 2017).

Users are put into random groups, and each reports its noisy number of links to every group
(`Degrees`); the server clusters the users by these rows, the clusters are the groups of the next
round, and so on. After the last round links are drawn: between a user of cluster a and one of
cluster b with probability d_ub d_va / m_ab, d the noisy numbers, m_ab the links between the
clusters (Chung and Lu). Each of r rounds takes epsilon / r; all the rest looks at reports only. One
entry of one list is protected at epsilon, an undirected link (it stands in two lists) at 2 epsilon.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number
from dither.errors import ParameterError
from dither.local.graph import Degrees
from dither.local.odds import read_epsilon
from dither.privacy.losses import Loss, Pure
from dither.privacy.noise import SystemSource, Words, uniform_below

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
_RESTARTS = 8
_STEPS = 50


def count_links(adjacency: NDArray[np.bool_], groups: Labels, count: int) -> NDArray[np.int64]:
    """On the device: how many links each user (row) has to each group."""
    counts: NDArray[np.int64] = adjacency.astype(np.int64) @ (
        groups[:, None] == np.arange(count)
    ).astype(np.int64)
    return counts


def find_clusters(rows: NDArray[Any], count: int, *, source: Words | None = None) -> Labels:
    """Group users with similar rows by k-means, the best of a few starts; return their labels."""
    points = np.asarray(rows, np.float64)
    words = source or SystemSource()
    if not 1 <= count <= len(points):
        raise ParameterError("there must be at least as many users as clusters")
    best: tuple[float, Labels] | None = None
    for _ in range(_RESTARTS):
        centres = points[uniform_below(len(points), count, source=words)]
        for _ in range(_STEPS):
            apart = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
            labels = apart.argmin(axis=1)
            groups = [points[labels == c] for c in range(count)]
            moved = np.array(
                [g.mean(axis=0) if len(g) else old for g, old in zip(groups, centres, strict=True)]
            )
            if np.allclose(moved, centres):
                break
            centres = moved
        cost = float(apart.min(axis=1).sum())
        if best is None or cost < best[0]:
            best = cost, labels.astype(np.int64)
    assert best is not None
    return best[1]


def draw_graph(
    labels: Labels, rows: NDArray[Any], *, source: Words | None = None
) -> NDArray[np.bool_]:
    """Draw a graph (symmetric, no loops) in which users have about as many links as their rows say.

    The rows hold noisy numbers of links to each cluster.
    """
    words = source or SystemSource()
    users = len(labels)
    numbers = np.maximum(np.asarray(rows, np.float64), 0.0)
    count = numbers.shape[1]
    inside = (labels[:, None] == np.arange(count)).astype(np.float64)
    stubs = inside.T @ numbers  # stubs[a, b]: links of cluster a to cluster b, as a's members say
    links = np.maximum((stubs + stubs.T) / 2, 1.0)
    towards = numbers[:, labels]  # towards[u, v]: links of u to the cluster of v
    chance = np.minimum(towards * towards.T / links[labels[:, None], labels[None, :]], 1.0)
    uniform = words.words(users * users, 53).reshape(users, users) / 2.0**53
    lower = np.tril(uniform < chance, -1)
    graph: NDArray[np.bool_] = lower | lower.T
    return graph


def generate(
    adjacency: NDArray[np.bool_],
    epsilon: Number,
    *,
    groups: int = 8,
    count: int = 4,
    rounds: int = 3,
    source: Words | None = None,
) -> tuple[NDArray[np.bool_], Labels, Loss]:
    """Run all rounds on a simulated population.

    Returns (synthetic graph, clusters of the users, loss of one entry of one list).
    """
    words = source or SystemSource()
    price = read_epsilon(epsilon)
    users = len(adjacency)
    if adjacency.shape != (users, users) or users > 1 << 12 or rounds < 2:
        raise ParameterError(
            "adjacency must be a square matrix of at most 4096 users, rounds at least 2"
        )
    labels: Labels = uniform_below(groups, users, source=words)
    for turn in range(rounds):
        protocol = Degrees(price / rounds, groups if turn == 0 else count)
        noisy_counts = protocol.degrees(
            protocol.permanent(count_links(adjacency, labels, protocol.groups), words)
        )
        if turn + 1 < rounds:
            labels = find_clusters(noisy_counts, count, source=words)
    return (
        draw_graph(labels, noisy_counts, source=words),
        labels,
        Pure(price, neighbours="replace", unit=protocol.unit),
    )
