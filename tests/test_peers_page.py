"""The page about peers shows what was measured: its figures are those of the dated results file."""

from __future__ import annotations

import json
import math
import re

import pytest

from tests.scripts import ROOT, import_script

import_script("bench/peers/work.py")
run = import_script("bench/peers/run.py")
import_script("bench/peers/laws.py")
written = import_script("bench/peers/page.py")
PAGE = ROOT / "docs" / "reference" / "peers.md"


@pytest.fixture(scope="module")
def results():
    return json.loads(written.newest().read_text())


def shown_figures(text: str, rows: int) -> dict[str, list[float]]:
    """Peer to figures of the table by keys at one size, read from the page without its writer."""
    part = text.split(f"by 100 keys, {rows:,} rows\n")[1].split("\n## ")[0]
    found = {}
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 9 and re.match(r"[\d.]", cells[1]):
            found[cells[0]] = [float(cell.split(" ")[0].replace(",", "")) for cell in cells[1:8]]
    return found


def differing(text: str, results: dict) -> list[str]:
    """Peers whose shown figures are not the measured ones, to the digits shown."""
    wrong = []
    for line in results["lines"]:
        if line["task"] != "keys" or "answer_s" not in line:
            continue
        errors = [line["errors"][what]["rmse"] for what in ("count", "sum", "avg")]
        if line["peer"] == "DuckDB, no privacy":
            errors = [0.0] * 3
        both = line["load_s"] + line["first_s"]
        measured = [line["answer_s"], both, line["load_s"], line["peak_mb"], *errors]
        shown = shown_figures(text, line["rows"]).get(line["peer"], [math.inf] * 7)
        close = all(
            math.isclose(a, b, rel_tol=6e-3, abs_tol=1e-9)
            for a, b in zip(shown, measured, strict=True)
        )
        wrong += [] if close else [f"{line['peer']} {line['rows']}"]
    return wrong


def test_the_figures_on_the_page_are_those_of_the_results_file(results):
    assert differing(PAGE.read_text(), results) == []


def test_a_changed_figure_on_the_page_is_noticed(results):
    text = PAGE.read_text()
    ours = next(
        line for line in results["lines"] if line["peer"] == "dither" and line["task"] == "keys"
    )
    shown = written.figure(ours["answer_s"])
    better = text.replace(f"| dither | {shown} |", "| dither | 0.000123 |")
    assert better != text
    assert differing(better, results) == [f"dither {ours['rows']}"]


def test_page_and_plots_are_what_the_writer_makes_of_the_results(results):
    assert PAGE.read_text() == written.page(results, written.newest().name)
    for name, text in written.plots(results).items():
        assert (ROOT / "docs" / "figures" / name).read_text() == text


def test_every_peer_is_measured_or_said_why_not_and_its_settings_are_shown(results):
    text = PAGE.read_text()
    for name, peer in run.PEERS.items():
        at = [
            line for line in results["lines"] if line["peer"] == name and line["rows"] == 1_000_000
        ]
        assert {line["task"] for line in at} == set(run.TASKS), name
        assert all("answer_s" in line or line.get("refused") or line.get("failed") for line in at)
        assert (ROOT / "bench" / "peers" / peer.script).exists()
    assert set(written.STRENGTHS) == set(run.PEERS) - {"dither", "DuckDB, no privacy"}
    assert all(
        line["settings"] in text
        for line in results["lines"]
        if "settings" in line and "Duck" not in line["peer"]
    )


def test_errors_are_root_mean_squares_with_their_own_standard_error():
    found = run.rmse([3.0, -4.0, 3.0, -4.0])
    assert found["rmse"] == pytest.approx(12.5**0.5)
    assert found["bias"] == pytest.approx(-0.5)
    # squares 9, 16, 9, 16: standard deviation sqrt(49/3), of their mean a half of it, of the root 1
    # / (2 root) of that
    assert found["standard_error"] == pytest.approx((49 / 3) ** 0.5 / 2 / (2 * 12.5**0.5))


def test_a_key_that_a_peer_leaves_out_counts_as_an_answer_of_nothing():
    found = run.errors_of(
        [{"k0": [10.0, 5.0, 0.5]}], {"k0": [10.0, 5.0, 0.5], "k1": [30.0, 0.0, 0.0]}
    )
    assert found["count"]["rmse"] == pytest.approx((900 / 2) ** 0.5)


def test_the_comparison_takes_the_best_peer_and_never_the_engine_without_privacy():
    def line(peer, seconds, rmse):
        errors = {
            what: {"rmse": rmse, "standard_error": 0.0, "bias": 0.0}
            for what in ("count", "sum", "avg")
        }
        return {
            "peer": peer,
            "task": "keys",
            "rows": 10,
            "answer_s": seconds,
            "repetitions": 1,
            "errors": errors,
        }

    lines = [
        line("dither", 1.0, 5.0),
        line("DuckDB, no privacy", 0.1, 0.0),
        line("A", 19.0, 6.0),
        line("B", 30.0, 4.0),
    ]
    time, *errors = run.compared({"lines": lines})
    assert (time["base_s"], time["ok"]) == (19.0, False)
    assert [(each["base_s"], each["ok"]) for each in errors] == [(4.0, False)] * 3
    lines[2]["answer_s"], lines[3]["errors"] = 20.0, lines[0]["errors"]
    assert all(each["ok"] for each in run.compared({"lines": lines}))


def test_a_lucky_error_or_two_is_no_estimate_to_compare_with():
    def line(peer, rmse, times):
        found = {"median": {"rmse": rmse, "standard_error": 0.0, "bias": 0.0}}
        return {
            "peer": peer,
            "task": "median",
            "rows": 10,
            "answer_s": 1.0,
            "repetitions": times,
            "errors": found,
        }

    _, error = run.compared(
        {"lines": [line("dither", 5.0, 100), line("A", 0.1, 4), line("B", 6.0, 5)]}
    )
    assert error["base_s"] == 6.0
