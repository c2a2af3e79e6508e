"""Questions that call every function of the table."""

from __future__ import annotations

from fractions import Fraction

from dither.plan.algebra import Call, Cells, Column, Count, Filter, Holds, Scan, Value
from tests.state.question_forms import Question, ask, request


def count_where(name: str, conditions: str) -> Question:
    """A count of visits that meet one of the conditions, which stand on lines of their own."""
    lines = [line.strip() for line in conditions.strip().splitlines()]
    sql = f"SELECT COUNT(*) AS n FROM visits WHERE {' OR '.join(lines)}"
    return ask(name, "plain", sql, epsilon=1)


NUMBERS = """
    ABS(score) + 1 > 2
    score % 3 = 1
    FLOOR(cost / 7) = 2
    CEIL(cost / 3) = 2
    TRUNC(cost / 3) = 2
    ROUND(cost, 1) = 1.5
    cost // 3 = 2
    SQRT(weight) > 9
    POWER(score, 2) = 4
    LEAST(score, 2) = 1
    GREATEST(score, 1) = 3
    SIGN(score) = -1
    -score = 3
    score - weight = 7
    CAST(cost AS INTEGER) = 12
    CAST(urgent AS INTEGER) + score = 2
    WIDTH_BUCKET(cost, 0, 100, 7) = 2
    BIN(cost, 5) = 10
    CLAMP(cost, 1, 5) = 3
"""
TEXTS = """
    note LIKE 'L%'
    UPPER(note) = 'OK'
    LOWER(note) = 'ok'
    SUBSTRING(note, 1, 1) IN ('o', 'L')
    TRIM(note) || 'x' = 'okx'
    LTRIM(note) = 'x'
    RTRIM(note) = 'x'
    LENGTH(note) = 5
    BYTE_LENGTH(note) > 3
    LEFT(note, 2) = 'ok'
    RIGHT(note, 1) = 'r'
    STARTS_WITH(note, 'L')
    ENDS_WITH(note, 'r')
    CONTAINS(note, 'te')
    STRPOS(note, 't') = 2
    REPLACE(note, 'o', 'a') = 'ak'
    LPAD(note, 3, '-') = '-ok'
    RPAD(note, 3, '-') = 'ok-'
    SPLIT_PART(note, 't', 2) = 'er'
    PARSE_INTEGER(note, 0, 9) = 3
    LABEL(county) = 'ash'
"""
DATES = """
    EXTRACT(YEAR FROM day) = 2024
    EXTRACT(QUARTER FROM day) = 2
    EXTRACT(MONTH FROM day) = 3
    EXTRACT(WEEK FROM day) = 5
    EXTRACT(DAY FROM day) = 9
    EXTRACT(ISODOW FROM day) = 7
    EXTRACT(DOY FROM day) = 100
    DAYS_IN_MONTH(day) = 31
    IS_WEEKEND(day)
    LAST_DAY(day) = DATE '2024-04-30'
    AGE_YEARS(day, DATE '2025-06-01') = 1
    EXTRACT(MINUTE FROM seen) = 30
    EXTRACT(SECOND FROM seen) = 0
    CAST(seen AS DATE) < DATE '2024-11-01'
    day + INTERVAL 7 DAY > DATE '2024-03-01'
    day + INTERVAL 2 MONTH > DATE '2024-05-01'
    DATE_DIFF('day', day, DATE '2024-06-01') > 9
    DATE_TRUNC('year', day) = DATE '2024-01-01'
    DATE_TRUNC('quarter', day) = DATE '2024-04-01'
    DATE_TRUNC('week', day) = DATE '2024-04-01'
    seen + INTERVAL 90 SECOND > TIMESTAMP '2024-05-01 00:00:00'
    SECONDS_BETWEEN(seen, TIMESTAMP '2024-05-01 00:00:00') > 5
"""
LOGIC = """
    score <> weight
    score <= weight
    score >= weight
    weight BETWEEN score AND cost
    XOR(urgent, score > 1)
    (NOT (score > weight)) = urgent
    (score > weight OR cost > weight) IS TRUE
    (score > weight AND cost > weight) IS FALSE
    score + 1 IS NULL
    score + 1 IS NOT NULL
    score IS DISTINCT FROM weight
    CASE WHEN urgent THEN score ELSE 2 END = 2
    COALESCE(score, 0) = 0
    NULLIF(score, 1) = 2
"""

CHOSEN = Filter(
    Scan("visits"),
    Holds(
        Call(
            "gt",
            (
                Call("if", (Column("urgent"), Column("score"), Value("number", Fraction(2)))),
                Value("number", Fraction(1)),
            ),
        )
    ),
)
"""Visits whose score, or 2 where they are not urgent, is above 1."""

FUNCTIONS = (
    count_where("functions of numbers", NUMBERS),
    count_where("functions of texts", TEXTS),
    count_where("functions of dates", DATES),
    count_where("functions of truth", LOGIC),
    request("a function that SQL does not make", "plain", Cells(CHOSEN, (), (Count(),))),
)
