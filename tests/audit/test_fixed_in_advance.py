"""Rule audits-fixed-in-advance: what makes an auditor's confidence true, and where it may not
look."""

import json
import multiprocessing
import time
from unittest import mock

import numpy as np
import pytest
from typer.testing import CliRunner

from dither import audit, session, steward
from dither.audit import accountant, questions
from dither.audit.alpha_budget import next_share, share
from dither.audit.canaries import one_run
from dither.audit.pairs import explore
from dither.audit.system import audit_system
from dither.cli.audit_system import Registrar
from dither.cli.main import app
from dither.errors import ParameterError, RefusedError
from dither.privacy.losses import DiscreteLaplace


class Scripted:
    """A mechanism that counts its runs on each input and gives what a script says."""

    def __init__(self, script):
        self.script, self.calls = script, {0: [], 1: []}

    def __call__(self, data, size):
        self.calls[data].append(size)
        return np.asarray(self.script(data, size, sum(self.calls[data][:-1])))


def constant(data, size, done):
    return np.zeros(size, np.int64)


def plain(data, size, done):
    return np.full(size, data, np.int64)


@pytest.mark.parametrize(
    "script", [constant, plain], ids=["nothing to see", "broken at the first glance"]
)
@pytest.mark.parametrize("runs", [100, 3_000, 450_000])
def test_the_sample_size_is_fixed_whatever_is_seen(script, runs):
    """No run more because it nearly worked, none fewer because it already did."""
    seen = Scripted(script)
    verdict = audit.test(seen, 0, 1, epsilon=0.1, budget=audit.Budget(runs, 1e-6))
    assert verdict.violated == (script is plain)
    assert {side: sum(calls) for side, calls in seen.calls.items()} == {0: runs, 1: runs}
    assert verdict.runs == runs and all(
        each.runs == runs - verdict.choosing for each in verdict.evidence
    )


def test_events_are_a_function_of_the_first_part_alone():
    """The same first part with quite another second part gives the same events, word for word."""
    rng = np.random.default_rng(35)
    first = {side: rng.integers(0, 9, 1_000) + side for side in (0, 1)}

    def with_rest(rest):
        def script(data, size, done):
            return first[data] if not done else rest(data, size)

        return audit.test(Scripted(script), 0, 1, epsilon=0.3, budget=audit.Budget(2_000, 1e-6))

    quiet = with_rest(lambda data, size: np.full(size, 4))
    loud = with_rest(lambda data, size: np.full(size, 100 * data))
    assert [each.event for each in quiet.evidence] == [each.event for each in loud.evidence]
    assert [each.hits for each in quiet.evidence] != [each.hits for each in loud.evidence]


def test_the_pair_is_chosen_on_runs_that_are_thrown_away():
    """The winner is run afresh, the full budget of it; pilot outputs are not in the verdict."""
    runs, pilot = 40_000, 2_000
    seen = {}

    def mechanism(data, size):
        seen.setdefault(data, []).append(size)
        loud = data == 2 and len(seen[data]) == 1  # only in its pilot does this input look bad
        return np.full(size, 1 if loud else 0, np.int64)

    verdict, pair = explore(mechanism, [(0, 1), (1, 2)], 0.1, budget=audit.Budget(runs, 1e-6))
    assert pair == (1, 2) and not verdict.violated and verdict.epsilon_lower == 0
    assert seen[0] == [pilot] and seen[2][0] == pilot and sum(seen[2][1:]) == runs


def test_the_accountants_epsilons_are_chosen_on_draws_of_their_own():
    drawn = []
    real = accountant.draw_loss

    def draw(loss, size, *, first):
        drawn.append((size, first))
        return real(loss, size, first=first) + (
            0 if len(drawn) == 1 else 50
        )  # later draws would choose otherwise

    with mock.patch.object(accountant, "draw_loss", draw):
        claims = accountant.audit_loss(DiscreteLaplace(2, 1), runs=8_000, alpha=1e-6)
    assert drawn == [(2_000, True), (8_000, True), (8_000, False)]
    assert all(0 <= claim.epsilon <= 0.5 for claim in claims)


@pytest.mark.all
def test_as_many_tests_as_the_time_allows_share_one_rate(tmp_path):
    """How many there will be is not known in advance, so the k-th spends alpha / k(k + 1): valid
    whenever it stops."""
    spent = []

    def black_box(places, sql, runs, alpha):
        spent.append((runs, alpha))
        return mock.Mock(violated=False)

    clock = mock.Mock(
        monotonic=mock.Mock(side_effect=range(10_000)), perf_counter=time.perf_counter
    )
    with (
        mock.patch("dither.audit.system._black_box", black_box),
        mock.patch("dither.audit.system.time", clock),
        mock.patch.object(questions, "question", return_value="SELECT COUNT(*) AS n FROM visits"),
    ):
        audit_system(
            Registrar(tmp_path), seconds=14, alpha=1e-3, per_pair=1, row_pairs=0, black_box_share=1
        )
    assert len(spent) >= 2 and {runs for runs, _ in spent} == {120}
    assert [alpha for _, alpha in spent] == [share(k + 1, 1e-3) for k in range(len(spent))]
    assert sum(alpha for _, alpha in spent) < 1e-3


def _spend(file):
    return next_share(file, 0.01, year=2026)


def test_a_run_that_breaks_off_has_spent_its_share_and_two_at_once_spend_two(tmp_path):
    file = tmp_path / "year.json"
    with mock.patch("dither.cli.audit_system.audit_system", side_effect=KeyboardInterrupt):
        CliRunner().invoke(app, ["audit", "system", "--year", str(file), "--alpha", "0.01"])
    assert json.loads(file.read_text())["runs"] == 1
    other = tmp_path / "other.json"
    with multiprocessing.get_context("fork").Pool(4) as pool:
        spent = pool.map(_spend, [other] * 24)
    assert sorted(spent, reverse=True) == [share(k, 0.01) for k in range(1, 25)]
    with pytest.raises(ParameterError, match="share alpha 0.01"):
        next_share(other, 0.5, year=2026)


def test_every_command_that_repeats_can_share_the_year(tmp_path):
    file, code = tmp_path / "year.json", tmp_path / "mine.py"
    code.write_text("def answer(data, size):\n    return [0] * size\n")
    asked = [
        "audit",
        "function",
        f"{code}:answer",
        "--first",
        "0",
        "--second",
        "1",
        "--epsilon",
        "1",
        "--runs",
        "100",
    ]
    for k in (1, 2):
        ran = CliRunner().invoke(app, [*asked, "--alpha", "0.01", "--year", str(file), "--json"])
        assert json.loads(ran.stdout)["alpha"] == share(k, 0.01)
    shared = tmp_path / "ours.json"
    chosen = [
        "audit",
        "mechanisms",
        "IntegerLaplace",
        "Staircase",
        "--runs",
        "200",
        "--alpha",
        "0.01",
    ]
    ran = CliRunner().invoke(app, [*chosen, "--year", str(shared), "--json"])
    assert {each["alpha"] for each in json.loads(ran.stdout)["verdicts"]} == {share(1, 0.02) / 2}


def test_a_prod_lineage_is_never_read(tmp_path, monkeypatch):
    """A real one, registered without `dev`: refused before a question is bound, and nothing exact
    is shown of it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    real, made = steward.register, []

    def as_prod(file, *, state, dev):
        made.append((state, real(file, state=state)))
        return made[-1][1]

    monkeypatch.setattr(steward, "register", as_prod)
    monkeypatch.setattr(
        session.Connection, "bind", mock.Mock(side_effect=AssertionError("a question was bound"))
    )
    place = Registrar(tmp_path)(questions.CATALOG, questions.neighbours()[0])
    with pytest.raises(RefusedError) as refused:
        audit_system(lambda *_: place, seconds=0)
    words = [str(refused.value), str(refused.value.__context__)]
    assert any("audits run on dev datasets only" in each for each in words), words
    state, done = made[0]
    with pytest.raises(RefusedError, match="dev datasets only"):
        steward.measured(state, mock.Mock(), done.catalog)
    for name in ("mechanisms", "zoo", "function", "accountant", "leakage", "system"):
        told = CliRunner().invoke(app, ["audit", name, "--help"], env={"COLUMNS": "200"}).output
        assert "CATALOG" not in told and "--state" not in told  # no command is given a dataset


def test_one_run_audits_flip_a_coin_for_each_canary_and_fix_the_number_of_guesses():
    """Independent coins, from us and not from the mechanism; the guesses are as many as was said
    before."""
    coins = []

    def mechanism(included):
        coins.append(included.copy())
        return included.astype(float)

    for guesses in (200, 1_000):
        found = one_run(
            mechanism, 4_000, lambda output: output, guesses=guesses, delta=1e-6, alpha=1e-9
        )
        assert (found.canaries, found.guesses, found.right) == (4_000, guesses, guesses)
    both = np.stack(coins)
    ones, alike = both.sum(axis=1), int((both[0] == both[1]).sum())
    assert all(
        abs(int(count) - 2_000) < 7 * 32 for count in (*ones, alike)
    )  # 7 standard deviations: 3e-12 each
