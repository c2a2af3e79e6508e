"""Subjects of the tester: workloads in several steps, each audited as one mechanism.

The kernel prices every step by itself. What is audited here is all steps together: later steps are
chosen by earlier releases, and the claim is what all of them cost (docs/proofs/adaptive-steps.md).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from dither.audit.shipped_mechanisms import Subject
from dither.mechanisms import ScoreSelection
from dither.privacy.losses import Pure
from dither.privacy.noise import discrete_laplace
from dither.workloads.adaptive_grid import Box, cut_boxes, list_coarse_boxes
from dither.workloads.clustered_histogram import cluster_cells
from dither.workloads.multiplicative_weights import CountedCells, fit_weights

EPSILON = Fraction(1)
Cells = list[int]


def _add_noise(exact_counts: list[int], scale: Fraction) -> list[int]:
    noise = discrete_laplace(scale, (len(exact_counts),))
    return [int(number) for number in noise + exact_counts]


def make_grid_run(coarse_epsilon: Fraction, fine_epsilon: Fraction) -> Callable[[Cells], Cells]:
    """Make a run of an adaptive grid over 4 x 4 cells.

    The run returns the number of fine blocks, and the noisy counts of both grids.
    """

    def run(values: Cells) -> Cells:
        cells = np.array(values).reshape(4, 4)

        def count(boxes: list[Box], epsilon: Fraction) -> Cells:
            sums = [
                int(cells[top : bottom + 1, left : right + 1].sum())
                for (top, bottom), (left, right) in boxes
            ]
            return _add_noise(sums, 1 / epsilon)

        coarse = list_coarse_boxes((4, 4), 2)
        first = count(coarse, coarse_epsilon)
        fine = [box for cut in cut_boxes(coarse, first, Fraction(3)) for box in cut]
        return [len(fine), *first, *count(fine, fine_epsilon)]

    return run


def make_clusters_run(
    first_epsilon: Fraction, second_epsilon: Fraction, *, is_exact: bool = False
) -> Callable[[Cells], Cells]:
    """Make a run of a clustered histogram.

    The run returns the number of clusters, the noisy cells, and the first cluster's noisy count.
    `is_exact` plants a bug: the clusters are made from exact counts.
    """

    def run(cells: Cells) -> Cells:
        noisy = _add_noise(cells, 1 / first_epsilon)
        clusters = cluster_cells(
            cells if is_exact else noisy,
            threshold=float(1 / first_epsilon),
            variance=float(2 / second_epsilon**2),
            most_scattered=len(cells),
        )
        sums = [sum(cells[cell] for cell in cluster) for cluster in clusters]
        return [len(clusters), *noisy, _add_noise(sums, 1 / second_epsilon)[0]]

    return run


def make_mwem_run(
    choice_epsilon: Fraction, count_epsilon: Fraction, *, rounds: int = 2, is_exact: bool = False
) -> Callable[[Cells], Cells]:
    """Make a run of MWEM over the prefixes of a line, whose model has three rows.

    The run returns all choices and noisy counts. `is_exact` plants a bug: the query with the
    largest exact score is chosen.
    """
    choice = ScoreSelection(choice_epsilon, 1)

    def run(cells: Cells) -> Cells:
        sums = np.cumsum(cells)
        model = np.full(len(cells), 3 / len(cells))
        counted: list[CountedCells] = []
        released: list[int] = []
        for _ in range(rounds):
            scores = np.abs(sums - np.rint(np.cumsum(model)).astype(int)).tolist()
            position = int(np.argmax(scores)) if is_exact else int(choice.release(scores))
            (noisy,) = _add_noise([int(sums[position])], 1 / count_epsilon)
            released += [position, noisy]
            counted.append((np.arange(len(cells)) <= position, float(noisy)))
            model = fit_weights(model, 3.0, counted, sweeps=2)
        return released

    return run


def list_step_workloads() -> list[Subject]:
    """List every workload in steps, with its claim."""
    half = EPSILON / 2
    empty = [0] * 16
    subjects: list[tuple[str, Callable[[Any], Any], tuple[Cells, Cells]]] = [
        ("adaptive grid", make_grid_run(half, half), (empty, [1, *empty[1:]])),
        ("clustered histogram", make_clusters_run(half, half), ([3, 0, 0, 3], [3, 0, 1, 3])),
        ("MWEM", make_mwem_run(EPSILON / 4, EPSILON / 4), ([0, 1, 1, 0], [1, 1, 1, 0])),
    ]
    return [
        Subject(f"workload, {name}", run, pair, Pure(EPSILON), vectorised=False)
        for name, run, pair in subjects
    ]
