"""Trying limits: exact sums for typed numbers, the law of the noise, and no data anywhere."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dither.console.limit_trials import invent_rows, read_rows, try_limits
from dither.errors import ParameterError
from tests.console.page_visitors import visit

TYPED = "1 500\n2 120\n10 8"


def test_rows_left_out_are_counted_exactly():
    """By hand: 500 + 240 + 80 = 820 rows; over a limit of 2 only the eight people's 64 are cut."""
    trials = {trial.limit: trial for trial in try_limits(read_rows(TYPED), Fraction(1, 10))}
    assert trials[1].left_out == 120 + 8 * 9
    assert trials[2].left_out == 64 and trials[2].left_out_share == 64 / 820
    assert trials[10].left_out == 0
    assert max(trials) == 10


def test_the_noise_is_that_of_a_count_with_this_limit():
    """P(|z| > t) = 2 a^(t+1) / (1 + a), a = exp(-epsilon / limit): the least t with at most 5%."""
    for trial in try_limits(read_rows(TYPED), Fraction(1, 10)):
        a = math.exp(-0.1 / trial.limit)
        tails = [2 * a ** (t + 1) / (1 + a) for t in (trial.half_width, trial.half_width - 1)]
        assert tails[0] <= 0.05 < tails[1]


def test_invented_people_have_the_average_that_was_asked_for():
    for mean in (Fraction(1), Fraction(3, 2), Fraction(30)):
        people = invent_rows(1_000, mean)
        assert sum(people.values()) == 1_000
        rows = sum(number * count for number, count in people.items())
        assert abs(rows / 1_000 - mean) < mean / 100


@pytest.mark.parametrize("text", ["", "1", "1 2 3", "0 5", "-1 5", "a b", "1 1.5", "1 " + "9" * 14])
def test_numbers_that_are_none_are_refused(text):
    with pytest.raises(ParameterError):
        read_rows(text)


def test_the_page_tries_limits_and_wants_public_numbers(shared):
    visitor = visit(shared, "steward")
    spent = shared.read_spent()
    assert "errs least" in visitor.get("/catalog/limits").text
    fields = {"by": "typed", "rows": TYPED, "epsilon": "0.1"}
    refused = visitor.post("/catalog/limits", fields)
    assert "say that the numbers are public" in refused.text and "errs least" not in refused.text
    page = visitor.post("/catalog/limits", {**fields, "is_public": "yes"})
    assert "the limit 2 errs least" in page.text or "the limit 1 errs least" in page.text
    assert 'type="file"' not in page.text and shared.read_spent() == spent


@pytest.mark.parametrize(
    "terms", [{"mean": "0.5"}, {"mean": "nan"}, {"epsilon": "0"}, {"people": "x"}]
)
def test_a_bad_number_is_named_and_the_form_stays(shared, terms):
    page = visit(shared, "steward").post("/catalog/limits", terms)
    assert page.status_code == 200 and 'role="alert"' in page.text
