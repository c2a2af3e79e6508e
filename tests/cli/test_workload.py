"""`dither workload`: previews and answers many counts together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dither.cli.main import app
from dither.errors import ParameterError
from dither.workloads import cube, identity, marginals, ranges, total
from dither.workloads.read_text import read_workload
from tests.workloads.conftest import Survey


def run(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def survey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Survey:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    made = Survey(tmp_path / "survey.yaml")
    made.write()
    made.connect("pure")
    return made


def test_a_preview_then_an_answer_and_its_files(survey: Survey, tmp_path: Path) -> None:
    words = ["workload", survey.file, "survey", "marginals(1, age, sex) + total()"]
    preview = run(*words, "--epsilon", "1")
    assert preview.exit_code == 0 and "no strategy is below" in preview.stdout
    document = json.loads(run(*words, "--epsilon", "1", "--json").stdout)
    assert [row["number"] for row in document["products"]] == [16, 2, 1]
    assert not document["stored"] and survey.read_spent() == 0
    answered = run(*words, "--epsilon", "1", "--ask", "--to", tmp_path / "out")
    assert answered.exit_code == 0, answered.output
    assert survey.read_spent() == pytest.approx(1)
    names = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert names == ["1-identity-age.csv", "2-identity-sex.csv", "3-total.csv", "certificate.json"]
    again = json.loads(run(*words, "--epsilon", "1", "--ask", "--nonnegative", "--json").stdout)
    assert survey.read_spent() == pytest.approx(1) and again["biased"]
    counts = again["tables"]["identity(sex)"]["count"]
    assert sum(counts) == again["tables"]["total"]["count"][0]
    assert all(count >= 0 and count == round(count) for count in counts)


@pytest.mark.parametrize(
    "words",
    [
        ["nothing(age)", "--epsilon", "1"],
        ["ranges(age)", "--epsilon", "1", "--to", "somewhere"],
        ["ranges(height)", "--epsilon", "1"],
        ["ranges(age)"],
    ],
    ids=str,
)
def test_bad_words_are_refused_and_cost_nothing(survey: Survey, words: list[str]) -> None:
    refused = run("workload", survey.file, "survey", *words)
    assert refused.exit_code == 1
    assert survey.read_spent() == 0


def test_texts_are_the_workloads_of_the_language() -> None:
    both = ranges("age") * identity("sex", "area") + 2 * total()
    assert read_workload("ranges(age) * identity(sex, 'area') + 2 * total()") == both
    assert read_workload("marginals(2, a, b, c)") == marginals(2, of=["a", "b", "c"])
    assert read_workload("cube(1, a, b)") == cube(["a", "b"], 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "age",
        "3",
        "ranges(age) - total()",
        "__import__('os')",
        "ranges(*columns)",
        "ranges(column=age)",
        "ranges(age).products",
        "True * total()",
        "total() + 1",
        "ranges('a' * 1000000000000)",
        "(" * 500,
        "x" * 20_000,
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_workload_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        read_workload(text)
