"""MWEM over a workload: its queries, what is paid, what every step follows from, planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

import dither
from dither import steward
from dither.audit.black_box import test as audit_mechanism
from dither.audit.step_workloads import make_mwem_run
from dither.audit.verdict import Budget
from dither.errors import BudgetError, DitherError
from dither.plan.apply_operator import multiply
from dither.plan.scores import score_move_in
from dither.workloads import identity, marginals, prefixes, ranges, total
from dither.workloads.kronecker import FittedProduct
from dither.workloads.mwem import SCALE, AskedMwem
from tests.workloads.conftest import POTS, PURPOSE, Survey

WORKLOADS = {
    "ranges": ranges("age"),
    "product": prefixes("age") * identity("sex"),
    "reordered": identity("sex") * ranges("age") + identity("age"),
    "marginals": marginals(1, of=["age", "sex", "area"]) + total(),
    "SQL": [
        "SELECT COUNT(*) AS n FROM survey WHERE age < 5",
        "SELECT sex, COUNT(*) AS n FROM survey WHERE age > 7 OR area = 'east' GROUP BY sex",
    ],
}


def ask(con: Any, workload: Any, **terms: Any) -> AskedMwem:
    table = None if isinstance(workload, list) else "survey"
    return con.mwem(workload, table=table, **{"epsilon": 1, "rounds": 3, **terms})


@pytest.mark.parametrize("name", WORKLOADS)
def test_queries_are_those_of_the_workload_in_its_order(survey: Survey, name: str) -> None:
    """Operators and marked cells against the answers of the workload itself, on drawn cells."""
    asked = ask(survey.connect("pure"), WORKLOADS[name])
    shape = [asked.bound.sizes[column] for column in asked.bound.columns]
    cells = np.random.default_rng(1).integers(0, 50, shape)
    model = FittedProduct(asked.bound.columns, cells.astype(float))
    expected = np.concatenate([model.answer(p) for p in asked.bound.workload.products])
    by_operator = [int(multiply(query.operator, cells.ravel())[0]) for query in asked.queries]
    by_marks = [int(cells[query.mark_cells()].sum()) for query in asked.queries]
    assert by_operator == by_marks == expected.astype(int).tolist()


def test_a_preview_is_free_and_all_steps_are_paid_once(survey: Survey) -> None:
    asked = ask(survey.connect("pure"), ranges("age"))
    preview = asked.preview()
    assert survey.read_spent() == 0 and preview.charge.amount == pytest.approx(1)
    assert preview.queries == 136 and preview.fixed_error >= preview.lower_bound > 0
    first = asked.answer()
    assert survey.read_spent() == pytest.approx(preview.charge.amount, rel=1e-6)
    assert survey.read_spent() <= 1
    assert F(first.info["charged"]) == pytest.approx(survey.read_spent(), rel=1e-9)
    assert len(first.info["releases"]) == 1 + 2 * 3
    spent = survey.read_spent()
    again = asked.answer()
    assert again.measured == first.measured and (again.model.cells == first.model.cells).all()
    assert survey.read_spent() == spent


@pytest.mark.parametrize("rule", ["zcdp", "approx"])
def test_it_is_paid_in_rho_and_from_budgets_of_other_rules(survey: Survey, rule: str) -> None:
    price = {"rho": F(1, 2), "epsilon": None} if rule == "zcdp" else {}
    asked = ask(survey.connect(rule), prefixes("age"), **price)
    preview = asked.preview()
    asked.answer()
    assert survey.read_spent() == pytest.approx(preview.charge.amount, rel=1e-6)
    if rule == "zcdp":
        assert survey.read_spent() <= F(1, 2)


def test_every_candidate_moves_by_at_most_what_the_kernel_says(survey: Survey) -> None:
    """Two rows of one person in one cell move a count by two and a score by two times the scale:
    P24. Weights and scale left out would say less."""
    con = survey.connect("pure")
    asked = ask(con, ranges("age"))
    priced = asked.price_choice(FittedProduct(("age",), np.full(16, 75.0)), [*range(136)])
    query = priced.request.steps[0].query
    rows = con._kernel.version.analyses.analyse_rows(query.cells.plan)
    move = score_move_in(query, rows, "add_remove")
    assert move.largest == 2 * SCALE and not move.is_monotone


def test_the_model_is_right_without_much_noise(survey: Survey) -> None:
    con = survey.connect("pure")
    where = "age < 5 OR cost = 9"
    asked = ask(con, prefixes("age"), where=where, epsilon=40_000, rounds=16)
    result = asked.answer()
    true = np.bincount(survey.age[(survey.age < 5) | (survey.cost == 9)], minlength=16).cumsum()
    table = result.table("age").to_pydict()
    assert table["age_up_to"] == list(range(16))
    assert np.abs(np.array(table["count"]) - true).max() <= 12
    assert result.biased and "no" not in table
    for measured in result.measured:
        words = measured.query.split()
        exact = true[int(words[-1])]
        assert measured.low <= exact <= measured.high
    assert [*result.tables] == ["prefixes(age)"]


def test_a_certificate_names_all_releases_and_what_they_cost(survey: Survey) -> None:
    result = ask(survey.connect("pure"), ranges("age")).answer()
    body = result.certificate()["body"]
    assert all(name in body["release"]["id"] for name in result.info["releases"])
    assert F(body["guarantee"]["epsilon"]) == pytest.approx(survey.read_spent(), rel=1e-9)
    assert F(body["guarantee"]["epsilon"]) >= F(9, 10)


def test_a_certificate_says_what_this_answer_paid_and_that_it_is_new(survey: Survey) -> None:
    """It said "no new loss", nothing charged, a tenth paid and no bounds of the keys: all of its
    first release, or of answers that buy nothing. Asked again, nothing is new."""
    con = survey.connect("pure")
    bought = ask(con, ranges("age")).answer()
    spent = survey.read_spent()
    body = bought.certificate()["body"]
    assert "no new loss" not in body["guarantee"]["stated"] and not body["release"]["repeated"]
    assert F(body["price"]["charges"]["total"][0]) == spent == F(body["pots"]["total"]["paid"])
    assert body["price"]["asked"] == "epsilon 1" and "survey.age" in body["bounds"]
    assert not body["post_processing"][0].startswith("answered from earlier releases")
    again = ask(con, ranges("age")).answer().certificate()["body"]
    assert again["guarantee"]["stated"].startswith("no new loss; covered by releases")
    assert again["price"]["charges"] == {} and again["price"]["asked"] == "nothing new"
    assert again["pots"]["total"]["paid"] == "0" and again["release"]["repeated"]
    assert again["guarantee"]["epsilon"] == body["guarantee"]["epsilon"]


def test_no_query_is_counted_twice_and_rounds_end_with_the_queries(survey: Survey) -> None:
    """A stored count asked again would be the same number: the round would be lost."""
    con = survey.connect("pure")
    asked = ask(con, prefixes("sex") + identity("sex") + total(), epsilon=1, rounds=9)
    result = asked.answer()
    words = [measured.query for measured in result.measured]
    assert sorted(words) == ["sex f", "sex f to m", "sex m"]
    assert survey.read_spent() == pytest.approx(asked.preview().charge.amount, rel=1e-6)


class Replay:
    """Gives the releases of another run as long as the same is asked: reads no data."""

    def __init__(self, asker: Any, recorded: list[tuple[str, Any]]) -> None:
        self._asker = asker
        self._waiting = list(recorded)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._asker, name)

    def release(self, priced: Any) -> Any:
        asked, release = self._waiting.pop(0)
        assert priced.request.hash == asked, "another question: it depends on the data"
        return release


class Recorder(Replay):
    """Keeps what was asked and released."""

    def __init__(self, asker: Any) -> None:
        super().__init__(asker, [])
        self.recorded: list[tuple[str, Any]] = []

    def release(self, priced: Any) -> Any:
        release = self._asker.release(priced)
        self.recorded.append((priced.request.hash, release))
        return release


def test_every_step_follows_from_what_was_released(survey: Survey) -> None:
    """The same releases lead to the same requests and the same model, without any data."""
    asked = ask(survey.connect("pure"), ranges("age"))
    recorder = Recorder(asked._asker)
    first = AskedMwem(asked.fixed, 3, recorder).answer()  # type: ignore[arg-type]
    replay = Replay(asked._asker, recorder.recorded)
    again = AskedMwem(asked.fixed, 3, replay).answer()  # type: ignore[arg-type]
    assert (again.model.cells == first.model.cells).all() and not replay._waiting


def test_a_choice_past_the_kernel_is_caught(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the query is chosen by exact counts, and nobody pays for it."""
    asked = ask(survey.connect("pure"), ranges("age"))
    exact = survey.count("age")

    def choose_exactly(priced: Any) -> Any:
        import dataclasses

        release = asker_release(priced)
        if type(priced.request.steps[0].query).__name__ != "Scores":
            return release
        gaps = [abs(exact[q.mark_cells()].sum() - 75) for q in asked.queries]
        return dataclasses.replace(release, values=((int(np.argmax(gaps)),),))

    recorder = Recorder(asked._asker)
    AskedMwem(asked.fixed, 3, recorder).answer()  # type: ignore[arg-type]
    replay = Replay(asked._asker, recorder.recorded)
    asker_release = replay.release
    monkeypatch.setattr(replay, "release", choose_exactly, raising=False)
    with pytest.raises(AssertionError, match="depends on the data"):
        AskedMwem(asked.fixed, 3, replay).answer()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("workload", "change"),
    [
        (ranges("age"), {"epsilon": 0}),
        (ranges("age"), {"epsilon": None}),
        (ranges("age"), {"rounds": 0}),
        (ranges("age"), {"rounds": 1.5}),
        (ranges("age"), {"confidence": 2}),
        (ranges("nothing"), {}),
        (identity("code"), {}),
        (ranges("area"), {}),
        (2 * ranges("age"), {}),
        (total(), {}),
        (["SELECT SUM(cost) AS n FROM survey"], {}),
        (ranges("age") * ranges("cost") * identity("sex"), {}),
    ],
    ids=str,
)
def test_bad_questions_are_refused_before_anything_is_spent(
    survey: Survey, workload: Any, change: dict[str, Any]
) -> None:
    con = survey.connect("pure")
    with pytest.raises(DitherError):
        ask(con, workload, **change).answer()
    assert survey.read_spent() == 0


def test_too_many_queries_are_refused_with_their_number(survey: Survey) -> None:
    con = survey.connect("pure")
    with pytest.raises(DitherError, match="14,960 queries"):
        ask(con, ranges("age") * ranges("cost") * identity("sex"))


@pytest.mark.parametrize("name", ["mwem", "clusters", "grid", "ranges"])
def test_steps_that_the_budget_cannot_pay_together_are_refused_first(
    survey: Survey, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(POTS, "pure", {"epsilon": "0.9"})
    con = survey.connect("pure")
    price = 1
    asked: dict[str, Callable[[], Any]] = {
        "mwem": lambda: con.mwem(ranges("age"), table="survey", epsilon=price),
        "clusters": lambda: con.clustered_histogram(["age"], table="survey", epsilon=price),
        "grid": lambda: con.adaptive_grid(["age", "cost"], table="survey", epsilon=price),
        "ranges": lambda: con.adaptive_ranges(["age"], table="survey", epsilon=price),
    }
    with pytest.raises(BudgetError, match="Nothing was spent"):
        asked[name]().answer()
    assert survey.read_spent() == 0


RUNS = Budget(20_000, 1e-9)


@pytest.mark.all
def test_an_audit_of_all_rounds_finds_nothing() -> None:
    run = make_mwem_run(F(1, 4), F(1, 4))
    verdict = audit_mechanism(run, [0, 1, 1, 0], [1, 1, 1, 0], 1, budget=RUNS, vectorised=False)
    assert verdict.outcome != "violated"


@pytest.mark.parametrize(
    ("run", "pair"),
    [
        (make_mwem_run(F(1, 4), F(1, 4), is_exact=True), ([0, 0, 0, 3], [0, 1, 0, 3])),
        (make_mwem_run(F(1, 4), F(4)), ([30], [31])),
    ],
    ids=["choice not charged", "counts not charged"],
)
def test_an_audit_finds_planted_bugs(
    run: Callable[[list[int]], list[int]], pair: tuple[list[int], list[int]]
) -> None:
    verdict = audit_mechanism(run, *pair, 1, budget=Budget(4_000, 1e-9), vectorised=False)
    assert verdict.outcome == "violated"


def test_nobody_pays_for_half_an_answer(survey: Survey) -> None:
    """All rows are counted by one request, whatever the workload is: where it was stored, rounds
    were bought until nothing was left."""
    catalog = steward.registered_catalog(survey.state)
    terms: dict[str, Any] = {"ceiling": 10, "purpose": PURPOSE}
    steward.open_pot(survey.state, catalog, "total", epsilon=F(3, 2), **terms)
    con = dither.connect(survey.file)
    ask(con, prefixes("sex"), rounds=1).answer()
    spent = survey.read_spent()
    with pytest.raises(BudgetError, match="all steps together cost 0.9.* left in budget 'total'"):
        ask(con, ranges("age"), rounds=3).answer()
    assert survey.read_spent() == spent
