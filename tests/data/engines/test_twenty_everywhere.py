"""The twenty questions of the tutorial: the same exact integers on every engine, by one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from dither.cli.clinic import write_clinic
from tests.case_lists import mark_between
from tests.data.engines.clinics import (
    change_engine,
    load_into_postgres,
    register_clinic,
    write_parquet,
)
from tests.test_twenty_questions import QUESTIONS, noiseless

KEY = bytes(range(32))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("clinics") / "files"
    write_clinic(folder, 1500)
    return folder


@pytest.fixture(scope="module")
def in_files(folder):
    return register_clinic(change_engine(folder, folder.with_name("duckdb"), LINE_OF_FILES), KEY)


@pytest.fixture(scope="module")
def in_postgres(folder, postgres):
    load_into_postgres(folder, postgres, "clinic")
    location = f"{postgres}&options=-csearch_path%3Dclinic"
    line = f'source: {{engine: postgres, location: "{location}"}}'
    return register_clinic(change_engine(folder, folder.with_name("postgres"), line), KEY)


@pytest.fixture(scope="module")
def in_spark(folder):
    target = folder.with_name("parquet")
    write_parquet(folder, target)
    line = f"source: {{engine: spark, location: {target}}}"
    return register_clinic(change_engine(folder, folder.with_name("spark"), line), KEY)


LINE_OF_FILES = "source: {engine: csv, location: .}"


@pytest.mark.parametrize("title", mark_between(QUESTIONS, step=3))
def test_postgres(in_files, in_postgres, title):
    check_question(in_files, in_postgres, title)


@pytest.mark.all
@pytest.mark.parametrize("title", QUESTIONS)
def test_spark(in_files, in_spark, title):
    check_question(in_files, in_spark, title)


def check_question(in_files, elsewhere, title):
    """Plan, price, noise and exact integers agree; the engine alone is another."""
    offer, priced, values = noiseless(in_files, QUESTIONS[title])
    other_offer, other, other_values = noiseless(elsewhere, QUESTIONS[title])
    assert other_values == values
    assert other_offer.recipe.queries == offer.recipe.queries
    assert other.loss == priced.loss
    assert [step.mechanism for step in other.steps] == [step.mechanism for step in priced.steps]
