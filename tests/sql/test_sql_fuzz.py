"""Any text is answered or refused with an error of dither: no RecursionError, nothing of the
parser's."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither import DitherError, QueryError
from dither.plan.facts import Facts
from dither.sql.bind import bind
from dither.sql.refusals.table import REFUSALS
from tests.datasets import clinic_sql

CATALOG = clinic_sql.catalog()
FACTS = Facts(
    (("counties", ("county",), 1), ("counties", ("region",), 2), ("stations", ("county",), 2)),
    (("counties", "county", ("ash", "elm", "oak", "yew")),),
)
WORDS = """
SELECT COUNT ( * ) SUM AVG cost FROM visits WHERE age > 3 AND OR NOT GROUP BY ward ' " ; -- /* */
, . = NULL IS IN BETWEEN
CASE WHEN THEN ELSE END CAST AS DATE 1e999 -0 0x1 ::int [1] {a:1} $1 ? @x JOIN ON USING UNION ALL
LIMIT patients p v
patient_id visit_id date + - / // % || LIKE '%x' '2024-01-01' INTERVAL DAY HAVING ORDER DESC NULLS
FIRST DISTINCT FILTER
MEDIAN QUANTILE 0.5 MIN MAX ROLLUP CUBE GROUPING SETS EXISTS WITH LEFT counties county diagnosis
note urgent score OVER
PARTITION date_trunc 'month' EXTRACT year LEAST COALESCE CORR HISTOGRAM WITHIN TRUE prescriptions
drug () (SELECT 1) seen
""".split()


def ask(sql: str) -> bool:
    try:
        bind(sql, CATALOG, FACTS)
    except DitherError as error:
        assert str(error)
        return False
    return True


@settings(max_examples=250, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=16).map(" ".join))
def test_token_soup(text):
    for sql in (
        text,
        f"SELECT COUNT(*) FROM visits v WHERE {text}",
        f"SELECT {text} FROM visits GROUP BY ward",
    ):
        ask(sql)


def test_questions_with_words_changed():
    """Real questions with a word dropped, doubled, swapped or replaced: near misses reach deeper
    than soup."""
    from tests.sql.test_sql_answers import ORDERED, QUESTIONS

    draw = random.Random(8)
    texts = [q if isinstance(q, str) else q[0] for q in QUESTIONS] + ORDERED
    texts += [row.example for row in REFUSALS.values() if row.example]
    answered = 0
    for _ in range(700):
        words = (
            draw.choice(texts).replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split()
        )
        for _ in range(draw.choice([1, 1, 2])):
            place = draw.randrange(len(words))
            change = draw.randrange(4)
            if change == 0 and len(words) > 1:
                del words[place]
            elif change == 1:
                words.insert(place, words[place])
            elif change == 2:
                other = draw.randrange(len(words))
                words[place], words[other] = words[other], words[place]
            else:
                words[place] = draw.choice(WORDS)
        answered += ask(" ".join(words))
    assert answered > 20


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM visits WHERE " + "NOT (" * 3000 + "urgent" + ")" * 3000,
        "SELECT COUNT(*) FROM visits WHERE " + "(" * 500 + "urgent" + ")" * 500,
        "SELECT SUM(" + "-" * 2000 + "cost) FROM visits",
        "SELECT SUM(" + "abs(" * 200 + "cost" + ")" * 200 + ") FROM visits",
        "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 200 + "visits" + ")" * 200,
        "WITH a0 AS (SELECT cost FROM visits)"
        + "".join(
            f", a{i + 1} AS (SELECT * FROM a{i} UNION ALL SELECT * FROM a{i})" for i in range(40)
        )
        + " SELECT COUNT(*) FROM a40",
        "WITH a0 AS (SELECT cost AS c FROM visits)"
        + "".join(f", a{i + 1} AS (SELECT c + c AS c FROM a{i})" for i in range(40))
        + " SELECT SUM(c) FROM a40",
        "SELECT " + "CASE WHEN urgent THEN " * 300 + "1" + " END" * 300 + " FROM visits",
    ],
    ids=range(8),
)
def test_a_question_that_grows_without_bound_is_refused(sql):
    with pytest.raises(QueryError):
        bind(sql, CATALOG, FACTS)


def test_a_long_list_of_conditions_is_not_a_deep_one():
    many = " OR ".join(f"cost = {i}" for i in range(300))
    assert bind(f"SELECT COUNT(*) FROM visits WHERE {many}", CATALOG, FACTS).queries
    assert bind(f"SELECT COUNT_IF({many}) FROM visits", CATALOG, FACTS).queries
    listed = ", ".join(str(i) for i in range(500))
    assert bind(f"SELECT COUNT(*) FROM visits WHERE score IN ({listed})", CATALOG, FACTS).queries


def test_a_join_without_from_is_refused():
    with pytest.raises(QueryError):
        bind("SELECT COUNT(*) AS n JOIN visits WHERE cost > 3", CATALOG, FACTS)
