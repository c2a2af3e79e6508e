"""Rows drawn from a model by rounding: every count comes out within one of what is expected.

One attribute after the other is drawn, given those that it shares a maximal clique with. Among the
rows that agree on these, the values are spread by systematic sampling: m rows with probabilities p
get floor(m p) or ceil(m p) of each value. Which row gets which is spread evenly over what was drawn
before: rows that are alike take points of a golden ratio sequence, which lie far apart. Chance
comes from a key, so that the same model and key give the same rows again; the key is public, since
a model is made of released numbers alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.synth.contraction import Table, add_up
from dither.synth.junction_tree import Clique
from dither.synth.model import GraphicalModel

_GOLDEN = (5.0**0.5 - 1) / 2
_MOST_CODE = 1 << 62
"""Combined codes stay below this, so that they fit into 64 bits."""
_CHUNK = 1 << 22
"""Cells of one comparison of rows with running sums: bounds memory."""


def draw_uniform(key: bytes, label: str, count: int) -> NDArray[np.float64]:
    """Numbers in [0, 1) that follow from the key and the label: SHAKE-256 as a stream.

    >>> draw_uniform(bytes(32), "a", 2).shape, bool((draw_uniform(bytes(32), "a", 9) < 1).all())
    ((2,), True)
    """
    stream = hashlib.shake_256(key + label.encode()).digest(8 * count)
    words = np.frombuffer(stream, np.dtype("<u8"))
    uniform: NDArray[np.float64] = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniform


def draw_rows(
    model: GraphicalModel, rows: int, key: bytes, *, is_even: bool = True
) -> NDArray[np.int32]:
    """A table of codes: one row for each drawn row, one column for each attribute."""
    codes = _draw_given(model, {}, rows, key, is_even=is_even)
    return codes[sort_rows(draw_uniform(key, "order", rows), [])]


def draw_rows_given(
    model: GraphicalModel,
    fixed_codes: dict[int, NDArray[np.int32]],
    rows: int,
    key: bytes,
    *,
    is_even: bool = True,
) -> NDArray[np.int32]:
    """Rows whose given attributes have the given codes, in that order; the others are drawn by the
    model's conditional distribution. One maximal clique must have all given attributes."""
    return _draw_given(model, fixed_codes, rows, key, is_even=is_even)


def _draw_given(
    model: GraphicalModel,
    fixed_codes: dict[int, NDArray[np.int32]],
    rows: int,
    key: bytes,
    *,
    is_even: bool,
) -> NDArray[np.int32]:
    codes = np.zeros((rows, len(model.sizes)), np.int32)
    for attribute, column in fixed_codes.items():
        codes[:, attribute] = column
    done: set[int] = set(fixed_codes)
    for index, clique in _walk_cliques(model, done):
        drawn = tuple(attribute for attribute in clique if attribute in done)
        for attribute in clique:
            if attribute in done:
                continue
            kept = tuple(sorted((*drawn, attribute)))
            table = add_up(model.beliefs[index], clique, kept)
            table = np.moveaxis(table, kept.index(attribute), -1)
            others = [codes[:, a] for a in order_by_size(done - {*drawn}, model.sizes)]
            codes[:, attribute] = _draw_attribute(
                table, codes[:, list(drawn)], key, attribute, others if is_even else None
            )
            drawn = tuple(sorted((*drawn, attribute)))
            done.add(attribute)
    return codes


def order_by_size(attributes: Iterable[int], sizes: tuple[int, ...]) -> list[int]:
    """Attributes with many values first: their cells are the sparsest, and chance hurts most."""
    return sorted(attributes, key=lambda attribute: (-sizes[attribute], attribute))


def _walk_cliques(model: GraphicalModel, fixed: set[int]) -> list[tuple[int, Clique]]:
    """The maximal cliques, neighbours after each other, from one that has all given attributes."""
    cliques = model.tree.cliques
    root = next((i for i, clique in enumerate(cliques) if fixed <= {*clique}), None)
    if root is None:
        raise ValueError("no maximal clique has all given attributes")
    order = [root]
    while len(order) < len(cliques):
        order += [
            end
            for edge in model.tree.edges
            for start, end in (edge, edge[::-1])
            if start in order and end not in order
        ][:1]
    return [(index, cliques[index]) for index in order]


def draw_values(
    groups: NDArray[np.int32], shares: list[Table], key: bytes, *, is_even: bool = True
) -> NDArray[np.int32]:
    """The values of every row, given its groups: of each attribute the shares of the values (last
    axis) in every group."""
    sizes = tuple(len(table) for table in shares)
    values = np.empty_like(groups)
    for attribute, table in enumerate(shares):
        others = order_by_size({*range(len(shares))} - {attribute}, sizes)
        values[:, attribute] = _draw_attribute(
            table,
            groups[:, [attribute]],
            key,
            f"inside {attribute}",
            [groups[:, other] for other in others] if is_even else None,
        )
    return values


def _draw_attribute(
    table: Table,
    fixed_codes: NDArray[np.int32],
    key: bytes,
    attribute: int | str,
    others: list[NDArray[np.int32]] | None,
) -> NDArray[np.int32]:
    """The values of one attribute; the last axis of `table` is its own, the others are `given`.

    `others` are columns over which the values are spread evenly; None leaves that to chance.
    """
    size = table.shape[-1]
    by_group = table.reshape(-1, size)
    rows = len(fixed_codes)
    groups = np.zeros(rows, np.int64)
    for axis, length in enumerate(table.shape[:-1]):
        groups = groups * length + fixed_codes[:, axis]
    counts = np.bincount(groups, minlength=len(by_group))
    chance = draw_uniform(key, f"rank {attribute}", rows)
    ranks = _rank_inside([chance, *reversed(others or [])], groups, counts)
    if others is not None:
        shifts = draw_uniform(key, f"shift {attribute}", len(by_group))
        points = np.mod(ranks * _GOLDEN + shifts[groups], 1.0)
        ranks = _rank_inside([points], groups, counts)
    offsets = draw_uniform(key, f"offset {attribute}", len(by_group))
    points = (ranks + offsets[groups]) / np.maximum(counts[groups], 1)
    return _invert(by_group, groups, points)


def _rank_inside(
    keys: list[NDArray[Any]], groups: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Rank every row among those of its group, by keys of which the last counts most.

    The first key has numbers in [0, 1), the others have codes.
    """
    order = sort_rows(keys[0], [groups, *reversed(keys[1:])])
    starts = np.cumsum(counts) - counts
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - starts[groups[order]]
    return ranks


def sort_rows(points: NDArray[np.float64], codes: list[NDArray[Any]]) -> NDArray[np.int64]:
    """Sort rows by columns of codes, the first of which counts most, then by points in [0, 1).

    Returns the positions of the rows in that order, as `np.lexsort` does; ties stay in place. All
    columns of a row are combined into one integer, because integers are sorted several times faster
    than positions.
    """
    bits = max(1, len(points).bit_length())
    combined = np.zeros(len(points), np.int64)
    largest = 1
    for column in codes:
        values = int(column.max(initial=0)) + 1
        if largest * values << bits > _MOST_CODE:
            _, combined = np.unique(combined, return_inverse=True)
            largest = len(points)
        largest *= values
        if largest << bits > _MOST_CODE:
            return np.lexsort((points, *reversed(codes)))
        combined = combined * values + column
    by_points = _sort_points(points, bits)
    ranks = np.empty_like(by_points)
    ranks[by_points] = np.arange(len(points))
    ordered = np.sort((combined << bits) | ranks)
    order: NDArray[np.int64] = by_points[ordered & ((1 << bits) - 1)]
    return order


def _sort_points(points: NDArray[np.float64], bits: int) -> NDArray[np.int64]:
    """Sort points in [0, 1) and return their positions; ties stay in place.

    The leading digits of a point and its position are one integer. Where two points have the same
    leading digits, a stable sort of the points is used instead.
    """
    leading = np.floor(points * 2.0 ** (62 - bits)).astype(np.int64)
    ordered = np.sort((leading << bits) | np.arange(len(points)))
    if (np.diff(ordered >> bits) == 0).any():
        return np.argsort(points, kind="stable")
    positions: NDArray[np.int64] = ordered & ((1 << bits) - 1)
    return positions


def _invert(
    by_group: Table, groups: NDArray[np.int64], points: NDArray[np.float64]
) -> NDArray[np.int32]:
    """The value at which the running sum of a group's probabilities passes a point in [0, 1)."""
    size = by_group.shape[1]
    sums = np.cumsum(by_group, axis=1)
    whole = sums[:, -1:]
    flat = np.arange(1, size + 1) / size
    sums = np.where(whole > 0, sums / np.where(whole > 0, whole, 1.0), flat)
    values = np.empty(len(groups), np.int32)
    chunk = max(1, _CHUNK // size)
    for start in range(0, len(groups), chunk):
        window = slice(start, start + chunk)
        passed = sums[groups[window], :-1] <= points[window, None]
        values[window] = passed.sum(axis=1)
    return values
