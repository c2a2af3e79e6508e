"""dither: the file is registered (load), then asked through con.sql at epsilon 1, with a charge in
the ledger."""

from __future__ import annotations

import os
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from work import EPSILON, KEYS, ROWS_PER_OWNER, TOP, tell

CATALOG = f"""\
dither: 1
dataset: peers
lineage: peers
population: nobody
neighbours: add_remove
unit: {{kind: person}}
people: {{owner: {{protected: true}}}}
source: {{engine: parquet, location: .}}
tables:
  t:
    kind: private
    from: t.parquet
    owner: {{column: owner}}
    unique: []
    rows_per_unit: {ROWS_PER_OWNER}
    max_rows: 100000000
    columns:
      owner: {{type: id}}
      key:   {{type: category, values: [{", ".join(KEYS)}], other: drop, nulls: drop}}
      x:     {{type: decimal, bounds: [0, {TOP:g}], resolution: 0.01, nulls: drop,
          provenance: invented}}
"""
PURPOSE = {
    "question": "How fast is one question?",
    "population": "people who were invented",
    "recipient": "a person at a desk",
}
KEPT = tempfile.TemporaryDirectory()


def load(file: str) -> Any:
    folder = Path(KEPT.name)
    os.environ["XDG_STATE_HOME"] = str(folder / "heads")
    from dither import connect, steward
    from dither.catalog import load as read
    from dither.state import State

    (folder / "t.parquet").symlink_to(Path(file).resolve())
    catalog = folder / "peers.yaml"
    catalog.write_text(CATALOG)
    steward.register(catalog)
    steward.open_pot(
        State.beside(catalog),
        read(catalog),
        "total",
        epsilon="9000",
        ceiling="10000",
        purpose=PURPOSE,
    )
    return connect(catalog)


def by_key(con: Any) -> dict[str, list[float]]:
    question = "SELECT key, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a FROM t GROUP BY key"
    columns = con.sql(question, epsilon=EPSILON, fresh=True).to_dict(intervals=False)
    rows = zip(columns["key"], columns["n"], columns["s"], columns["a"], strict=True)
    return {key: [float(n), float(s), float(a)] for key, n, s, a in rows}


def median(con: Any) -> float:
    answer = con.sql(
        "SELECT MEDIAN(x) AS m FROM t", epsilon=EPSILON, fresh=True, quantile_intervals=False
    ).to_dict(intervals=False)
    return float(answer["m"][0])


def ours_version() -> str:
    try:
        return version("dither")
    except PackageNotFoundError:
        import dither

        return dither.__version__


tell(
    load, {"keys": by_key, "median": median},
    "box noise for count and sum together; rows_per_unit 10, keys declared, x a decimal of two "
    "places; one con.sql at epsilon 1 with a durable charge; intervals, which the others have none "
    "of, are made when they are read, and are not read here; the median without an interval; load "
    "is registration",
    ours_version(),
)  # fmt: skip
