"""`dither serve` and `dither token` as a person runs them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

import dither
from dither.cli.main import app
from dither.identity import TokenStore
from tests.datasets import clinic

MAIN = "from dither.cli import main; main()"


def run(*words: str) -> str:
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_tokens_are_made_listed_and_revoked(tmp_path):
    home = ("--home", str(tmp_path / "home"))
    text = run("token", "create", "clinic", "alice", "--days", "3", *home).strip()
    made = json.loads(run("token", "create", "clinic", "bob", "--role", "auditor", "--json", *home))
    assert re.fullmatch(r"dither-[0-9a-f]{64}", text) and made["state"] == "valid"
    listed = json.loads(run("token", "list", "--json", *home))
    assert [token["name"] for token in listed] == ["alice", "bob"]
    assert text not in run("token", "list", *home)
    run("token", "revoke", made["id"], *home)
    store = TokenStore(tmp_path / "home")
    assert store.verify_token(text).pots == ("total",)
    states = [token["state"] for token in json.loads(run("token", "list", "--json", *home))]
    assert states[0] == "valid" and states[1].startswith("revoked")
    store.close()


def start_serving(home: Path, *words: str) -> tuple[subprocess.Popen[str], str]:
    """`dither serve` in a process of its own, and the link that it prints."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [sys.executable, "-c", MAIN, "serve", *words, "--home", str(home), "--port", port]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "400"}
    )
    lines = []
    while "routes and bodies" not in (lines or [""])[-1]:
        line = process.stdout.readline()
        assert line, "serve ended: " + "".join(lines)
        lines.append(line)
    (link,) = re.findall(r"with this command: (\S+)", "".join(lines))
    assert "could read the data" in "".join(lines)
    address = link.partition("/datasets")[0]
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            httpx.get(f"{address}/healthz", timeout=60)
            return process, link
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("the gateway did not start")


def read_cores(pid: int) -> set[frozenset[int]]:
    """The sets of cores on which the threads of a process may run."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {frozenset(os.sched_getaffinity(int(task.name))) for task in tasks}


def check_cores(serving: int) -> None:
    """Gateway and curator share no core, where there is more than one."""
    children = Path(f"/proc/{serving}/task/{serving}/children").read_text().split()
    (gateway,) = read_cores(serving)
    (curator,) = read_cores(int(children[0]))
    cores = os.sched_getaffinity(0)
    assert gateway | curator == cores and (len(cores) < 2 or not gateway & curator)


def check_platform(link: str, sql: str, price: dict) -> None:
    """curl, the Python client and the page of the API answer."""
    address, _, token = link.partition("#token=")
    base = address.partition("/datasets")[0]
    body = {"sql": sql, **price}
    headers = {"authorization": f"Bearer {token}"}
    answer = httpx.post(
        f"{base}/api/v1/datasets/clinic/sql", json=body, headers=headers, timeout=60
    ).json()
    con = dither.connect(link)
    again = con.sql(sql, **price)
    assert again.info["repeated"] and again.to_dict()["n"] == answer["columns"]["n"]
    assert "/api/v1/datasets/{dataset}/sql" in httpx.get(f"{base}/api", timeout=60).text
    assert "Sign in" in httpx.get(f"{base}/", follow_redirects=True, timeout=60).text
    assert "Register of clinic" in httpx.get(f"{base}/datasets/clinic/register", timeout=60).text
    assert httpx.get(f"{base}/api/v1/openapi.json", timeout=60).json()["openapi"].startswith("3.")


def test_serve_is_a_platform_in_one_command_and_ends_with_it(tmp_path):
    file, state = clinic.register(tmp_path / "clinic", [clinic.row("1", "1")])
    clinic.open_total(state)
    home = tmp_path / "home"
    process, link = start_serving(home, str(file))
    try:
        check_platform(link, "SELECT COUNT(*) AS n FROM visits", {"epsilon": 1})
        check_cores(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    assert not (home / "curator.sock").exists()
    store = TokenStore(home)
    assert [token.is_valid for token in store.list_tokens()] == [False, False]
    store.close()


@pytest.mark.all
def test_serve_without_a_catalog_invents_a_clinic_and_keeps_it(tmp_path):
    for people in ("a first start", "a second start"):
        process, link = start_serving(tmp_path / "state" / "home")
        try:
            check_platform(link, "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", PRICE)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0, people
    assert (tmp_path / "state" / "demo" / "clinic.yaml").exists()


PRICE = {"rho": "0.006"}


@pytest.mark.all
def test_a_curator_ends_with_the_command_that_was_killed(tmp_path):
    file, state = clinic.register(tmp_path / "clinic", [clinic.row("1", "1")])
    clinic.open_total(state)
    process, _ = start_serving(tmp_path / "home", str(file))
    process.kill()
    process.wait()
    end = time.monotonic() + 60
    while (tmp_path / "home" / "curator.sock").exists():
        assert time.monotonic() < end, "the curator outlives the command"
        time.sleep(0.05)
