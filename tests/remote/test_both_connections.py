"""One suite for two connections: to a dataset in this process, and to one behind a gateway.

Whatever a connection gives must be the same, but for the mode and the name of the asker.
"""

from __future__ import annotations

import asyncio
from fractions import Fraction

import pytest

import dither
from dither.answer.leased import JobStep
from dither.builder import count
from dither.errors import BudgetError, DitherError, ParameterError, QueryError, RefusedError
from dither.plan.algebra import Cells, Count, Linear, Scan, Scores
from dither.plan.operators import Prefix, Stack, Total
from dither.plan.utilities import CellCounts, DistanceCandidate, Distances
from dither.privacy.kernel.release import table_bytes
from dither.publish.seal import check, write_certificate
from dither.workloads import identity
from tests.datasets.served_clinic import (
    BY_WARD,
    COUNT,
    own_state_home,
    register_rich_clinic,
    running_gateway,
    serving,
)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("served"), "1000") as clinic_behind_a_socket:
        yield clinic_behind_a_socket


@pytest.fixture(scope="module")
def address(served):
    with running_gateway(served.socket) as url:
        yield f"{url}/datasets/clinic"


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedded")
    with own_state_home(folder):
        yield dither.connect(register_rich_clinic(folder, "1000")[0])


@pytest.fixture(scope="module", params=["embedded", "remote"])
def con(request, served, address, embedded):
    if request.param == "embedded":
        return embedded
    return dither.connect(address, token=served.make_token())


def test_it_is_a_connection(con):
    assert isinstance(con, dither.Connection)
    assert list(con.tables) == ["visits"] and "ward" in str(con.describe("visits"))
    assert "dataset clinic" in repr(con) and con.catalog.dataset == "clinic"


def test_a_preview_reads_nothing_and_spends_nothing(con):
    before = con.budget().pots[0].spent
    preview = con.preview(BY_WARD, epsilon="0.5", group_size=30)
    assert preview.rows == 4 and preview.column("n").half_width > 0 and not preview.stored
    assert con.preview(COUNT, within=50).price > 0
    assert con.budget().pots[0].spent == before


def test_an_answer_has_intervals_and_is_free_when_asked_again(con):
    result = con.sql(BY_WARD, epsilon=1)
    table = result.to_dict()
    assert table["ward"] == ["north", "south", "other", None]
    assert all(low <= n <= high for n, low, high in zip(*map(table.get, NAMES), strict=True))
    again = con.sql(BY_WARD, epsilon=1)
    assert again.info["repeated"] and again.to_dict() == table
    assert con.preview(BY_WARD, epsilon=1).stored
    fresh = con.sql(BY_WARD, epsilon=1, fresh=True)
    assert not fresh.info["repeated"] and fresh.info["release_id"] != result.info["release_id"]


NAMES = ("n", "n_low", "n_high")


def test_an_answer_can_be_processed_further_for_free(con):
    sql = "SELECT ward, kind, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward, kind)"
    result = con.sql(sql, epsilon=5)
    spent = con.budget().pots[0].spent
    narrow = result.interval(0.5).to_dict()
    assert narrow["n"] == result.to_dict()["n"]
    assert min(result.nonnegative().to_dict()["n"]) >= 0
    assert result.consistent().notes
    assert result.to_pandas().shape[0] == result.to_arrow().num_rows == len(narrow["n"])
    assert result.raw.num_rows > 0
    assert con.budget().pots[0].spent == spent


def test_a_question_over_answers_is_asked_in_parts(con):
    sql = "SELECT ward, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS all_wards FROM visits GROUP BY ward"
    result = con.sql(sql, epsilon=1)
    table = result.to_dict()
    assert table["all_wards"] == [sum(table["n"])] * len(table["n"])


def test_a_question_is_answered_from_an_earlier_release(con):
    """The certificate names the source and its loss; a workload finds the same source."""
    sql = "SELECT ward, kind, COUNT(*) AS n FROM visits GROUP BY ward, kind"
    source = con.sql(sql, epsilon=1, fresh=True).info["release_id"]
    spent = con.budget().pots[0].spent
    by_kind = "SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind"
    preview = con.preview(by_kind, epsilon="0.05")
    assert source in preview.earlier.release_ids
    result = con.sql(by_kind, epsilon="0.05")
    assert source in result.info["sources"] and con.budget().pots[0].spent == spent
    certificate = result.certificate()
    assert check(write_certificate(certificate), []).problems == ()
    assert source in certificate["body"]["release"]["id"]
    assert Fraction(certificate["body"]["guarantee"]["epsilon"]) >= 1
    asked = con.workload(identity("kind"), table="visits", epsilon="0.05")
    assert source in asked.preview().earlier.release_ids
    assert asked.answer().certificate()["body"]["price"]["asked"] == "nothing new"
    assert con.budget().pots[0].spent == spent


def test_workloads_in_steps_are_answered_and_free_again(con):
    """Every step is an ordinary request: served datasets take them too."""
    before = Fraction(con.budget().pots[0].spent)
    clusters = con.clustered_histogram(["ward", "kind"], table="visits", epsilon="0.2")
    model = con.mwem(identity("ward") + identity("kind"), table="visits", epsilon="0.2", rounds=2)
    first = (clusters.answer(), model.answer())
    paid = Fraction(con.budget().pots[0].spent) - before
    assert Fraction(39, 100) < paid <= Fraction(2, 5)
    assert clusters.answer().counts == first[0].counts
    assert model.answer().measured == first[1].measured
    assert Fraction(con.budget().pots[0].spent) - before == paid
    if con._curator.asked_through.mode == "embedded":
        assert first[1].certificate()["body"]["guarantee"]["epsilon"] != "0"
    else:
        with pytest.raises(DitherError, match="single releases"):
            first[1].certificate()


def test_declared_keys_are_free(con):
    spent = con.budget().pots[0].spent
    assert con.sql("SELECT DISTINCT ward FROM visits").to_dict()["ward"][:2] == ["north", "south"]
    assert con.budget().pots[0].spent == spent


def test_a_rehearsal_is_about_nobody(con):
    spent = con.budget().pots[0].spent
    result = con.sql(BY_WARD, epsilon=1, dry_run=True)
    assert result.info["context"] == "dry_run" and len(result.to_dict()["n"]) == 4
    with pytest.raises(ParameterError, match="about nobody"):
        result.certificate()
    assert con.budget().pots[0].spent == spent


def test_explain_shows_plan_and_mechanisms(con):
    explanation = con.explain(BY_WARD, epsilon=1)
    assert "Scan table=visits" in str(explanation) and explanation.steps
    assert "Scan" in str(con.sql(f"EXPLAIN PRIVACY {BY_WARD}", epsilon=1))


def test_a_bound_is_bought(con):
    suggestion = con.suggest("bounds", "visits.cost", epsilon=5, keep=0.9)
    assert suggestion.low < suggestion.high and "bounds" in suggestion.catalog_text


def test_the_builder_asks_the_same_question(con):
    question = con.table("visits").group_by("ward").agg(n=count())
    assert question.preview(epsilon=1).rows == 4
    assert len(question.ask(epsilon=1).to_dict()["n"]) == 4


def test_history_and_budget_tell_what_was_paid(con):
    before = con.budget().pots[0].spent
    result = con.sql(COUNT, epsilon="0.25", fresh=True)
    assert con.budget().pots[0].spent == before + Fraction(1, 4)
    (line,) = [
        line for line in con.history().releases if line.release_id == result.info["release_id"]
    ]
    assert (line.sql, line.charged) == (COUNT, Fraction(1, 4))
    assert con.history().raw(line.release_id)[0][0] == result.raw.to_pydict()["step_0"][0]
    with pytest.raises(RefusedError, match="paid for no release"):
        con.history().raw("0" * 16)


def test_a_certificate_verifies(con):
    signed = con.sql(BY_WARD, epsilon=1).certificate()
    verdict = check(write_certificate(signed), [signed["header"]["public_key"]])
    assert verdict.intact and verdict.body["release"]["sql"] == BY_WARD


def test_parameters_are_written_into_the_text(con):
    result = con.sql("SELECT COUNT(*) AS n FROM visits WHERE age > ?", epsilon=1, params=[3])
    assert "age > 3" in result.info["sql"]


@pytest.mark.parametrize(
    ("sql", "price", "kind"),
    [
        ("SELECT * FROM visits", {"epsilon": 1}, QueryError),
        ("SELECT COUNT(* FROM visits", {"epsilon": 1}, QueryError),
        ("SELECT COUNT(*) FROM shops", {"epsilon": 1}, QueryError),
        (COUNT, {}, ParameterError),
        (COUNT, {"epsilon": 0}, ParameterError),
        (COUNT, {"epsilon": "1e-99999999"}, ParameterError),
        (COUNT, {"epsilon": 10**6}, BudgetError),
        (COUNT, {"rho": 1}, RefusedError),
    ],
)
def test_refusals_have_the_same_words(con, embedded, sql, price, kind):
    words = []
    for connection in (con, embedded):
        with pytest.raises(kind) as refused:
            connection.sql(sql, **price)
        words.append(str(refused.value).split("; left")[0])
    assert words[0] == words[1]


def test_previews_are_the_same_on_both_sides(embedded, served, address):
    """A preview depends on public facts alone, wherever it is computed."""
    remote = dither.connect(address, token=served.make_token())
    sql = "SELECT kind, AVG(age) AS a, MEDIAN(score) AS m FROM visits GROUP BY kind"
    here = embedded.preview(sql, epsilon=2, group_size=50)
    there = remote.preview(sql, epsilon=2, group_size=50)
    assert here.columns == there.columns and here.charged == there.charged


def test_an_answer_is_the_same_bytes_on_both_sides_and_is_paid_for_once(served, address):
    remote = dither.connect(address, token=served.make_token())
    bought = remote.sql(BY_WARD, epsilon="0.75")
    spent = served.read_spent()
    with own_state_home(served.home.parent):
        again = dither.connect(served.file).sql(BY_WARD, epsilon="0.75")
    tables = [answer.to_arrow().replace_schema_metadata() for answer in (bought, again)]
    assert table_bytes(tables[0]) == table_bytes(tables[1])
    assert again.raw == bought.raw and again.info["repeated"]
    assert served.read_spent() == spent
    assert remote.sql(BY_WARD, epsilon="0.75").raw == bought.raw


def test_a_result_says_the_mode_and_the_principal(served, address, embedded):
    remote = dither.connect(address, token=served.make_token("carol"))
    info = remote.sql(COUNT, epsilon=1).info
    assert (info["mode"], info["principal"]) == ("split, one user", "carol")
    assert embedded.sql(COUNT, epsilon=1).info["mode"] == "embedded"


def test_the_awaited_connection_asks_several_questions_at_once(served, address):
    async def ask() -> list:
        con = dither.connect_async(address, token=served.make_token())
        return await asyncio.gather(
            con.sql(COUNT, epsilon="0.5"),
            con.preview(BY_WARD, epsilon=1),
            con.explain(COUNT, epsilon=1),
            con.budget(),
            con.history(),
            con.describe("visits"),
            con.suggest("rows_per_unit", "visits", epsilon=1),
        )

    answer, preview, explanation, budget, history, table, suggestion = asyncio.run(ask())
    assert answer.to_dict()["n"] and preview.rows == 4 and explanation.steps
    assert budget.pots and len(history) >= 0 and "ward" in str(table) and suggestion.sentence


WARDS = Cells(Scan("visits"), ("ward",), (Count(),))
JOB = [
    JobStep(WARDS, share=2),
    JobStep(Linear(WARDS, Prefix(4))),
    JobStep(Scores(WARDS, CellCounts((0, 1))), share="1/2"),
    JobStep(
        Scores(WARDS, Distances(1, (DistanceCandidate(1, Total(4), (90,)),))),
        family="scores_exponential",
    ),
]


def test_a_job_of_fixed_steps_is_one_release(con):
    """Cells, sums of cells and choices, for one price; asked again it is free.

    The clinic has 100 visits of 40 people, at most 3 of each: 50 in either ward, none elsewhere. A
    person moves the four prefixes by 12 together, at 200/4.5 of the price: a noise above 8 has
    probability exp(-8 * 44 / 12) < 1e-12, one on the cells less.
    """
    spent = con.budget().pots[0].spent
    first = con.run_job(JOB, epsilon=200)
    assert first == con.run_job(JOB, epsilon=200)
    cells, prefixes, choice, only = first
    for values, exact in ((cells, (50, 50, 0, 0)), (prefixes, (50, 100, 100, 100))):
        assert all(abs(value - true) <= 8 for value, true in zip(values, exact, strict=True))
    assert choice in ((0,), (1,)) and only == (0,)
    release = con.history().releases[-1]
    assert con.budget().pots[0].spent - spent == release.charged <= 200
    assert release.asks == "count, an operator over count, a choice by count from visits by ward"
    con.run_job(JOB, epsilon=200, fresh=True)
    assert con.history().releases[-1].release_id != release.release_id


def test_a_job_that_asks_too_much_is_refused_for_free(con):
    spent = con.budget().pots[0].spent
    wide = [JobStep(Linear(WARDS, Stack((Prefix(4),) * 200))) for _ in range(2)]
    for steps, error in (
        ([JobStep(WARDS, family="magic")], ParameterError),
        ([JobStep(Linear(WARDS, Prefix(5)))], RefusedError),
        ([], ParameterError),
        ([JobStep(WARDS, share=0)], ParameterError),
    ):
        with pytest.raises(error):
            con.run_job(steps, epsilon=1)
    with pytest.raises(BudgetError):
        con.run_job(wide, epsilon=10**6)
    assert con.budget().pots[0].spent == spent
