"""`connect(frame, catalog=...)`: library mode, which starts from zero and promises no total."""

from __future__ import annotations

import gc
import os
import signal
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from dither import BudgetError, DitherError, ParameterError, PrivacyWarning, RefusedError, connect
from dither.catalog import parse
from dither.cli.main import app
from dither.publish.library import NO_TOTAL
from dither.steward import list_lineages
from tests.datasets import clinic

CATALOG = """\
dither: 1
dataset: survey
lineage: survey
population: readers
neighbours: add_remove
unit: {kind: person}
people: {who: {protected: true}}
source: {engine: csv, location: .}
tables:
  survey:
    kind: private
    from: survey.csv
    owner: {column: who}
    unique: []
    rows_per_unit: 1
    max_rows: 1000
    columns:
      who:    {type: id}
      hours:
        {type: integer, bounds: [0, 168], nulls: keep, provenance: a week, from: hours-per-week}
      school: {type: category, values: [a, b], other: keep, nulls: keep}
"""
COUNT = "SELECT school, COUNT(*) AS n FROM survey GROUP BY school"
ROWS = 200


def make_columns() -> dict[str, list[object]]:
    return {
        "who": [f"p{i}" for i in range(ROWS)],
        "hours-per-week": [40] * ROWS,
        "school": ["a", "b"] * (ROWS // 2),
        "secret": [1] * ROWS,
    }


def make_pandas() -> pd.DataFrame:
    frame = pd.DataFrame(make_columns())
    frame["school"] = frame["school"].astype("category").cat.add_categories("nobody has this")
    return frame


def make_polars() -> pl.DataFrame:
    return pl.DataFrame(make_columns()).with_columns(pl.col("school").cast(pl.Categorical))


def make_arrow() -> pa.Table:
    table = pa.table(make_columns())
    return table.set_column(2, "school", table.column("school").dictionary_encode())


def open_frame(frame: object, **options: object):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return connect(frame, catalog=parse(CATALOG), **options)


def frames_folder() -> Path:
    return Path(os.environ["XDG_STATE_HOME"]) / "dither" / "frames"


def list_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]


@pytest.mark.parametrize("make", [make_pandas, make_polars, make_arrow])
def test_a_frame_of_each_library_is_asked(make):
    """At epsilon 100 the noise of a count is 0 but with probability below 1e-40."""
    con = open_frame(make(), epsilon=200)
    res = con.sql(COUNT, epsilon=100)
    assert res.to_dict()["n"] == [ROWS // 2, ROWS // 2, 0, 0]
    assert res.to_dict()["school"] == ["a", "b", "other", None]
    mean = con.sql("SELECT AVG(hours) AS h FROM survey", epsilon=90)
    assert abs(mean.to_dict()["h"][0] - 40) < 1


def test_what_leaves_says_library_and_no_total():
    with pytest.warns(PrivacyWarning, match="no total"):
        con = connect(make_pandas(), catalog=parse(CATALOG))
    res = con.sql(COUNT, epsilon=0.5)
    assert res.info["context"] == "library" and res.info["library"] == NO_TOTAL
    shown = str(con.budget())
    assert NO_TOTAL in shown and "whatever is asked" not in shown
    assert con.budget().worst_case() is None
    assert NO_TOTAL in con.budget().guarantee(con.budget().pots[0]).label


def test_there_is_no_certificate():
    res = open_frame(make_pandas()).sql(COUNT, epsilon=0.5)
    with pytest.raises(ParameterError, match="no certificate of a dataset"):
        res.certificate()


def test_each_connection_starts_from_zero_and_stops_at_its_own_budget():
    for _ in range(2):
        con = open_frame(make_pandas())
        assert con.budget().pots[0].spent == 0
        with pytest.raises(BudgetError):
            con.sql(COUNT, epsilon=1.1)


def test_no_lineage_is_remembered_and_a_registered_dataset_is_not_touched(tmp_path):
    _, place = clinic.register(tmp_path, [clinic.row("v", "p")])
    clinic.open_total(place)
    before = list_lineages()
    con = open_frame(make_pandas())
    con.sql(COUNT, epsilon=0.5)
    assert list_lineages() == before


def test_the_copy_is_0600_and_holds_declared_columns_only():
    con = open_frame(make_pandas())
    con.sql(COUNT, epsilon=0.5)
    files = list_files(frames_folder())
    assert any(file.name == "data.duckdb" for file in files)
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(frames_folder().stat().st_mode) == 0o700
    assert not any(b"secret" in file.read_bytes() for file in files)
    assert not [file for file in files if file.suffix == ".parquet"]


def test_the_copy_is_removed_with_the_connection():
    con = open_frame(make_pandas())
    con.sql(COUNT, epsilon=0.5)
    del con
    gc.collect()
    assert list_files(frames_folder().parent) == []


def test_a_connection_that_goes_takes_no_other_with_it(tmp_path, monkeypatch):
    """Also where the environment names another state home by then."""
    first = open_frame(make_arrow())
    first_files = frames_folder()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    second = open_frame(make_arrow())
    third = open_frame(make_arrow())
    del first, second
    gc.collect()
    assert list_files(first_files.parent) == []
    third.sql(COUNT, epsilon=0.5)
    assert any(file.name == "data.duckdb" for file in list_files(frames_folder()))


def test_a_copy_is_removed_where_registration_fails():
    frame = make_pandas().drop(columns="school")
    with pytest.raises(DitherError, match="missing or twice: school"):
        open_frame(frame)
    assert list_files(frames_folder().parent) == []


SCRIPT = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
from tests.test_frames import make_arrow, open_frame
con = open_frame(make_arrow())
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_dead_process_left_is_removed_at_the_next_connect():
    """A folder whose lock nobody holds belongs to nobody alive."""
    abandoned = frames_folder() / "1-0" / "0123456789abcdef" / "state"
    abandoned.mkdir(parents=True)
    (frames_folder() / "1-0" / "lock").touch()
    (abandoned / "data.duckdb").write_bytes(b"rows")
    con = open_frame(make_arrow())
    assert not abandoned.exists()
    con.sql(COUNT, epsilon=0.5)


@pytest.mark.all
def test_what_a_killed_process_left_is_removed_at_the_next_connect():
    ran = subprocess.run([sys.executable, "-c", SCRIPT], cwd=Path(__file__).parents[1], check=False)
    assert ran.returncode == -signal.SIGKILL
    left_over = [file for file in list_files(frames_folder()) if file.name == "data.duckdb"]
    assert len(left_over) == 1
    con = open_frame(make_arrow())
    assert not left_over[0].exists()
    con.sql(COUNT, epsilon=0.5)


def test_the_state_of_a_connection_gives_no_report_and_no_certificate(tmp_path):
    con = open_frame(make_pandas())
    con.sql(COUNT, epsilon=0.5)
    (ledger,) = frames_folder().rglob("ledger.sqlite")
    file = tmp_path / "survey.yaml"
    file.write_text(CATALOG)
    state = ["--state", str(ledger.parent)]
    target = str(tmp_path / "out")
    for words in (
        ["budget", "show", str(file)],
        ["report", str(file), "--to", target],
        ["registry", "export", str(file), "--to", target],
        ["status", str(file)],
        ["discard", str(file), "--yes"],
    ):
        ran = CliRunner().invoke(app, [*words, *state])
        assert isinstance(ran.exception, RefusedError), words
        assert "no total" in str(ran.exception)


def test_types_of_a_frame_are_no_domain():
    """A value that is missing turns whole numbers into floats; what is asked is the same."""
    whole = make_pandas()
    missing = make_pandas()
    missing.loc[0, "hours-per-week"] = None
    assert str(missing["hours-per-week"].dtype) == "float64"
    answers = [
        open_frame(frame, epsilon=200).sql("SELECT SUM(hours) AS h FROM survey", epsilon=190)
        for frame in (whole, missing)
    ]
    first, second = (answer.to_dict()["h"][0] for answer in answers)
    assert abs(first - 40 * ROWS) < 50 and abs(second - 40 * (ROWS - 1)) < 50


def test_objects_become_texts_value_by_value():
    """One person's odd value changes nothing for others."""
    frame = make_pandas()
    frame["hours-per-week"] = frame["hours-per-week"].astype(object)
    frame.at[0, "hours-per-week"] = "forty"
    frame.at[1, "hours-per-week"] = {"a": 1}
    con = open_frame(frame, epsilon=200)
    counted = con.sql("SELECT COUNT(hours) AS n FROM survey", epsilon=100)
    assert counted.to_dict()["n"] == [ROWS - 2]


def test_an_id_that_is_a_rounded_number_is_refused():
    frame = make_pandas()
    frame["who"] = [float(i) for i in range(ROWS)]
    with pytest.raises(DitherError, match="rounded number"):
        open_frame(frame)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((make_arrow(),), {}, "a data frame with its catalog"),
        ((make_arrow(),), {"catalog": parse(CATALOG), "pot": "total"}, "no budget and no state"),
        (([1, 2],), {"catalog": parse(CATALOG)}, "pandas or polars"),
        (({"other": make_arrow()},), {"catalog": parse(CATALOG)}, "tables survey"),
        (("clinic.yaml",), {"epsilon": 1}, "opened by its data steward"),
        ((), {}, "connect takes the catalog"),
    ],
)
def test_other_uses_are_refused_with_the_remedy(arguments, options, words):
    with pytest.raises(ParameterError, match=words):
        connect(*arguments, **options)


def test_frames_by_the_names_of_their_tables():
    con = open_frame({"survey": make_arrow()}, epsilon=200)
    assert con.sql(COUNT, epsilon=100).to_dict()["n"][:2] == [ROWS // 2, ROWS // 2]


def test_a_catalog_given_by_keyword_is_opened_as_ever(tmp_path):
    file, place = clinic.register(tmp_path, [clinic.row("v", "p")])
    clinic.open_total(place)
    assert connect(catalog=file).catalog == connect(file).catalog
