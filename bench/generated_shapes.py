"""Shapes of invented data sets, by which constants are chosen: DPBench's own only report.

    python bench/generated_shapes.py

Cascades halve a line or a plane again and again and give every half a share drawn between p and
1 - p: rough at every size. Clusters are normal hills with Zipf weights; spikes are single cells
with Zipf weights over a flat ground; then a flat shape and one hill. Every shape has a seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

CASCADES = (0.55, 0.65, 0.75, 0.85)
CLUSTERS = (3, 30)
SPIKES = (20, 500)


def make_shapes(axes: tuple[int, ...], seed: int = 29) -> dict[str, Any]:
    """Shapes over a line or a plane, by name; each sums to 1."""
    draws = np.random.default_rng(seed)
    shapes = {f"cascade {p}": make_cascade(axes, p, draws) for p in CASCADES}
    shapes |= {f"{number} clusters": make_clusters(axes, number, draws) for number in CLUSTERS}
    shapes |= {f"{number} spikes": make_spikes(axes, number, draws) for number in SPIKES}
    shapes |= {"flat": np.ones(axes), "one hill": make_clusters(axes, 1, draws)}
    return {name: shape / shape.sum() for name, shape in shapes.items()}


def make_cascade(axes: tuple[int, ...], p: float, draws: Any) -> Any:
    """Halves of halves, each with a share of p or 1 - p; the sizes are powers of two."""
    shape = np.ones((1,) * len(axes))
    while shape.shape != axes:
        for axis in range(len(axes)):
            left = np.where(draws.random(shape.shape) < 0.5, p, 1 - p)
            halves = np.stack([shape * left, shape * (1 - left)], axis=axis + 1)
            sizes = list(shape.shape)
            sizes[axis] *= 2
            shape = halves.reshape(sizes)
    return shape


def make_clusters(axes: tuple[int, ...], number: int, draws: Any) -> Any:
    """Normal hills at drawn places, with widths of a hundredth to a fifth of every axis."""
    shape = np.zeros(axes)
    for rank in range(1, number + 1):
        hill = np.ones(())
        for size in axes:
            width = size * np.exp(draws.uniform(np.log(0.01), np.log(0.2)))
            distance = (np.arange(size) - draws.uniform(0, size)) / width
            hill = np.multiply.outer(hill, np.exp(-(distance**2) / 2))
        shape += hill / hill.sum() / rank
    return shape


def make_spikes(axes: tuple[int, ...], number: int, draws: Any) -> Any:
    """Cells with Zipf weights; a fifth of all rows is spread over everything."""
    flat = np.zeros(int(np.prod(axes)))
    cells = draws.choice(flat.size, number, replace=False)
    flat[cells] = 1 / np.arange(1, number + 1)
    return (flat / flat.sum() + 0.25 / flat.size).reshape(axes)
