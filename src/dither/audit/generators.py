"""Membership attacks on generators of synthetic tables as subjects of the tester; planted bugs.

The attacker knows everybody but one person, who has a rare combination of values, and looks at what
a fitted model says of it. Methods run as they are, on the mechanisms of the kernel without its
ledger: a lease of pure epsilon over a table that the audit invents. Each bug is one that a peer
had; the same attack must find it.
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
from dither.plan.algebra import JointScores, Linear, Query, Scan
from dither.plan.linear import multiply_cells
from dither.plan.scores import evaluate_scores
from dither.privacy.losses import Pure
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
_MOST_ROWS = 1000


class InventedLease:
    """The kernel's noise for one row a person, without its ledger: a lease of pure epsilon.

    `factor` and `choice_factor` are 1; a planted bug has more: steps then cost so many times what
    is taken.
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
        """Noisy counts, or the position of a choice."""
        price = Fraction(epsilon)
        self.left -= price
        if isinstance(query, Linear):
            product = multiply_cells(query, self._count(query.keys), _MOST_ROWS)[:, 0]
            noise = discrete_laplace(1 / (price * self._factor), len(product))
            return tuple(int(number) for number in product + noise)
        assert isinstance(query, JointScores)
        scores = [evaluate_scores(m, self._count(m.keys), _MOST_ROWS) for m in query.members]
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
        """The variance of Laplace noise of scale 1 / price."""
        return 2 / float(price) ** 2

    def find_error(self, clique: Clique, price: Fraction) -> float:
        """Its mean absolute value."""
        return 1 / float(price)


def fit_invented(rows: Rows, method: str, factor: int = 1, choice_factor: int = 1) -> FittedTable:
    """A method on an invented table of two columns with two values each."""
    steps = InventedSteps(InventedLease(rows, (2, 2), factor, choice_factor))
    return METHODS[method](steps, make_columns((2, 2)))


def make_columns(sizes: tuple[int, ...]) -> tuple[SynthColumn, ...]:
    """Categories with these numbers of labels."""
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
    """What the model says of the target's values, in tenths of a row."""
    fitted = fit_invented(rows, method, factor, choice_factor)
    return round(10 * float(fitted.find_marginal((0, 1))[1, 1]))


def attack_choice(rows: Rows, choice_factor: int = 1) -> int:
    """Which of two marginals is chosen: the target makes one fit and the other not."""
    steps = InventedSteps(InventedLease(rows, (2, 2), 1, choice_factor))
    with_target = np.array([12.0, 4.0])
    without = np.array([12.0, 3.0])
    candidates = [MarginalCandidate((0,), with_target), MarginalCandidate((0,), without)]
    return steps.choose(candidates, [keep_all(2), keep_all(2)], EPSILON)


def list_subjects() -> list[Subject]:
    """Every method, and the choice of a marginal, each with its claim."""
    pair = (np.concatenate([PEOPLE, TARGET]), PEOPLE)
    attacks: dict[str, Callable[[Rows], int]] = {
        f"synthetic table by {method}": partial(attack_cell, method=method) for method in METHODS
    }
    attacks["choice of a marginal"] = attack_choice
    claim = Pure(EPSILON)
    return [
        Subject(name, attack, pair, claim, vectorised=False) for name, attack in attacks.items()
    ]


@dataclass(frozen=True)
class PlantedGenerator:
    """A generator that somebody got wrong, and the attack that must show it."""

    what: str
    attack: Callable[[Rows], int]
    pair: tuple[Rows, Rows]

    @property
    def subject(self) -> Subject:
        """The wrong generator with the claim of the right one."""
        return Subject(self.what, self.attack, self.pair, Pure(EPSILON), vectorised=False)


def _use_exact_rows(rows: Rows) -> int:
    """The total is the exact number of rows, as where a peer draws as many rows as it was given."""
    fit_invented(rows, "independent")
    return len(rows)


def _take_domain_from_data(rows: Rows) -> int:
    """Labels are those that occur: the model has a cell that only the target's value makes."""
    sizes = tuple(int(size) for size in rows.max(axis=0) + 1)
    lease = InventedLease(rows, sizes)
    return METHODS["independent"](InventedSteps(lease), make_columns(sizes)).model.sizes[1]


def _keep_all_rows(rows: Rows) -> int:
    """All rows of a person count, though the noise is that of one."""
    return attack_cell(rows, "histogram")


def _use_unlimited_total(rows: Rows) -> int:
    """The noisy total is of all rows of a person, though its noise is that of one."""
    return round(fit_invented(rows, "independent").model.total)


def list_planted() -> list[PlantedGenerator]:
    """Bugs that published generators had."""
    neighbours = (np.concatenate([PEOPLE, TARGET]), PEOPLE)
    many_rows = (np.concatenate([PEOPLE, *[TARGET] * 8]), PEOPLE)
    very_many = (np.concatenate([PEOPLE, *[TARGET] * 40]), PEOPLE)  # its total has more noise
    return [
        PlantedGenerator("the exact number of rows is used", _use_exact_rows, neighbours),
        PlantedGenerator("the domain is read off the data", _take_domain_from_data, neighbours),
        PlantedGenerator(
            "choices are not charged", lambda rows: attack_choice(rows, 100), neighbours
        ),
        PlantedGenerator("rows of one person are not limited", _keep_all_rows, many_rows),
        PlantedGenerator("the total is not limited", _use_unlimited_total, very_many),
        PlantedGenerator(
            "steps cost eight times what is taken",
            lambda rows: attack_cell(rows, "histogram", 8, 8),
            neighbours,
        ),
    ]
