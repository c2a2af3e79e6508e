"""(person, window) units: budgets per window, charged where a plan could touch rows (rule
every-window-pays)."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from dither import steward
from dither.audit import naive
from dither.catalog import Catalog, parse
from dither.catalog.explain import horizon
from dither.cli.main import app
from dither.errors import BudgetError, DitherError, ParameterError, RefusedError
from dither.plan.algebra import (
    Column,
    Compare,
    Count,
    Distinct,
    Filter,
    Group,
    Join,
    LimitGroups,
    Named,
    Not,
    Or,
    PerUnit,
    Plan,
    Project,
    SampleUnits,
    Scan,
    UnionAll,
)
from dither.plan.analyse import analyse
from dither.privacy.charges.conversions import epsilon_from_rho
from dither.privacy.kernel import windows
from dither.privacy.kernel.lease import Lease
from dither.privacy.kernel.windows import touched, windows_of
from dither.privacy.ledger import Rule
from dither.publish.budget import convert_over_windows
from tests.datasets import monthly_clinic
from tests.datasets.regional_clinic import Clinic

F = Fraction
MONTHS = ("2026-01", "2026-02", "2026-03", "2026-04", "2026-05", "2026-06")
COUNT = "SELECT COUNT(*) AS n FROM visits"
MARCH = COUNT + " WHERE day >= DATE '2026-03-01' AND day < DATE '2026-04-01'"
MAY = COUNT + " WHERE day BETWEEN DATE '2026-05-01' AND DATE '2026-05-31'"


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    made = monthly_clinic.register(tmp_path / "site")
    made.open(epsilon=3, ceiling=4)
    return made


def open_windows(clinic: Clinic, **terms: Any) -> None:
    clinic.open(
        "months", **({"inside": "total", "kind": "windows", "epsilon": 1, "ceiling": 2} | terms)
    )


def spent(clinic: Clinic) -> dict[str, Fraction]:
    return {name: amount for name, amount in clinic.spent().items() if amount}


def test_each_window_pays_for_what_touches_it_and_the_total_for_the_worst(clinic: Clinic) -> None:
    open_windows(clinic)
    con = clinic.connect()
    con.sql(MARCH, epsilon="0.5")
    assert spent(clinic) == {"total": F(1, 2), "months": F(1, 2), "months-2026-03": F(1, 2)}
    con.sql(MAY, epsilon="0.5")  # other people-months: in parallel
    assert spent(clinic)["total"] == F(1, 2)
    con.sql(COUNT, epsilon="0.25")  # nothing says which: all windows
    assert spent(clinic)["months-2026-01"] == F(1, 4) and spent(clinic)["months-2026-05"] == F(3, 4)
    assert spent(clinic)["total"] == F(3, 4) and clinic.verify().ok
    con.sql(MARCH, epsilon="0.25", fresh=True)
    with pytest.raises(BudgetError, match="budget 'months-2026-03' cannot pay"):
        con.sql(MARCH, epsilon="0.125", fresh=True)
    with pytest.raises(BudgetError, match="cannot pay"):
        con.sql(COUNT, epsilon="0.125", fresh=True)
    con.sql(
        COUNT + " WHERE day < DATE '2026-03-01'", epsilon="0.75"
    )  # two windows that have it left
    assert spent(clinic)["total"] == 1 and clinic.verify().ok


def test_no_question_goes_past_the_windows(clinic: Clinic) -> None:
    """A charge to the total, an analyst's pot or a lease alone would leave a window's cap
    unkept."""
    open_windows(clinic)
    clinic.open("ann", inside="total", kind="analyst", epsilon=1, ceiling=1)
    clinic.connect("ann").sql(MARCH, epsilon="0.5")
    one = {"ann": F(1, 2), "total": F(1, 2), "months": F(1, 2), "months-2026-03": F(1, 2)}
    assert spent(clinic) == one
    clinic.connect("ann").sql(MAY, epsilon="0.5")  # her own pot adds up, the total does not
    assert spent(clinic) == one | {"ann": F(1), "months-2026-05": F(1, 2)}
    kernel = clinic.kernel()
    priced = kernel.price(clinic.connect().request(MARCH, epsilon="0.25"))
    for pots in (
        "total",
        "ann",
        "months",
        "months-2026-03",
        ("months-2026-03", "total"),
        ("months-2026-03",),
    ):
        with pytest.raises(DitherError):
            kernel.ledger.reserve(pots, priced.loss, priced.key, {})
    with pytest.raises(RefusedError):
        clinic.connect("months-2026-03").sql(MARCH, epsilon="0.25")
    with Lease(kernel, priced.loss, "total") as lease:  # its queries come later: every window pays
        lease.release(priced.request)
    assert (
        all(spent(clinic)[f"months-{month}"] >= F(1, 4) for month in MONTHS) and clinic.verify().ok
    )
    assert spent(clinic)["total"] == F(3, 4)


def test_repeats_are_free_and_groups_pay_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    clinic = monthly_clinic.register(tmp_path / "site")
    clinic.open(epsilon=3, ceiling=4, policy="separate")
    open_windows(clinic)
    for name in ("board", "press"):
        clinic.open(name, inside="total", kind="group", epsilon=1, ceiling=1)
    first = clinic.connect("board").sql(MARCH, epsilon="0.5")
    before = clinic.spent()
    assert clinic.connect("board").sql(MARCH, epsilon="0.5").to_dict() == first.to_dict()
    assert clinic.spent() == before
    assert clinic.connect("press").sql(MARCH, epsilon="0.5").to_dict() == first.to_dict()
    assert clinic.spent() == before | {"press": F(1, 2)} and clinic.verify().ok


def test_reissues_come_from_the_reserve_of_the_windows_too(clinic: Clinic) -> None:
    open_windows(clinic, reissue="0.5")
    con = clinic.connect()
    first = con.sql(MARCH, epsilon="0.5")
    request = con.request(MARCH, epsilon="0.4")
    steward.reissue(
        clinic.place, request, first.info["release_id"], "a wrong bound was found in review"
    )
    pots = {pot.name: pot for pot in clinic.ledger().pots()}
    assert (
        pots["months-2026-03"].reissued
        == pots["months"].reissued
        == pots["total"].reissued
        == F(2, 5)
    )
    assert (
        pots["months-2026-03"].spent == F(1, 2)
        and pots["months-2026-04"].reissued == 0
        and clinic.verify().ok
    )


def test_windows_are_opened_in_advance_all_at_once_and_once(clinic: Clinic) -> None:
    """What was spent before was spent on every window, and none can be untouched later."""
    with pytest.raises(ParameterError, match="inside the dataset's total"):
        open_windows(clinic, inside=None)
    clinic.open("ann", inside="total", kind="analyst", epsilon=1, ceiling=1)
    with pytest.raises(ParameterError, match="directly inside"):
        open_windows(clinic, inside="ann")
    clinic.connect().sql(COUNT, epsilon="0.5")
    with pytest.raises(RefusedError, match="opened in advance"):
        open_windows(clinic)
    assert [pot.name for pot in clinic.ledger().pots()] == ["total", "ann"] and clinic.verify().ok


def test_a_second_set_of_windows_and_pots_inside_a_window_are_refused(clinic: Clinic) -> None:
    open_windows(clinic)
    with pytest.raises(ParameterError, match="one partition into windows"):
        clinic.open("more", inside="total", kind="windows", epsilon=1, ceiling=1)
    with pytest.raises(ParameterError, match="pays for all who ask"):
        clinic.open("ann", inside="months-2026-03", kind="analyst", epsilon=1, ceiling=1)
    assert len(clinic.ledger().pots()) == 8 and clinic.verify().ok


def test_a_process_that_knew_the_pots_before_notices_windows(clinic: Clinic) -> None:
    kernel = clinic.kernel()
    assert kernel.ledger.pot("total").spent == 0
    open_windows(clinic)
    kernel.release(clinic.connect().request(MARCH, epsilon="0.5"))
    assert spent(clinic)["months-2026-03"] == F(1, 2) and clinic.verify().ok


def test_other_bounds_later_make_every_window_pay(clinic: Clinic) -> None:
    """Dates beyond the bounds are moved to them: with other bounds a row may lie in another window
    than before."""
    open_windows(clinic)
    clinic.connect().sql(MARCH, epsilon="0.5")
    clinic.file.write_text(monthly_clinic.CATALOG.replace("2026-06-30", "2026-07-31"))
    steward.register(clinic.file)
    clinic.connect().sql(MARCH, epsilon="0.5")
    assert {spent(clinic)[f"months-{month}"] for month in MONTHS} == {F(1, 2), F(1)}
    assert spent(clinic)["total"] == 1 and clinic.verify().ok


def test_replace_costs_the_two_dearest_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    clinic = monthly_clinic.register(
        tmp_path / "site", monthly_clinic.CATALOG.replace("add_remove", "replace")
    )
    clinic.open(epsilon=3, ceiling=4)
    open_windows(clinic)
    pots = {pot.name: pot for pot in clinic.ledger().pots()}
    assert (pots["months"].cap, pots["months-2026-01"].cap) == (2, 1)
    clinic.connect().sql(MARCH, epsilon="0.5")
    clinic.connect().sql(MAY, epsilon="0.25")
    assert spent(clinic)["total"] == F(3, 4)
    clinic.connect().sql(COUNT + " WHERE day < DATE '2026-02-01'", epsilon="0.25")
    assert spent(clinic)["total"] == F(3, 4) and clinic.verify().ok


def test_a_forged_charge_that_skips_the_windows_does_not_verify(clinic: Clinic) -> None:
    """verify replays what the ledger would have refused."""
    open_windows(clinic)
    clinic.connect().sql(MARCH, epsilon="0.5")
    from dither.privacy.ledger.replay import Replay

    replay = Replay()
    ledger = clinic.ledger()
    replay.pots = {pot.name: replace(pot, spent=F(0)) for pot in ledger.pots()}
    body = {
        "pots": ["total"],
        "charges": {"total": ["1/2", "0/1"]},
        "reissue": None,
        "loss": {},
        "lease": False,
    }
    loss = clinic.kernel().price(clinic.connect().request(MARCH, epsilon="0.5")).loss.to_json()
    with pytest.raises(Exception, match="kept per window"):
        replay._pay(1, body, ("total",), loss, reissue=False, paid=frozenset())


# -- what one person is promised
# ------------------------------------------------------------------------------------


def test_the_figure_for_one_person_is_shown_and_named(clinic: Clinic) -> None:
    assert "one person over all 6 windows, whatever is asked: epsilon 24" in str(
        clinic.connect().budget()
    )
    open_windows(clinic)
    said = (
        CliRunner().invoke(app, ["budget", "show", str(clinic.file)], env={"COLUMNS": "200"}).output
    )
    assert (
        "one person over all 6 windows, whatever is asked: epsilon 12" in said
    )  # no window ever passes 2
    assert (
        "the unit is person in one month: what is promised above holds for each window alone"
        in said
    )
    assert "6 more windows stand as they were opened" in said and "months-2026-03" not in said
    info = clinic.connect().sql(MARCH, epsilon="0.5").info
    assert (
        info["person"]
        == "one person over all 6 windows, whatever is asked: epsilon 12, delta 0, for one person"
    )
    assert "months-2026-03 in months" in str(clinic.connect().budget())


def test_group_privacy_of_every_rule() -> None:
    assert convert_over_windows(Rule("pure"), F(1, 2), 12) == (6, 0)
    rho = Rule("zcdp", delta_conversion=F(1, 10**6))
    epsilon, delta = convert_over_windows(rho, F(1, 100), 12)
    assert delta == F(1, 10**6) and epsilon == rho.guarantee(F(144, 100))[0]
    assert float(epsilon) == pytest.approx(epsilon_from_rho(1.44, 1e-6), rel=1e-3)
    epsilon, delta = convert_over_windows(
        Rule("approx", delta=F(1, 10**8), delta_per_question=F(1, 10**9)), F(1, 2), 4
    )
    geometric = sum(math.exp(i / 2) for i in range(4))  # delta of a group, summed another way
    assert epsilon == 2 and 1 <= float(delta) / (1e-8 * geometric) < 1 + 1e-8
    _, delta = convert_over_windows(
        Rule("approx", delta=F(1, 10**8), delta_per_question=F(1, 10**9)), F(10), 400
    )
    assert delta == 1
    selecting = Rule("zcdp", delta_conversion=F(1, 10**6), delta_selection=F(1, 10**6))
    assert convert_over_windows(selecting, F(1, 100), 2)[1] > F(2, 10**6)


# -- which windows a plan could touch
# -------------------------------------------------------------------------------


def days(text: str) -> Fraction:
    return F((datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days)


MARCH_ON, BEFORE_MAY = (
    Compare("day", ">=", days("2026-03-01")),
    Compare("day", "<", days("2026-05-01")),
)
SOME = Filter(Filter(Scan("visits"), MARCH_ON), BEFORE_MAY)


@pytest.mark.parametrize(
    ("plan", "months"),
    [
        (Scan("visits"), MONTHS),
        (SOME, MONTHS[2:4]),
        (Filter(Scan("visits"), Compare("day", "=", days("2026-02-28"))), MONTHS[1:2]),
        (Filter(Scan("visits"), Compare("day", ">", days("2026-02-28"))), MONTHS[2:]),
        (Filter(Scan("visits"), Or((MARCH_ON, BEFORE_MAY))), MONTHS),
        (Filter(Scan("visits"), Not(MARCH_ON)), MONTHS),
        (
            Filter(Scan("visits"), Compare("day", ">", days("2030-01-01"))),
            MONTHS,
        ),  # a contradiction decides nothing
        (
            Filter(Project(Scan("visits"), (Named("day", Column("cost")),)), MARCH_ON),
            MONTHS,
        ),  # not that day
        (
            Filter(
                Project(Scan("visits"), (Named("at", Column("day")),)),
                Compare("at", "<", days("2026-02-01")),
            ),
            MONTHS[:1],
        ),
        (Filter(Group(Scan("visits"), ("day",), (Named("n", Count()),)), MARCH_ON), MONTHS),
        (PerUnit(SOME, ("day",), (Named("n", Count()),)), MONTHS[2:4]),
        (Filter(PerUnit(Scan("visits"), ("day",), (Named("n", Count()),)), MARCH_ON), MONTHS[2:]),
        (
            UnionAll(SOME, Filter(Scan("visits"), Compare("day", ">=", days("2026-06-01")))),
            MONTHS[2:],
        ),
    ],
)
def test_what_a_plan_could_touch(plan: Plan, months: tuple[str, ...]) -> None:
    catalog = parse(monthly_clinic.CATALOG)
    among = windows_of(catalog)
    assert among is not None and among.labels == MONTHS and horizon(catalog) == 6
    assert touched([plan], catalog, among) == months


BOTH = parse(monthly_clinic.CATALOG + monthly_clinic.LABS)
DAYS = st.dates(datetime.date(2025, 11, 20), datetime.date(2026, 7, 10)).map(str)
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
comparing = st.builds(Compare, st.just("day"), OPERATORS, DAYS.map(days))
conditions = st.one_of(
    comparing, st.builds(Not, comparing), st.tuples(comparing, comparing).map(Or)
)
SAME = (Named("day", Column("day")), Named("cost", Column("cost")))


def above(source: st.SearchStrategy[Plan]) -> st.SearchStrategy[Plan]:
    """Every operator over plans with the columns day and cost, which the result has again."""
    joined = Project(Scan("labs"), (Named("other", Column("cost")), Named("that", Column("day"))))
    return st.one_of(
        st.builds(Filter, source, conditions),
        st.builds(Filter, source, comparing),
        st.builds(lambda s: Project(s, SAME), source),
        st.builds(
            lambda s: Project(s, (Named("day", Column("day")), Named("cost", Column("day")))),
            source,
        ),
        st.builds(
            lambda s, k, c: Project(Filter(Join(s, joined, (), k), c), SAME),
            source,
            st.sampled_from(["inner", "left"]),
            comparing,
        ),
        st.builds(
            lambda s, c: Project(
                Filter(Join(s, joined, (), "inner"), replace(c, column="that")), SAME
            ),
            source,
            comparing,
        ),
        st.builds(UnionAll, source, source),
        st.builds(lambda s, own: Distinct(s, own), source, st.booleans()),
        st.builds(lambda s: PerUnit(s, ("day",), (Named("cost", Count()),)), source),
        st.builds(lambda s: Group(s, ("day",), (Named("cost", Count()),)), source),
        st.builds(lambda s: SampleUnits(s, F(1, 2)), source),
        st.builds(lambda s: LimitGroups(s, ("day",), 1), source),
    )


PLANS = st.recursive(st.sampled_from([Scan("visits"), Scan("labs")]), above, max_leaves=4)
raws = st.lists(st.tuples(st.sampled_from("pq"), DAYS, st.sampled_from("012")), max_size=8)


@settings(max_examples=250, deadline=None)
@given(plan=PLANS, visits=raws, labs=raws)
def test_rows_of_untouched_windows_never_matter(
    plan: Plan, visits: list[Any], labs: list[Any]
) -> None:
    """Against the naive evaluator: without them, the answer is the same."""
    check(plan, BOTH, {"visits": visits, "labs": labs})


def check(plan: Plan, catalog: Catalog, found: dict[str, list[Any]]) -> None:
    try:
        analyse(plan, catalog)
    except RefusedError:
        return
    among = windows_of(catalog)
    assert among is not None
    texts = {
        name: [dict(zip(("person", "day", "cost"), row, strict=True)) for row in rows]
        for name, rows in found.items()
    }
    whole = naive.with_sample(naive.register(texts, catalog, b"k" * 32), b"s")
    numbers = {among.first + among.labels.index(label) for label in touched([plan], catalog, among)}
    kept = {
        name: [row for row in rows if int(row["owner"].split(":")[0]) in numbers]
        for name, rows in whole.tables.items()
    }
    assert bag(plan, whole) == bag(plan, replace(whole, tables=kept))


def bag(plan: Plan, at: naive.NaiveDatabase) -> Counter[Any]:
    return Counter(
        (owner, tuple(sorted(row.items(), key=str))) for owner, row in naive.naive_rows(plan, at)
    )


def test_planted_bug_a_filter_over_groups_or_an_or_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If OR narrowed like AND, rows of windows that paid nothing would decide the answer."""
    plan = Filter(
        Scan("visits"),
        Or((Compare("day", "<", days("2026-02-01")), Compare("day", ">=", days("2026-06-01")))),
    )
    found: dict[str, list[Any]] = {"visits": [("p", "2026-06-03", "1")], "labs": []}
    check(plan, BOTH, found)
    monkeypatch.setattr(windows, "conjuncts", lambda condition: condition.conditions[:1])
    with pytest.raises(AssertionError):
        check(plan, BOTH, found)


@pytest.mark.parametrize("every", ["day", "week", "month", "year"])
def test_window_numbers_are_those_of_registration(every: str) -> None:
    """The same numbers as the naive registration's owners, at every border, in a zone of its
    own."""
    text = monthly_clinic.CATALOG.replace("month, zone: UTC", f"{every}, zone: +01:00").replace(
        "{type: date, bounds: [2026-01-01, 2026-06-30]",
        '{type: timestamp, zone: UTC, bounds: ["2025-12-30T22:00:00", "2026-01-12T01:00:00"]',
    )
    catalog = parse(text)
    among = windows_of(catalog)
    assert among is not None
    hour, end = datetime.datetime(2025, 12, 30, 22), datetime.datetime(2026, 1, 12, 1)
    while hour <= end:
        at = hour.isoformat()
        (row,) = naive.register(
            {"visits": [{"person": "p", "day": at, "cost": "1"}]}, catalog, b"k" * 32
        ).tables["visits"]
        seconds = F(int(hour.replace(tzinfo=datetime.UTC).timestamp()))
        (label,) = touched([Filter(Scan("visits"), Compare("day", "=", seconds))], catalog, among)
        assert among.first + among.labels.index(label) == int(row["owner"].split(":")[0])
        hour += datetime.timedelta(hours=1)


def test_too_many_windows_are_refused() -> None:
    with pytest.raises(RefusedError, match="Take longer windows"):
        windows_of(
            parse(
                monthly_clinic.CATALOG.replace("month", "day").replace("2026-01-01", "1990-01-01")
            )
        )


def test_windows_need_a_unit_with_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    unit = "{kind: person_window, column: day, every: month, zone: UTC}"
    clinic = monthly_clinic.register(
        tmp_path / "site", monthly_clinic.CATALOG.replace(unit, "{kind: person}")
    )
    clinic.open(epsilon=3, ceiling=4)
    with pytest.raises(ParameterError, match="this catalog protects person"):
        open_windows(clinic)
    assert "one person over" not in str(clinic.connect().budget())
