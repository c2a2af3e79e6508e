"""`dither quickstart`: few decisions, safe defaults, and nothing read off the data."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import duckdb
import pexpect
import pytest
from click.testing import Result
from typer.testing import CliRunner

import dither
from dither import BudgetError, ParameterError, RefusedError, connect, steward
from dither.catalog import Undeclared, load
from dither.cli.main import app
from dither.state import State
from tests.case_lists import mark_rest
from tests.datasets import adult, clinic

DECIDED = ["--header", "--person", "none", "--no-two-rows", "--max-rows", "100000"]
COLUMNS = ["--column", "hours-per-week = hours_a_week", "--column", "education = labels"]
PURPOSE = ["--purpose", "How long do people work, by education?"]
MOST_DECISIONS = 9


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["quickstart", *words], env={"COLUMNS": "200"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    adult.write_adult(tmp_path / "adult.csv", rows=400)
    return tmp_path / "adult.csv"


def test_flags_alone_lead_to_a_registered_dataset_with_safe_defaults(file):
    ran = run(str(file), *DECIDED, *COLUMNS, *PURPOSE)
    assert ran.exit_code == 0, ran.exception
    catalog = load(file.with_suffix(".yaml"))
    assert (catalog.neighbours, catalog.unit.one_row_is) == ("add_remove", "person")
    assert catalog.table("adult").max_rows == 100_000
    assert catalog.table("adult").column_names == ("hours_per_week", "education")
    assert isinstance(catalog.table("adult").column("education").values, Undeclared)
    state = State.beside(file.with_suffix(".yaml"))
    assert steward.read_registered(state).public["context"] == "prod"
    (pot,) = connect(file.with_suffix(".yaml")).budget().pots
    assert (pot.cap, pot.ceiling, float(pot.rule.delta)) == (1, 1, 1e-9)
    assert pot.spent == 0
    assert "SELECT education, AVG(hours_per_week)" in ran.output
    assert "for one person (asserted, not checked)" in ran.output


def test_the_first_question_can_be_asked_at_once(file):
    ran = run(str(file), *DECIDED, *COLUMNS, *PURPOSE, "--ask")
    assert ran.exit_code == 0, ran.exception
    con = connect(file.with_suffix(".yaml"))
    assert 0.49 < con.budget().pots[0].spent <= 0.5
    with pytest.raises(BudgetError):
        con.sql("SELECT COUNT(*) AS n FROM adult", epsilon=0.6)


def test_json_is_one_document_with_the_answer_and_words_go_elsewhere(file):
    ran = run(str(file), *DECIDED, *COLUMNS, *PURPOSE, "--ask", "--json")
    assert ran.exit_code == 0, ran.exception
    document = json.loads(ran.stdout)
    assert document["catalog"] == str(file.with_suffix(".yaml")) and document["registered"]
    assert document["budget"] == {"epsilon": "1", "delta": "1e-9"}
    assert set(document["answer"]) > {"education"}


def test_bounds_of_a_wide_column_can_be_bought_from_the_budget(file):
    ran = run(str(file), *DECIDED, "--column", "hours-per-week=wide", *PURPOSE)
    assert ran.exit_code == 0, ran.exception
    (line,) = [line for line in ran.output.splitlines() if line.startswith("to buy bounds")]
    call = line.partition("in Python: ")[2]
    suggestion = eval(call, {"dither": dither})
    assert suggestion.info["pot"] == "total"
    assert 0 < connect(file.with_suffix(".yaml")).budget().pots[0].spent <= 0.2


def test_the_catalog_the_decisions_and_the_output_are_the_same_whatever_the_rows_are(tmp_path):
    """P50: files with one header, of other values, dtypes, labels and lengths."""
    outputs = set()
    catalogs = set()
    rows = ["", "1,x\n", "?, ?\n" * 3, "Holand-Netherlands,2.5\n" * 50]
    for number, text in enumerate(rows):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "a.csv").write_text(f"x,y\n{text}")
        flags = [*DECIDED, "--column", "x=labels", "--column", "y=age", "--relation", "*=disjoint"]
        ran = run(str(folder / "a.csv"), *flags, *PURPOSE)
        assert ran.exit_code == 0, ran.exception
        outputs.add(ran.output.replace(str(folder), "FOLDER"))
        catalogs.add((folder / "a.yaml").read_bytes())
    assert len(outputs) == 1 and len(catalogs) == 1


def test_a_draft_reads_the_header_line_and_nothing_after_it(tmp_path):
    """A pipe that ends neither a line nor itself: reading on would wait for ever."""
    pipe = tmp_path / "adult.csv"
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDWR)
    os.write(descriptor, adult.HEADER.encode() + b"\nsecret")
    done = threading.Event()
    outcome: list[Result] = []

    def work() -> None:
        outcome.append(run(str(pipe), *DECIDED, *COLUMNS, "--draft"))
        done.set()

    threading.Thread(target=work, daemon=True).start()
    assert done.wait(120)
    assert outcome[0].exit_code == 0, outcome[0].exception
    assert os.read(descriptor, 100) == b"secret"
    os.close(descriptor)
    assert not (tmp_path / "adult.dither").exists()


def test_without_a_word_that_there_is_a_header_not_even_that_line_is_read(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("Ann,34\n")
    for flags in ([], ["--no-header"]):
        ran = run(str(tmp_path / "a.csv"), *flags)
        assert ran.exit_code == 1
        assert "Ann" not in f"{ran.output}{ran.exception}"


@pytest.mark.parametrize("ending", mark_rest(["parquet", "duckdb"], quick=1))
def test_types_and_labels_of_a_schema_are_not_read(tmp_path, ending):
    catalogs = set()
    values = ("1::INT", "'secret'::VARCHAR", "'secret'::ENUM('secret', 'other')")
    for number, value in enumerate(values):
        folder = tmp_path / str(number)
        folder.mkdir()
        base = folder / ("base.duckdb" if ending == "parquet" else "v.duckdb")
        with duckdb.connect(str(base)) as connection:
            connection.execute(f"CREATE TABLE v AS SELECT {value} AS x")
            if ending == "parquet":
                connection.execute(f"COPY v TO '{folder}/v.parquet'")
        flags = ["--person", "none", "--two-rows", "--max-rows", "10", "--column", "x=labels"]
        ran = run(str(folder / f"v.{ending}"), *flags, "--draft", "--table", "v")
        assert ran.exit_code == 0, ran.exception
        assert "secret" not in ran.output
        catalogs.add((folder / "v.yaml").read_text())
    assert len(catalogs) == 1


@pytest.mark.parametrize("missing", ["--person", "--max-rows", "--purpose"])
def test_nothing_that_protects_has_a_default(file, missing):
    words = [*DECIDED, *COLUMNS, *PURPOSE]
    at = words.index(missing)
    ran = run(str(file), *words[:at], *words[at + 2 :])
    assert isinstance(ran.exception, ParameterError)
    assert f"{missing} is missing" in str(ran.exception)
    assert not file.with_suffix(".yaml").exists()


def test_whether_a_person_is_in_two_rows_must_be_said(file):
    words = [word for word in DECIDED if word != "--no-two-rows"]
    ran = run(str(file), *words, *COLUMNS, *PURPOSE)
    assert "--no-two-rows is missing" in str(ran.exception)


def test_a_person_in_two_rows_is_not_asserted_to_be_one(file):
    words = ["--two-rows" if word == "--no-two-rows" else word for word in DECIDED]
    ran = run(str(file), *words, *COLUMNS, "--draft")
    assert ran.exit_code == 0, ran.exception
    assert load(file.with_suffix(".yaml")).unit.label == "row"
    assert "each row is protected by itself" in ran.output


def test_a_person_is_a_column_with_a_limit_of_rows(tmp_path):
    clinic.register(tmp_path / "other", [clinic.row("v", "p")])
    clinic.write_csv(tmp_path / "visits.csv", [clinic.row("v", "p")])
    words = ["--header", "--person", "patient", "--max-rows", "1e3", "--column", "age=age"]
    ran = run(str(tmp_path / "visits.csv"), *words, "--draft")
    assert "--rows-per-person is missing" in str(ran.exception)
    ran = run(str(tmp_path / "visits.csv"), *words, "--rows-per-person", "3", "--draft")
    assert ran.exit_code == 0, ran.exception
    catalog = load(tmp_path / "visits.yaml")
    assert catalog.unit.label == "person" and catalog.table("visits").rows_per_unit == 3


def test_the_first_question_is_one_that_has_an_answer(tmp_path):
    """Where people have many rows, labels that nobody listed would leave an empty table, paid."""
    clinic.write_csv(tmp_path / "visits.csv", [clinic.row(f"v{i}", f"p{i}") for i in range(9)])
    words = ["--header", "--person", "patient", "--rows-per-person", "3", "--max-rows", "1e3"]
    columns = ["--column", "age=age", "--column", "ward=labels"]
    ran = run(str(tmp_path / "visits.csv"), *words, *columns, *PURPOSE, "--ask")
    assert ran.exit_code == 0, ran.exception
    said = " ".join(ran.output.split())
    assert "a first question: SELECT AVG(age) AS average_age FROM visits GROUP" not in said
    assert "a first question: SELECT AVG(age) AS average_age FROM visits " in said
    grouped = "SELECT ward, AVG(age) AS average_age FROM visits GROUP BY ward"
    assert f"'{grouped}' --epsilon 0.5 --max-groups 1" in said
    assert "no group is shown" not in said


def test_labels_that_are_listed_are_asked_by(tmp_path):
    clinic.write_csv(tmp_path / "visits.csv", [clinic.row(f"v{i}", f"p{i}") for i in range(9)])
    words = ["--header", "--person", "patient", "--rows-per-person", "3", "--max-rows", "1e3"]
    columns = ["--column", "age=age", "--column", "ward=north | south"]
    said = " ".join(run(str(tmp_path / "visits.csv"), *words, *columns, *PURPOSE).output.split())
    assert "SELECT ward, AVG(age) AS average_age FROM visits GROUP BY ward" in said
    assert "by labels: list them" not in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-rows", "32561"], "power of ten"),
        (["--column", "hours=age"], "there is no column"),
        (["--column", "age=years"], "no kind of quantity"),
        (["--delimiter", "ab"], "--delimiter must be"),
        (["--purpose", "hours"], "write a sentence"),
    ],
)
def test_wrong_decisions_are_refused_before_anything_is_written(file, words, said):
    ran = run(str(file), *DECIDED, *COLUMNS, *PURPOSE, *words)
    assert said in str(ran.exception)
    assert [path.name for path in file.parent.iterdir()] == ["adult.csv"]


def test_a_file_that_cannot_be_registered_leaves_no_catalog_behind(file):
    """So that quickstart can begin again once the file is mended."""
    text = file.read_text()
    file.write_text(f'{text}"never closed, 1\n2\n')
    ran = run(str(file), *DECIDED, *COLUMNS, *PURPOSE)
    assert "span several lines" in str(ran.exception)
    assert not file.with_suffix(".yaml").exists()
    file.write_text(text)
    assert run(str(file), *DECIDED, *COLUMNS, *PURPOSE).exit_code == 0


def test_a_dataset_that_exists_is_not_begun_again(file):
    file.with_suffix(".yaml").write_text("dither: 1\n")
    assert "begins a dataset" in str(run(str(file)).exception)
    assert file.with_suffix(".yaml").read_text() == "dither: 1\n"


def test_real_files_are_never_registered_as_invented_ones(file):
    ran = run(str(file), *DECIDED, *COLUMNS, *PURPOSE, "--dev")
    assert ran.exit_code == 2 and "--dev" in ran.output


def test_another_dataset_of_the_machine_must_be_related(file, tmp_path):
    _, place = clinic.register(tmp_path / "clinic", [clinic.row("v", "p")])
    clinic.open_total(place)
    ran = run(str(file), *DECIDED, *COLUMNS, *PURPOSE)
    assert "--relation clinic@" in str(ran.exception)
    assert not file.with_suffix(".yaml").exists()
    ran = run(str(file), *DECIDED, *COLUMNS, *PURPOSE, "--relation", "*=disjoint")
    assert ran.exit_code == 0, ran.exception


def test_from_a_raw_file_to_an_answer_in_nine_decisions_at_a_terminal(file):
    """Every answer that a person types is a decision, also the Enter that ends a list."""
    answers = [
        ("hold the names of the columns", "yes"),
        ("Which column names the person", "none"),
        ("Could one person be in two rows", "no"),
        ("A power of ten", "100000"),
        ("A column that may be asked about", "hours-per-week = hours_a_week"),
        ("A column that may be asked about", "education = labels"),
        ("A column that may be asked about", ""),
        ("What is to be learned", "How long do people work, by education?"),
        ("Ask it now", "yes"),
    ]
    assert len(answers) <= MOST_DECISIONS
    command = ["-c", "from dither.cli import main; main()", "quickstart", str(file)]
    child = pexpect.spawn(sys.executable, command, encoding="utf-8", timeout=180)
    child.setwinsize(50, 200)
    for question, answer in answers:
        child.expect_exact(question)
        child.sendline(answer)
    child.expect_exact("average_hours_per_week")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, child.before
    assert "to ask again, for free: dither sql" in child.before


@pytest.mark.all
def test_ctrl_c_at_a_question_changes_nothing(file):
    command = ["-c", "from dither.cli import main; main()", "quickstart", str(file)]
    child = pexpect.spawn(sys.executable, command, encoding="utf-8", timeout=180)
    child.expect_exact("hold the names of the columns")
    child.sendintr()
    child.expect_exact("stopped; nothing changed")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert [path.name for path in file.parent.iterdir()] == ["adult.csv"]


def test_a_lineage_that_was_dev_is_no_way_around(file):
    """A quickstart dataset is about people; the command that throws data away refuses it."""
    run(str(file), *DECIDED, *COLUMNS, *PURPOSE)
    ran = CliRunner().invoke(app, ["discard", str(file.with_suffix(".yaml")), "--yes"])
    assert isinstance(ran.exception, RefusedError)
    assert State.beside(file.with_suffix(".yaml")).ledger.exists()
