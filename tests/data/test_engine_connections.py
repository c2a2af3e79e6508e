"""Connections to a registered copy: what they show, and how they end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb

FORKS = """
import os, sys
from pathlib import Path
import duckdb
from dither.data.engines.duckdb import open_registered
duckdb.connect(sys.argv[1]).execute("CREATE TABLE t AS SELECT * FROM range(1000) r(i)").close()
kept = open_registered(Path(sys.argv[1]))
kept.execute("SELECT sum(i) FROM t").fetchall()
child = os.fork()
if not child:
    sys.exit(3)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
kept.close()
sys.exit(0 if code == 3 else 1)
"""


def test_a_forked_child_ends_as_it_says(tmp_path: Path) -> None:
    """Its interpreter let go of the inherited connection at the end, and crashed: exit code -11 for
    3."""
    ended = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path / "x.duckdb")], capture_output=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr.decode()[-300:]


def test_no_bar_tells_how_long_a_measurement_took(tmp_path: Path) -> None:
    """In a notebook and under `python -c` DuckDB printed "100% (00:00:04.15 elapsed)" below a
    private answer."""
    duckdb.connect(str(tmp_path / "data.duckdb")).close()
    told = (
        "print(*(opened.sql(f\"SELECT current_setting('{of}')\").fetchall()[0][0] for of in names))"
    )
    code = (
        "from pathlib import Path; from dither.data.engines.duckdb import open_registered, duckdb; "
        f"path = {str(tmp_path / 'data.duckdb')!r}; names = ['enable_progress_bar', "
        f"'lock_configuration']; "
        f"opened = open_registered(Path(path)); {told}; again = open_registered(Path(path)); "
        f"opened.close(); "
        f"opened = again; {told}; opened.close(); opened = duckdb.connect(path); {told}"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["False True", "False True", "True False"], found.stderr
