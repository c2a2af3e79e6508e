"""What a command imports: little, unless it is needed."""

from __future__ import annotations

import subprocess
import sys

from tests.datasets import clinic

HEAVY = ("duckdb", "numpy", "pyarrow", "scipy", "sqlglot", "mpmath", "matplotlib")


def list_imported(code: str) -> set[str]:
    """The modules that a fresh interpreter has after some code."""
    ended = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ended.stdout.split("\n")[-2].split())


def test_the_version_is_shown_without_an_engine():
    code = "import sys; sys.argv = ['dither', '--version']\nfrom dither.cli import main\n"
    imported = list_imported(f"{code}try: main()\nexcept SystemExit: pass")
    assert not imported & {*HEAVY, "dither.session", "dither.steward", "dither.accounting"}
    assert "dither.cli.main" in imported and "dither.cli.ask" not in imported


ANSWERING = {"duckdb", "pyarrow", "rich", "dither.data.measure", "dither.answer.result"}
"""What a release, a table and a display need, and a preview does not."""
BESIDE = {"dither.postprocess", "dither.answer.suggest_limits", "dither.privacy.kernel.lease"}


def test_a_connection_and_a_preview_need_neither_an_engine_nor_numerics_beyond_numpy(
    tmp_path, monkeypatch
):
    """SciPy and mpmath are imported for Gaussian noise, derived results and choices alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    file, state = clinic.register(tmp_path, [clinic.row("1", "1")])
    clinic.open_total(state)
    connect = f"import dither\nconnection = dither.connect({str(file)!r})\n"
    question = "SELECT ward, COUNT(*) AS n, AVG(cost) AS m FROM visits GROUP BY ward"
    imported = list_imported(f"{connect}connection.preview({question!r}, epsilon=1)")
    numerics = {"scipy", "mpmath", "matplotlib", "pandas"}
    assert not imported & {*numerics, *ANSWERING, *BESIDE}
    answered = list_imported(f"{connect}connection.sql({question!r}, epsilon=1).table")
    assert answered >= {"duckdb", "pyarrow", "dither.data.measure", "dither.answer.result"}


SERVING = {"fastapi", "starlette", "uvicorn", "httpx", "anyio"}


def test_nothing_of_a_server_is_imported_by_those_who_serve_nothing(tmp_path, monkeypatch):
    """pydantic is left out for commands: typer itself imports it where it is installed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    listing = "import sys; sys.argv = ['dither', 'token', 'list']\nfrom dither.cli import main\n"
    names = "import dither; dither.connect, dither.connect_async"
    assert not list_imported(names) & {*SERVING, "pydantic"}
    assert not list_imported(f"{listing}try: main()\nexcept SystemExit: pass") & SERVING
