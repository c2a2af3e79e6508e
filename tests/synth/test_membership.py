"""A membership attack on the generator: who is in the table is guessed from many fitted models.

The attacker knows everybody but one person, who has a rare combination of values, and looks at what
the model says of it: the tester of the audit kit tries to break the claimed epsilon.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dither import audit
from dither.audit.verdict import Budget
from dither.plan.algebra import JointScores, Linear, Query, Scan
from dither.plan.linear import multiply_cells
from dither.plan.scores import evaluate_scores
from dither.privacy.mechanisms.score_selection import ScoreSelection
from dither.privacy.noise import discrete_laplace
from dither.synth.columns import SynthColumn
from dither.synth.junction_tree import Clique
from dither.synth.methods import METHODS
from dither.synth.steps import SCALE, TableSteps

NAMES = ("a", "b")
EPSILON = Fraction(1)
COLUMNS = tuple(
    SynthColumn(name, "category", 2, False, 0, 1, 0, 1, Fraction(1), ("x", "y")) for name in NAMES
)
PEOPLE = np.array([[0, 0]] * 12 + [[1, 0]] * 3)
TARGET = np.array([[1, 1]])


class NoisyLease:
    """The kernel's noise for one row a person, without its ledger: a lease of pure epsilon."""

    def __init__(self, rows: np.ndarray, times: int) -> None:
        """`times` is 1; a planted bug has more: steps then cost so many times what is taken."""
        self.left = EPSILON
        self._rows = rows
        self._times = times

    def release(self, query: Query, *, epsilon: Fraction) -> tuple[int, ...]:
        self.left -= epsilon
        spent = epsilon * self._times
        if isinstance(query, Linear):
            product = multiply_cells(query, self._count(query.keys), 1000)[:, 0]
            noise = discrete_laplace(1 / spent, len(product))
            return tuple(int(n) for n in product + noise)
        assert isinstance(query, JointScores)
        scores = [evaluate_scores(m, self._count(m.keys), 1000) for m in query.members]
        return (ScoreSelection(spent, SCALE).release(np.concatenate(scores)),)

    def _count(self, keys: tuple[str, ...]) -> np.ndarray:
        columns = [NAMES.index(key) for key in keys]
        codes = np.ravel_multi_index(tuple(self._rows[:, c] for c in columns), (2,) * len(keys))
        return np.bincount(codes, minlength=2 ** len(keys)).astype(object).reshape(-1, 1)


class LaplaceSteps(TableSteps):
    """Steps whose noise is known without a catalog: one row moves one cell by one."""

    def find_variance(self, query: Linear, price: Fraction) -> float:
        return 2 / float(price) ** 2

    def find_error(self, clique: Clique, price: Fraction) -> float:
        return 1 / float(price)


def attack(rows: np.ndarray, method: str, times: int) -> int:
    """What the model says of the target's values, in tenths of a row: the attacker's view."""
    analyses: Any = None
    lease: Any = NoisyLease(rows, times)
    steps = LaplaceSteps(lease, Scan("t"), NAMES, analyses, "epsilon")
    fitted = METHODS[method](steps, COLUMNS)
    return round(10 * float(fitted.find_marginal((0, 1))[1, 1]))


@pytest.mark.all
@pytest.mark.parametrize("method", ["histogram", "mst"])
def test_the_attack_does_not_break_the_claim(method: str) -> None:
    verdict = audit.test(
        lambda rows: attack(rows, method, 1),
        np.concatenate([PEOPLE, TARGET]),
        PEOPLE,
        epsilon=float(EPSILON),
        budget=Budget(runs=400, alpha=1e-9),
    )
    assert verdict.outcome != "violated"


@pytest.mark.all
def test_the_attack_finds_noise_that_was_charged_too_little() -> None:
    """Planted: every step costs eight times what the lease takes for it."""
    verdict = audit.test(
        lambda rows: attack(rows, "histogram", 8),
        np.concatenate([PEOPLE, TARGET]),
        PEOPLE,
        epsilon=float(EPSILON),
        budget=Budget(runs=400, alpha=1e-9),
    )
    assert verdict.outcome == "violated"


def test_the_lease_of_the_attack_gives_the_answers_of_the_kernel_s_mechanisms() -> None:
    """With almost no noise the model is the table: 3 of 16 have (1, 0) and one has (1, 1)."""
    rows = np.concatenate([PEOPLE, TARGET])
    assert attack(rows, "histogram", 900) == 10
    assert attack(PEOPLE, "histogram", 900) == 0
