"""A child process for `test_spark_executors.py`, with two executors of which it kills some.

It registers a clinic, asks, kills executors while a statement runs, and prints what came of it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from dither import connect, steward
from dither.data.engines.spark.engine import SparkEngine
from dither.state import State
from tests.data.engines.test_spark_registration import write_sources
from tests.datasets import clinic

COUNT = "SELECT COUNT(*) AS n FROM visits"


def list_executors(port: str) -> list[int]:
    """The processes of executors of the driver that listens at a port."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        is_executor = b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words
        if is_executor and f"127.0.0.1:{port}".encode() in b" ".join(words):
            found.append(int(folder.name))
    return found


def main(folder: Path) -> None:
    rows = [clinic.row(f"v{i}", f"p{i}") for i in range(50)]
    write_sources(folder / "source", clinic.catalog(), {"visits": rows})
    file = folder / "clinic.yaml"
    line = f"source: {{engine: spark, location: {folder / 'source'}}}"
    file.write_text(clinic.CATALOG.replace("source: {engine: csv, location: .}", line))
    steward.register(file)
    state = State.beside(file)
    clinic.open_total(state)
    con = connect(file)
    con.sql(COUNT, epsilon="0.1")
    engine = con._kernel.connect(con._kernel.version).engine
    port = engine.session.sparkContext.getConf().get("spark.driver.port")
    killed: list[int] = []
    runs: list[int] = []
    honest = SparkEngine.fetch_table

    def fetch_and_kill(self: SparkEngine, run: str) -> Any:
        runs.append(1)
        for process in list_executors(port)[:1]:
            os.kill(process, signal.SIGKILL)
            killed.append(process)
        return honest(self, run)

    SparkEngine.fetch_table = fetch_and_kill  # type: ignore[method-assign]
    answered = con.sql("SELECT SUM(age) AS s FROM visits", epsilon="0.1")
    print("answered", len(killed) > 0, len(runs), answered.to_arrow(intervals=False).num_rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
