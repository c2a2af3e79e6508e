"""Subjects of the tester: membership attacks on methods of synthetic tables, and planted bugs.

The attacker knows all people but one, who has a rare combination of values, and looks at what a
fitted model says of that combination. The methods are those that are shipped. They run with the
kernel's mechanisms but without its ledger, in a lease of pure epsilon over an invented table. Each
planted bug is one that another generator had; the same attack must find it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.audit.shipped_mechanisms import Subject
from dither.plan.algebra import JointScores, Linear, Quantiles, Query, Scan
from dither.plan.linear import multiply_cells
from dither.plan.scores import evaluate_scores
from dither.privacy.losses import Pure
from dither.privacy.mechanisms.quantile import FlippedQuantile
from dither.privacy.mechanisms.score_selection import ScoreSelection
from dither.privacy.noise import discrete_laplace
from dither.synth.columns import SynthColumn
from dither.synth.fitted import FittedTable
from dither.synth.groupings import keep_all
from dither.synth.junction_tree import Clique
from dither.synth.methods import METHODS
from dither.synth.steps import SCALE, MarginalCandidate, TableSteps

Rows = NDArray[np.int64]
EPSILON = Fraction(1)
NAMES = ("a", "b")
PEOPLE: Rows = np.array([[0, 0]] * 12 + [[1, 0]] * 3)
TARGET: Rows = np.array([[1, 1]])
EDGE_SHARE = Fraction(4, 5)
"""12 of the 15 people beside the target have the value 0: a target with 1 moves this quantile."""
_MOST_ROWS = 1000


class InventedLease:
    """A lease of pure epsilon with the kernel's noise and without its ledger, for one row a person.

    A planted bug has a `factor` (for counts) or a `choice_factor` above 1: a step then costs that
    many times what is taken from the lease.
    """

    def __init__(
        self, rows: Rows, sizes: tuple[int, ...], factor: int = 1, choice_factor: int = 1
    ) -> None:
        self.left = EPSILON
        self._rows = rows
        self._sizes = sizes
        self._factor = factor
        self._choice_factor = choice_factor

    def release(self, query: Query, *, epsilon: Any = None, rho: Any = None) -> tuple[int, ...]:
        """Release noisy counts, the position of a choice, or a quantile."""
        price = Fraction(epsilon)
        self.left -= price
        if isinstance(query, Quantiles):
            (share,) = query.shares
            mechanism = FlippedQuantile(share, price * self._factor)
            return (int(mechanism.release(self._count((query.column,))[:, 0].tolist())),)
        if isinstance(query, Linear):
            product = multiply_cells(query, self._count(query.keys), _MOST_ROWS)[:, 0]
            noise = discrete_laplace(1 / (price * self._factor), len(product))
            return tuple(int(number) for number in product + noise)
        assert isinstance(query, JointScores)
        scores = [
            evaluate_scores(member, self._count(member.keys), _MOST_ROWS)
            for member in query.members
        ]
        selection = ScoreSelection(price * self._choice_factor, SCALE)
        return (selection.release(np.concatenate(scores)),)

    def _count(self, keys: tuple[str, ...]) -> NDArray[Any]:
        columns = [NAMES.index(key) for key in keys]
        shape = [self._sizes[column] for column in columns]
        codes = np.ravel_multi_index(tuple(self._rows[:, c] for c in columns), shape)
        return np.bincount(codes, minlength=prod(shape)).astype(object).reshape(-1, 1)


class InventedSteps(TableSteps):
    """Steps whose noise is known without a catalog: one row moves one cell by one."""

    def __init__(self, lease: InventedLease) -> None:
        analyses: Any = None
        super().__init__(lease, Scan("t"), NAMES, analyses, "epsilon")

    def find_variance(self, query: Linear, price: Fraction) -> float:
        """Find the variance of Laplace noise of scale 1 / price."""
        return 2 / float(price) ** 2

    def find_choice_scale(self, query: JointScores, price: Fraction) -> float:
        """Find the scale of a choice in rows: one row moves a score by one row."""
        return 2 / float(price)

    def find_error(self, clique: Clique, price: Fraction) -> float:
        """Find the mean absolute value of Laplace noise of scale 1 / price."""
        return 1 / float(price)


def fit_invented(rows: Rows, method: str, factor: int = 1, choice_factor: int = 1) -> FittedTable:
    """Fit a method to an invented table of two columns with two values each."""
    steps = InventedSteps(InventedLease(rows, (2, 2), factor, choice_factor))
    return METHODS[method](steps, make_columns((2, 2)))


def make_columns(sizes: tuple[int, ...]) -> tuple[SynthColumn, ...]:
    """Make categories with these numbers of labels."""
    return tuple(
        SynthColumn(
            name,
            "category",
            size,
            False,
            0,
            1,
            0,
            size - 1,
            Fraction(1),
            tuple(map(str, range(size))),
        )
        for name, size in zip(NAMES, sizes, strict=True)
    )


def attack_cell(rows: Rows, method: str, factor: int = 1, choice_factor: int = 1) -> int:
    """Return how many rows the model has with the target's values, in tenths of a row."""
    fitted = fit_invented(rows, method, factor, choice_factor)
    return round(10 * float(fitted.find_marginal((0, 1))[1, 1]))


def attack_choice(rows: Rows, choice_factor: int = 1) -> int:
    """Return which of two marginals is chosen: one fits with the target, the other without."""
    steps = InventedSteps(InventedLease(rows, (2, 2), 1, choice_factor))
    with_target = np.array([12.0, 4.0])
    without = np.array([12.0, 3.0])
    candidates = [MarginalCandidate((0,), with_target), MarginalCandidate((0,), without)]
    return steps.choose(candidates, [keep_all(2), keep_all(2)], EPSILON)


def attack_edge(rows: Rows, factor: int = 1) -> int:
    """Return where the second of two bought bins of a column begins."""
    lease = InventedLease(rows, (4, 2), factor)
    query = Quantiles(Scan("t"), (), NAMES[0], (EDGE_SHARE,))
    return lease.release(query, epsilon=EPSILON)[0]


def list_generators() -> list[Subject]:
    """List every method, and the choice of a marginal, each with its claim."""
    pair = (np.concatenate([PEOPLE, TARGET]), PEOPLE)
    attacks: dict[str, Callable[[Rows], int]] = {
        f"synthetic table by {method}": partial(attack_cell, method=method) for method in METHODS
    }
    attacks["choice of a marginal"] = attack_choice
    attacks["edge of bought bins"] = attack_edge
    claim = Pure(EPSILON)
    return [
        Subject(name, attack, pair, claim, vectorised=False) for name, attack in attacks.items()
    ]


@dataclass(frozen=True)
class PlantedGenerator:
    """A generator with a planted bug, and the attack that must find it."""

    what: str
    attack: Callable[[Rows], int]
    pair: tuple[Rows, Rows]

    @property
    def subject(self) -> Subject:
        """The generator with the bug, and the claim of the one without it."""
        return Subject(self.what, self.attack, self.pair, Pure(EPSILON), vectorised=False)


def _use_exact_rows(rows: Rows) -> int:
    """Take the exact number of rows for the total, as generators do that copy the table's size."""
    fit_invented(rows, "independent")
    return len(rows)


def _take_domain_from_data(rows: Rows) -> int:
    """Take the labels that occur: the target's value then adds a cell to the model."""
    sizes = tuple(int(size) for size in rows.max(axis=0) + 1)
    lease = InventedLease(rows, sizes)
    return METHODS["independent"](InventedSteps(lease), make_columns(sizes)).model.sizes[1]


def _take_edge_from_data(rows: Rows) -> int:
    """Take the exact quantile for the edge of bins, as generators do that cut the data equally."""
    return int(np.quantile(rows[:, 0], float(EDGE_SHARE), method="lower"))


def _keep_all_rows(rows: Rows) -> int:
    """Count all rows of a person, with the noise of one row."""
    return attack_cell(rows, "histogram")


def _use_unlimited_total(rows: Rows) -> int:
    """Count all rows of a person in the total, with the noise of one row."""
    return round(fit_invented(rows, "independent").model.total)


def list_planted_generators() -> list[PlantedGenerator]:
    """List bugs that published generators had, each with the attack that finds it."""
    neighbours = (np.concatenate([PEOPLE, TARGET]), PEOPLE)
    many_rows = (np.concatenate([PEOPLE, *[TARGET] * 8]), PEOPLE)
    very_many_rows = (np.concatenate([PEOPLE, *[TARGET] * 40]), PEOPLE)  # a total has more noise
    return [
        PlantedGenerator("the exact number of rows is used", _use_exact_rows, neighbours),
        PlantedGenerator("the domain is read off the data", _take_domain_from_data, neighbours),
        PlantedGenerator("edges of bins are exact quantiles", _take_edge_from_data, neighbours),
        PlantedGenerator(
            "choices are not charged", lambda rows: attack_choice(rows, 100), neighbours
        ),
        PlantedGenerator("rows of one person are not limited", _keep_all_rows, many_rows),
        PlantedGenerator("the total is not limited", _use_unlimited_total, very_many_rows),
        PlantedGenerator(
            "steps cost eight times what is taken",
            lambda rows: attack_cell(rows, "histogram", 8, 8),
            neighbours,
        ),
    ]
