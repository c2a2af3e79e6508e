"""Bars on a terminal while a strategy is chosen and tables are fitted; none anywhere else."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dither.workloads import marginals
from dither.workloads.progress import show_step, track
from tests.workloads.conftest import Survey


def test_a_bar_counts_steps_on_a_terminal() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80)
    with show_step("choosing a strategy", True, console):
        assert list(track(range(7), 7)) == list(range(7))
        assert list(track("ab", 2)) == ["a", "b"]
    assert "choosing a strategy" in written.getvalue() and "9/9" in written.getvalue()
    assert list(track(range(3), 3)) == [0, 1, 2]


def test_nothing_is_written_without_a_terminal(
    survey: Survey, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = survey.connect("zcdp").workload(
        marginals(2, of=["age", "sex", "area"]), table="survey", rho=1, progress=True
    )
    asked.answer().nonnegative().rounded()
    captured = capsys.readouterr()
    assert captured.out == "" and "/" not in captured.err
