"""An executor that dies: the statement outlives it, and is sent once."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.all


def test_an_executor_that_is_killed(tmp_path):
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "pip install 'dither[spark]'"
    environment = {
        **os.environ,
        "SPARK_HOME": str(Path(spec.origin).parent),
        "DITHER_SPARK_MASTER": "local-cluster[2,1,1024]",
        "XDG_STATE_HOME": str(tmp_path / "home"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.data.engines.lost_executors", str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    # the executor was killed, one statement was sent, one row came
    assert "answered True 1 1" in done.stdout.splitlines()
