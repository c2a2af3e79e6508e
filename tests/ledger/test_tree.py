"""Pots inside pots: all or nothing, parts in parallel, stored releases, reissues; on both
stores."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither.errors import BudgetError, DitherError, ParameterError, RefusedError
from dither.privacy import losses
from dither.privacy.ledger import Pot, Rule, pot_tree, pots, rows
from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.privacy.losses import Loss, Pure
from tests.case_lists import mark_between
from tests.ledger.ledger_place import HASH, TERMS, TIME, Place, release, reserve

F = Fraction
ZERO = {"reissue": 0}
OTHER = "cd" * 32


def group(
    ledger: StewardLedger,
    name: str,
    cap: object = 1,
    inside: str = "total",
    kind: str = "group",
    **more: Any,
) -> Pot:
    return ledger.open_pot(name, cap, cap, inside=inside, kind=kind, **(TERMS | more))  # type: ignore[arg-type]


def spent(ledger: StewardLedger) -> dict[str, Fraction]:
    return {pot.name: pot.spent for pot in ledger.pots()}


def test_a_charge_goes_to_a_pot_and_all_it_is_inside_of(both: Place) -> None:
    ledger = both.create(cap=1)
    group(ledger, "board", "0.5")
    group(ledger, "ann", "0.3", inside="board", kind="analyst")
    release(ledger, "0.2", pot="ann")
    release(ledger, "0.1", pot="board")
    assert spent(ledger) == {"total": F(3, 10), "board": F(3, 10), "ann": F(1, 5)}
    for pot, price, who in (("ann", "0.2", "ann"), ("board", "0.3", "board")):
        with pytest.raises(BudgetError, match=f"budget '{who}' cannot pay"):
            reserve(ledger, price, pot)
    group(ledger, "press", 1)
    with pytest.raises(BudgetError, match="budget 'total' cannot pay"):
        reserve(ledger, "0.8", "press")
    assert spent(ledger) == {"total": F(3, 10), "board": F(3, 10), "ann": F(1, 5), "press": 0}
    assert both.verify().ok


def test_one_total_and_no_second_budget_for_the_same_people(both: Place) -> None:
    # a new view, a renamed pot, a copied catalog: the same lineage has one total
    ledger = both.create()
    with pytest.raises(
        RefusedError, match="a second one would give the same people a fresh budget"
    ):
        ledger.open_pot("fresh", 9, 9, **TERMS)
    with pytest.raises(ParameterError, match="which is not open"):
        group(ledger, "a", inside="nowhere")
    with pytest.raises(ParameterError, match="inside no budget"):
        ledger.open_pot("a", 1, 1, inside="total", **TERMS)
    with pytest.raises(RefusedError, match="protects others"):
        group(ledger, "a", unit="row")
    with pytest.raises(ParameterError, match="fixed by the dataset's total"):
        group(ledger, "a", policy="separate")
    ledger.record_register(1, HASH, {"lineage": "clinic"})
    with pytest.raises(RefusedError, match="follows 'clinic', not 'hospital'"):
        ledger.record_register(2, HASH, {"lineage": "hospital"})
    assert [pot.name for pot in ledger.pots()] == ["total"]


def test_pots_of_different_rules_each_count_in_their_own(both: Place) -> None:
    zcdp = Rule("zcdp", delta_conversion=F(1, 10**6))
    ledger = StewardLedger.create(both.location, both.head)
    ledger.open_pot("total", "0.5", "0.5", rule=zcdp, **TERMS)
    group(ledger, "small", "0.3")
    loss = losses.DiscreteLaplace(10, 1, unit="person")
    done = ledger.reserve("small", loss, HASH, {})
    assert done.charges["small"].amount == F(1, 10) and F("0.0049") < done.charges[
        "total"
    ].amount < F("0.005")
    with pytest.raises(RefusedError, match="a pure budget cannot pay for DiscreteGaussian"):
        ledger.reserve("small", losses.DiscreteGaussian(10, 1, unit="person"), HASH, {})
    ledger.reserve("total", losses.DiscreteGaussian(10, 1, unit="person"), HASH, {})
    assert both.verify().ok


# -- approximate zCDP: two caps
# ----------------------------------------------------------------------------------


def test_both_caps_of_a_zcdp_pot_hold(both: Place) -> None:
    rule = Rule("zcdp", delta_conversion=F(1, 10**6), delta_selection=F(3, 10**9))
    ledger = StewardLedger.create(both.location, both.head)
    ledger.open_pot("total", 1, 1, rule=rule, **TERMS)
    for _ in range(3):
        paid = ledger.reserve("total", losses.ZCDP("0.1", "1e-9", unit="person"), HASH, {})
        ledger.commit(paid, b"42", {}, released_at=TIME)
    with pytest.raises(
        BudgetError, match=r"asked rho .*, delta .*; left delta 0 of .*never raised"
    ):
        ledger.reserve("total", losses.ZCDP("0.1", "1e-9", unit="person"), HASH, {})
    for _ in range(7):
        ledger.reserve("total", losses.ZCDP("0.1", unit="person"), HASH, {})
    with pytest.raises(BudgetError, match="asked rho"):
        ledger.reserve("total", losses.ZCDP("1e-30", unit="person"), HASH, {})
    pot = ledger.pot("total")
    assert (pot.left, pot.delta_left) == (0, 0) and both.verify().ok


def test_a_thousand_small_charges_never_drift(place: Place) -> None:
    rule = Rule("approx", delta=F(1, 1000), delta_per_question=F(1, 10**6))
    pot = pots.opened("total", 1, 1, rule=rule, **TERMS)
    for _ in range(1000):
        pot = pots.spend(pot, pots.charge_of(pot, losses.Approx("0.001", "1e-6", unit="person")))
    assert (pot.left, pot.delta_left) == (0, 0)


# -- parallel composition
# ----------------------------------------------------------------------------------------


def partition(ledger: StewardLedger, *parts: str, cap: object = 1, **more: Any) -> None:
    group(ledger, "regions", cap, kind="partition", column="patients.region", **more)
    for part in parts:
        group(ledger, part, cap, inside="regions", kind="part", value=part, **more)


def test_parts_cost_their_largest_under_add_remove(both: Place) -> None:
    ledger = both.create(cap=1)
    partition(ledger, "north", "south")
    release(ledger, "0.3", pot="north")
    release(ledger, "0.2", pot="south")
    assert spent(ledger) == {
        "total": F(3, 10),
        "regions": F(3, 10),
        "north": F(3, 10),
        "south": F(1, 5),
    }
    release(ledger, "0.3", pot="south")
    assert spent(ledger)["total"] == F(1, 2)
    release(ledger, "0.5")
    with pytest.raises(BudgetError, match="'total' cannot pay"):
        reserve(ledger, "0.1", "south")
    release(ledger, "0.2", pot="north")  # up to the other part's total it costs the total nothing
    assert spent(ledger) == {"total": 1, "regions": F(1, 2), "north": F(1, 2), "south": F(1, 2)}
    with pytest.raises(RefusedError, match="spent through its parts"):
        reserve(ledger, "0.1", "regions")
    assert both.verify().ok


def test_two_partitionings_add_up(both: Place) -> None:
    ledger = both.create(cap=1)
    partition(ledger, "north")
    group(ledger, "sexes", kind="partition", column="patients.sex")
    group(ledger, "f", inside="sexes", kind="part", value="f")
    release(ledger, "0.3", pot="north")
    release(ledger, "0.4", pot="f")
    assert spent(ledger)["total"] == F(7, 10) and both.verify().ok


def test_replace_costs_the_two_largest(both: Place) -> None:
    replace: dict[str, Any] = {"neighbours": "replace"}
    ledger = both.create(cap=1, **replace)
    partition(ledger, "a", "b", "c", **replace)
    loss = Pure("0.2", unit="person", neighbours="replace")
    for part, total in (
        ("a", "0.2"),
        ("b", "0.4"),
        ("c", "0.4"),
        ("a", "0.6"),
        ("b", "0.8"),
        ("c", "0.8"),
    ):
        ledger.reserve(part, loss, HASH, {})
        assert spent(ledger)["total"] == F(total)
    assert both.verify().ok


def test_a_part_opened_by_another_process_counts(both: Place) -> None:
    """A ledger that remembered the parts of a moment ago would see the largest total fall, and
    refund it."""
    ledger = both.create(cap=1)
    partition(ledger, "north", "south")
    reserve(ledger, "0.1", "north")
    other = both.open()
    group(other, "west", inside="regions", kind="part", value="west")
    release(other, "0.6", pot="west")
    reserve(ledger, "0.1", "north")
    assert spent(other) == {
        "total": F(6, 10),
        "regions": F(6, 10),
        "north": F(1, 5),
        "south": 0,
        "west": F(6, 10),
    }
    assert both.verify().ok


def test_unlike_rules_cannot_share_a_partition(both: Place) -> None:
    ledger = both.create(cap=1)
    zcdp = Rule("zcdp", delta_conversion=F(1, 10**6))
    with pytest.raises(RefusedError, match="share one rule"):
        group(ledger, "regions", kind="partition", column="patients.region", rule=zcdp)
    partition(ledger, "north")
    with pytest.raises(ParameterError, match="nothing else"):
        group(ledger, "ann", inside="regions", kind="analyst")
    with pytest.raises(ParameterError, match="has its budget already"):
        group(ledger, "again", inside="regions", kind="part", value="north")
    with pytest.raises(ParameterError, match="states its column"):
        group(ledger, "x", kind="partition")
    group(
        ledger, "ann", "0.2", inside="north", kind="analyst", rule=zcdp
    )  # below a part any rule will do
    ledger.reserve("ann", Pure("0.3", unit="person"), HASH, {})
    assert spent(ledger)["total"] == F(3, 10) and both.verify().ok


def test_a_release_over_several_windows_pays_in_each(both: Place) -> None:
    """(person, window) units: windows are parts, and all that a plan could touch pay (rule
    every-window-pays)."""
    ledger = both.create(cap=1)
    partition(ledger, "jan", "feb", "mar")
    loss = Pure("0.4", unit="person")
    ledger.reserve(("jan", "feb"), loss, HASH, {})
    ledger.reserve(("feb", "mar"), loss, HASH, {})
    assert spent(ledger) == {
        "total": F(4, 5),
        "regions": F(4, 5),
        "jan": F(2, 5),
        "feb": F(4, 5),
        "mar": F(2, 5),
    }
    with pytest.raises(BudgetError):
        ledger.reserve(("jan", "feb", "mar"), loss, HASH, {})
    assert spent(ledger)["jan"] == F(2, 5)
    for bad in ((), ("jan", "jan"), ("jan", "total")):
        with pytest.raises(ParameterError):
            ledger.reserve(bad, loss, HASH, {})
    assert both.verify().ok


moves = st.lists(
    st.tuples(st.sampled_from(["total", "a", "b", "c", "x", "y"]), st.integers(1, 4)), max_size=30
)


@settings(max_examples=150, deadline=None)
@given(moves, st.sampled_from(["add_remove", "replace"]))
def test_parts_in_any_order_never_cost_less_than_the_worst_unit(
    asked: list[tuple[str, int]], neighbours: Any
) -> None:
    """Against brute force: every pair of units one may be swapped for, over two partitionings that
    overlap."""
    terms = TERMS | {"neighbours": neighbours}
    now = {"total": pots.opened("total", 30, 30, **terms)}
    for name, parts in (("p", "abc"), ("q", "xy")):
        new = pots.opened(
            name, 30, 30, inside="total", kind="partition", column=f"t.{name}", version=1, **terms
        )
        now[name] = new
        for part in parts:
            now[part] = pots.opened(part, 30, 30, inside=name, kind="part", value=part, **terms)
    paid: list[tuple[str, int]] = []
    for pot, price in asked:
        try:
            _, changed = pot_tree.pay(
                now, (pot,), Pure(price, unit="person", neighbours=neighbours)
            )
        except BudgetError:
            continue
        now |= changed
        paid.append((pot, price))
    units = [{"total", first, second} for first in "abc" for second in "xy"]
    pairs = [
        unit | other for unit in units for other in (units if neighbours == "replace" else [unit])
    ]
    worst = max(sum(price for pot, price in paid if pot in touched) for touched in pairs)
    assert worst <= now["total"].spent <= 30


# -- stored releases
# ---------------------------------------------------------------------------------------------


@pytest.fixture
def separate(both: Place) -> tuple[Place, StewardLedger]:
    ledger = both.create(cap=1, policy="separate")
    group(ledger, "board", "0.5")
    group(ledger, "press", "0.5")
    group(ledger, "ann", "0.5", inside="board", kind="analyst")
    return both, ledger


def test_another_group_pays_its_own_pots_and_receives_the_same_answer(
    separate: tuple[Place, StewardLedger],
) -> None:
    place, ledger = separate
    done = release(ledger, "0.2", b"noisy", "ann")
    assert ledger.find(OTHER, "press") is None
    for pot, owing in (("ann", ()), ("board", ()), ("total", ()), ("press", ("press",))):
        found = ledger.find(HASH, pot)
        assert found is not None and (found.seq, found.owing, found.stored.arrow_bytes) == (
            done.seq,
            owing,
            b"noisy",
        )
    paid = ledger.share(done.seq, "press", released_at=TIME)
    assert set(paid.charges) == {"press"}
    assert spent(ledger) == {"total": F(1, 5), "board": F(1, 5), "press": F(1, 5), "ann": F(1, 5)}
    found = ledger.find(HASH, "press")
    assert found is not None and found.owing == ()
    with pytest.raises(RefusedError, match="has paid for release"):
        ledger.share(done.seq, "press", released_at=TIME)
    with pytest.raises(RefusedError, match="no stored release"):
        ledger.share(1, "press", released_at=TIME)
    (record,) = ledger.history()
    assert record.shared_by == ("press",)
    assert place.verify().ok


def test_a_group_is_given_the_answer_for_which_it_owes_least(
    separate: tuple[Place, StewardLedger],
) -> None:
    """Newer answers that others bought count for those alone who paid for nothing themselves."""
    _, ledger = separate
    of_ann = release(ledger, "0.2", b"of ann", "ann")
    of_press = release(ledger, "0.2", b"of press", "press")
    group(ledger, "ben", "0.5", inside="board", kind="analyst")
    group(ledger, "jury", "0.5")
    chosen = {"ann": of_ann, "ben": of_ann, "press": of_press, "jury": of_press}
    for pot, done in chosen.items():
        found = ledger.find(HASH, pot)
        assert found is not None and found.seq == done.seq
    found = ledger.find(HASH, "ben")
    assert found is not None and found.owing == ("ben",)


def test_a_reissue_takes_the_place_of_what_a_group_had_paid_for(
    both: Place,
) -> None:
    ledger = both.create(cap=1, policy="separate", reissue="0.5")
    group(ledger, "press", "0.5")
    place: dict[str, Any] = TERMS | {"inside": "total", "kind": "group", "reissue": "0.1"}
    ledger.open_pot("desk", "0.3", "0.5", **place)
    old = release(ledger, "0.1", b"wrong", "desk")
    ledger.share(old.seq, "press", released_at=TIME)
    note = {"supersedes": old.seq, "note": "the catalog had a wrong bound, found in review"}
    loss = Pure("0.1", unit="person")
    new = ledger.reserve("desk", loss, HASH, {"plan": HASH}, reissue=note)
    ledger.commit(new, b"right", {"n": 42}, released_at=TIME)
    for pot in ("desk", "press"):
        found = ledger.find(HASH, pot)
        assert found is not None and found.seq == new.seq


def test_a_group_that_cannot_pay_does_not_see_the_answer(
    separate: tuple[Place, StewardLedger],
) -> None:
    place, ledger = separate
    done = release(ledger, "0.4", pot="board")
    release(ledger, "0.2", pot="press", request=OTHER)
    with pytest.raises(BudgetError, match="'press' cannot pay"):
        ledger.share(done.seq, "press", released_at=TIME)
    found = ledger.find(HASH, "press")
    assert found is not None and found.owing == ("press",) and spent(ledger)["press"] == F(1, 5)
    assert place.verify().ok


def test_an_uncommitted_charge_answers_nobody(separate: tuple[Place, StewardLedger]) -> None:
    _, ledger = separate
    pending = reserve(ledger, "0.2", "ann")
    assert ledger.find(HASH, "ann") is None
    with pytest.raises(RefusedError, match="no stored release"):
        ledger.share(pending.seq, "press", released_at=TIME)


@pytest.mark.parametrize(
    "statement",
    mark_between(
        [
            "DELETE FROM share",
            "INSERT INTO share VALUES (5, 'board')",
            "UPDATE share SET pot='board'",
            "UPDATE release SET request_hash=''",
            "UPDATE release SET commit_seq=1",
        ],
        step=3,
    ),
)
def test_tampering_with_who_paid_is_found(
    separate: tuple[Place, StewardLedger], statement: str
) -> None:
    place, ledger = separate
    ledger.share(release(ledger, "0.2", pot="ann").seq, "press", released_at=TIME)
    ledger.close()
    assert place.verify().ok
    place.change(statement)
    assert not place.verify().ok


# -- reissues
# --------------------------------------------------------------------------------------------------


def reissued(
    ledger: StewardLedger, old: int, price: object, note: str = "the catalog had a wrong bound"
) -> int:
    loss: Loss = Pure(price, unit="person")  # type: ignore[arg-type]
    done = ledger.reserve("total", loss, HASH, {}, reissue={"supersedes": old, "note": note})
    ledger.commit(done, b"new", {}, released_at=TIME)
    return done.seq


def test_reissues_spend_their_reserve_and_nothing_else(both: Place) -> None:
    ledger = both.create(cap=1, ceiling=2, reissue="0.5")
    old = release(ledger, 1).seq
    with pytest.raises(BudgetError, match="the budget is empty"):
        reserve(ledger, "0.1")
    new = reissued(ledger, old, "0.4")
    pot = ledger.pot("total")
    assert (pot.spent, pot.reissued, pot.left) == (1, F(2, 5), 0)
    found = ledger.find(HASH, "total")
    assert found is not None and (found.seq, found.stored.arrow_bytes) == (new, b"new")
    first, second = ledger.history()
    assert (first.superseded_by, second.supersedes, second.note) == (
        new,
        old,
        "the catalog had a wrong bound",
    )
    with pytest.raises(BudgetError, match="fixed at opening"):
        reissued(ledger, new, "0.2")
    with pytest.raises(RefusedError, match="superseded already"):
        reissued(ledger, old, "0.1")
    with pytest.raises(RefusedError, match="no stored release"):
        reissued(ledger, 99, "0.1")
    with pytest.raises(ParameterError, match="sentence"):
        reissued(ledger, new, "0.1", "oops")
    assert both.verify().ok


def test_the_reserve_is_a_tenth_inside_the_ceiling_and_raises_stay_below_it(both: Place) -> None:
    ledger = both.create(cap=1, ceiling=2, reissue=None)
    assert ledger.pot("total").reissue == F(1, 5)
    ledger.raise_cap("total", "1.8", "the board asked for more")
    ledger2 = both.open()
    with pytest.raises(ParameterError, match="exceed"):
        ledger2.raise_cap("total", "1.8", "the board asked for more")
    with pytest.raises(ParameterError, match="both lie inside it"):
        pots.opened("x", 1, 1, reissue="0.1", **TERMS)
    with pytest.raises(RefusedError, match="kept for reissues"):
        ledger2.raise_cap("total", "1.9", "the board asked for more")
    assert both.verify().ok


def test_a_reissue_is_paid_by_the_pot_of_the_old_release(both: Place) -> None:
    ledger = both.create(cap=1, ceiling=2, reissue="0.5")
    group(ledger, "board", "0.5")
    old = release(ledger, "0.1", pot="board").seq
    with pytest.raises(RefusedError, match="paid by another budget"):
        reissued(ledger, old, "0.1")


# -- incidents
# --------------------------------------------------------------------------------------------------


def test_a_suspended_dataset_refuses_in_the_transaction_that_would_charge(both: Place) -> None:
    ledger = both.create(cap=1, max_incidents=2)
    group(ledger, "board", "0.5")
    other = both.open()
    done = release(ledger)
    pending = reserve(ledger)
    other.record_incident(reserve(other, pot="board"), "failed_after_reserve")
    assert not ledger.is_suspended()
    other.record_incident(pending, "failed_after_reserve")
    assert ledger.is_suspended()
    before = ledger.pot("total").spent
    with pytest.raises(RefusedError, match="suspended until"):
        reserve(ledger)
    assert ledger.pot("total").spent == before
    assert (
        ledger.find(HASH, "total") is not None and ledger.release(done.seq) is not None
    )  # stored answers stay
    ledger.clear_incidents("the engine has more memory now")
    reserve(ledger)
    assert both.verify().ok


def test_a_reserve_forged_into_a_suspended_ledger_is_named(place: Place) -> None:
    from tests.ledger.test_tampering import rewrite

    ledger = place.create(max_incidents=2)
    group(ledger, "board", "0.5")
    ledger.record_incident(reserve(ledger, pot="board"), "failed_after_reserve")
    release(ledger)
    ledger.close()
    rewrite(place, 1, max_incidents=1)
    place.head.unlink()
    report = place.verify()
    assert report.first_bad == 5 and "suspended" in report.problem


# -- windows
# --------------------------------------------------------------------------------------------------

WEEKS = ("2026-01-05", "2026-01-12", "2026-01-19")


def test_windows_pay_beside_the_pot_that_was_asked(both: Place) -> None:
    """Rule every-window-pays, on both stores: the total stands at the dearest window, an analyst's
    pot at her sum."""
    ledger = both.create(cap=3, ceiling=4)
    ledger.open_windows("weeks", 1, 2, "*.day every week +0s", WEEKS, **TERMS, inside="total")
    ledger.open_pot("ann", 3, 3, inside="total", kind="analyst", **TERMS)
    loss = Pure("0.4", unit="person")
    for leaves, total in (
        (("total", "weeks-2026-01-05"), "0.4"),
        (("ann", "weeks-2026-01-12"), "0.4"),
        (("ann", "weeks-2026-01-12", "weeks-2026-01-19"), "0.8"),
        (("total", "weeks-2026-01-05"), "0.8"),
    ):
        reservation = ledger.reserve(leaves, loss, HASH, {})
        ledger.commit(reservation, b"42", {}, released_at=TIME)
        assert ledger.pot("total").spent == ledger.pot("weeks").spent == Fraction(total)
    assert ledger.pot("ann").spent == Fraction("0.8") and ledger.pot(
        "weeks-2026-01-19"
    ).spent == Fraction("0.4")
    with pytest.raises(BudgetError, match="budget 'weeks-2026-01-12' cannot pay"):
        ledger.reserve(("total", "weeks-2026-01-12"), loss, HASH, {})
    for wrong in (
        "total",
        "ann",
        "weeks",
        "weeks-2026-01-05",
        ("weeks-2026-01-05", "ann"),
        ("total", "ann", "weeks-2026-01-19"),
    ):
        with pytest.raises(DitherError):
            ledger.reserve(wrong, Pure("0.1", unit="person"), HASH, {})
    with pytest.raises(RefusedError, match="opened in advance"):
        ledger.open_pot("late", 1, 2, inside="weeks", kind="part", value="2026-01-26", **TERMS)
    report = both.verify()
    assert report.ok and report.releases == 4, report


def test_windows_are_opened_all_or_none(both: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = both.create(cap=3, ceiling=4)
    true, opened = rows.write_totals, list[str]()

    def dies(transaction: Any, pot: Any, *, is_new: bool) -> None:
        opened.append(pot.name)
        if len(opened) == 3:
            raise RuntimeError("killed")
        true(transaction, pot, is_new=is_new)

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(rows, "write_totals", dies)
        ledger.open_windows("weeks", 1, 2, "*.day every week +0s", WEEKS, **TERMS, inside="total")
    assert [pot.name for pot in ledger.pots()] == ["total"] and both.verify().ok
    release(ledger)  # no windows: the total alone pays
    assert ledger.pot("total").spent == Fraction(1, 10)
