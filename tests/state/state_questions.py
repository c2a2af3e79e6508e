"""What was asked of the stored datasets: plain data that goes into `expected.json` as it stands.

A question is its pot, the arguments of the public call, and one of `sql`, `suggest` (what, of),
`built` (a table, then the methods of a question built step by step) and `request` (the stored form
of a query that no SQL makes).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dither.plan.algebra import (
    Call,
    Cells,
    Column,
    Count,
    Filter,
    Holds,
    SampleUnits,
    Scan,
    Value,
    to_json,
)

Question = dict[str, Any]


def ask(name: str, pot: str, sql: str, **terms: Any) -> Question:
    """A question in SQL."""
    return {"name": name, "pot": pot, "sql": " ".join(sql.split()), "terms": terms}


def suggest(name: str, pot: str, what: str, of: str, **terms: Any) -> Question:
    """A bound or limit to buy."""
    return {"name": name, "pot": pot, "suggest": [what, of], "terms": terms}


def build(name: str, pot: str, table: str, *steps: tuple[str, Any], **terms: Any) -> Question:
    """A question built step by step; `agg` takes aggregates as SQL text by name."""
    return {"name": name, "pot": pot, "built": [table, *map(list, steps)], "terms": terms}


def request(name: str, pot: str, query: Any) -> Question:
    """A query for Laplace noise at epsilon 1."""
    return {"name": name, "pot": pot, "request": to_json(query)}


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

ROWS = (
    ask(
        "count by county",
        "plain",
        "SELECT county, COUNT(*) AS n FROM visits GROUP BY county",
        epsilon=1,
    ),
    ask(
        "two sums in a box",
        "plain",
        "SELECT COUNT(*) AS n, SUM(score) AS s FROM visits",
        epsilon=2,
    ),
    ask(
        "an average",
        "plain",
        "SELECT sex, AVG(salary) AS mean FROM patients GROUP BY sex",
        epsilon="0.5",
    ),
    ask(
        "many numbers",
        "plain",
        """SELECT COUNT(*) AS n, COUNT(score) AS scored, SUM(cost) AS paid,
        COUNT(DISTINCT county) AS counties, COUNT(DISTINCT person) AS people FROM visits""",
        epsilon=3,
    ),
    ask(
        "weights",
        "plain",
        "SELECT COUNT(*) AS n, SUM(cost) AS paid FROM visits",
        epsilon=1,
        weights={"n": 3},
    ),
    ask(
        "moments",
        "plain",
        "SELECT VARIANCE(score) AS v, STDDEV(cost) AS s FROM visits",
        epsilon=4,
    ),
    ask(
        "two columns",
        "plain",
        "SELECT CORR(score, cost) AS c, COVAR_POP(score, cost) AS k FROM visits",
        epsilon=4,
    ),
    ask(
        "conditions",
        "plain",
        """SELECT COUNT(*) AS n FROM visits WHERE (score IS NULL OR NOT urgent)
        AND day >= DATE '2024-02-01' AND cost * 2 > 5 AND county <> 'elm'""",
        epsilon=1,
    ),
    ask(
        "projection",
        "plain",
        """SELECT k, AVG(c) AS mean FROM (SELECT cost * 2 AS c,
        CASE WHEN score > 0 THEN 'high' ELSE 'low' END AS k FROM visits) GROUP BY k""",
        epsilon=1,
    ),
    ask(
        "sets of keys",
        "plain",
        "SELECT county, urgent, COUNT(*) AS n FROM visits GROUP BY ROLLUP (county, urgent)",
        epsilon=1,
    ),
    ask(
        "months of dates",
        "plain",
        """SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM visits
        GROUP BY m ORDER BY n DESC LIMIT 3""",
        epsilon=1,
    ),
    ask(
        "hours of times",
        "plain",
        "SELECT EXTRACT(HOUR FROM seen) AS h, COUNT(*) AS n FROM visits GROUP BY h",
        epsilon=1,
    ),
    ask(
        "noisy conditions",
        "plain",
        """SELECT county, COUNT(*) AS n FROM visits GROUP BY county
        HAVING COUNT(*) > 2 ORDER BY n DESC""",
        epsilon="1.5",
    ),
    ask(
        "limited groups",
        "plain",
        "SELECT county, COUNT(*) AS n FROM visits GROUP BY county",
        epsilon=1,
        max_groups=1,
    ),
    count_where("functions of numbers", NUMBERS),
    count_where("functions of texts", TEXTS),
    count_where("functions of dates", DATES),
    count_where("functions of truth", LOGIC),
)

TABLES = (
    ask(
        "private inner join",
        "plain",
        "SELECT sex, COUNT(*) AS n FROM visits JOIN patients USING (person) GROUP BY sex",
        epsilon=1,
    ),
    ask(
        "private left join",
        "plain",
        """SELECT sex, COUNT(visit) AS n FROM patients LEFT JOIN visits USING (person)
        GROUP BY sex""",
        epsilon=1,
    ),
    ask(
        "three tables",
        "plain",
        """SELECT drug, SUM(qty) AS q FROM items JOIN visits USING (visit)
        JOIN patients USING (person) WHERE sex = 'f' GROUP BY drug""",
        epsilon=2,
    ),
    ask(
        "public inner join",
        "plain",
        "SELECT region, COUNT(*) AS n FROM visits JOIN counties USING (county) GROUP BY region",
        epsilon=1,
    ),
    ask(
        "public left join",
        "plain",
        """SELECT region, COUNT(*) AS n FROM visits LEFT JOIN counties USING (county)
        GROUP BY region""",
        epsilon=1,
    ),
    ask(
        "public rows first",
        "plain",
        """SELECT counties.county, COUNT(visits.visit) AS n FROM counties
        LEFT JOIN visits ON counties.county = visits.county GROUP BY counties.county""",
        epsilon=1,
    ),
    ask(
        "public rows several times",
        "plain",
        "SELECT level, COUNT(*) AS n FROM visits JOIN wards USING (county) GROUP BY level",
        epsilon=1,
    ),
    ask(
        "union of rows",
        "plain",
        """SELECT COUNT(*) AS n, SUM(x) AS s FROM (SELECT person, score AS x FROM visits
        UNION ALL SELECT person, CAST(salary / 100000 AS INTEGER) AS x FROM patients)""",
        epsilon=2,
    ),
    ask(
        "distinct per person",
        "plain",
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT person, county FROM visits)",
        epsilon=1,
    ),
    ask(
        "distinct of all",
        "plain",
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT county, urgent FROM visits)",
        epsilon=1,
    ),
    ask(
        "per person",
        "plain",
        """SELECT AVG(n) AS rows, SUM(low) AS lows, SUM(high) AS highs, SUM(c) AS places
        FROM (SELECT person, LEAST(COUNT(*), 3) AS n, MIN(score) AS low, MAX(score) AS high,
        COUNT(DISTINCT county) AS c FROM visits GROUP BY person)""",
        epsilon=4,
    ),
    ask(
        "grouped rows",
        "plain",
        """SELECT COUNT(*) AS n FROM (SELECT county, urgent, COUNT(*) AS m
        FROM visits GROUP BY county, urgent)""",
        epsilon=1,
    ),
    ask(
        "rows in a list",
        "plain",
        """SELECT COUNT(*) AS n FROM visits WHERE visit IN (SELECT visit FROM items
        WHERE items.visit = visits.visit AND qty > 2)""",
        epsilon=1,
    ),
    ask(
        "rows that exist",
        "plain",
        """SELECT COUNT(*) AS n FROM patients WHERE EXISTS (SELECT 1 FROM visits
        WHERE visits.person = patients.person AND urgent)""",
        epsilon=1,
    ),
    ask(
        "rows that do not exist",
        "plain",
        """SELECT COUNT(*) AS n FROM patients WHERE NOT EXISTS (SELECT 1
        FROM visits WHERE visits.person = patients.person AND score > 3)""",
        epsilon=1,
    ),
    ask(
        "another dialect",
        "total",
        """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=3, delta=1e-5,
        max_groups_contributed=2, privacy_unit_column=person) county,
        COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM visits GROUP BY county""",
    ),
    request(
        "a sample of people",
        "plain",
        Cells(SampleUnits(Scan("patients"), Fraction(1, 2)), ("sex",), (Count(),)),
    ),
    request("a function that SQL does not make", "plain", Cells(CHOSEN, (), (Count(),))),
)

VALUES = (
    ask(
        "a median",
        "plain",
        "SELECT MEDIAN(cost) AS m FROM visits",
        epsilon=1,
        quantile_intervals=False,
    ),
    ask(
        "a median with ends",
        "plain",
        "SELECT county, MEDIAN(cost) AS m FROM visits GROUP BY county",
        epsilon=2,
    ),
    ask(
        "joint quantiles",
        "plain",
        """SELECT QUANTILE_CONT(cost, 0.25) AS low, QUANTILE_CONT(cost, 0.75) AS high
        FROM visits""",
        epsilon=2,
        quantile_intervals=False,
    ),
    ask(
        "joint quantiles with ends",
        "plain",
        """SELECT QUANTILE_CONT(score, 0.1) AS low, QUANTILE_CONT(score, 0.9) AS high
        FROM visits""",
        epsilon=3,
        quantile_intervals="1/3",
    ),
    suggest("bounds", "plain", "bounds", "visits.cost", epsilon=2, keep="0.9"),
    suggest("rows per unit", "plain", "rows_per_unit", "visits", epsilon=1),
    suggest("groups per unit", "plain", "max_groups", "visits.county", epsilon=1),
    build(
        "built",
        "plain",
        "visits",
        ("where", ["score >= 0", "urgent"]),
        ("group_by", ["county"]),
        ("agg", {"n": "COUNT(*)", "paid": "SUM(cost)"}),
        ("order_by", ["n DESC"]),
        epsilon=2,
    ),
    ask(
        "undeclared keys",
        "total",
        "SELECT diag, COUNT(*) AS n, AVG(cost) AS mean FROM visits GROUP BY diag",
        epsilon=20,
    ),
    ask(
        "undeclared and declared keys",
        "total",
        "SELECT diag, urgent, COUNT(*) AS n FROM visits GROUP BY diag, urgent",
        epsilon=20,
    ),
    ask(
        "a quantile by undeclared keys",
        "total",
        "SELECT diag, MEDIAN(score) AS m FROM visits GROUP BY diag",
        epsilon=20,
    ),
    ask(
        "Gaussian at a delta",
        "total",
        """SELECT county, urgent, score, COUNT(*) AS n, SUM(weight) AS w FROM visits
        GROUP BY county, urgent, score""",
        epsilon=2,
    ),
    ask("asked twice", "total", "SELECT COUNT(*) AS n FROM items", epsilon="0.1"),
    ask("reissued", "total", "SELECT COUNT(*) AS n FROM items WHERE qty > 3", epsilon="0.25"),
    ask("a part", "women", "SELECT COUNT(*) AS n FROM patients WHERE sex = 'f'", epsilon="0.5"),
    ask(
        "a part with visits",
        "men",
        """SELECT COUNT(*) AS n FROM (SELECT person FROM patients WHERE sex = 'm') AS p
        JOIN visits USING (person)""",
        epsilon="0.5",
    ),
)

HOSPITAL = (*ROWS, *TABLES, *VALUES)
