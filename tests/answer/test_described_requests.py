"""What the history says of a stored request, for every kind of query."""

import json
from pathlib import Path

import pytest

from dither.answer.history import describe_request

SAVED = json.loads(Path(__file__).parents[1].joinpath("stored_samples.json").read_text())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("linear", "an operator over count from visits by ward"),
        ("scores", "a choice by count from visits by ward"),
        ("jointscores", "a choice by count from visits by ward"),
        ("unitvectors", "vectors of units from visits"),
        ("quantiles", "quantiles of age from visits"),
        ("keys", "keys from visits by ward"),
    ],
)
def test_every_kind_of_query_is_said_in_words(kind, words):
    query = next(query for query in SAVED["plans"] if query["type"] == kind)
    assert describe_request({"steps": [{"query": query}]}).startswith(words)


def test_a_lease_is_the_steps_of_an_algorithm() -> None:
    assert describe_request({}) == "the steps of an algorithm, paid together"
