"""Two hundred generated refusals: plain words, a mark in the text, names that exist, and an offered
question that is answered and means the same."""

from __future__ import annotations

import re
from itertools import product
from random import Random

import pytest

from dither import QueryError
from dither.catalog import parse as read_catalog
from dither.catalog.owners import owner_names
from dither.plan.facts import Facts
from dither.sql.bind import bind
from tests.datasets import clinic_sql, edge_catalogs, hospital, shop

CLINIC = clinic_sql.catalog()
FACTS = Facts(
    (("counties", ("county",), 1), ("counties", ("region",), 2), ("stations", ("county",), 2)),
    (("counties", "county", ("ash", "elm", "oak", "yew")),),
)
CATALOGS = {
    "clinic": (CLINIC, FACTS),
    "hospital": (hospital.catalog(), Facts(())),
    "shop": (read_catalog(shop.CATALOG), Facts(())),
    "rows": (edge_catalogs.catalog_of(Random(1), "row"), Facts(())),
    "windows": (edge_catalogs.catalog_of(Random(1), "window"), Facts(())),
}
ABOUT_ONE_TABLE = (
    "SELECT COUNT(*) FROM {table} a JOIN {table} b ON a.{column} = b.{column}",
    "SELECT COUNT(*) FROM {table} a, {table} b",
    "SELECT SUM(n) FROM (SELECT COUNT(*) AS n FROM {table})",
    "SELECT COUNT(*) FROM {table} WHERE COUNT(*) > 3",
    "SELECT AVG(COUNT(*)) FROM {table}",
    "SELECT {column} FROM {table}",
    "SELECT VAR2({column}) FROM {table}",
    "SELECT COUNT(*) FROM {table} WHERE nothing({column}) > 3",
    "SELECT RANK() OVER (ORDER BY {column}) FROM {table}",
    "SELECT COUNT(*) FROM (SELECT DISTINCT ON ({column}) {column} FROM {table})",
    "SELECT COUNT(*) FROM (SELECT {column} FROM {table} LIMIT 5)",
    "SELECT COUNT(*) FROM {table} WHERE {column} IN (SELECT {column} FROM {table})",
    "SELECT COUNT(*) FROM {table} WHERE {column} = NULL",
    "SELECT QUANTILE({column}, 2) FROM {table}",
    "SELECT COUNT(*) FROM {table} WHERE",
    "SELECT COUNT(*) FROM {table} WHERE ({column} > 3",
    "SELECT COUNT(*) FRM {table}",
    "SELECT {column}, nothing(COUNT(*)) FROM {table}",
    "SELECT KURTOSIS({column}) FROM {table}",
    "SELECT COUNT(*) FROM {table} CROSS JOIN {table} AS again",
)
VISITS = "visits v WHERE v.patient_id = p.patient_id"
CONDITIONS = ("v.cost > 50", "v.urgent", "v.ward = 'north'", "v.score IS NULL", "v.score < 2")
WITH_OFFERS = (
    "SELECT COUNT(*) AS n FROM patients p SEMI JOIN visits v ON p.patient_id = v.patient_id "
    "AND {condition}",
    "SELECT AVG(age) AS n FROM patients p ANTI JOIN visits v ON p.patient_id = v.patient_id "
    "AND {condition} WHERE age > {number}",
    "WITH RECURSIVE r AS (SELECT * FROM visits v WHERE {condition}) SELECT COUNT(*) AS n FROM r",
    f"SELECT COUNT_IF(EXISTS (SELECT 1 FROM {VISITS} AND {{condition}})) AS n FROM patients p "
    "WHERE age > {number}",
    f"SELECT COUNT_IF(NOT EXISTS (SELECT 1 FROM {VISITS} AND {{condition}})) AS n FROM patients p",
    "SELECT COUNT(*) AS n FROM visits v WHERE {condition} "
    "AND county = ANY (SELECT county FROM counties WHERE beds > {number})",
    "SELECT COUNT(v.cost) AS n, SUM(v.score) AS m FROM counties c LEFT JOIN visits v "
    "ON c.county = v.county AND {condition}",
    "SELECT diagnosis, COUNT(DISTINCT patient_id) FILTER (WHERE {condition}) AS n FROM visits v "
    "WHERE score < {number} GROUP BY diagnosis",
)
INTERNALS = re.compile(r"<Token|sqlglot|<class|Unexpected token|Required keyword|\bexp\.|Error\b")


def list_questions():
    """The same questions in every run: each template over tables and columns of each catalog."""
    random = Random(33)
    questions = []
    for name, (catalog, _) in CATALOGS.items():
        for table, template in product(catalog.private_tables[:2], ABOUT_ONE_TABLE):
            names = [column for column in table.column_names if column not in owners(catalog)]
            questions.append((name, template.format(table=table.name, column=random.choice(names))))
    for template, condition in product(WITH_OFFERS, CONDITIONS):
        number = random.choice((5, 20, 40))
        questions.append(("clinic", template.format(condition=condition, number=number)))
    return questions


def read_rows(connection, sql):
    return sorted(connection.sql(sql).fetchall(), key=str)


def owners(catalog):
    return {name for table in catalog.private_tables for name in owner_names(catalog, table)}


@pytest.fixture(scope="module")
def refusals():
    """The questions that are refused, with their messages."""
    refused = []
    for name, sql in list_questions():
        try:
            bind(sql, *CATALOGS[name])
        except QueryError as error:
            refused.append((name, sql, error))
    return refused


def test_two_hundred_questions_are_refused(refusals):
    assert len(refusals) >= 200


def test_no_refusal_shows_the_parsers_words(refusals):
    shown = [str(error) for _, _, error in refusals if INTERNALS.search(error.message)]
    assert shown == []


def test_every_refusal_marks_its_position(refusals):
    without = [sql for _, sql, error in refusals if error.end <= error.start]
    assert without == []


def test_a_remedy_names_columns_that_the_tables_of_the_question_have(refusals):
    """Names after GROUP BY, after a dot and inside aggregates; a parent's column is said to be its
    own."""
    named = re.compile(
        r"(?:GROUP BY (?!a column)|DISTINCT |AVG\(|MIN\(|MAX\(|QUANTILE\(|= \w+\.)(\w+)"
    )
    for name, sql, error in refusals:
        catalog, _ = CATALOGS[name]
        remedies = re.findall(r"Instead: (.*?) \[rule", error.message)
        tables = [
            table
            for table in catalog.tables
            if re.search(rf"\b{table.name}\b", sql) or f"column of {table.name}" in error.message
        ]
        columns = {column.lower() for table in tables for column in table.column_names}
        for word in named.findall(" ".join(remedies)):
            assert word.lower() in {*columns, "on", "x"}, (sql, remedies)


def test_an_offered_question_is_answered_and_means_the_same(refusals):
    """Compared in plain DuckDB on registered rows of forty people."""
    offers = []
    with clinic_sql.registered() as (_, connection):
        for name, sql, error in refusals:
            lines = [line for line in error.message.splitlines() if line.startswith("Write: ")]
            if not lines:
                continue
            offer = lines[0].removeprefix("Write: ")
            assert bind(offer, *CATALOGS[name]).queries
            assert read_rows(connection, offer) == read_rows(connection, sql), sql
            offers.append(read_rows(connection, offer))
    assert len(offers) >= 25
    assert len({str(rows) for rows in offers}) >= 15


def test_all_independent_reasons_are_named_the_worst_first():
    sql = "SELECT ward, SUM(cots) AS s, VAR2(cost) AS v FROM visits WHERE visit_id = 'a' GROUP BY 1"
    with pytest.raises(QueryError) as caught:
        bind(sql.replace("GROUP BY 1", "GROUP BY ward"), CLINIC, FACTS)
    reasons = caught.value.message.split("\nAlso: ")
    assert [reason.split(":")[0] for reason in reasons] == [
        "an id outside COUNT(DISTINCT ...), joins and GROUP BY in a subquery",
        "no function VAR2",
        "no column cots in visits",
    ]
    assert all(re.search(r"\n +\^+$", reason) for reason in reasons)


def test_a_second_reason_is_not_caused_by_what_was_left_out():
    """Without the wrong condition the date would leave its range: that is not said."""
    with pytest.raises(QueryError) as caught:
        bind(
            "SELECT SUM(cost) AS s FROM visits WHERE nothing(cost) > 1 AND date + 4000000 > DATE "
            "'2025-01-01'",
            CLINIC,
            FACTS,
        )
    assert "Also" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "hint"),
    [("VAR2", "VAR"), ("stdev_samp", "stddev_samp"), ("Averge", "avg"), ("MEDIAM", "MEDIAN")],
)
def test_an_unknown_function_is_named_with_the_closest_one(name, hint):
    for sql in (
        f"SELECT {name}(cost) FROM visits",
        f"SELECT ward, {name}(cost) AS x FROM visits GROUP BY ward",
        f"SELECT COUNT(*) FROM visits WHERE {name}(cost) > 1",
        f"SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING {name}(COUNT(*)) > 1",
    ):
        with pytest.raises(QueryError) as caught:
            bind(sql, CLINIC, FACTS)
        assert caught.value.message.startswith(f"no function {name}: did you mean {hint}?")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT LAST_VALUE(cost) FROM visits",
        "SELECT AVG(cost) FROM visits QUALIFY FIRST_VALUE(cost) > 5",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING NTH_VALUE(cost, 2) > 5",
    ],
)
def test_a_window_function_without_a_window_is_told_why(sql):
    """Not "did you mean LAST_DAY?"."""
    with pytest.raises(QueryError, match="depends on the order of rows") as caught:
        bind(sql, CLINIC, FACTS)
    assert "did you mean" not in str(caught.value)


def test_windows_over_raw_rows_name_the_true_cause():
    for call in ("LAST_VALUE(cost RESPECT NULLS)", "LAST_VALUE(cost IGNORE NULLS)", "RANK()"):
        sql = f"SELECT AVG(cost) FROM visits QUALIFY {call} OVER (ORDER BY date) > 1"
        with pytest.raises(QueryError, match="^window functions"):
            bind(sql, CLINIC, FACTS)


@pytest.mark.parametrize(
    ("sql", "message", "marked"),
    [
        ("SELECT COUNT(*) FROM visits WHERE", "something is missing after WHERE", "WHERE"),
        ("SELECT COUNT(*) FROM orders WHERE", "something is missing after WHERE", "WHERE"),
        ("SELECT COUNT(*) FROM visits GROUP BY", "something is missing after GROUP BY", "GROUP BY"),
        ("SELECT COUNT(*) FROM visits v JOIN patients p ON", "something is missing after ON", "ON"),
        ("SELECT COUNT(* FROM visits", ") is missing before FROM", "FROM"),
        ("SELECT COUNT(*)\nFRM visits", "did you mean FROM in place of FRM?", "FRM"),
        ("SELEC COUNT(*) FROM visits", "did you mean SELECT in place of SELEC?", "SELEC"),
        ("SELECT COUNT(*) FROM visits GROUP ward", "did you mean GROUP BY in place of", "GROUP"),
        ("SELECT 'abc FROM visits", "this quote is never closed", "'"),
        ("SELECT 'a''b' || \"abc FROM visits", "this quote is never closed", '"'),
        ("SELECT COUNT(*) /* a FROM visits", "this comment is never closed", "/*"),
        ("SELECT COUNT(*) FROM visits JOIN", "something is missing after JOIN", "JOIN"),
        ("SELECT SUM(cost, 1, 2) FROM visits", "too many arguments before )", ")"),
        ("SELECT COUNT(*) FROM visits)", ") cannot stand here", ")"),
    ],
)
def test_a_mistake_in_the_grammar_is_marked(sql, message, marked):
    with pytest.raises(QueryError) as caught:
        bind(sql, CLINIC, FACTS)
    error = caught.value
    assert error.message.startswith(f"the question is not SQL: {message}")
    assert sql[error.start : error.end] == marked


def test_a_comment_alone_is_an_empty_question():
    with pytest.raises(QueryError, match="the question is empty"):
        bind("-- COUNT(*)", CLINIC, FACTS)
