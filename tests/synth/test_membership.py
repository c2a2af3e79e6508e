"""Membership attacks on the generators: none breaks the claim, and every planted bug is found."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dither.audit.generators import (
    PEOPLE,
    TARGET,
    PlantedGenerator,
    attack_cell,
    list_generators,
    list_planted_generators,
)
from dither.audit.shipped_mechanisms import Subject
from dither.cli.main import app

RUNS = 400
ALPHA = 1e-9


@pytest.mark.all
@pytest.mark.parametrize("subject", list_generators(), ids=lambda subject: subject.name)
def test_the_attack_does_not_break_the_claim(subject: Subject) -> None:
    assert subject.audit(RUNS, ALPHA).outcome != "violated"


@pytest.mark.all
@pytest.mark.parametrize("planted", list_planted_generators(), ids=lambda planted: planted.what)
def test_the_attack_finds_every_planted_bug(planted: PlantedGenerator) -> None:
    assert planted.subject.audit(RUNS, ALPHA).outcome == "violated"


@pytest.mark.all
def test_one_command_attacks_ours_and_the_planted_ones() -> None:
    done = CliRunner().invoke(app, ["audit", "generators", "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["accused"] == [] and said["escaped"] == []
    assert len(said["verdicts"]) == len(list_generators()) + len(list_planted_generators())


def test_the_lease_of_the_attack_gives_the_answers_of_the_kernel_s_mechanisms() -> None:
    """With almost no noise the model is the table: 3 of 16 have (1, 0) and one has (1, 1)."""
    rows = np.concatenate([PEOPLE, TARGET])
    assert attack_cell(rows, "histogram", 900) == 10
    assert attack_cell(PEOPLE, "histogram", 900) == 0
