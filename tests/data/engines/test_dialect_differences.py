"""Differences between engines that would change an integer, each shown, and each made up for.

The first half of a test shows that the engines differ in their own words; the second that a
statement of ours gives what the oracle says. A planted bug, DuckDB's words on the other engine, is
caught.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import psycopg
import pytest

from dither.data.engines.postgres.dialect import POSTGRES, PostgresDialect
from dither.data.lower.dialect import Dialect
from dither.data.measure import MeasureError
from dither.plan.algebra import Column, Named, Project, Scan
from tests.data.engines.twins import on_engine
from tests.datasets import hospital
from tests.function_examples import DAY, NOTE, SCORE, c, n, t

BIG = 2**53 + 1
"""The first whole number that is no float."""


@pytest.fixture(scope="module")
def duck() -> Iterator[Callable[[str], Any]]:
    with duckdb.connect() as connection:
        yield lambda sql: connection.execute(f"SELECT {sql}").fetchall()[0][0]


@pytest.fixture(scope="module")
def bare(postgres) -> Iterator[Callable[[str], Any]]:
    """PostgreSQL's own answer, in a session that nobody has set up."""
    with psycopg.connect(postgres, autocommit=True) as connection:

        def ask(sql: str) -> Any:
            row = connection.execute(f"SELECT {sql}").fetchone()
            assert row is not None
            return row[0]

        yield ask


@pytest.fixture(scope="module")
def both(postgres) -> Iterator[hospital.Registered]:
    notes = [
        "a",
        "B",
        "b",
        "A",
        "é",
        "Z",
        "7\u2028",
        "12\x85",
        "12",
        "x_",
        " a ",
        None,
        "ß",
        "İ",
        "",
    ]
    days = ["2024-01-31", "2024-02-29", "1900-03-01", "9999-12-31", "0001-01-01", None]
    scores = ["-5", "5", "-3", "2", "0", None]
    visits = [
        hospital.visit(
            f"v{i}", f"p{i}", note=notes[i % 15], day=days[i % 6], score=scores[i // 2 % 6]
        )
        for i in range(30)
    ]
    people = [hospital.patient(f"p{i}") for i in range(30)]
    with (
        hospital.registered(hospital.raws(people, visits)) as first,
        on_engine(first, "postgres", postgres) as other,
    ):
        yield other


def check(both: hospital.Registered, *calls: Any) -> None:
    named = [Named(f"x{number}", call) for number, call in enumerate(calls)]
    plan = Project(Scan("visits"), (*named, Named("visit", Column("visit"))))
    assert both.rows(plan) == both.expected(plan)


def is_caught(both: hospital.Registered, patch: pytest.MonkeyPatch, word: str, *calls: Any) -> bool:
    """Whether DuckDB's word in the other dialect gives another row, or none."""
    patch.setattr(PostgresDialect, word, getattr(Dialect, word))
    try:
        check(both, *calls)
    except (AssertionError, MeasureError, psycopg.Error):
        return True
    return False


def test_rounding_of_halves(duck, bare, both):
    assert (duck("round(2.5::DOUBLE)"), bare("round(2.5::float8)")) == (3, 2)
    assert (duck("CAST(2.5::DECIMAL(3,1) AS INT)"), bare("CAST(2.5 AS INT)")) == (3, 3)
    check(both, c("round", c("divide", SCORE, n(2))), c("round", c("divide", n(5), SCORE), n(1)))


def test_integer_division(duck, bare, both, monkeypatch):
    assert (duck("(-7) // 2"), bare("(-7) / 2")) == (-3, -3)
    assert float(bare("7::numeric / 2")) == 3.5  # not cut at all
    calls = (c("integer_divide", SCORE, n(2)), c("floor", c("divide", SCORE, n(2))))
    check(both, *calls)
    assert is_caught(both, monkeypatch, "divide", *calls)


def test_division_by_zero(duck, bare, both):
    assert duck("1 / 0") == float("inf")
    with pytest.raises(psycopg.errors.DivisionByZero):
        bare("1 / 0")
    check(both, c("divide", n(1), SCORE), c("mod", n(7), SCORE), c("integer_divide", n(7), SCORE))


def test_sign_of_a_large_integer_is_a_float(duck, bare, both):
    assert isinstance(bare("sign(5::bigint)"), float) and not isinstance(duck("sign(5)"), float)
    assert bare(f"sign(1::bigint) * {BIG}") != BIG  # a quotient would lose its last digit
    check(both, c("sign", SCORE), c("divide", n(BIG), SCORE))


def test_truth_as_a_number(bare, both, monkeypatch):
    with pytest.raises(psycopg.errors.CannotCoerce):
        bare("CAST(true AS BIGINT)")
    assert is_caught(both, monkeypatch, "truth", c("gt", SCORE, n(0)))


def test_order_of_nulls(duck, bare):
    """No order of nulls reaches an answer: where rows are ordered it says where nulls are."""
    values = "(VALUES (1), (NULL)) AS v(x)"
    duck_first = duck(f"(SELECT list(x ORDER BY x DESC) FROM {values})")[0]
    bare_first = bare(f"(SELECT array_agg(x ORDER BY x DESC) FROM {values})")[0]
    assert (duck_first, bare_first) == (1, None)


def test_order_of_nan(duck, bare):
    """NaN is above all numbers on both; it is a null before any comparison of ours."""
    assert duck("'nan'::DOUBLE > 'inf'::DOUBLE") and bare("'nan'::float8 > 'inf'::float8")
    assert duck("least('nan'::DOUBLE, 100)") == bare("least('nan'::float8, 100)") == 100


def test_collation(bare, both):
    """Texts are compared by bytes, also where the database has a language.

    The server of the tests knows no language, so what one would do is not shown here.
    """
    assert not bare("'a' < 'B' COLLATE \"C\"")
    assert POSTGRES.text("x") == "('x' COLLATE \"C\")"
    check(both, c("eq", NOTE, t("é")), c("in", NOTE, t("a"), t("B")))
    names = both.fetch(
        "SELECT collation_name FROM information_schema.columns WHERE table_name = 'visits' "
        "AND data_type = 'text' AND table_schema = current_schema()"
    )[1]
    assert names and set(names) == {("C",)}


def test_case_of_letters(bare, both):
    assert bare("upper('é' COLLATE \"C.utf8\")") == "É" and bare("upper('é' COLLATE \"C\")") == "é"
    check(both, c("upper", NOTE), c("lower", NOTE))


def test_regular_expressions_and_line_ends(duck, bare, both):
    """A text of digits and a line break is no number."""
    assert duck("regexp_matches('12' || chr(10), '^[0-9]+$')") is False
    assert bare("'12' || chr(10) ~ '^[0-9]+$'") is False
    check(both, c("parse_integer", NOTE, n(-5), n(20)))


def test_length_is_in_characters(duck, bare, both):
    assert duck("strlen('é')") == bare("octet_length('é')") == 2
    assert bare("length('a  '::char(5))") == 1  # padded texts lose their blanks
    check(both, c("length", NOTE), c("byte_length", NOTE), c("left", NOTE, n(1)))


def test_time_zones(bare, both, postgres, monkeypatch):
    """The first day of a month is not moved by the zone of a server."""
    zone = "options=-cTimeZone%3DAmerica/New_York"
    with psycopg.connect(f"{postgres}&{zone}", autocommit=True) as connection:
        row = connection.execute("SELECT date_trunc('month', DATE '2024-05-01')::text").fetchone()
        assert row == ("2024-05-01 00:00:00-04",)  # a time with a zone
    calls = (c("trunc_month", DAY), c("trunc_quarter", DAY), c("trunc_year", DAY))
    both.measurer.engine.connection.execute("SET TimeZone = 'America/New_York'")
    try:
        check(both, *calls, c("last_day", DAY), c("add_months", DAY, n(0)))
    finally:
        both.measurer.engine.connection.execute("SET TimeZone = 'UTC'")
    assert is_caught(both, monkeypatch, "last_day", c("last_day", DAY))


def test_extract_is_no_integer(bare, both):
    assert "numeric" in bare("pg_typeof(EXTRACT(YEAR FROM DATE '2024-01-01'))::text")
    check(both, c("year", DAY), c("week", DAY), c("day_of_year", DAY), c("quarter", DAY))


def test_sums_widen(duck, bare):
    """A sum of 64-bit integers is wider than they are on both, so it cannot wrap."""
    largest = 2**63 - 1
    rows = f"(VALUES ({largest}), ({largest})) AS v(x)"
    exact = 2 * largest
    assert duck(f"(SELECT sum(x) FROM {rows})") == exact
    assert int(bare(f"(SELECT sum(x) FROM {rows})")) == exact


def test_a_text_with_a_zero_is_held_by_no_table(duck, postgres):
    """DuckDB holds U+0000; PostgreSQL has no such text, so no table of it can bring one."""
    assert duck("length(chr(0))") == 1
    with (
        psycopg.connect(postgres) as connection,
        pytest.raises((psycopg.Error, ValueError)),
    ):
        connection.execute("SELECT %s", ("a\0b",))
