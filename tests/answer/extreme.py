"""Parameters from the edge of what anybody can type, and questions of every shape, for tests of
what must return."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tests.answer.asked import connection

POTS: dict[str, dict[str, Any]] = {
    "pure": {"rule": "pure"},
    "approx": {"rule": "approx", "delta": "1e-2", "delta_per_question": "1e-8"},
    "zcdp": {
        "rule": "zcdp",
        "rho": "1e5",
        "epsilon": None,
        "delta_conversion": "1e-6",
        "delta_selection": "1e-3",
    },
    "rdp": {
        "rule": "rdp",
        "renyi": "1e5",
        "epsilon": None,
        "delta_conversion": "1e-6",
        "delta_selection": "1e-3",
        "alpha": "8",
    },
}
SHAPES = {
    "count": "SELECT COUNT(*) AS n FROM visits",
    "sums": "SELECT ward, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY ward",
    "average": "SELECT AVG(cost) AS n FROM visits",
    "quantiles": "SELECT ward, MEDIAN(cost) AS n, QUANTILE(cost, 0.9) AS high FROM visits "
    "GROUP BY ward",
    "keys": "SELECT diagnosis, COUNT(*) AS n FROM visits GROUP BY diagnosis",
    "sets": "SELECT ward, urgent, COUNT(*) AS n FROM visits GROUP BY ROLLUP(ward, urgent) "
    "HAVING n > 3 LIMIT 2",
    "moments": "SELECT VARIANCE(cost) AS n, CORR(cost, score) AS r FROM visits",
}
PRICES = (
    "1e-101",
    "1e-100",
    "1e-30",
    "1e-12",
    "1e-7",
    "1e-3",
    "1",
    "1e3",
    "1e9",
    "1e30",
    "1e100",
    "1e101",
)
NUMBERS: tuple[Any, ...] = (
    "1e-99999999",
    "1e99999999",
    "1e-1000",
    "1e-400",
    "1e-300",
    "1e-9",
    "1/3",
    "0.5",
    1,
    2,
    1000,
    2**63,
    10**30,
    10**400,
    10**5000,
    -(10**5000),
    0,
    -1,
    1e308,
    5e-324,
    float("nan"),
    float("inf"),
    True,
    None,
    "",
    "x",
    "9" * 2000,
    Fraction(1, 10**3999),
    Fraction(10**5000),
    Decimal("1e-99999999"),
    Decimal("NaN"),
    [1],
    {"n": 10**400},
    {"n": "1e-400"},
    {"n": 2},
    {1: 1},
)
PIECES = (
    "9" * 5000,
    "1e999",
    "1e-99999999",
    "(" * 200,
    ")" * 200,
    "*1e999" * 60,
    "+1" * 300,
    "-" * 500,
    "NOT " * 300,
    "'" + "(" * 500 + "'",
    "LIMIT " + "9" * 400,
    "ORDER BY " + "9" * 5000,
    "GROUP BY " + "1" * 5000,
    "OFFSET 99999999999999999999",
    "INTERVAL " + "9" * 5000 + " DAY",
    "INTERVAL '" + "9" * 400 + " days'",
    "CAST(cost AS DECIMAL(" + "9" * 5000 + ", 2))",
    "ROUND(cost, " + "9" * 400 + ")",
    "QUANTILE(cost, 0." + "9" * 5000 + ")",
    "HISTOGRAM(cost, " + "9" * 5000 + ")",
    "SUBSTRING(note, " + "9" * 400 + ")",
    "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1e-99999999, privacy_unit_column=patient_id)",
    "WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed=" + "9" * 5000 + ")",
    "SUM(cost, contribution_bounds_per_group => (0, 1e99999999))",
    "SUM(" + "(" * 90 + "cost" + ")" * 90 + ", contribution_bounds_per_row => (0, 1))",
    "DATE '" + "9" * 5000 + "-01-01'",
    "\ud800",
    "²",
    "EXPLAIN PRIVACY",
    "/*" * 300,
    "$" * 300,
)


def connections(folder: Any) -> dict[str, Any]:
    """A connection to a small clinic for every rule of a pot."""
    made = {}
    for rule, terms in POTS.items():
        relations = {"relations": {"clinic": "same"}} if made else {}
        made[rule] = connection(folder / rule, 5, **terms, **relations)
    return made


def changed_question(draw: random.Random, texts: list[str]) -> str:
    """A question with up to three of its words dropped, doubled, or replaced by an extreme
    piece."""
    words = draw.choice(texts).replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split()
    for _ in range(draw.choice([0, 0, 1, 1, 2, 3])):
        place = draw.randrange(len(words))
        if draw.random() < 0.2:
            del words[place]
        elif draw.random() < 0.25:
            words.insert(place, words[place])
        else:
            words[place : place + draw.randrange(2)] = [draw.choice(PIECES)]
        words = words or ["SELECT"]
    return " ".join(words)


def extreme_terms(draw: random.Random, names: tuple[str, ...]) -> dict[str, Any]:
    """Values from the edge for some of the parameters of a door; a sound price if none is drawn."""
    terms: dict[str, Any] = {name: draw.choice(NUMBERS) for name in names if draw.random() < 0.3}
    if not {"epsilon", "rho", "within"} & set(terms):
        terms["epsilon"] = "0.5"
    return terms
