"""The whole table of a graphical model, cell by cell: the oracle of everything that avoids it."""

from __future__ import annotations

from itertools import product

import numpy as np

from dither.synth.model import GraphicalModel


def write_joint(model: GraphicalModel) -> np.ndarray:
    """Expected counts of every cell, by the definition of the product."""
    joint = np.zeros(model.sizes)
    for cell in product(*map(range, model.sizes)):
        joint[cell] = np.exp(
            sum(
                table[tuple(cell[attribute] for attribute in clique)]
                for clique, table in model.potentials.items()
            )
        )
    return model.total * joint / joint.sum()


def add_up_joint(joint: np.ndarray, kept: tuple[int, ...]) -> np.ndarray:
    """A marginal of a whole table."""
    return joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis not in kept))
