"""Named algorithms on a served dataset: one charge, one answer, and no step in between."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from dither import learn, steward
from dither.curator.ask_log import AskLog
from dither.curator.dataset import ServedDataset
from dither.curator.jobs import DoneJob, check_job, run_once
from dither.errors import BudgetError, ParameterError, RefusedError, UnavailableError
from dither.identity import AccessLog, TokenStore
from dither.privacy.ledger.reports import Reports
from dither.protocol.errors import AccessError, BusyError, ProtocolError
from dither.protocol.job_messages import FitTerms, JobDone, RunJob, SynthesizeTerms
from dither.remote.curator import RemoteCurator
from dither.remote.transport import SocketTransport
from dither.session import Connection
from dither.state import State
from dither.synth.deadline import DeadlineError
from dither.workloads import marginals
from tests.datasets.regional_clinic import Clinic
from tests.datasets.served_clinic import make_pool, own_state_home, start_server
from tests.learn.test_tables import NAMES, ROWS, invent_patients, register
from tests.learn.test_tables import connect as open_budget

COLUMNS = ["ward", "urgent", "readmitted"]


class ServedPatients:
    """A registered table of patients with a curator before it."""

    def __init__(self, folder: Path, path: Path) -> None:
        self.clinic: Clinic = register(folder / "site")
        open_budget(self.clinic)
        self.home = folder / "home"
        self.tokens = TokenStore(self.home)
        self.path = path
        self.server = start_server(self.clinic.file, self.home, path)

    def make_transport(self) -> SocketTransport:
        token = self.tokens.create_token("alice", "clinic", "analyst", ("total",), 1)[0]
        return SocketTransport(make_pool(self.path), "clinic", token)

    def connect(self) -> Connection:
        return Connection(RemoteCurator(self.make_transport()))

    def read_spent(self):
        dataset = self.server._service._datasets["clinic"]
        return dataset._curator.kernel.ledger.pot("total").spent

    def stop(self) -> None:
        self.server.stop()
        self.tokens.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[ServedPatients]:
    folder = tmp_path_factory.mktemp("jobs")
    with own_state_home(folder), tempfile.TemporaryDirectory(prefix="dither") as short:
        started = ServedPatients(folder, Path(short) / "s")
        yield started
        started.stop()


def test_a_synthetic_table_is_one_job_with_one_charge(served):
    con = served.connect()
    before = served.read_spent()
    releases = len(con.history().releases)
    made = con.synthesize("patients", rho=2, columns=COLUMNS, method="mst")
    assert served.read_spent() - before == 2
    assert len(con.history().releases) == releases + 1
    counts = made.find_marginal("readmitted")
    true = invent_patients()["readmitted"].sum()
    # noise of rho 2/9 or more on each count has a standard deviation below 2
    assert abs(counts[-1] - true) < 30 and abs(made.rows - ROWS) < 60
    assert made.sample(10).num_rows == 10 and made.facts["lease"] == "rho 2"
    assert made.certificate()["steps"]


def test_edges_of_bins_travel_to_the_data_and_wrong_ones_cost_nothing(served):
    con = served.connect()
    wish = {"rho": 2, "columns": ["age", "ward"], "method": "independent"}
    made = con.synthesize("patients", bins={"age": [30, 65]}, **wish)
    assert made.columns[0].edges == (30, 65)
    ages = [age for age in invent_patients()["age"] if age != ""]
    young, old = sum(age < 30 for age in ages), sum(age >= 65 for age in ages)
    expected = [young, len(ages) - young - old, old, ROWS - len(ages)]  # missing ones come last
    # rho 1 a column: a standard deviation below 1
    assert abs(made.find_marginal("age") - expected).max() < 30
    before = served.read_spent()
    with pytest.raises(ParameterError, match="must increase"):
        con.synthesize("patients", bins={"age": [65, 30]}, **wish)
    with pytest.raises(ParameterError, match="bought bins"):
        con.synthesize("patients", bins={"age": "buy:99"}, **wish)
    assert served.read_spent() == before


def test_edges_are_bought_by_the_same_job_and_charge(served):
    con = served.connect()
    before = served.read_spent()
    wish = {"rho": 2, "columns": ["age", "ward"], "method": "independent"}
    made = con.synthesize("patients", bins={"age": "buy:4"}, **wish)
    assert served.read_spent() - before == 2
    assert made.columns[0].has_bought_edges
    assert "3 quantiles of age" in made.released[-1].write_words()
    counts = made.find_marginal("age")[:-1]
    assert abs(counts - counts.mean()).max() < counts.mean() / 2


def test_a_model_is_trained_as_one_job(served):
    con = served.connect()
    model = learn.LogisticRegression(epsilon=20, n=ROWS)
    plan = model.plan(con, "patients", target="readmitted")
    before = served.read_spent()
    assert model.fit_table(con, "patients", target="readmitted") is model
    spent = served.read_spent() - before
    assert float(plan.rho) * 0.999 < spent <= float(plan.rho) * 1.001
    people = invent_patients()
    frame = people[NAMES].replace("", None)
    assert model.score(frame, people["readmitted"]) > 0.8  # the model that made them: 0.89
    assert "ledger" in model.guarantee_.trust and model.guarantee_.releases == plan.releases
    assert learn.read_model(learn.write_model(model)).classes_.tolist() == model.classes_.tolist()


def test_rows_of_a_select_travel_as_a_plan(served):
    con = served.connect()
    sql = "SELECT age, ward, readmitted FROM patients WHERE stays > 2"
    model = learn.NaiveBayes(epsilon=20, n=ROWS)
    model.fit_table(con, sql, target="readmitted", columns=["age", "ward"])
    assert list(model.feature_names_in_) == ["age", "ward"]


def test_a_workload_is_answered_over_the_protocol(served):
    con = served.connect()
    asked = con.workload(marginals(2, of=["ward", "urgent"]), table="patients", rho=50)
    before = served.read_spent()
    answer = asked.answer()
    assert 0 < served.read_spent() - before <= 50
    assert answer is not None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"estimator": "Pickle"}, "no estimator"),
        ({"parameters": '{"random_state": 1}'}, "parameters of"),
        ({"parameters": "[]"}, "parameters of"),
        ({"parameters": '{"epsilon": 1, "n": 600, "steps": 5001}'}, "at most 5,000 steps"),
        ({"parameters": '{"epsilon": -1, "n": 600}'}, "epsilon"),
        ({"parameters": '{"epsilon": 1, "n": 600, "clip": "x"}'}, "clip is a number"),
        ({"parameters": '{"epsilon": 1, "n": 600, "penalty": null}'}, "penalty is a number"),
        ({"parameters": '{"epsilon": 1, "n": 600, "learning_rate": [1]}'}, "learning_rate is"),
        ({"parameters": '{"epsilon": 1, "n": 600, "steps": 2.5}'}, "steps is a whole number"),
        ({"parameters": '{"epsilon": 1, "n": 600, "bins": [[0]]}'}, "bins are"),
        ({"parameters": '{"epsilon": 1, "n": 600, "bins": {"age": 3}}'}, "nothing was charged"),
        ({"estimator": "PCA", "target": None, "columns": ["ward"]}, "nothing was charged"),
        ({"rows": {"class": "Scan", "table": "shadow"}}, None),
        ({"rows": {}}, None),
        ({"target": "patient_id"}, "target"),
        ({"columns": ["patient_id"]}, "patient_id"),
    ],
)
def test_a_job_that_public_facts_forbid_is_refused_for_free(served, changes, words):
    terms = {
        "estimator": "LogisticRegression",
        "parameters": '{"epsilon": 1, "n": 600}',
        "rows": read_rows_document(served),
        "target": "readmitted",
        "columns": ["age"],
    }
    before = served.read_spent()
    with pytest.raises((ParameterError, ProtocolError), match=words):
        run(served, FitTerms(**{**terms, **changes}), "a-key")
    assert served.read_spent() == before


def read_rows_document(served: ServedPatients) -> dict:
    from dither.learn.table_columns import find_rows
    from dither.protocol.documents import write_rows

    return write_rows(find_rows(served.connect(), "patients").plan)


def run(served: ServedPatients, terms: FitTerms, key: str, transport=None) -> str:
    call = RunJob(pot="total", terms=terms, idempotency_key=key)
    return (transport or served.make_transport()).call(call, JobDone).document


def test_a_job_that_is_sent_again_under_its_key_is_charged_once(served):
    terms = write_ridge(served)
    transport = served.make_transport()
    first = run(served, terms, "again", transport)
    spent = served.read_spent()
    assert run(served, terms, "again", transport) == first and served.read_spent() == spent
    with pytest.raises(ParameterError, match="another question"):
        run(
            served,
            terms.model_copy(update={"target": "age", "columns": ["stays"]}),
            "again",
            transport,
        )
    assert served.read_spent() == spent
    assert run(served, terms, "new", transport) != first and served.read_spent() > spent


@pytest.mark.parametrize("error", [ParameterError("too few of class 3"), ZeroDivisionError()])
def test_a_job_that_fails_after_its_charge_is_charged_once(served, monkeypatch, capfd, error):
    """Whatever failed, it is told the constant sentence; under the same key again it is told the
    same, and pays nothing."""

    def fail(estimator: object) -> str:
        raise error

    monkeypatch.setattr("dither.learn.jobs.write_model", fail)
    terms = write_ridge(served)
    transport = served.make_transport()
    before = served.read_spent()
    key = type(error).__name__
    with pytest.raises(UnavailableError) as first:
        run(served, terms, key, transport)
    spent = served.read_spent()
    assert spent > before
    monkeypatch.undo()
    with pytest.raises(UnavailableError) as second:
        run(served, terms, key, transport)
    assert str(first.value) == str(second.value) == UnavailableError.TEXT
    assert served.read_spent() == spent
    assert "class 3" not in capfd.readouterr().err


class LosingTransport:
    """A transport that sends a job and loses its reply, the first time."""

    def __init__(self, transport: SocketTransport, error: BaseException) -> None:
        self._transport = transport
        self._errors = [error]

    def call(self, act, result):
        reply = self._transport.call(act, result)
        if isinstance(act, RunJob) and self._errors:
            raise self._errors.pop()
        return reply


@pytest.mark.parametrize("error", [BusyError("nobody answers"), KeyboardInterrupt()])
def test_a_job_whose_reply_was_lost_is_asked_again_and_charged_once(served, error):
    con = Connection(RemoteCurator(LosingTransport(served.make_transport(), error)))
    terms = {"rho": 1, "columns": ["ward"], "method": "independent"}
    before = served.read_spent()
    with pytest.raises(type(error)):
        con.synthesize("patients", **terms)
    assert served.read_spent() == before + 1
    assert con.synthesize("patients", **terms).rows > 0
    assert served.read_spent() == before + 1
    con.synthesize("patients", **terms)
    assert served.read_spent() == before + 2


def test_a_job_that_was_refused_for_free_may_be_sent_again_under_its_key(served, monkeypatch):
    """Nothing was charged: the key is forgotten, and buys the job when it is sent again."""
    terms = write_ridge(served)
    transport = served.make_transport()
    before = served.read_spent()
    with monkeypatch.context() as patched:
        patched.setattr("dither.curator.dataset.check_job", lambda *_: None)
        patched.setattr("dither.curator.jobs.MOST_STEPS", 0)
        with pytest.raises(ParameterError, match="at most 0 steps"):
            run(served, terms, "refused first", transport)
        assert served.read_spent() == before
    assert run(served, terms, "refused first", transport) and served.read_spent() > before


def write_synth_terms(columns: list[str], measure: str, price: str) -> SynthesizeTerms:
    return SynthesizeTerms(
        table="patients",
        columns=columns,
        method="independent",
        bins={},
        constraints=[],
        labels={},
        measure=measure,
        price=price,
        asked="a test",
    )


def test_a_price_too_small_for_a_float_is_refused_for_free(served):
    terms = write_synth_terms(["ward"], "epsilon", "1/1" + 4_000 * "0")
    before = served.read_spent()
    with pytest.raises(ParameterError):
        run(served, terms, "tiny")
    assert served.read_spent() == before


def test_a_job_from_a_budget_that_cannot_ask_is_refused_for_free(tmp_path):
    """A part pays for its own rows alone, and where groups are apart nobody asks from the total.

    Both were charged, and told by the first step that it is not allowed.
    """
    with own_state_home(tmp_path), tempfile.TemporaryDirectory(prefix="dither") as short:
        clinic = register(tmp_path / "site")
        terms = {"rule": "zcdp", "delta_conversion": "1e-6", "rho": 9, "ceiling": 9}
        clinic.open(**terms, policy="separate")
        place = {"inside": "total", "kind": "partition", "column": "patients.urgent"}
        clinic.open("urgency", **terms, **place)
        clinic.open("calm", **terms, inside="urgency", kind="part", value="false")
        tokens = TokenStore(tmp_path / "home")
        server = start_server(clinic.file, tmp_path / "home", Path(short) / "s")
        for pot in ("total", "urgency", "calm"):
            token = tokens.create_token("alice", "clinic", "analyst", (pot,), 1)[0]
            transport = SocketTransport(make_pool(Path(short) / "s"), "clinic", token)
            con = Connection(RemoteCurator(transport), pot=pot)
            with pytest.raises(RefusedError):
                con.synthesize("patients", rho=2, columns=["ward"], method="independent")
        assert set(clinic.spent().values()) == {0}
        server.stop()
        tokens.close()


def test_a_key_of_a_job_is_that_of_one_dataset(tmp_path, monkeypatch):
    """A session may have the same budget at two datasets: neither answers for the other."""
    monkeypatch.setattr("dither.curator.jobs._run", lambda *_: "made")
    terms = FitTerms(estimator="Ridge", parameters="{}", rows={}, columns=["age"])
    call = RunJob(pot="total", terms=terms, idempotency_key="a-key")
    asks = AskLog(tmp_path / "asks.sqlite")
    north, south = (
        SimpleNamespace(kernel=SimpleNamespace(catalog=SimpleNamespace(dataset=name)))
        for name in ("north", "south")
    )
    assert not run_once(call, north, asks, "a-session").repeated
    assert run_once(call, north, asks, "a-session").repeated
    with pytest.raises(ParameterError, match="another question"):
        run_once(call, south, asks, "a-session")
    asks.close()


def test_a_job_that_takes_long_to_price_is_refused_before_it_holds_the_dataset(monkeypatch):
    """Else a refusal within its slots would be a free miss, and all slots would grow longer."""
    dataset = object.__new__(ServedDataset)
    dataset._schedule = SimpleNamespace(is_kept=True)
    clock = iter([15.1, 14.9])
    monkeypatch.setattr("dither.curator.dataset.time.thread_time", lambda: next(clock))
    with pytest.raises(ParameterError, match="more than 15 s"):
        dataset._check_pricing(0.0, 60)
    dataset._check_pricing(0.0, 60)


def test_a_training_that_would_be_a_miss_is_refused_for_free(tmp_path):
    """Nine misses, for an epsilon of a millionth: the slots of all askers 512 times as long."""
    with own_state_home(tmp_path), tempfile.TemporaryDirectory(prefix="dither") as short:
        clinic = register(tmp_path / "site")
        open_budget(clinic)
        tokens = TokenStore(tmp_path / "home")
        token = tokens.create_token("eve", "clinic", "analyst", ("total",), 1)[0]
        path = Path(short) / "s"
        server = start_server(clinic.file, tmp_path / "home", path, 0.14, job_s=60)
        con = Connection(RemoteCurator(SocketTransport(make_pool(path), "clinic", token)))
        layers = [{"width": 256}, {"width": 256}]
        for steps, words in ((280, "longer --job-slot"), (5_000, "keeps at most")):
            model = learn.NetworkClassifier("1e-6", n=ROWS, layers=layers, steps=steps)
            with pytest.raises(RefusedError, match=words):
                model.fit_table(con, "patients", target="readmitted")
        assert set(clinic.spent().values()) == {0}
        assert server._service._datasets["clinic"]._schedule.misses == 0
        server.stop()
        tokens.close()


def write_ridge(served: ServedPatients) -> FitTerms:
    return FitTerms(
        estimator="Ridge",
        parameters='{"epsilon": 5, "n": 600}',
        rows=read_rows_document(served),
        target="stays",
        columns=["age"],
    )


def test_a_job_beyond_the_budget_and_one_of_another_pot_are_refused(served):
    con = served.connect()
    before = served.read_spent()
    with pytest.raises(BudgetError):
        con.synthesize("patients", rho=10**10, columns=COLUMNS, method="independent")
    with pytest.raises(AccessError):
        Connection(RemoteCurator(served.make_transport()), pot="board").synthesize(
            "patients", rho=1, columns=COLUMNS
        )
    assert served.read_spent() == before


def test_the_access_log_names_a_job(served):
    served.connect().synthesize("patients", rho=1, columns=["ward"], method="independent")
    log = AccessLog(served.home)
    (*_, entry) = log.read_page("clinic", 0, 1000)
    log.close()
    assert (
        entry.act == "job" and entry.release == served.connect().history().releases[-1].release_id
    )


def test_the_access_log_names_a_job_that_is_handed_out_again(served):
    transport = served.make_transport()
    for _ in range(2):
        run(served, write_ridge(served), "logged", transport)
    log = AccessLog(served.home)
    (*_, first, second) = log.read_page("clinic", 0, 1000)
    log.close()
    assert [first.act, second.act] == ["job", "repeat"]
    assert first.release == second.release and first.question == second.question


@pytest.fixture
def incidents(served) -> Iterator[Callable[[], int]]:
    """Counts the open incidents of the served patients, which are cleared after the test."""
    state = State.beside(served.clinic.file)
    ledger = served.server._service._datasets["clinic"]._curator.kernel.ledger
    yield lambda: len(Reports.from_ledger(ledger).incidents_open())
    with own_state_home(served.clinic.file.parent):
        steward.clear_incidents(state, "a test let a job run out of time")


def run_within(served: ServedPatients, seconds: float, key: str) -> DoneJob:
    """A synthetic table as a curator makes it that has so many seconds for a job."""
    call = RunJob(pot="total", terms=write_synth_terms(COLUMNS, "rho", "1/1"), idempotency_key=key)
    curator = served.server._service._datasets["clinic"]._curator
    asks = AskLog(served.home / "timed.sqlite")
    try:
        return run_once(call, curator, asks, "a-token", seconds)
    finally:
        asks.close()
        curator.kernel.engine_limit_s = None


def test_a_synthetic_table_has_the_time_of_its_slots(served):
    before = served.read_spent()
    done = run_within(served, 600, "in time")
    assert not done.repeated and done.made.document
    assert served.read_spent() == before + 1


def stop_in_fit() -> None:
    raise DeadlineError


@pytest.mark.parametrize("place", ["before a step", "in the engine", "in the fit"])
def test_a_synthetic_table_past_its_time_is_charged_and_an_incident(
    served, incidents, monkeypatch, place
):
    """The constant response, and under the same key again: no second charge, and no table."""
    seconds = 600.0
    if place == "before a step":
        seconds = 1e-9
    elif place == "in the engine":
        monkeypatch.setattr("dither.synth.deadline.count_seconds_left", lambda: 1e-9)
    else:
        monkeypatch.setattr("dither.synth.estimate.check_deadline", stop_in_fit)
    before = served.read_spent()
    with pytest.raises(UnavailableError) as first:
        run_within(served, seconds, place)
    assert served.read_spent() == before + 1 and incidents() == 1
    with pytest.raises(UnavailableError) as second:
        run_within(served, seconds, place)
    assert served.read_spent() == before + 1 and incidents() == 1
    assert str(first.value) == str(second.value) == UnavailableError.TEXT


def test_a_job_whose_first_step_alone_may_take_too_long_is_refused_for_free(served):
    """By declared sizes, whatever the rows are."""
    call = RunJob(
        pot="total", terms=write_synth_terms(COLUMNS, "rho", "1/1"), idempotency_key="slow"
    )
    curator = served.server._service._datasets["clinic"]._curator
    before = served.read_spent()
    check_job(call, curator, 600)
    with pytest.raises(RefusedError, match="one step of this job"):
        check_job(call, curator, 1e-9)
    assert served.read_spent() == before
