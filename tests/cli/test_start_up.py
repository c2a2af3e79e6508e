"""What a command imports: little, unless it is needed."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("duckdb", "numpy", "pyarrow", "scipy", "sqlalchemy", "sqlglot", "mpmath", "matplotlib")


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


def test_a_connection_and_a_preview_need_no_numerics_beyond_numpy(tmp_path, monkeypatch):
    """SciPy and mpmath are imported for Gaussian noise, derived results and choices alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    code = (
        "from pathlib import Path\n"
        "from tests.datasets import clinic\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "file, state = clinic.register(folder, [clinic.row('1', '1')])\n"
        "clinic.open_total(state)\n"
        "import dither\n"
        "question = 'SELECT ward, COUNT(*) AS n, AVG(cost) AS m FROM visits GROUP BY ward'\n"
        "dither.connect(file).preview(question, epsilon=1)"
    )
    assert not list_imported(code) & {"scipy", "mpmath", "matplotlib", "pandas"}


SERVING = {"fastapi", "starlette", "uvicorn", "httpx", "anyio"}


def test_nothing_of_a_server_is_imported_by_those_who_serve_nothing(tmp_path, monkeypatch):
    """pydantic is left out for commands: typer itself imports it where it is installed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    listing = "import sys; sys.argv = ['dither', 'token', 'list']\nfrom dither.cli import main\n"
    names = "import dither; dither.connect, dither.connect_async"
    assert not list_imported(names) & {*SERVING, "pydantic"}
    assert not list_imported(f"{listing}try: main()\nexcept SystemExit: pass") & SERVING
