"""Rehearsals: free, as noisy as the real thing, and the same whatever the data is (rule
rehearsals-read-no-data)."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from fractions import Fraction as F

import pytest

from dither import DitherError, ParameterError, RefusedError, connect, steward
from dither.catalog import parse
from dither.cli.clinic import CATALOG as DEMO
from dither.cli.clinic import write_clinic
from dither.data.measure import Measurer
from dither.data.register.generated import write_generated
from dither.plan.algebra import Cells, Count, Scan, Sum
from dither.plan.facts import NO_FACTS, Facts
from dither.privacy.kernel.kernel import Kernel, statements
from dither.privacy.kernel.lease import Lease
from dither.privacy.kernel.request import Price, Request, Step
from dither.state import State
from dither.steward import rehearsal
from tests.case_lists import mark_between, mark_rest
from tests.datasets import clinic, hospital
from tests.kernel.test_time_limit import SLOW

QUESTION = "SELECT ward, COUNT(*) AS n, SUM(cost) AS cost FROM visits WHERE age >= 18 GROUP BY ward"


def registered(folder, rows, pot=True):
    folder.mkdir()
    (folder / "clinic.yaml").write_text(clinic.CATALOG)
    clinic.write_csv(folder / "visits.csv", rows)
    done = steward.register(folder / "clinic.yaml")
    if pot:
        steward.open_pot(State(folder / "clinic.dither"), done.catalog, "total", epsilon="5",
            ceiling="5",
                         purpose=clinic.PURPOSE)  # fmt: skip
    return folder / "clinic.yaml"


@pytest.fixture(scope="module")
def registered_twice(tmp_path_factory):
    home = tmp_path_factory.mktemp("dry")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "xdg"))
        full = [
            clinic.row(f"v{i}-{j}", f"p{i}", age="44", cost="77")
            for i in range(300)
            for j in range(3)
        ]
        return home / "xdg", (
            registered(home / "empty", []),
            registered(home / "full", full, pot=False),
        )


@pytest.fixture
def both(registered_twice, monkeypatch):
    """The same catalog over an empty table and over a full one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(registered_twice[0]))
    return registered_twice[1]


def rehearse(kernel, request):
    return rehearsal.Rehearsals().rehearse(kernel.price(replace(request, context="dry_run")))


def exact_of(kernel: Kernel, file, monkeypatch):
    """What a rehearsal measures, before its noise."""
    seen = []
    monkeypatch.setattr(
        rehearsal,
        "randomise",
        lambda steps, exact, source: seen.append(exact) or ((0,) * 4, (0,) * 4),
    )
    steps = tuple(
        Step(Cells(Scan("visits"), ("ward",), (what,)), "laplace", F(1))
        for what in (Count(), Sum("cost"))
    )
    rehearse(kernel, Request(steps, Price(F(1)), "total"))
    return [{key: cells.tolist() for key, cells in step.items()} for step in seen[0]]


def test_identical_on_an_empty_and_a_full_table(both, monkeypatch):
    empty, full = (
        exact_of(Kernel(State(file.with_suffix(".dither"))), file, monkeypatch) for file in both
    )
    assert empty == full
    assert min(row[0] for row in empty[0][()]) > 10  # and there is something to see


def copies_opened_by_a_rehearsal(file, monkeypatch):
    opened = []
    real = Measurer.__init__
    monkeypatch.setattr(
        Measurer,
        "__init__",
        lambda self, copy, *a, **k: opened.append(copy) or real(self, copy, *a, **k),
    )
    connect(file).sql(QUESTION, epsilon=1, dry_run=True)
    return opened


def test_the_registered_copy_is_never_opened(both, monkeypatch):
    """A rehearsal opens the copy that it wrote itself and no other."""
    opened = copies_opened_by_a_rehearsal(both[0], monkeypatch)
    assert opened and not any(both[0].with_suffix(".dither") in copy.parents for copy in opened)


def test_planted_bug_a_rehearsal_that_opens_the_registered_copy_is_seen(both, monkeypatch):
    state = State(both[0].with_suffix(".dither"))
    copy = state.version(1) / "data.duckdb"
    monkeypatch.setattr(rehearsal.Rehearsals, "_write_copy", lambda self, at: copy)
    opened = copies_opened_by_a_rehearsal(both[0], monkeypatch)
    assert any(state.root in copy.parents for copy in opened)


def test_a_request_priced_to_be_released_is_not_rehearsed(both):
    """Its result would be stamped as an answer about people."""
    kernel = Kernel(State(both[0].with_suffix(".dither")))
    step = Step(Cells(Scan("visits"), (), (Count(),)), "laplace", F(1))
    with pytest.raises(RefusedError, match="only a dry run is rehearsed"):
        rehearsal.Rehearsals().rehearse(kernel.price(Request((step,), Price(F(1)), "total")))


def entries(file):
    with sqlite3.connect(file.with_suffix(".dither") / "ledger.sqlite") as ledger:
        return ledger.execute("SELECT count(*) FROM entry").fetchone(), ledger.execute(
            "SELECT count(*) FROM release").fetchone()  # fmt: skip


def test_it_is_free_and_stored_nowhere(both):
    file = both[0]
    before, con = entries(file), connect(file)
    spent, asked = con.budget().pots[0].spent, len(con.history())
    for _ in range(5):
        answer = con.sql(QUESTION, epsilon=1, dry_run=True)
    assert (
        entries(file) == before
        and con.budget().pots[0].spent == spent
        and len(con.history()) == asked
    )
    assert (answer.info["context"], answer.info["charged"], answer.info["release_id"]) == (
        "dry_run",
        "0/1",
        "dry_run",
    )
    assert answer.info["repeated"] is False


def test_errors_and_intervals_are_those_of_the_real_question(both):
    con = connect(both[0])
    rehearsed, asked = con.sql(QUESTION, epsilon=1, dry_run=True), con.sql(QUESTION, epsilon=1)
    assert [(c.name, c.scale, c.sensitivity, c.limits) for c in rehearsed.columns] == [
        (c.name, c.scale, c.sensitivity, c.limits) for c in asked.columns]  # fmt: skip
    tables = (rehearsed.to_dict(), asked.to_dict())
    widths = [
        [high - n for n, high in zip(found["n"], found["n_high"], strict=True)] for found in tables
    ]
    assert widths[0] == widths[1]
    assert rehearsed.info["plan_hash"] == asked.info["plan_hash"]
    assert asked.info["context"] == "prod"
    with pytest.raises(Exception, match="SUM needs a number"):
        con.sql("SELECT SUM(ward) FROM visits", epsilon=1, dry_run=True)


def test_it_is_noisy(both):
    con = connect(both[0])
    seen = {tuple(con.sql(QUESTION, epsilon=1, dry_run=True).to_dict()["n"]) for _ in range(4)}
    assert len(seen) > 1  # four equal releases of scale 6 on four cells: probability below 1e-12


def test_it_needs_no_pot_and_a_question_does(both):
    con = connect(both[1])
    assert con.sql(QUESTION, epsilon=1, dry_run=True).table.num_rows == 4
    with pytest.raises(Exception, match="budget open"):
        con.sql(QUESTION, epsilon=1)


def test_a_dry_run_is_never_released_leased_or_certified(both):
    kernel = Kernel(State(both[0].with_suffix(".dither")))
    step = Step(Cells(Scan("visits"), (), (Count(),)), "laplace", F(1))
    request = Request((step,), Price(F(1, 100)), "total", context="dry_run")
    for use in (kernel.release, kernel.answer):
        with pytest.raises(RefusedError, match="rehearsed, never released"):
            use(request)
    loss = kernel.price(replace(request, context="asked")).loss
    with Lease(kernel, loss, "total") as lease, pytest.raises(RefusedError, match="lease is over"):
        lease.release(request)
    with pytest.raises(ParameterError, match="about nobody"):
        connect(both[0]).sql(QUESTION, epsilon=1, dry_run=True).certificate()


@pytest.mark.parametrize("people", [50])
def test_the_demo_clinic_rehearses_joins_unlisted_keys_and_quantiles(tmp_path, people):
    write_clinic(tmp_path, people)
    done = steward.register(tmp_path / "clinic.yaml", dev=True)
    steward.open_pot(State(tmp_path / "clinic.dither"), done.catalog, "total", rule="zcdp", rho="1",
        ceiling="1",
                     delta_conversion="1e-6", delta_selection="1e-6",
                     purpose=clinic.PURPOSE)  # fmt: skip
    con = connect(tmp_path / "clinic.yaml")
    counties = (
        "SELECT county, COUNT(*) AS n FROM visits JOIN patients USING (patient_id) GROUP BY county"
    )
    found = con.sql(counties, rho=1, dry_run=True).to_dict()
    assert found["county"][:2] == ["ash", "birch"] and sum(found["n"]) > 500
    drugs = con.sql(
        "SELECT drug, COUNT(*) AS n FROM prescriptions GROUP BY drug", rho=1, dry_run=True
    ).to_dict()
    assert set(drugs["drug"]) == {f"label {x}" for x in "abcde"}
    assert (
        con.sql("SELECT MEDIAN(age) AS m FROM patients", rho=1, dry_run=True).to_dict()["m"][0] > 30
    )
    beds = "SELECT AVG(beds) AS b FROM patients JOIN counties USING (county)"
    assert con.sql(beds, rho=1, dry_run=True).table.num_rows == 1


def test_an_empty_public_list_is_no_error(tmp_path):
    catalog = parse(hospital.CATALOG)
    facts = Facts(lists=(("counties", "county", ()),))
    try:
        write_generated(catalog, facts, tmp_path / "data.duckdb")
    except DitherError as refused:  # registration may refuse an empty list, in words
        assert "labels" in str(refused) or "label" in str(refused)


@pytest.mark.parametrize("text", mark_rest([clinic.CATALOG, hospital.CATALOG], quick=1))
def test_every_column_type_is_generated_inside_its_domain(text, tmp_path):
    catalog = parse(text)
    facts = (
        Facts(lists=(("counties", "county", ("ash", "elm")),)) if "counties" in text else NO_FACTS
    )
    write_generated(catalog, facts, tmp_path / "data.duckdb")
    measurer = Measurer(tmp_path / "data.duckdb", catalog, facts)
    for table in catalog.private_tables:
        found = measurer.measure(Cells(Scan(table.name), (), (Count(),)))
        assert 500 < found[0][0] <= (table.max_rows or 0)
    measurer.close()


def test_planted_bug_a_rehearsal_on_the_registered_copy_is_caught(both, monkeypatch):
    """The obvious shortcut, noise on the real table for free, differs between the two tables."""

    def shortcut(kernel):
        steps = (Step(Cells(Scan("visits"), ("ward",), (Count(),)), "laplace", F(1)),)
        priced = kernel.price(Request(steps, Price(F(1)), "total"))
        measurer = kernel.connect(priced.version)
        assert statements(priced)
        return json.dumps(measurer.measure(steps[0].query).tolist())

    empty, full = (shortcut(Kernel(State(file.with_suffix(".dither")))) for file in both)
    assert empty != full


def test_the_catalog_of_the_demo_is_the_one_that_is_written(tmp_path):
    write_clinic(tmp_path, 10)
    assert (tmp_path / "clinic.yaml").read_text() == DEMO


@pytest.mark.parametrize("unique", mark_between(["[[k]]", "[[k, b]]", "[[c]]", "[]"], step=2))
def test_public_tables_with_few_possible_keys_are_generated_too(tmp_path, unique):
    """A unique key of five values has five rows, not twenty that repeat it."""
    from dither.catalog import parse
    from dither.data.register.generated import write_generated
    from dither.plan.facts import NO_FACTS

    text = clinic.CATALOG + (
        "  pub:\n    kind: public\n    from: pub.csv\n"
        f"    unique: {unique}\n"
        "    columns:\n"
        "      k: {type: integer, bounds: [1, 5], nulls: drop, provenance: list}\n"
        "      b: {type: boolean, nulls: drop}\n"
        "      c: {type: category, values: [x, y], other: drop, nulls: drop}\n"
    )
    write_generated(parse(text), NO_FACTS, tmp_path / "data.duckdb")


def test_a_rehearsal_is_stopped_after_its_time(both, monkeypatch):
    """It reads no data, and others wait for it. Here the engine works until it is stopped."""

    def measure_slowly(self, *_):
        return self.engine.connection.execute(SLOW).fetchall()

    curator = connect(both[0])._curator
    request = Request((Step(Cells(Scan("visits"), (), (Count(),)), "laplace", F(1)),),
        Price(F(1)), "total")  # fmt: skip
    assert curator.rehearse(request, 60).values
    monkeypatch.setattr(Measurer, "measure", measure_slowly)
    with pytest.raises(RefusedError, match="this rehearsal takes longer"):
        curator.rehearse(request, 0.05)
