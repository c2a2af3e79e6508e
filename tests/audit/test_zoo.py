"""The zoo: every bug of the list is there and caught, none of ours is accused, and nothing else can
reach it."""

import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from typer.testing import CliRunner

from dither import mechanisms
from dither.audit.shipped_mechanisms import subjects
from dither.audit.zoo import ALPHA, BUGS, Catch
from dither.audit.zoo.bug import MOST_RUNS
from dither.audit.zoo.dawa import dawa_partition
from dither.audit.zoo.floats import REACHED, reachable, textbook_laplace
from dither.audit.zoo.sparse import BAD_GAP, CHEN, HIT, LEE_CLIFTON, MISS, ROTH, Variant
from dither.cli.main import app
from tests.case_lists import mark_rest
from tests.example_files import load_example

TAUGHT = [
    load_example(f"teaching/{name}.py").make_subject() for name in ("snapping", "smooth_median")
]

NAMED = [
    "float-laplace-holes",
    "precision-of-the-sum",
    "half-noise",
    "missing-clamp",
    "un-noised-threshold",
    "svt-roth-2011",
    "svt-lee-clifton-2014",
    "svt-stoddard-2014",
    "svt-chen-2015",
    "svt-gptt-2015",
    "svt-bad-gap-2020",
    "noisy-max-shows-its-value",
    "epsilon-not-split",
    "threshold-count-not-charged",
    "local-sensitivity-as-scale",
    "dawa-half-scale",
    "rdp-orders-mixed",
    "negative-epsilon-refund",
    "fixed-seed",
    "reused-noise",
    "exact-group-keys",
    "replace-priced-as-add-remove",
    "truncated-noise",
    "self-join-with-flat-sensitivity",
    "user-level-with-row-limits",
    "data-dependent-error",
    "biased-coin",
    "mean-with-private-n",
    "classic-gaussian-at-epsilon-10",
    "tree-with-a-level-missing",
    "rank-by-rowid-over-two-versions",
    "permute-and-flip-at-eps-squared-over-8",
    "integer-noise-at-the-continuous-sigma",
    "integer-laplace-priced-as-laplace",
]


def test_every_bug_that_the_issue_names_is_there():
    assert set(NAMED) <= set(BUGS) and len(BUGS) >= 25
    for bug in BUGS.values():
        assert bug.what and bug.origin and bug.claim
        assert bug.detector in ("black box", "exact law", "accountant", "structure")


DEAR_BUGS = [  # these take two thirds of the time
    "dawa-half-scale",
    "svt-bad-gap-2020",
    "svt-restarted-for-free",
    "tree-with-a-level-missing",
    "self-join-with-flat-sensitivity",
]


@pytest.mark.parametrize(
    ("left_out", "step"), mark_rest([(DEAR_BUGS, 4), ([], 1)], quick=1), ids=["some", "all"]
)
def test_the_quick_zoo_catches_all_and_accuses_none(tmp_path, monkeypatch, left_out, step):
    for name in left_out:
        monkeypatch.delitem(BUGS, name)
    # The command line imports it when the command runs.
    command = import_module("dither.cli.audit")
    monkeypatch.setattr(command, "subjects", lambda: [*subjects(), *TAUGHT][::step])
    ran = CliRunner().invoke(
        app,
        ["audit", "zoo", "--quick", "--report", str(tmp_path / "zoo.html")],
        env={"COLUMNS": "200"},
    )
    last = ran.output.strip().splitlines()[-1]
    assert ran.exit_code == 0, ran.output
    assert re.fullmatch(
        r"zoo: (\d+) of \1 bugs caught; (\d+) of \2 of our mechanisms not accused, chance .* at "
        r"most \S+",
        last,
    )
    rows = [line for line in ran.output.splitlines() if "black box" in line and "│" in line]
    for line in rows:
        _, _, _, _, runs, alpha, power, *_ = (cell.strip() for cell in line.split("│"))
        assert (
            int(runs.replace(",", "")) <= MOST_RUNS
            and float(alpha) == ALPHA
            and float(power) >= 0.99
        ), line
    assert len(rows) >= 20 - len(left_out)
    told = json.loads((tmp_path / "zoo.json").read_text())["sections"][0]["table"]
    drawn = [1 - float(row["power"]) for row in told if row["detector"] == "black box"]
    assert len(drawn) == len(rows) and sum(drawn) <= 1e-9, (
        "the chance that a correct zoo fails this test"
    )
    assert (tmp_path / "zoo.html").exists()


def test_an_escaped_bug_and_an_accused_mechanism_each_give_exit_status_1(monkeypatch):
    quiet = replace(BUGS["half-noise"], catch=lambda: Catch(False, "nothing"))
    monkeypatch.setitem(BUGS, "half-noise", quiet)
    ran = CliRunner().invoke(app, ["audit", "zoo", "half-noise"])
    assert ran.exit_code == 1 and "escaped: half-noise" in ran.output
    command = import_module("dither.cli.audit")
    first = subjects()[0]
    liar = replace(first, mechanism=lambda data, size: np.full(size, data[0]))
    monkeypatch.setattr(command, "subjects", lambda: [liar])
    ran = CliRunner().invoke(app, ["audit", "mechanisms"])
    assert ran.exit_code == 1 and "accused: IntegerLaplace" in ran.output
    monkeypatch.setattr(command, "BUGS", {})
    ran = CliRunner().invoke(app, ["audit", "zoo"])
    assert ran.exit_code == 1 and "accused: IntegerLaplace" in ran.output


def test_every_mechanism_of_ours_is_a_subject():
    tested = {subject.name.split(",")[0] for subject in [*subjects(), *TAUGHT]}
    helpers = {"QuantileGrid", "histogram_sensitivity"}
    helpers |= {name for name in mechanisms.__all__ if name.startswith("fit_")}
    assert set(mechanisms.__all__) - helpers <= tested
    assert {"Snapping", "SmoothMedian"} <= tested and sum(
        name.startswith("local.") for name in tested
    ) >= 8


ROUNDS = 1000


@pytest.mark.soak
@pytest.mark.parametrize("name", [subject.name for subject in [*subjects(), *TAUGHT]])
def test_no_false_alarm_in_a_thousand_independent_runs(name, capfd):
    """1,000 tests of each subject; the chance of any alarm is at most 1,000 * subjects * alpha
    (3.7e-5).

    About 25 minutes of one core for all (JointQuantiles 5, the vectorised ones 10 seconds each).
    """
    (subject,) = (each for each in [*subjects(), *TAUGHT] if each.name == name)
    rate = ROUNDS * len([*subjects(), *TAUGHT]) * ALPHA
    accused, start = [], time.process_time()
    for run in range(1, ROUNDS + 1):
        if subject.audit(4_000 if subject.vectorised else 200, ALPHA).violated:
            accused.append(run)
        if run % 100 == 0:
            told = (
                f"{name}: {run:,} of {ROUNDS:,} runs, {len(accused)} alarms, "
                f"{time.process_time() - start:.0f} s of CPU"
            )
            with capfd.disabled():
                print(
                    f"{told}; by design any alarm at all has chance {rate:.2g}",
                    file=sys.stderr,
                    flush=True,
                )
    assert accused == []


@pytest.mark.soak
@pytest.mark.parametrize("name", [bug.name for bug in BUGS.values() if bug.detector == "black box"])
def test_every_black_box_bug_is_caught_again_and_again(name, capfd):
    """Thirty times each; a bug misses once in 10^10 runs at most, so two misses never come
    (4e-18)."""
    found = [BUGS[name].catch() for _ in range(30)]
    caught = sum(each.caught for each in found)
    with capfd.disabled():
        print(
            f"{name}: caught {caught} of {len(found)} times, power {found[0].power!r}",
            file=sys.stderr,
            flush=True,
        )
    assert caught >= 29 and found[0].power >= 1 - 1e-10


def test_the_exact_chances_of_the_sparse_vectors_are_those_of_their_code():
    cases = [
        (ROTH, [0, 0, 1], [MISS, MISS, 1]),
        (LEE_CLIFTON, [0, 1], [MISS, HIT]),
        (CHEN, [0, 1, 1], [MISS, HIT, HIT]),
        (BAD_GAP, [0, 1], [MISS, 0]),
        (Variant(CHEN.threshold, CHEN.query, 2, renews=True), [0, 1, 0, 1], [MISS, HIT, MISS, HIT]),
    ]
    for variant, queries, answers in cases:
        runs = 400_000
        seen = int((variant.run(queries, runs) == np.array(answers)).all(axis=1).sum())
        chance = variant.chance(queries, answers)
        assert abs(seen - runs * chance) <= 7 * np.sqrt(runs * chance) + 50


def test_the_published_scales_of_the_sparse_vectors():
    """Lyu, Su, Li 2017, figure 1, at epsilon 1 and sensitivity 1, as in the code of DP-Sniper,
    StatDP and CheckDP."""
    from dither.audit.zoo import sparse as s

    half, c = 2, 2  # 1 / eps1 with eps1 = 1/2; Lee and Clifton with c = 2
    assert (s.ROTH.threshold, s.ROTH.query) == (half, s.ROTH.hits * half)
    assert (s.LEE_CLIFTON.threshold, s.LEE_CLIFTON.query * 3, s.LEE_CLIFTON.hits) == (4, 4, c)
    assert (s.STODDARD.threshold, s.STODDARD.query, s.STODDARD.hits) == (half, None, None)
    assert (s.CHEN.threshold, s.CHEN.query, s.CHEN.hits) == (half, half, None)
    assert (s.GPTT.threshold, s.GPTT.query * 3, s.GPTT.hits) == (4, 4, None)
    assert (s.BAD_GAP.threshold, s.BAD_GAP.query) == (2, 4 * s.BAD_GAP.hits)


def test_measured_constants_are_right():
    """The share of the other side's floats that the sampler reaches, and DAWA's two
    probabilities."""
    reached = reachable(textbook_laplace(1.0, 40_000), 0.0).mean()
    assert (
        0.3 < reached < REACHED - 0.05
        and reachable(textbook_laplace(0.0, 40_000), 0.0).mean() > 0.9999
    )
    pair = [dawa_partition(x + [8] * 4, 1_000_000).mean() for x in ([1, 0, 0, 0], [0, 0, 0, 0])]
    assert (
        abs(pair[0] - 0.01635) < 1e-3 and abs(pair[1] - 0.0054) < 6e-4
    )  # measured elsewhere: .01642, .00544


def test_the_zoo_is_unreachable_from_the_kernel_and_the_session():
    code = (
        "import sys, dither, dither.session, dither.privacy.kernel.kernel, dither.local, "
        "dither.accounting;"
        "print([name for name in sys.modules if name.startswith('dither.audit')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
