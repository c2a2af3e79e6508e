"""Formulas over columns mean what SQL means: DuckDB is the oracle, and nothing raises or warns."""

from __future__ import annotations

import datetime
import warnings
from fractions import Fraction as F

import duckdb
import numpy as np
import pytest

from dither.answer.evaluate import FormulaInputs, evaluate
from dither.question.expressions import FUNCTIONS, Apply, Constant, Grouping, KeyValue, Noisy
from tests.case_lists import mark_between

A, B = Noisy(0), Noisy(1)
NUMBERS = [-7.0, -2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 1e6]


def number(value):
    return Constant(F(value))


NULL = Constant(None)
CASES = [
    (Apply("add", (A, B, number(1))), "a + b + 1"),
    (Apply("subtract", (A, B)), "a - b"),
    (Apply("multiply", (A, B)), "a * b"),
    (Apply("divide", (A, B)), "a / NULLIF(b, 0)"),
    (Apply("power", (A, number(2))), "power(a, 2)"),
    (Apply("negate", (A,)), "-a"),
    (Apply("abs", (A,)), "abs(a)"),
    (Apply("sqrt", (A,)), "CASE WHEN a >= 0 THEN sqrt(a) END"),
    (Apply("ln", (A,)), "CASE WHEN a > 0 THEN ln(a) END"),
    (Apply("exp", (Apply("least", (A, number(5))),)), "exp(least(a, 5))"),
    (Apply("round", (A, number(0))), "round(a, 0)"),
    (Apply("round", (Apply("divide", (A, number(8))), number(2))), "round(a / 8, 2)"),
    (Apply("floor", (A,)), "floor(a)"),
    (Apply("ceil", (A,)), "ceil(a)"),
    (Apply("sign", (A,)), "sign(a)"),
    (Apply("least", (A, B, NULL)), "least(a, b)"),
    (Apply("greatest", (A, B)), "greatest(a, b)"),
    (Apply("coalesce", (Apply("divide", (A, B)), number(9))), "coalesce(a / NULLIF(b, 0), 9)"),
    (Apply("nullif", (A, B)), "NULLIF(a, b)"),
    (
        Apply("case", (Apply("gt", (A, number(1))), number(1), Apply("lt", (A, B)), B, NULL)),
        "CASE WHEN a > 1 THEN 1 WHEN a < b THEN b END",
    ),
    *[(Apply(name, (A, B)), f"a {sign} b") for name, sign in
      [("eq", "="), ("ne", "<>"), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")]],
    (Apply("and", (Apply("gt", (A, number(0))), Apply("gt", (B, NULL)))), "a > 0 AND b > NULL"),
    (Apply("or", (Apply("gt", (A, number(0))), Apply("gt", (B, NULL)))), "a > 0 OR b > NULL"),
    (Apply("not", (Apply("gt", (A, B)),)), "NOT (a > b)"),
    (Apply("not", (Apply("eq", (A, NULL)),)), "NOT (a = NULL)"),
    (Apply("is_null", (Apply("divide", (A, B)),)), "(a / NULLIF(b, 0)) IS NULL"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("formula", "sql"), mark_between(CASES, step=3), ids=[sql for _, sql in CASES]
)
def test_a_formula_is_what_the_engine_says(formula, sql):
    pairs = [(a, b) for a in NUMBERS for b in NUMBERS]
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE t (i INTEGER, a DOUBLE, b DOUBLE)")
        engine.executemany(
            "INSERT INTO t VALUES (?, ?, ?)", [(i, *pair) for i, pair in enumerate(pairs)]
        )
        expected = [row[0] for row in engine.execute(f"SELECT {sql} FROM t ORDER BY i").fetchall()]
    first, second = (np.array(column) for column in zip(*pairs, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = np.broadcast_to(
            evaluate(formula, FormulaInputs((first, second), {}, {})), (len(pairs),)
        )
    for got, want in zip(found, expected, strict=True):
        assert np.isnan(got) if want is None else got == pytest.approx(float(want), rel=1e-12), (
            got,
            want,
        )


def test_every_function_of_the_table_is_tried():
    tried = {part.name for formula, _ in CASES for part in _parts(formula)}
    assert tried == set(FUNCTIONS)


def _parts(formula):
    if isinstance(formula, Apply):
        yield formula
        for argument in formula.arguments:
            yield from _parts(argument)


def test_what_has_no_value_is_null_and_never_an_error():
    wild = np.array([0.0, -1.0, 1e308, 1e-320, 710.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("exp", "ln", "sqrt", "abs", "floor"):
            found = evaluate(Apply(name, (A,)), FormulaInputs((wild,), {}, {}))
            assert not np.isinf(found).any()
        big = evaluate(
            Apply("power", (A, number(400))), FormulaInputs((np.array([10.0, -2.0]),), {}, {})
        )
        assert np.isnan(big[0])


def test_keys_are_compared_as_what_they_are():
    days = np.array([datetime.date(2024, 1, 1), datetime.date(2025, 1, 1), None], object)
    words = np.array(["north", "south", None], object)
    at = FormulaInputs((), {0: days, 1: words}, {0: 0.0, 1: 1.0})
    after = Apply("ge", (KeyValue(0), Constant("2024-06-01")))
    assert evaluate(after, at)[:2].tolist() == [0.0, 1.0] and np.isnan(evaluate(after, at)[2])
    by_day = Apply(
        "lt", (KeyValue(0), number((datetime.date(2024, 6, 1) - datetime.date(1970, 1, 1)).days))
    )
    assert evaluate(by_day, at)[:2].tolist() == [1.0, 0.0]
    assert evaluate(Apply("eq", (KeyValue(1), Constant("north"))), at)[:2].tolist() == [1.0, 0.0]
    assert evaluate(Apply("coalesce", (KeyValue(1), Constant("none"))), at).tolist() == [
        "north",
        "south",
        "none",
    ]
    assert evaluate(Apply("add", (Grouping(1), number(1))), at) == 2.0
