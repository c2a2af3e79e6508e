"""The same mistake against dither: failures that others published, tried here as a user or an
attacker would.

docs/published-bugs.md lists them with their sources, and the tests elsewhere that hold the rest.
"""

from __future__ import annotations

import inspect
import json
from fractions import Fraction as F

import numpy as np
import pytest

from dither import (
    BudgetError,
    CatalogError,
    DitherError,
    QueryError,
    RefusedError,
    connect,
    steward,
)
from dither.catalog import parse
from dither.plan.algebra import Call, Cells, Column, Count, LimitGroups, Named, Project, Scan, Sum
from dither.plan.of_catalog import sensitivity
from dither.privacy.charges.rules import charge_pure
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.losses import Pure
from dither.privacy.mechanisms import Quantile
from dither.sql.bind import bind
from tests.datasets import clinic

VISITS = Scan("visits")


@pytest.fixture
def ward(tmp_path):
    """Fifty people with one visit each, and a pot of ten."""
    file, place = clinic.register(
        tmp_path, [clinic.row(f"v{i}", f"p{i}") for i in range(50)], dev=True
    )
    clinic.open_total(place)
    return connect(file)


def exact(con, sql):
    """What would be released without noise: for dev data only, and in tests."""
    priced = con._kernel.price(con.request(sql, epsilon=1))
    return con._kernel.measure(priced, con._kernel.prepare(priced))


def test_a_sum_without_bounds_has_no_noise_elsewhere_and_no_meaning_here():
    """smartnoise-sdk 317: a column without bounds was summed with sensitivity 0."""
    with pytest.raises(CatalogError, match="bounds"):
        parse(clinic.CATALOG.replace("bounds: [0, 110], ", ""))
    text = clinic.CATALOG.replace(
        "      weight:", "      note: {type: text, width: 9, nulls: keep}\n      weight:"
    )
    with pytest.raises(QueryError):
        bind("SELECT SUM(note) FROM visits", parse(text))


def test_what_is_clamped_is_what_is_summed(tmp_path):
    """smartnoise-sdk 622: values were clipped, and the raw ones summed. One row of a million moves
    the sum by 500."""
    rows = [clinic.row("v1", "p1", cost="1000000"), clinic.row("v2", "p2", cost="1")]
    with_, without = (
        clinic.measurer(tmp_path / name, rows[n:]) for name, n in (("with", 0), ("without", 1))
    )
    query = Cells(VISITS, (), (Sum("cost"),))
    moved = int((with_.measure(query) - without.measure(query))[0, 0])
    assert moved == 50_000 <= sensitivity(query, clinic.catalog()).l1


def test_limits_are_enforced_and_not_only_declared(tmp_path):
    """google/differential-privacy 72, PipelineDP's contribution_bounds_already_enforced: the cap
    was the caller's."""
    rows = [clinic.row(f"v{i}", "greedy") for i in range(100)]
    assert clinic.measurer(tmp_path, rows).measure(Cells(VISITS, (), (Count(),)))[0, 0] == 3


def test_a_limit_is_forgotten_when_its_column_is_redefined():
    """opendp 2949: a truncation by group was remembered after the key had become another column."""
    limited = LimitGroups(VISITS, ("ward",), 1)
    known = sensitivity(Cells(limited, ("ward",), (Count(),)), clinic.catalog())
    redefined = Project(limited, (Named("ward", Column("score")), Named("cost", Column("cost"))))
    anew = sensitivity(Cells(redefined, ("ward",), (Count(),)), clinic.catalog())
    assert (known.l0, anew.l0) == (1, 3)


def test_codes_and_ranks_that_depend_on_other_rows_are_refused():
    """opendp 2944: category codes and ranks were taken for functions of one row."""
    for sql in (
        "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (ORDER BY cost) AS r FROM visits) WHERE r "
        "< 5",
        "SELECT COUNT(*) FROM (SELECT RANK() OVER (PARTITION BY ward ORDER BY cost) AS r FROM "
        "visits) WHERE r = 1",
        "SELECT FIRST(cost) FROM visits",
        "SELECT COUNT(*) FROM visits USING SAMPLE 10 ROWS",
    ):
        with pytest.raises(QueryError):
            bind(sql, clinic.catalog())


def test_replacing_a_person_is_not_adding_one():
    """google/differential-privacy 378: replace-one at the sensitivity of add-or-remove, wrong by 2
    (RDP by 4)."""
    replaced = parse(clinic.CATALOG.replace("neighbours: add_remove", "neighbours: replace"))
    by_ward = Cells(VISITS, ("ward",), (Count(),))
    assert sensitivity(by_ward, clinic.catalog()).l1 * 2 == sensitivity(by_ward, replaced).l1 == 6
    scores = Cells(VISITS, (), (Sum("score"),))
    assert (sensitivity(scores, clinic.catalog()).l1, sensitivity(scores, replaced).l1) == (15, 30)


def test_an_epsilon_per_column_is_the_epsilon_of_the_question(ward):
    """smartnoise-sdk 385: the epsilon given was spent once for every column."""
    result = ward.sql(
        "SELECT ward, COUNT(*) AS n, SUM(cost) AS c, AVG(age) AS a FROM visits GROUP BY ward",
        epsilon=1,
    )
    assert F(9, 10) < F(result.info["charged"]) <= 1


def test_a_quantile_of_equal_values_or_none_does_not_crash(ward):
    """diffprivlib 107: duplicates made the quantile fail, which told that there were duplicates."""
    assert 0 <= Quantile(F(1, 2), F(1)).release([0] * 5 + [50] + [0] * 5) < 11
    empty, equal = "age > 100", "age = 40"
    for condition in (empty, equal):
        found = ward.sql(
            f"SELECT MEDIAN(age) AS m FROM visits WHERE {condition}", epsilon=1
        ).to_dict()
        assert 0 <= found["m"][0] <= 110


def test_a_row_that_cannot_be_read_changes_its_own_value_only(tmp_path):
    """opendp 2942: one bad timestamp aborted the process, and so did its removal not."""
    rows = [clinic.row(f"v{i}", f"p{i}") for i in range(20)]
    bad = [
        clinic.row(
            "x", "victim", day="2024-99-99", cost="n/a", age="abc", ward="\u2028", score="1e999"
        )
    ]
    good, odd = clinic.measurer(tmp_path / "a", rows), clinic.measurer(tmp_path / "b", rows + bad)
    for query in (Cells(VISITS, ("ward",), (Count(),)), Cells(VISITS, (), (Sum("cost"),))):
        moved = np.abs(odd.measure(query) - good.measure(query)).sum()
        assert moved <= sensitivity(query, clinic.catalog()).l1


def test_keys_that_one_person_alone_has_stay_hidden(tmp_path):
    """smartnoise-sdk 568, BigQuery without max_groups_contributed: group keys leak who is in
    them."""
    text = clinic.CATALOG.replace(
        "values: [north, south], other: keep", "values: undeclared, width: 9"
    )
    rows = [clinic.row(f"v{i}", f"p{i}") for i in range(400)] + [
        clinic.row("x", "victim", ward="secret")
    ]
    file, place = clinic.register(tmp_path, rows, text)
    clinic.open_total(place, rule="approx", delta="1e-6", delta_per_question="1e-8")
    sql = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    found = connect(file).sql(sql, epsilon=3)  # "secret" is shown with a chance of at most 1e-8
    assert found.to_dict()["ward"] == ["north"]
    assert "secret" not in str(found) + json.dumps(found.info)


def test_a_pure_budget_refuses_keys_from_the_data_and_says_what_to_do(tmp_path):
    """smartnoise's censor_dims=False: keys read off the data, without a threshold and without a
    delta."""
    text = clinic.CATALOG.replace(
        "values: [north, south], other: keep", "values: undeclared, width: 9"
    )
    file, place = clinic.register(tmp_path, [clinic.row("v", "p")], text)
    clinic.open_total(place)
    con = connect(file)
    with pytest.raises(RefusedError, match="list the keys in the catalog, or ask from a budget"):
        con.sql("SELECT ward, COUNT(*) FROM visits GROUP BY ward", epsilon=1)
    assert con._kernel.ledger.pot("total").spent == 0


def test_a_tenth_ten_times_is_one(ward):
    """DP Creator 473: the budget was exceeded by 0.00000000000000006."""
    for _ in range(100):
        ward.sql("SELECT COUNT(*) FROM visits", epsilon=0.1, fresh=True)
    with pytest.raises(BudgetError):
        ward.sql("SELECT COUNT(*) FROM visits", epsilon=0.1, fresh=True)


def test_the_budget_follows_the_data_and_not_the_name_of_a_view(tmp_path):
    """BigQuery: "when you update a rule the budgets are reset"; a new view has a fresh budget."""
    file, place = clinic.register(tmp_path, [clinic.row("v", "p")])
    clinic.open_total(place, epsilon="1", ceiling="1")
    connect(file).sql("SELECT COUNT(*) FROM visits", epsilon=1)
    renamed = tmp_path / "other.yaml"
    renamed.write_text(clinic.CATALOG.replace("dataset: clinic", "dataset: another"))
    steward.register(file, state=place)
    with pytest.raises(BudgetError):
        connect(file).sql("SELECT SUM(age) FROM visits", epsilon=0.01)
    with pytest.raises(DitherError):
        connect(renamed, state=place.root).sql("SELECT COUNT(*) FROM visits", epsilon=0.01)


def test_a_failed_question_is_not_refunded_once_data_was_touched(ward, monkeypatch):
    """BigQuery refunds failed queries: whether one fails may depend on a person's row."""
    from dither.data.measure import Measurer

    monkeypatch.setattr(Measurer, "measure", lambda *_: (_ for _ in ()).throw(MemoryError()))
    with pytest.raises(DitherError):
        ward.sql("SELECT COUNT(*) FROM visits", epsilon=1)
    assert ward._kernel.ledger.pot("total").spent == 1


def test_asking_again_and_averaging_gains_nothing(ward):
    """Averaging many answers to one question: the same question has one answer."""
    answers = {
        ward.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.01).to_dict()["n"][0]
        for _ in range(20)
    }
    assert len(answers) == 1 and ward._kernel.ledger.pot("total").spent == F(1, 100)
    written = ward.sql("select   count( * ) as n from VISITS", epsilon=0.01)
    assert written.info["repeated"]


def test_arithmetic_round_an_aggregate_is_answered_with_its_interval(ward):
    """Snowflake refuses 1 + COUNT(*), SmartNoise SUM(age + 1); others change their meaning."""
    found = ward.sql("SELECT 1 + COUNT(*) AS n, SUM(age + 1) AS s FROM visits", epsilon=5).to_dict()
    assert abs(found["n"][0] - 51) < 40 and found["n_low"][0] < found["n"][0] < found["n_high"][0]
    assert abs(found["s"][0] - 50 * 41) < 4000


def test_negative_counts_are_shown_and_summed_as_they_are(ward):
    """NIST SP 800-226, 3.3.3: negative counts set to zero before summing are biased."""
    sql = "SELECT score, COUNT(*) AS n FROM visits GROUP BY score"
    counts = [n for _ in range(20) for n in ward.sql(sql, epsilon=0.1, fresh=True).to_dict()["n"]]
    assert (
        min(counts) < 0
    )  # 220 empty cells with noise of scale 30: none below zero has a chance below 1e-50


def test_no_function_has_a_seed_and_no_question_can_set_one(ward):
    """diffprivlib's random_state, cwida's privacy_seed: fixed noise in production."""
    for function in (connect, ward.sql, ward.preview, Kernel.release, Kernel.__init__):
        names = set(inspect.signature(function).parameters)
        assert not names & {"seed", "random_state", "rng", "generator", "source"}
    with pytest.raises(QueryError):
        ward.sql("SELECT setseed(0.5), COUNT(*) FROM visits", epsilon=1)


def test_no_exact_count_leaves_beside_the_answer(ward):
    """Snowflake and others publish row counts; logs and results told how many rows were read."""
    result = ward.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=1)
    told = json.dumps(result.info)
    for word in ("rows_read", "row_count", "duration", "fingerprint", "suppressed", "repaired"):
        assert word not in told


def test_an_epsilon_never_stands_alone(ward):
    """NIST SP 800-226, 2.5: an epsilon without delta and unit compares with nothing."""
    shown = str(ward.budget())
    assert "unit person" in shown and "add_remove" in shown
    result = ward.sql("SELECT COUNT(*) FROM visits", epsilon=1)
    assert {"unit", "neighbours", "loss", "rule"} <= set(result.info)


def test_a_negative_price_is_no_refund(ward):
    """A negative epsilon accepted as a refund."""
    ward.sql("SELECT COUNT(*) FROM visits", epsilon=1)
    for epsilon in (-1, 0, "-0.5", float("nan"), float("-inf")):
        with pytest.raises(DitherError):
            ward.sql("SELECT SUM(age) FROM visits", epsilon=epsilon)
    with pytest.raises(DitherError):
        Pure(-1)
    assert ward._kernel.ledger.pot("total").spent == 1


def test_exploring_without_noise_has_no_switch(ward):
    """epsilon=1e20 "for exploration", privacy_noise=false: left in place."""
    with pytest.raises(BudgetError):
        ward.sql("SELECT COUNT(*) FROM visits", epsilon=1e20)
    assert not {"noise", "exact", "debug"} & set(inspect.signature(ward.sql).parameters)


def test_a_self_join_is_priced_for_what_it_multiplies(ward):
    """Chorus-like rewriters gave a self-join the sensitivity of one table."""
    pairs = "SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient = b.patient"
    priced = ward._kernel.price(ward.request(pairs, epsilon=1))
    assert priced.steps[0].mechanism.sensitivity.l1 == 9  # three rows meet three rows
    assert charge_pure(priced.loss) <= 1
    with pytest.raises(QueryError, match="owner"):
        ward.sql("SELECT COUNT(*) FROM visits a JOIN visits b ON a.ward = b.ward", epsilon=1)


def test_arithmetic_cannot_hide_a_value_from_its_bounds(ward):
    """A product of columns is bounded by the product of their bounds, and clamped to it."""
    query = Cells(
        Project(VISITS, (Named("y", Call("multiply", (Column("age"), Column("cost")))),)),
        (),
        (Sum("y"),),
    )
    assert sensitivity(query, clinic.catalog()).l1 == 3 * 110 * 50_000
    (cells,) = exact(ward, "SELECT SUM(age * cost) AS y FROM visits")
    assert cells[()][0, 0] == 50 * 40 * 1000


def test_time_is_promised_nowhere(ward):
    """Rule no-promise-about-time: predictive mitigation leaks; embedded mode promises nothing, and
    says so."""
    result = ward.sql("SELECT COUNT(*) FROM visits", epsilon=1)
    assert result.info["mode"] == "embedded"
    from pathlib import Path

    page = Path(__file__).parents[2] / "docs" / "proofs" / "kernel.md"
    assert "Time is not covered" in page.read_text()
