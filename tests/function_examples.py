"""Calls of every function of the table, and edge values to try them on."""

from __future__ import annotations

import datetime
from fractions import Fraction as F

from dither.plan.algebra import Call, Column, Value


def n(value) -> Value:
    return Value("number", F(value))


def t(value: str) -> Value:
    return Value("text", value)


def c(function: str, *arguments) -> Call:
    return Call(function, arguments)


def day(text: str) -> Value:
    return Value("date", F((datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days))


SCORE, COST, NOTE, DAY, SEEN, URGENT = (
    Column(name) for name in ("score", "cost", "note", "day", "seen", "urgent")
)
COUNTY, DIAG = Column("county"), Column("diag")
NOON = Value("timestamp", F(1_714_561_200))
LATE = c("gt", SCORE, n(0))
EXAMPLES: dict[str, list[Call]] = {
    "add": [c("add", SCORE, COST), c("add", SCORE, n("1/3"), n(2)), c("add", SCORE, n(10**30))],
    "subtract": [c("subtract", COST, SCORE), c("subtract", n("0.5"), COST)],
    "multiply": [
        c("multiply", COST, COST),
        c("multiply", n("-2.5"), SCORE),
        c("multiply", COST, n(10**25)),
    ],
    "divide": [
        c("divide", COST, SCORE),
        c("divide", SCORE, COST),
        c("divide", SCORE, n(-3)),
        c("divide", SCORE, n(0)),
    ],
    "integer_divide": [c("integer_divide", COST, SCORE), c("integer_divide", COST, n("-0.3"))],
    "mod": [
        c("mod", COST, SCORE),
        c("mod", COST, n("0.07")),
        c("mod", SCORE, n(-3)),
        c("mod", SCORE, n(0)),
    ],
    "negate": [c("negate", COST)],
    "abs": [c("abs", SCORE), c("abs", c("add", SCORE, n(6)))],
    "sign": [c("sign", COST)],
    "least": [c("least", SCORE, COST), c("least", SCORE, n(2), COST)],
    "greatest": [c("greatest", SCORE, COST), c("greatest", SCORE, n("0.5"))],
    "floor": [c("floor", COST), c("floor", c("divide", SCORE, n(3)))],
    "ceil": [c("ceil", COST), c("ceil", c("divide", SCORE, n(3)))],
    "trunc": [c("trunc", COST), c("trunc", SCORE)],
    "round": [
        c("round", COST, n(1)),
        c("round", COST),
        c("round", c("divide", COST, n(7)), n(3)),
        c("round", SCORE, n(2)),
    ],
    "to_integer": [c("to_integer", COST)],
    "bin": [c("bin", COST, n("0.25")), c("bin", SCORE, n(3))],
    "clamp": [c("clamp", COST, n("-0.5"), n("99.995")), c("clamp", SCORE, n(7), n(9))],
    "width_bucket": [
        c("width_bucket", COST, n(0), n(100), n(7)),
        c("width_bucket", SCORE, n("-1/2"), n(3), n(2)),
    ],
    "power": [
        c("power", SCORE, n(3)),
        c("power", COST, n(2)),
        c("power", SCORE, n(1)),
        c("power", SCORE, n(8)),
    ],
    "sqrt": [c("sqrt", COST), c("sqrt", SCORE), c("sqrt", c("divide", COST, n(3)))],
    "to_number": [c("to_number", URGENT), c("to_number", SCORE)],
    "lower": [c("lower", NOTE)],
    "upper": [c("upper", NOTE)],
    "trim": [c("trim", NOTE)],
    "ltrim": [c("ltrim", NOTE)],
    "rtrim": [c("rtrim", NOTE)],
    "length": [c("length", NOTE)],
    "byte_length": [c("byte_length", NOTE)],
    "left": [c("left", NOTE, n(2)), c("left", NOTE, n(0)), c("left", NOTE, n(99))],
    "right": [c("right", NOTE, n(2)), c("right", NOTE, n(0)), c("right", NOTE, n(99))],
    "substring": [
        c("substring", NOTE, n(2), n(2)),
        c("substring", NOTE, n(1), n(99)),
        c("substring", NOTE, n(99), n(1)),
    ],
    "starts_with": [c("starts_with", NOTE, t("A"))],
    "ends_with": [c("ends_with", NOTE, t("é"))],
    "contains": [c("contains", NOTE, t(" ")), c("contains", NOTE, t("'"))],
    "position": [c("position", NOTE, t("é")), c("position", NOTE, t("b"))],
    "replace": [c("replace", NOTE, t("a"), t("xyz")), c("replace", NOTE, t(" "), t(""))],
    "concat": [c("concat", NOTE, t("-"), DIAG)],
    "lpad": [c("lpad", NOTE, n(4), t("é")), c("lpad", NOTE, n(0), t("x"))],
    "rpad": [c("rpad", NOTE, n(4), t("_"))],
    "split_part": [
        c("split_part", NOTE, t(" "), n(1)),
        c("split_part", NOTE, t(" "), n(2)),
        c("split_part", NOTE, t("b"), n(9)),
    ],
    "like": [
        c("like", NOTE, t("%a%")),
        c("like", NOTE, t("_ b")),
        c("like", NOTE, t("%")),
        c("like", NOTE, t("a.c")),
    ],
    "label": [c("label", COUNTY), c("concat", c("label", COUNTY), NOTE)],
    "index_in": [
        c("index_in", NOTE, t("a"), t("a b"), t("")),
        c("index_in", NOTE, t("it's"), t("A"), t("abc")),
        c("index_in", c("label", COUNTY), t("oak"), t("ash")),
        c("coalesce", c("index_in", NOTE, t("a b")), n(7)),
        c("index_in", NOTE, t("\x01"), t("a\x01b\x02"), t("\u0301a b"), t("a b"), t("|")),
    ],
    "parse_integer": [c("parse_integer", NOTE, n(-5), n(20)), c("parse_integer", DIAG, n(0), n(9))],
    "year": [c("year", DAY), c("year", day("0001-01-01"))],
    "quarter": [c("quarter", DAY)],
    "month": [c("month", DAY)],
    "week": [c("week", DAY), c("week", day("2021-01-03"))],
    "day": [c("day", DAY)],
    "day_of_week": [c("day_of_week", DAY), c("day_of_week", day("1969-12-28"))],
    "day_of_year": [c("day_of_year", DAY)],
    "days_in_month": [c("days_in_month", DAY)],
    "is_weekend": [c("is_weekend", DAY)],
    "hour": [c("hour", SEEN)],
    "minute": [c("minute", SEEN)],
    "second": [c("second", SEEN)],
    "date_of": [c("date_of", SEEN)],
    "add_days": [c("add_days", DAY, SCORE), c("add_days", DAY, n(-400))],
    "days_between": [
        c("days_between", DAY, day("2000-02-29")),
        c("days_between", DAY, c("date_of", SEEN)),
    ],
    "add_months": [
        c("add_months", DAY, n(1)),
        c("add_months", DAY, n(-13)),
        c("add_months", day("2024-01-31"), n(1)),
    ],
    "trunc_year": [c("trunc_year", DAY)],
    "trunc_quarter": [c("trunc_quarter", DAY)],
    "trunc_month": [c("trunc_month", DAY)],
    "trunc_week": [c("trunc_week", DAY), c("trunc_week", day("1969-12-31"))],
    "last_day": [c("last_day", DAY)],
    "add_seconds": [c("add_seconds", SEEN, n(-86_400)), c("add_seconds", SEEN, SCORE)],
    "seconds_between": [c("seconds_between", SEEN, NOON)],
    "age_years": [c("age_years", day("2000-02-29"), DAY), c("age_years", DAY, day("2000-02-29"))],
    **{
        name: [c(name, SCORE, COST), c(name, DAY, day("2024-05-01")), c(name, SEEN, NOON)]
        for name in ("lt", "le", "gt", "ge")
    },
    "eq": [
        c("eq", SCORE, COST),
        c("eq", COUNTY, t("elm")),
        c("eq", NOTE, DIAG),
        c("eq", URGENT, LATE),
    ],
    "ne": [c("ne", SCORE, n("0.5")), c("ne", COUNTY, t("other")), c("ne", NOTE, t("a"))],
    "between": [
        c("between", COST, SCORE, n(100)),
        c("between", DAY, day("2024-02-01"), c("date_of", SEEN)),
    ],
    "in": [
        c("in", SCORE, n(1), n("0.5"), n(-5)),
        c("in", COUNTY, t("ash"), t("other")),
        c("in", NOTE, t("a b"), t("")),
    ],
    "and": [c("and", URGENT, LATE), c("and", URGENT, LATE, c("is_null", NOTE))],
    "or": [c("or", URGENT, LATE)],
    "not": [c("not", URGENT)],
    "xor": [c("xor", URGENT, LATE)],
    "is_null": [c("is_null", NOTE), c("is_null", SCORE)],
    "is_not_null": [c("is_not_null", COUNTY)],
    "is_true": [c("is_true", URGENT)],
    "is_false": [c("is_false", URGENT)],
    "is_distinct_from": [c("is_distinct_from", SCORE, COST), c("is_distinct_from", NOTE, DIAG)],
    "if": [c("if", LATE, SCORE, COST), c("if", URGENT, NOTE, t("long enough text"))],
    "case": [
        c("case", LATE, n(1), URGENT, n("0.5")),
        c("case", LATE, COUNTY, URGENT, t("elm"), COUNTY),
    ],
    "coalesce": [
        c("coalesce", SCORE, COST, n(0)),
        c("coalesce", NOTE, DIAG),
        c("coalesce", SEEN, NOON),
        c("coalesce", COUNTY, t("oak")),
    ],
    "nullif": [
        c("nullif", SCORE, COST),
        c("nullif", COUNTY, t("ash")),
        c("nullif", NOTE, t("a b")),
    ],
}
NOTES = [
    None,
    "a b",
    " A",
    "é",
    "'",
    "",
    "12",
    "-3",
    "+7",
    "9" * 8,
    "a.c",
    "abc",
    "%_",
    "x" * 500,
    "🤦🏼‍♂️",
    "\x00",
    "a\tb",
    "\\",
    "ß ",
]
DAYS = [
    None,
    "2024-01-01",
    "2024-02-29",
    "2024-12-30",
    "2024-12-31",
    "1900-01-01",
    "9999-12-31",
    "2024-06-02",
]
NUMBERS = [
    None,
    "0",
    "-5",
    "5",
    "1",
    "-1",
    "2",
    "3",
    "-0.0",
    "nan",
    "inf",
    "-inf",
    "1e308",
    "5e-324",
    "0.005",
    "99.995",
]
SEENS = [
    None,
    "2024-01-01 00:00:00",
    "2024-12-31T23:59:59",
    "2024-06-01T00:30:00Z",
    "2024-03-31 02:30:00+02:00",
]
