"""Stored releases shared into parts of partitions: pots above a partition pay what it grows by,
whoever paid before.

Proof: docs/proofs/filters.md, theorem 5.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from dither.errors import BudgetError, RefusedError
from dither.privacy.ledger import Rule
from dither.privacy.ledger.steward_ledger import StewardLedger
from tests.ledger.ledger_place import TERMS, TIME, Place, release
from tests.ledger.unit_losses import APPROX, History

PURE = Rule("pure")
KINDS = [
    pytest.param(
        neighbours,
        windows,
        rule,
        id=f"{neighbours}-{'windows' if windows else 'plain'}-{rule.name}",
    )
    for neighbours in ("add_remove", "replace")
    for windows in (False, True)
    for rule in (PURE, APPROX)
]


def open_inside(ledger: StewardLedger, name: str, inside: str, **more: Any) -> None:
    ledger.open_pot(name, 1, 1, inside=inside, **(TERMS | {"kind": "group"} | more))


def open_partition(
    ledger: StewardLedger, name: str, inside: str, column: str, *values: str
) -> None:
    open_inside(ledger, name, inside, kind="partition", column=column)
    for value in values:
        open_inside(ledger, f"{name}-{value}", name, kind="part", value=value)


def request(letter: str) -> str:
    return letter * 64


def test_two_groups_with_a_partition_each_do_not_pass_the_total(both: Place) -> None:
    ledger = both.create(cap=1, ceiling=1, policy="separate")
    for group in ("g1", "g2"):
        open_inside(ledger, group, "total")
        open_partition(ledger, f"{group}w", group, "patients.ward", "north", "south")
    count = release(ledger, 1, pot="g1w-north", request=request("a"))
    with pytest.raises(
        BudgetError, match="'total' cannot pay"
    ):  # its second partition grows: one unit could lose 2
        ledger.share(count.seq, "g2w-north", released_at=TIME)
    release(ledger, 1, pot="g1w-south", request=request("b"))
    with pytest.raises(BudgetError, match="'total' cannot pay"):
        release(ledger, 1, pot="g2w-south", request=request("c"))
    assert ledger.pot("total").spent == 1 and both.verify().ok


def test_one_group_with_two_partitions_does_not_pass_its_ceiling(both: Place) -> None:
    ledger = both.create(cap=5, ceiling=5, policy="separate")
    open_inside(ledger, "board", "total")
    open_inside(ledger, "ann", "board", kind="analyst")
    open_partition(ledger, "region", "board", "patients.region", "north", "south")
    open_partition(ledger, "sex", "board", "patients.sex", "f", "m")
    x = release(ledger, 1, pot="ann", request=request("a"))  # about women in the north
    for part in ("region-north", "sex-f"):
        with pytest.raises(BudgetError, match="'board' cannot pay"):
            ledger.share(x.seq, part, released_at=TIME)
    for part in ("region-south", "sex-m"):
        with pytest.raises(BudgetError, match="'board' cannot pay"):
            release(ledger, 1, pot=part, request=request("b"))
    assert ledger.pot("board").spent == 1 and both.verify().ok


def test_a_second_reader_inside_a_part_costs_the_pots_above_nothing(both: Place) -> None:
    ledger = both.create(cap=5, ceiling=5, policy="separate")
    open_partition(ledger, "region", "total", "patients.region", "north", "south")
    for name in ("ann", "bob"):
        open_inside(ledger, name, "region-north", kind="analyst")
    done = release(ledger, 1, pot="ann", request=request("a"))
    shared = ledger.share(done.seq, "bob", released_at=TIME)
    assert set(shared.charges) == {"bob"} and ledger.pot("total").spent == 1 and both.verify().ok


def test_a_pot_that_pays_growth_twice_for_one_release_is_recorded_once(both: Place) -> None:
    ledger = both.create(cap=5, ceiling=5, policy="separate")
    for column in ("region", "sex", "age"):
        open_partition(ledger, column, "total", f"patients.{column}", "x")
    done = release(ledger, 1, pot="region-x", request=request("a"))
    for part in ("sex-x", "age-x"):
        assert ledger.share(done.seq, part, released_at=TIME).charges["total"].amount == 1
    assert ledger.pot("total").spent == 3
    assert (
        both.rows("SELECT COUNT(*) FROM share WHERE pot = 'total'") == [(0,)] and both.verify().ok
    )


@pytest.mark.parametrize(("neighbours", "windows", "rule"), KINDS)
def test_no_pot_stands_below_what_a_unit_lost_to_its_readers(
    neighbours: str, windows: bool, rule: Rule
) -> None:
    for seed in range(15):
        History(seed, neighbours, windows, rule).run(25)


@pytest.mark.all
@pytest.mark.parametrize(("neighbours", "windows", "rule"), KINDS)
def test_no_pot_stands_below_in_longer_histories(
    neighbours: str, windows: bool, rule: Rule
) -> None:
    for seed in range(15, 115):
        History(seed, neighbours, windows, rule).run(45)


@pytest.mark.soak
@pytest.mark.parametrize(("neighbours", "windows", "rule"), KINDS)
def test_no_pot_stands_below_in_thousands_of_histories(
    neighbours: str, windows: bool, rule: Rule
) -> None:
    for seed in range(1000, 3000):
        History(seed, neighbours, windows, rule).run(45)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_the_oracle_catches_the_rule_of_the_first_version(neighbours: str) -> None:
    """Planted bug: pots that have paid for a release do not pay for growth."""
    with pytest.raises(AssertionError):
        for seed in range(100):
            History(seed, neighbours, old_rule=True).run(20)


def test_sums_of_long_fractions_round_up_and_never_look_damaged(both: Place) -> None:
    """Two largest totals of 59 digits add up to 118: the partition stands a little above, which is
    no damage."""
    ledger = both.create(cap=9, ceiling=9, neighbours="replace")
    terms = {"neighbours": "replace"}
    open_inside(ledger, "p", "total", kind="partition", column="t.c", **terms)
    for value, cap in (("a", 1), ("b", 1), ("c", 1)):
        ledger.open_pot(
            f"p{value}", cap, cap, inside="p", **(TERMS | terms | {"kind": "part", "value": value})
        )
    primes = (10**58 + 51, 10**58 + 93, 3)
    for part, denominator in zip(("pa", "pb", "pc"), primes, strict=True):
        share = Fraction(1, 2) - Fraction(1, denominator) if part != "pc" else Fraction(1, 3)
        release(ledger, share, pot=part, request=request("a"), neighbours="replace")
    largest = ledger.pot("pa").spent + ledger.pot("pb").spent
    assert 0 <= ledger.pot("p").spent - largest <= Fraction(1, 10**60) and both.verify().ok


def test_a_part_that_overtakes_by_less_than_the_grid_is_no_damage(both: Place) -> None:
    """The sum before was rounded up to 60 digits; the one after has a short denominator and needs
    no rounding."""
    ledger = both.create(cap=9, ceiling=9, neighbours="replace")
    terms = TERMS | {"neighbours": "replace"}
    ledger.open_pot("p", 2, 2, inside="total", **(terms | {"kind": "partition", "column": "t.c"}))
    for value in "abc":
        ledger.open_pot(f"p{value}", 1, 1, inside="p", **(terms | {"kind": "part", "value": value}))
    first, second = 10**58 + 51, 10**58 + 93
    above = pow(second, -1, first)
    below = (above * second - 1) // first
    prices = (Fraction(first - 1, first), Fraction(below, second), Fraction(above, first))
    for value, price in zip("abc", prices, strict=True):
        release(ledger, price, pot=f"p{value}", request=request(value), neighbours="replace")
    assert both.verify().ok


def test_two_that_ask_for_one_share_at_once_pay_once(both: Place) -> None:
    ledger = both.create(cap=5, ceiling=5, policy="separate")
    for name in ("g1", "g2"):
        open_inside(ledger, name, "total")
    done = release(ledger, 1, pot="g1", request=request("a"))
    ledger.share(done.seq, "g2", released_at=TIME)
    with pytest.raises(RefusedError, match="has paid for release"):
        ledger.share(done.seq, "g2", released_at=TIME)
    found = ledger.find(request("a"), "g2")
    assert found is not None and found.owing == () and ledger.pot("g2").spent == 1
