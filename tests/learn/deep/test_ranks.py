"""Runs over two processes by gloo: slots divided by unit, integers added up, noise once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

pytestmark = pytest.mark.all
UNITS = 30
BATCH = 10


def run_ranks(tmp_path, mode: str) -> list[dict]:
    """What both ranks print."""
    command = [sys.executable, "-m", "tests.learn.deep.rank_program"]
    started = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "store"), mode], stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=240)[0] for process in started]
    assert all(process.returncode == 0 for process in started)
    return [json.loads(output.strip().splitlines()[-1]) for output in outputs]


def test_both_ranks_have_the_clipped_sum_of_all_units_and_noise_is_drawn_once(tmp_path) -> None:
    """Without noise a unit moves its own weight by one clip norm, over the declared batch, for each
    step that it is in, on whichever rank; both rows of a person are clipped together."""
    first, second = run_ranks(tmp_path, "no noise")
    assert first["weights"] == second["weights"]
    assert first["drawn"] == 6 and second["drawn"] == 0
    steps = list(zip(first["seen"], second["seen"], strict=True))
    assert len(steps) == 6 and all(not set(ours) & set(theirs) for ours, theirs in steps)
    assert all(any(units for units in rank["seen"]) for rank in (first, second))
    times = Counter(unit for ours, theirs in steps for unit in (*ours, *theirs))
    expected = [times[unit] / BATCH for unit in range(UNITS)]
    assert np.allclose(first["weights"], expected, atol=1e-4)
    assert first["epsilon"] == second["epsilon"] <= 2


def test_noise_has_the_width_of_one_draw(tmp_path) -> None:
    """Weights of no unit are noise alone: 6 steps of one draw each, not of two."""
    first, second = run_ranks(tmp_path, "noise")
    assert first["weights"] == second["weights"] and second["drawn"] == 0
    assert len(set(first["weights"])) == UNITS


@pytest.mark.parametrize("mode", ["banded", "adaptive"])
def test_other_modes_give_all_ranks_the_same_weights(tmp_path, mode) -> None:
    first, second = run_ranks(tmp_path, mode)
    assert first["weights"] == second["weights"]
    assert second["drawn"] == 0
    if mode == "banded":
        assert np.allclose(first["weights"], [2 / BATCH] * UNITS, atol=1e-4)


def test_ranks_with_other_rows_are_refused(tmp_path) -> None:
    outputs = run_ranks(tmp_path, "other rows")
    assert all("ranks differ" in output["refused"] for output in outputs)
