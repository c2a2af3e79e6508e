"""The preview says in words where an answer would be noise, from public bounds alone.

The figures are those of the clinic's catalog: at most 3 rows a person and 1,000 rows in all, scores
from -5 to 5. Laplace noise of scale 3 / epsilon lies beyond ln(20) * 3 / epsilon with 5%.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import dither
from dither import steward
from dither.answer.preview_noise import note_largest_group
from dither.state import State
from tests.datasets.clinic import CATALOG, PURPOSE, catalog, row, write_csv

WORDS = "this answer would be noise"


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory):
    folder: Path = tmp_path_factory.mktemp("clinic")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(folder / "xdg"))
        file = folder / "clinic.yaml"
        file.write_text(CATALOG)
        write_csv(folder / "visits.csv", [row(str(i), str(i % 40)) for i in range(100)])
        steward.register(file)
        pot = {"epsilon": 10, "ceiling": 20, "purpose": PURPOSE}
        steward.open_pot(State.beside(file), catalog(), "total", **pot)
        yield dither.connect(file)


def preview_notes(connection, question: str, epsilon: float, **terms) -> str:
    return "; ".join(connection.preview(question, epsilon=epsilon, **terms).columns[0].notes)


def test_a_count_of_which_the_noise_exceeds_all_rows(connection):
    """ln(20) * 3 = 8.99 > 1,000 * epsilon below epsilon 0.0089."""
    question = "SELECT COUNT(*) AS n FROM visits"
    assert WORDS not in preview_notes(connection, question, 0.01)
    assert WORDS in preview_notes(connection, question, 0.008)
    assert "± 1,12" in preview_notes(connection, question, 0.008)


def test_an_average_that_is_noise_however_many_rows_there_are(connection):
    question = "SELECT AVG(score) AS m FROM visits"
    assert WORDS not in preview_notes(connection, question, 1)
    assert WORDS in preview_notes(connection, question, 0.001)


def test_an_average_of_a_small_group(connection):
    """Ten rows: the sum errs by some 50, its average by 5; at epsilon 0.2 by more than the 10
    between the least and the largest score."""
    question = "SELECT AVG(score) AS m FROM visits"
    assert WORDS in preview_notes(connection, question, 0.2, group_size=10)
    assert WORDS not in preview_notes(connection, question, 0.2, group_size=1000)


def test_averages_of_averages_and_of_counts_are_no_noise_any_more(connection):
    """Release 0.1 clamped them to [-5000, 5000] and to [1, 1000], times twice the rows of a
    person."""
    by_day = "(SELECT day, AVG(score) AS m, COUNT(*) AS n FROM visits GROUP BY day)"
    for column in ("m", "n"):
        notes = preview_notes(connection, f"SELECT AVG({column}) AS a FROM {by_day}", 1)
        assert WORDS not in notes


def test_the_words_are_below_the_table(connection):
    lines = connection.preview("SELECT COUNT(*) AS n FROM visits", epsilon=0.001).lines()
    assert any(line.startswith(f"n: {WORDS}") for line in lines)


def test_how_many_rows_add_up_to_the_noise_where_they_are_many(connection):
    """ln(20) * 3 / epsilon rows of a count: 899 at epsilon 0.01, fewer than 500 at 0.02."""
    question = "SELECT COUNT(*) AS n FROM visits"
    said = "is as much as 899 rows add at most: from so many or fewer the answer would be noise"
    assert said in preview_notes(connection, question, 0.01)
    assert "would be noise" not in preview_notes(connection, question, 0.02)


def test_a_sum_over_fewer_rows_than_the_noise(connection):
    """Scores are at most 5 in size: ± 449 of three rows a person is more than 80 rows can add."""
    question = "SELECT SUM(score) AS s FROM visits"
    assert f"{WORDS}: ±" in preview_notes(connection, question, 0.1, group_size=80)
    assert "is more than 80 rows can add" in preview_notes(connection, question, 0.1, group_size=80)
    assert WORDS not in preview_notes(connection, question, 0.1, group_size=95)


def test_a_part_that_waits_for_a_number_is_previewed(connection):
    """The second answer is not previewed by its own text, which the first one completes."""
    question = "SELECT SUM(score) AS s FROM visits WHERE score < (SELECT AVG(score) FROM visits)"
    preview = connection.preview(question, epsilon=0.02)
    assert len(preview.columns) == 2
    notes = "; ".join(preview.columns[1].notes)
    assert "would be noise" in notes and "waits for the number of another answer" in notes
    assert not preview.stored
    assert preview.charged.amount <= preview.price


def test_which_group_is_largest_would_be_noise():
    """By a size that was bought: 100 beside 60 in one group, and 900 in all groups at once."""
    assert note_largest_group(900.0, 60.0, Fraction(100))
    assert not note_largest_group(90.0, 60.0, Fraction(100))
    assert not note_largest_group(900.0, 160.0, Fraction(100))  # that one group is noise says more
