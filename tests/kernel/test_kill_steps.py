"""SIGKILL after every named step, on both stores: a charge is kept from RESERVE on, nothing leaves
unpaid."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.case_lists import mark_rest
from tests.datasets.regional_clinic import BY_REGION, Clinic
from tests.kernel import kill_steps
from tests.kernel.kill_steps import STEPS, WHEN
from tests.postgres_server import running_server

ROOT = Path(__file__).parents[2]
CHARGED = STEPS.index("reserve")


def outcomes(folder: Path, *url: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", kill_steps.__name__, str(folder), *url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("store", mark_rest(["sqlite", "postgres"], quick=1))
def test_killed_at_every_step(store: str, tmp_path: Path) -> None:
    if store == "sqlite":
        found = outcomes(tmp_path)
    else:
        with running_server() as server:
            found = outcomes(tmp_path, server.get_uri())
    assert [(each["step"], each["when"]) for each in found] == [(s, w) for s in STEPS for w in WHEN]
    for each in found:
        number = STEPS.index(each["step"])
        charged = number > CHARGED or (number == CHARGED and each["when"] == "after")
        stored = number > STEPS.index("commit") or (each["step"], each["when"]) == (
            "commit",
            "after",
        )
        assert each["killed"] and not each["sent"] and each["ok"], each
        assert each["incidents"] == (charged and not stored), (
            each
        )  # whether a query kills may depend on one row
        assert each["charged"] == ("1/10" if charged else "0") and each["stored"] == stored, each


def test_forked_children_draw_noise_of_their_own(clinic: Clinic) -> None:
    """Rule fresh-noise: two answers with the same noise subtract."""
    clinic.open()
    reader, writer = os.pipe()
    children = []
    for _ in range(2):
        child = os.fork()
        if not child:
            try:
                values = (
                    clinic.connect()
                    .sql(BY_REGION, epsilon="0.0001", fresh=True)
                    .to_dict(intervals=False)["n"]
                )
                os.write(writer, (json.dumps(values) + "\n").encode())
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    assert all(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 for child in children)
    first, second = (json.loads(line) for line in os.read(reader, 1000).decode().splitlines())
    assert first != second and len(clinic.ledger().history()) == 2


def test_a_forked_child_may_let_go_of_what_it_inherited(clinic: Clinic) -> None:
    """The engine's threads do not live in the child: to close there what the parent opened would
    wait for ever."""
    clinic.open()
    inherited = [clinic.connect()]
    inherited[0].sql(BY_REGION, epsilon="0.0001", fresh=True)
    child = os.fork()
    if not child:
        try:
            signal.alarm(60)
            inherited.clear()
            gc.collect()
            clinic.connect().sql(BY_REGION, epsilon="0.0001", fresh=True)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
