"""What a red team found: weights past float64, and a child's end after a fork."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.privacy.noise import argmax_exponential
from tests.sources import TestSource

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


@pytest.mark.parametrize("weight", [2**64 + 1, 2**1023, 2**1100], ids=["64", "1023", "1100"])
def test_a_weight_whose_float_ends_would_hold_no_key_is_refused(weight: int) -> None:
    """2**1023 had the lower end infinity: a certain winner, whatever the score of the other."""
    with pytest.raises(ParameterError):
        argmax_exponential([0, 10**4], 1, weights=[weight, 1], source=TestSource([2**64 - 2, 5], after=0))
    assert argmax_exponential([0, 10**4], 1, weights=[2**64, 1], source=TestSource([2**64 - 2, 5], after=0)) == 1


def test_words_that_were_drawn_are_one_for_each_score() -> None:
    for words in (np.zeros(3, np.uint64), np.zeros(2, np.int64)):
        with pytest.raises(ParameterError):
            argmax_exponential([0, 1], 1, words=words)


def test_a_forked_child_ends_as_it_says(tmp_path: Path) -> None:
    """Its interpreter let go of the inherited connection at the end, and crashed: exit code -11 for 3."""
    ended = subprocess.run([sys.executable, "-c", FORKS, str(tmp_path / "x.duckdb")], capture_output=True, timeout=60)
    assert ended.returncode == 0, ended.stderr.decode()[-300:]
