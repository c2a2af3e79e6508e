"""Pots: the filter is exact at its boundary, the charge total, the purpose stated."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from dither import accounting
from dither.canonical import decimal_text
from dither.errors import BudgetError, ParameterError, RefusedError
from dither.privacy import losses
from dither.privacy.charges.rules import charge_from_amounts
from dither.privacy.ledger import charge_pure, pot_acts, pots
from dither.privacy.losses import Loss, Pure
from dither.rules import PrivacyRule
from tests.case_lists import mark_between
from tests.kernel_losses import list_kernel_losses
from tests.ledger.ledger_place import HASH, TERMS, TIME, Place, release, reserve


def test_ten_tenths_fit_one_and_the_eleventh_is_refused(both: Place) -> None:
    ledger = both.create(cap=1)
    for _ in range(10):
        release(ledger, 0.1)
    assert ledger.pot("total").left == 0
    told = (
        r"asked epsilon 0\.1, delta 0, for one person; left 0 of 1.*Nothing was "
        r"spent.*dither budget raise"
    )
    with pytest.raises(BudgetError, match=told):
        reserve(ledger, 0.1)
    assert ledger.pot("total").spent == 1


def test_the_smallest_excess_is_refused_and_the_exact_rest_is_paid(both: Place) -> None:
    ledger = both.create(cap=1)
    reserve(ledger, "2/3")
    with pytest.raises(BudgetError):
        reserve(ledger, Fraction(1, 3) + Fraction(1, 10**50))
    reserve(ledger, "1/3")
    assert ledger.pot("total").left == 0


def test_a_refusal_leaves_every_byte(place: Place) -> None:
    ledger = place.create(cap=1)
    release(ledger, 1)
    files = [place.path, place.path.with_name("ledger.sqlite-wal"), place.head]
    before = [file.read_bytes() for file in files]
    with pytest.raises(BudgetError):
        reserve(ledger, "0.001")
    with pytest.raises(RefusedError):
        ledger.reserve("total", losses.Gaussian(1, unit="person"), HASH, {})
    with pytest.raises(
        BudgetError, match=r"no budget 'other' is open.*dither budget open CATALOG other"
    ):
        reserve(ledger, pot="other")
    assert [file.read_bytes() for file in files] == before


def test_thousands_of_unlike_charges_stay_small_and_never_under_report() -> None:
    pot = pots.opened("total", 1, 1, **TERMS)
    exact = Fraction(0)
    for k in range(2**20 - 1, 2**20 - 4001, -2):
        pot, exact = (
            pots.spend(pot, charge_from_amounts(Fraction(1, 2**12 * k), Fraction(0))),
            exact + Fraction(1, 2**12 * k),
        )
    assert pot.spent.denominator <= pots.GRID
    assert 0 <= pot.spent - exact < Fraction(2000, 10**60)
    assert pots.spend(pot, charge_from_amounts(pot.left, Fraction(0))).left == 0


def test_rounding_up_never_refuses_a_decimal_price(place: Place) -> None:
    # a loss just below 1/10 with a denominator beyond the grid is charged at most 1/10
    loss = Pure(Fraction(1, 10) - Fraction(1, 3**200), unit="person")
    assert (
        charge_pure(loss)
        < pots.charge_of(pots.opened("total", 1, 1, **TERMS), loss).amount
        <= Fraction(1, 10)
    )


PURE_LOSSES: list[tuple[Loss, Fraction]] = [
    (Pure("0.3"), Fraction(3, 10)),
    (losses.DiscreteLaplace("2.5", 3), Fraction(6, 5)),
    (losses.Laplace(4, 2), Fraction(1, 2)),
    (losses.RandomizedResponse(1), Fraction(1)),
    (losses.BoundedRange("1/3"), Fraction(1, 3)),
    (losses.Shuffled("1/3", 100, theorem="FMT21"), Fraction(1, 3)),
    (losses.Approx(1, 0), Fraction(1)),
    (Pure(1) + losses.DiscreteLaplace(10, 1), Fraction(11, 10)),
    (losses.DiscreteLaplace(10, 1) * 7, Fraction(7, 10)),
    (losses.Parallel((Pure(1), Pure(3), Pure(2))), Fraction(3)),
    (losses.Parallel(tuple(Pure(e, neighbours="replace") for e in (1, 3, 2))), Fraction(5)),
    (losses.Parallel((Pure(1, neighbours="replace"),)), Fraction(1)),
    (losses.FixedPlan((Pure(1), Pure(2))), Fraction(3)),
    (losses.FixedNoise((Pure(1), Pure(2))), Fraction(3)),
    ((losses.Parallel((Pure(1), Pure(2) + Pure(2))) + Pure(1)) * 2, Fraction(10)),
    (losses.PoissonSampled("0.1", Pure(1, neighbours="replace")), Fraction(1)),
]


@pytest.mark.parametrize(
    ("loss", "epsilon"), PURE_LOSSES, ids=lambda item: getattr(item, "type", str(item))
)
def test_the_pure_charge(loss: Loss, epsilon: Fraction) -> None:
    assert charge_pure(loss) == epsilon
    assert isinstance(charge_pure(loss), Fraction)


IMPURE: list[tuple[Loss, str]] = [
    (losses.Approx(1, "1e-9"), "delta"),
    (losses.Gaussian(1), "Gaussian"),
    (losses.DiscreteGaussian(1, 1), "Gaussian"),
    (losses.DiscreteGaussianVector(1, 1), "Gaussian"),
    (losses.RoundedGaussian(1, 1), "Gaussian"),
    (losses.GaussianSum(1, 1), "Gaussian"),
    (losses.ZCDP("0.1"), "Renyi"),
    (losses.RDP(2, 1), "Renyi"),
    (losses.PoissonSampled("0.1", losses.Gaussian(1)), "divergence"),
    (
        losses.SampledWithoutReplacement(1, 10, Pure(1)),
        "for 'replace' neighbours only. What fits: losses with",
    ),
]


@pytest.mark.parametrize(("loss", "why"), IMPURE, ids=lambda item: getattr(item, "type", item))
def test_what_is_not_pure_is_refused_wherever_it_hides(loss: Loss, why: str) -> None:
    for tree in (loss, loss + Pure(1), loss * 2, losses.Parallel((Pure(1), loss))):
        told = why if "What fits" in why else f"{why}.*What fits: Laplace"
        with pytest.raises(RefusedError, match=told) as caught:
            charge_pure(tree)
        assert caught.value.rule is PrivacyRule.POT_RULE


def test_every_loss_has_a_charge_or_a_reason() -> None:
    tried = {type(loss) for loss, _ in PURE_LOSSES} | {type(loss) for loss, _ in IMPURE}
    assert tried == list_kernel_losses()


def test_losses_for_others_than_the_pot_protects_have_no_sum(both: Place) -> None:
    ledger = both.create()
    for stranger in (Pure("0.1", unit="row"), Pure("0.1", unit="person", neighbours="replace")):
        with pytest.raises(RefusedError, match="no sum"):
            ledger.reserve("total", stranger, HASH, {})
    assert ledger.pot("total").spent == 0


@pytest.mark.parametrize("which", ["question", "population", "recipient"])
@pytest.mark.parametrize(
    "vague", mark_between(["", "   ", "research", "data analysis", "1 2 3 4", "- - - -"], step=3)
)
def test_vague_purposes_are_refused(both: Place, which: str, vague: str) -> None:
    ledger = both.create()
    terms: dict[str, Any] = TERMS | {which: vague}
    with pytest.raises(ParameterError, match=f"{which} of budget 'second' is a sentence"):
        ledger.open_pot("second", 1, 2, inside="total", kind="group", **terms)
    assert len(ledger.pots()) == 1


@pytest.mark.parametrize(
    ("cap", "ceiling"),
    [(2, 1), (0, 1), (-1, 1), ("nan", 1), (float("inf"), 1), (1, float("nan")), ("1e-70", 1)],
)
def test_impossible_limits_are_refused(both: Place, cap: Any, ceiling: Any) -> None:
    ledger = both.create()
    with pytest.raises(ParameterError):
        ledger.open_pot("second", cap, ceiling, inside="total", kind="group", **TERMS)


def test_a_pot_opens_once_and_keeps_its_terms(both: Place) -> None:
    ledger = both.create(cap="0.1", ceiling="0.3")
    with pytest.raises(RefusedError, match="open already"):
        ledger.open_pot("total", 5, 5, **TERMS)
    pot = both.open().pot("total")
    assert (pot.cap, pot.ceiling, pot.rule.name, pot.unit) == (
        Fraction(1, 10),
        Fraction(3, 10),
        "pure",
        "person",
    )
    assert pot.question == TERMS["question"]


def test_reissues_are_paid_beside_the_cap_and_inside_the_ceiling() -> None:
    """So the ceiling is what holds, and not the cap, even if it is never raised
    (docs/proofs/filters.md)."""
    pot = pots.opened("total", 1, 2, reissue="1/2", **TERMS)
    pot = pots.spend(pot, charge_from_amounts(Fraction(1), Fraction(0)))
    pot = pots.spend(pot, charge_from_amounts(Fraction(1, 2), Fraction(0)), reissue=True)
    assert pot.spent + pot.reissued == Fraction(3, 2) > pot.cap
    for is_reissue in (False, True):
        with pytest.raises(BudgetError):
            pots.spend(
                pot, charge_from_amounts(Fraction(1, 10**6), Fraction(0)), reissue=is_reissue
            )
    with pytest.raises(RefusedError, match="kept for reissues"):
        pot_acts.raise_pot_cap(pot, "1.6", "the yearly report needs it")


def test_raises_stay_below_the_ceiling_and_leave_an_entry(both: Place) -> None:
    ledger = both.create(cap=1, ceiling=2)
    release(ledger, 1)
    with pytest.raises(RefusedError, match="ceiling 2"):
        ledger.raise_cap("total", "2.0000001", "the board asked for more")
    with pytest.raises(ParameterError, match="must exceed"):
        ledger.raise_cap("total", 1, "the board asked for more")
    with pytest.raises(ParameterError, match="sentence"):
        ledger.raise_cap("total", 2, "because")
    assert ledger.raise_cap("total", 2, "the board asked for more").left == 1
    release(ledger, 1)
    assert both.verify().entries == 6
    with pytest.raises(BudgetError, match=r"the budget is empty$"):
        reserve(ledger, "0.1")


def test_messages_show_numbers_a_person_can_read() -> None:
    shown = [
        Fraction(1, 10),
        Fraction(3),
        Fraction(1, 3),
        Fraction(5, 1000),
        Fraction(10**9 + 1, 3 * 10**8),
        Fraction(0),
    ]
    down = ["0.1", "3", "0.333333", "0.005", "3.33333", "0"]
    up = ["0.1", "3", "0.333334", "0.005", "3.33334", "0"]
    assert [decimal_text(value) for value in shown] == down
    assert [decimal_text(value, up=True) for value in shown] == up
    assert decimal_text(Fraction(1, 3 * 10**40)) == "3.33333e-41"


def test_no_float_reaches_the_tables(both: Place) -> None:
    ledger = both.create(cap=0.3)
    with pytest.raises(ParameterError, match="canonical JSON"):
        ledger.reserve("total", Pure("0.1", unit="person"), HASH, {"scale": 0.5})
    reservation = reserve(ledger, 0.1)
    with pytest.raises(ParameterError, match="canonical JSON"):
        ledger.commit(reservation, b"", {"value": 1.5}, released_at=TIME)
    with pytest.raises(ParameterError, match="canonical JSON"):
        ledger.record_register(1, HASH, {"rows": 1e6})
    ledger.commit(reservation, b"", {"value": Fraction(3, 2)}, released_at=TIME)
    ledger.raise_cap("total", 0.7, "the board asked for more")
    with ledger._database.transaction(write=False) as transaction:
        for table, columns in {"entry": 5, "release": 6, "pot_state": 5}.items():
            rows = transaction.rows(f"SELECT * FROM {table}")
            assert rows and all(len(row) == columns for row in rows)
            assert all(type(value) in (int, str, bytes) for row in rows for value in row)
            assert not any(
                "." in value
                for row in rows
                for value in row
                if isinstance(value, str) and "/" in value[:4]
            )
        assert transaction.rows("SELECT * FROM pot_state") == [
            ("total", "1/10", "0/1", "0/1", "7/10")
        ]


@pytest.mark.parametrize(
    "rule",
    [
        accounting.PureRule(Fraction(1)),
        accounting.ZcdpRule(Fraction(1), Fraction(1)),
        accounting.RenyiRule(Fraction(1, 2), Fraction(1), Fraction(0)),
    ],
    ids=lambda rule: rule.name,
)
def test_a_pot_takes_no_rule_whose_terms_nobody_checked(rule: accounting.CappedRule) -> None:
    """A filter's rule has caps of its own, and may state any order and no delta of the
    conversion."""
    with pytest.raises(ParameterError, match="a budget's rule is a Rule"):
        pots.opened("total", 1, 2, rule=rule, **TERMS)
