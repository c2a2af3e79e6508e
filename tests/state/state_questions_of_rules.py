"""Questions to the smaller stored datasets: other rules, shared answers, windows, one suspended."""

from __future__ import annotations

from typing import Any

from tests.state.question_forms import Question, ask


def ask_exactly(name: str, pot: str, sql: str, **terms: Any) -> Question:
    """A question at a price at which the noise is 0 but for odds below 1e-12.

    The test buys it anew from the old copy of the data, and gets the same numbers.
    """
    return ask(name, pot, sql, **terms) | {"is_exact": True}


EXACT_VISITS = ask_exactly(
    "rows of two tables",
    "plain",
    """SELECT county, sex, urgent, COUNT(*) AS n FROM visits JOIN patients USING (person)
    GROUP BY county, sex, urgent""",
    epsilon=300,
)

SHOPS = (
    ask(
        "Gaussian",
        "board",
        "SELECT region, COUNT(*) AS n FROM customers GROUP BY region",
        rho="0.5",
    ),
    ask(
        "Gaussian sums",
        "board",
        "SELECT COUNT(*) AS n, SUM(age) AS a, AVG(age) AS m FROM customers",
        rho=1,
    ),
    ask(
        "Gaussian keys",
        "board",
        "SELECT product, COUNT(*) AS n, SUM(price) AS p FROM sales GROUP BY product",
        rho=40,
    ),
    ask(
        "a median in rho",
        "board",
        "SELECT MEDIAN(age) AS m FROM customers",
        rho=1,
        quantile_intervals=False,
    ),
    ask(
        "joint quantiles in rho",
        "board",
        """SELECT region, QUANTILE_CONT(age, 0.25) AS low, QUANTILE_CONT(age, 0.5) AS middle,
        QUANTILE_CONT(age, 0.75) AS high FROM customers GROUP BY region""",
        rho=2,
    ),
    ask("Laplace in rho", "board", "SELECT COUNT(*) AS n FROM sales", epsilon="0.5"),
    ask(
        "a part of the board",
        "north",
        "SELECT COUNT(*) AS n FROM customers WHERE region = 'north'",
        rho="0.25",
    ),
    ask(
        "shared",
        "press",
        "SELECT region, COUNT(*) AS n FROM customers GROUP BY region",
        rho="0.5",
    ),
    ask(
        "of a part",
        "south",
        "SELECT AVG(age) AS m FROM customers WHERE region = 'south'",
        rho="0.25",
    ),
    ask(
        "of a part, shared by the press",
        "press",
        "SELECT AVG(age) AS m FROM customers WHERE region = 'south'",
        rho="0.25",
    ),
    ask(
        "of the press",
        "press",
        "SELECT AVG(age) AS m FROM customers WHERE region = 'north'",
        rho="0.25",
    ),
    ask(
        "of the press, shared into a part",
        "north",
        "SELECT AVG(age) AS m FROM customers WHERE region = 'north'",
        rho="0.25",
    ),
    ask_exactly(
        "customers by region",
        "board",
        "SELECT region, COUNT(*) AS n FROM customers GROUP BY region",
        rho=200,
    ),
)

MONTHS = (
    ask("all windows", "total", "SELECT COUNT(*) AS n, SUM(cost) AS c FROM visits", rho="0.5"),
    ask(
        "one window",
        "total",
        """SELECT COUNT(*) AS n FROM visits WHERE day >= DATE '2026-03-01'
        AND day < DATE '2026-04-01'""",
        rho="0.5",
    ),
    ask(
        "an analyst in one window",
        "ann",
        "SELECT AVG(cost) AS m FROM visits WHERE day < DATE '2026-02-01'",
        rho="0.25",
    ),
    ask("a median of all windows", "ann", "SELECT MEDIAN(cost) AS m FROM visits", rho=1),
    ask_exactly(
        "visits by cost",
        "total",
        "SELECT cost, COUNT(*) AS n FROM visits GROUP BY cost",
        rho=200,
    ),
)

CLOSED = (
    ask("sizes", "total", "SELECT size, COUNT(*) AS n FROM parcels GROUP BY size", epsilon=1),
    ask("a sum", "total", "SELECT SUM(size) AS s FROM parcels", epsilon="0.5"),
)

CERTIFIED = {
    "hospital": ("count by county", "undeclared keys", "Gaussian at a delta", "a part"),
    "hospital_postgres": ("reissued",),
    "shops": ("Gaussian keys", "shared"),
    "months": ("one window",),
    "closed": ("sizes",),
}
"""Whose certificates are stored."""
