"""Figures that anyone may see leave out charges under way, exactly (rule settled-figures-only)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither.answer.history import read_history
from dither.errors import BudgetError
from dither.privacy.ledger import Pot, pot_tree, pots
from dither.privacy.ledger.settled import UnderWay, names_inside, settle
from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.privacy.losses import Pure
from tests.ledger.ledger_place import HASH, TERMS, TIME, Place, release, reserve

F = Fraction
WEEKS = ("2026-01-05", "2026-01-12", "2026-01-19")


def opened(neighbours: str, name: str, **more: Any) -> Pot:
    terms = TERMS | {"neighbours": neighbours, "reissue": 50} | more
    return pots.opened(name, 50, 100, **terms)


def make_tree(neighbours: str) -> dict[str, Pot]:
    """A partition into wards, one of them with a partition inside an analyst's pot, beside a
    group."""
    partition = {"kind": "partition", "column": "t.ward", "version": 1}
    inner = {"kind": "partition", "column": "t.sex", "version": 1}
    made = [
        opened(neighbours, "total"),
        opened(neighbours, "group", inside="total", kind="group"),
        opened(neighbours, "wards", inside="total", **partition),
        opened(neighbours, "north", inside="wards", kind="part", value="north"),
        opened(neighbours, "south", inside="wards", kind="part", value="south"),
        opened(neighbours, "ann", inside="north", kind="analyst"),
        opened(neighbours, "sexes", inside="ann", **inner),
        opened(neighbours, "women", inside="sexes", kind="part", value="f"),
        opened(neighbours, "men", inside="sexes", kind="part", value="m"),
    ]
    return {pot.name: pot for pot in made}


def make_windows(neighbours: str) -> dict[str, Pot]:
    """Budgets per window, and a partition of the people beside them."""
    partition = {"kind": "partition", "column": "t.ward", "version": 1}
    windows = {"kind": "partition", "column": "*.day every week +0s", "version": 1}
    made = [
        opened(neighbours, "total"),
        opened(neighbours, "weeks", inside="total", **windows),
        *(opened(neighbours, week, inside="weeks", kind="part", value=week) for week in WEEKS),
        opened(neighbours, "group", inside="total", kind="group"),
        opened(neighbours, "wards", inside="total", **partition),
        opened(neighbours, "north", inside="wards", kind="part", value="north"),
        opened(neighbours, "south", inside="wards", kind="part", value="south"),
    ]
    return {pot.name: pot for pot in made}


amounts = st.integers(1, 9).map(lambda n: F(n, 10))
ordinary = st.sampled_from(
    [(name,) for name in ("total", "group", "north", "south", "ann", "women", "men")]
)
timed = st.tuples(
    st.sampled_from(["total", "group", "north", "south"]),
    st.lists(st.sampled_from(WEEKS), min_size=1, unique=True),
).map(lambda pair: (pair[0], *sorted(pair[1])))


def questions(leaves: st.SearchStrategy[tuple[str, ...]]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.tuples(leaves, amounts, st.booleans(), st.booleans()), max_size=12)


def check_settled(before: dict[str, Pot], neighbours: str, asked: list[Any]) -> None:
    everything, settled_alone = dict(before), dict(before)
    under_way = []
    for leaves, amount, is_reissue, is_under_way in asked:
        loss = Pure(amount, neighbours=neighbours, unit="person")
        charges, changed = pot_tree.pay(everything, leaves, loss, reissue=is_reissue)
        everything.update(changed)
        if is_under_way:
            under_way.append(UnderWay(leaves, charges, is_reissue))
        else:
            settled_alone.update(pot_tree.pay(settled_alone, leaves, loss, reissue=is_reissue)[1])
    assert settle(before, everything, under_way) == settled_alone
    for name in before:
        totals = {each: everything[each] for each in names_inside(before, (name,))}
        assert settle(before, totals, under_way)[name] == settled_alone[name]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["add_remove", "replace"]), questions(ordinary))
def test_settled_totals_are_those_of_the_settled_charges_alone(
    neighbours: str, asked: list[Any]
) -> None:
    check_settled(make_tree(neighbours), neighbours, asked)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["add_remove", "replace"]), questions(timed))
def test_settled_totals_of_windows_too(neighbours: str, asked: list[Any]) -> None:
    check_settled(make_windows(neighbours), neighbours, asked)


def parts_of(place: Place) -> StewardLedger:
    ledger = place.create(cap=2, ceiling=3)
    ledger.record_register(1, HASH, {"lineage": "clinic"})
    inside: dict[str, Any] = TERMS | {"reissue": 0}
    ledger.open_pot("wards", 2, 2, inside="total", kind="partition", column="t.ward", **inside)
    for ward in ("north", "south"):
        ledger.open_pot(ward, 2, 2, inside="wards", kind="part", value=ward, **inside)
    return ledger


def test_a_partition_is_settled_from_its_parts(both: Place) -> None:
    """Taking off what the partition grew by would take off nothing, or what another part has
    released."""
    ledger = parts_of(both)
    reserve(ledger, 1, pot="north")
    released = release(ledger, "0.5", pot="south")
    spent = {pot.name: pot.spent for pot in ledger.pots(under_way=False)}
    assert spent == {"total": F(1, 2), "wards": F(1, 2), "north": 0, "south": F(1, 2)}
    assert ledger.pot("total", under_way=False).spent == F(1, 2)
    assert {pot.name: pot.spent for pot in ledger.pots()} == {
        "total": 1,
        "wards": 1,
        "north": 1,
        "south": F(1, 2),
    }
    shown = {name: taken.amount for name, taken in released.charges.items()}
    assert shown == {
        "south": F(1, 2),
        "wards": F(1, 2),
        "total": F(1, 2),
    }  # as if nothing were under way
    assert both.verify().ok


def refusal(ledger: StewardLedger, price: object, pot: str = "total", **how: Any) -> str:
    with pytest.raises(BudgetError) as caught:
        ledger.reserve(pot, Pure(price, unit="person"), HASH, {}, **how)  # type: ignore[arg-type]
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    return str(caught.value)


def test_a_refusal_is_the_same_whatever_is_under_way(both: Place) -> None:
    ledger = both.create(cap=1, ceiling=2, reissue="0.5")
    for name in ("ann", "bob"):
        ledger.open_pot(name, "0.6", "0.6", inside="total", kind="analyst", **TERMS)
    old = release(ledger, "0.1", pot="ann")
    again = {"supersedes": old.seq, "note": "the catalog had a wrong bound"}
    asked = [("0.7", "ann", {}), ("5", "total", {}), ("0.1", "ann", {"reissue": again})]
    before = [refusal(ledger, price, pot, **how) for price, pot, how in asked]
    assert "left 0.5 of 0.6" in before[0] and "left 0.9 of 1" in before[1]
    reserve(ledger, "0.3", pot="bob")
    reserve(ledger, "0.2", pot="ann")
    assert [refusal(ledger, price, pot, **how) for price, pot, how in asked] == before


def test_what_only_charges_under_way_forbid_is_refused_without_a_figure(both: Place) -> None:
    """The refusal is one bit: neither how much is under way nor in which pot."""
    ledger = both.create(cap=1, ceiling=2)
    for name in ("ann", "bob"):
        ledger.open_pot(name, "0.9", "0.9", inside="total", kind="analyst", **TERMS)
    reserve(ledger, "0.8", pot="bob")
    by_total = refusal(ledger, "0.5", "ann")
    assert (
        "budget 'ann' cannot pay now" in by_total
        and "0.2" not in by_total
        and "total" not in by_total
    )
    reserve(ledger, "0.1", pot="ann")
    assert refusal(ledger, "0.5", "ann") == by_total
    assert refusal(ledger, "0.85", "ann") == by_total.replace(
        "0.5", "0.85"
    )  # for its own pot's sake


def test_a_reservation_tells_settled_figures(both: Place) -> None:
    ledger = both.create(cap=1)
    reserve(ledger, "0.3")
    mine = reserve(ledger, "0.1")
    assert (mine.charge, mine.spent_after) == (F(1, 10), F(1, 10))
    ledger.commit(mine, b"42", {}, released_at=TIME)
    assert reserve(ledger, "0.1").spent_after == F(2, 10)


def test_the_history_of_a_total_with_windows_tells_nothing_of_others(both: Place) -> None:
    """What the total pays is what the dearest window grows by: less while another charge is under
    way."""
    ledger = both.create(cap=3, ceiling=4)
    ledger.open_windows("weeks", 1, 2, "*.day every week +0s", WEEKS, **TERMS, inside="total")
    first, second, _ = (f"weeks-{week}" for week in WEEKS)
    ledger.reserve(("total", first), Pure("0.9", unit="person"), HASH, {})
    mine = ledger.reserve(("total", second), Pure("0.5", unit="person"), HASH, {})
    ledger.commit(mine, b"42", {}, released_at=TIME)
    (shown,) = read_history(ledger, "total").releases
    assert shown.charged == F(1, 2) == mine.charge
    assert ledger.history()[0].charges["total"].amount == 0  # what the steward's ledger holds
