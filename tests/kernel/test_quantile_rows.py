"""How the rows of a unit are counted for quantiles by group: what is built, and what is offered."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from dither.plan.algebra import Quantiles, Scan
from dither.privacy.charges.rules import charge_pure
from dither.privacy.kernel.calibrate import loss_of
from dither.privacy.kernel.request import Price, Request, Step
from tests.datasets.clinic import catalog
from tests.kernel.calibrating import calibrate

REPLACED = catalog(neighbours__add_remove="neighbours: replace")
FAMILIES = ("exponential", "exponential_by_rows")


def build(keys: tuple[str, ...], shares: tuple[F, ...], family: str, facts=REPLACED, **price):
    """The mechanism of the quantiles of age by ward, at most three rows a person."""
    query = Quantiles(Scan("visits"), keys, "age", shares)
    request = Request((Step(query, family, F(1)),), Price(**(price or {"epsilon": F(1)})), "total")
    return calibrate(request, facts)[0]


@pytest.mark.parametrize("family", ["exponential", "permute_and_flip"])
def test_the_rank_of_a_median_by_group_errs_half_as_much_under_replace(family):
    """Scale 4 k b / epsilon becomes 4 k max(a, b - a) / epsilon, for k = 3."""
    old, new = (build(("ward",), (F(1, 2),), name) for name in (family, f"{family}_by_rows"))
    assert (old.mechanism.scale, new.mechanism.scale) == (24, 12)
    assert charge_pure(loss_of((new,))) == 1


def test_several_quantiles_by_group_double_once():
    quartiles = (F(1, 4), F(1, 2), F(3, 4))
    old, new = (build(("ward",), quartiles, family).mechanism for family in FAMILIES)
    assert new.scale(F(1, 2)) == old.scale(F(1, 2)) / 2


@pytest.mark.parametrize("q", [F(1, 2), F(1, 100)])
def test_without_groups_pairs_are_no_worse(q):
    """k pairs move a score by b each: less than 2k rows by max(a, b - a)."""
    old, new = (build((), (q,), family).mechanism for family in FAMILIES)
    assert new.scale == old.scale


def test_a_price_in_rho_is_kept():
    step = build(("ward",), (F(1, 2),), "exponential_by_rows", rho=F(1, 8))
    assert step.loss().epsilon == 1  # sqrt(8 rho)
    assert step.mechanism.scale == 12
