"""Names that SQL has for the functions of the table, and how their arguments are ordered there."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

Arguments = Callable[[exp.Expr], list[exp.Expr | None]]


def _pick_arguments(*names: str) -> Arguments:
    """Make a function that picks these arguments of a node, in order; None for a missing one."""

    def pick(node: exp.Expr) -> list[exp.Expr | None]:
        listed: list[exp.Expr | None] = []
        for name in names:
            value = node.args.get(name)
            listed += value if isinstance(value, list) else [value]
        return listed

    return pick


_UNARY = _pick_arguments("this")
_BINARY = _pick_arguments("this", "expression")
_VARIADIC = _pick_arguments("this", "expressions")

TYPED: dict[type[exp.Expr], tuple[str, Arguments]] = {
    exp.Mul: ("multiply", _BINARY),
    exp.Div: ("divide", _BINARY),
    exp.IntDiv: ("integer_divide", _BINARY),
    exp.Mod: ("mod", _BINARY),
    exp.Pow: ("power", _BINARY),
    exp.Neg: ("negate", _UNARY),
    exp.Abs: ("abs", _UNARY),
    exp.Sign: ("sign", _UNARY),
    exp.Sqrt: ("sqrt", _UNARY),
    exp.Floor: ("floor", _UNARY),
    exp.Ceil: ("ceil", _UNARY),
    exp.Least: ("least", _VARIADIC),
    exp.Greatest: ("greatest", _VARIADIC),
    exp.Nullif: ("nullif", _BINARY),
    exp.WidthBucket: (
        "width_bucket",
        _pick_arguments("this", "min_value", "max_value", "num_buckets"),
    ),
    exp.ToNumber: ("to_number", _UNARY),
    exp.Lower: ("lower", _UNARY),
    exp.Upper: ("upper", _UNARY),
    exp.Length: ("length", _UNARY),
    exp.ByteLength: ("byte_length", _UNARY),
    exp.Left: ("left", _BINARY),
    exp.Right: ("right", _BINARY),
    exp.Substring: ("substring", _pick_arguments("this", "start", "length")),
    exp.StartsWith: ("starts_with", _BINARY),
    exp.EndsWith: ("ends_with", _BINARY),
    exp.Contains: ("contains", _BINARY),
    exp.StrPosition: ("position", _pick_arguments("this", "substr")),
    exp.Replace: ("replace", _pick_arguments("this", "expression", "replacement")),
    exp.SplitPart: ("split_part", _pick_arguments("this", "delimiter", "part_index")),
    exp.Year: ("year", _UNARY),
    exp.Quarter: ("quarter", _UNARY),
    exp.Month: ("month", _UNARY),
    exp.Week: ("week", _UNARY),
    exp.WeekOfYear: ("week", _UNARY),
    exp.Day: ("day", _UNARY),
    exp.DayOfMonth: ("day", _UNARY),
    exp.DayOfWeekIso: ("day_of_week", _UNARY),
    exp.DayOfYear: ("day_of_year", _UNARY),
    exp.Hour: ("hour", _UNARY),
    exp.Minute: ("minute", _UNARY),
    exp.Second: ("second", _UNARY),
    exp.LastDay: ("last_day", _UNARY),
    exp.AddMonths: ("add_months", _BINARY),
}
"""Parsed functions: the table's name, and its arguments in the table's order."""

SAME = {
    "strlen": "byte_length",
    "suffix": "ends_with",
    "prefix": "starts_with",
    "iff": "if",
    "isodow": "day_of_week",
}
"""Other names that are not parsed to a type of their own."""

DATE_PARTS = {
    "YEAR": "year",
    "QUARTER": "quarter",
    "MONTH": "month",
    "WEEK": "week",
    "DAY": "day",
    "DAYOFMONTH": "day",
    "ISODOW": "day_of_week",
    "DOY": "day_of_year",
    "DAYOFYEAR": "day_of_year",
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
}
"""EXTRACT(part FROM x) and date_part('part', x)."""

PERIODS = {"YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "WEEK": "week"}
"""date_trunc('period', x)."""

REFUSED_TYPES = {
    exp.Ln: "ln",
    exp.Log: "log",
    exp.Exp: "exp",
    exp.Sin: "sin",
    exp.Cos: "cos",
    exp.Tan: "tan",
    exp.Asin: "asin",
    exp.Acos: "acos",
    exp.Atan: "atan",
    exp.Cbrt: "cbrt",
    exp.Rand: "random",
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "current_timestamp",
    exp.AnyValue: "any_value",
    exp.IgnoreNulls: "any_value",
    exp.First: "first",
    exp.Last: "last",
    exp.ArgMax: "arg_max",
    exp.ArgMin: "arg_min",
    exp.ArrayAgg: "list",
    exp.GroupConcat: "string_agg",
    exp.ILike: "ilike",
    exp.RegexpLike: "regexp_matches",
    exp.RegexpReplace: "regexp_replace",
    exp.RegexpExtract: "regexp_extract",
    exp.SimilarTo: "similar_to",
    exp.Glob: "regexp_matches",
    exp.Collate: "collate",
    exp.DateFromParts: "make_date",
    exp.StrToTime: "strptime",
    exp.Dayname: "format",
    exp.Monthname: "format",
    exp.MD5: "md5",
    exp.SHA2: "sha256",
    exp.Repeat: "repeat",
    exp.Reverse: "reverse",
    exp.Initcap: "initcap",
    exp.Mode: "mode",
    exp.Try: "try",
    exp.TryCast: "try_cast",
    exp.Unnest: "unnest",
    exp.Explode: "unnest",
    exp.JSONExtract: "json_extract",
    exp.Chr: "chr",
    exp.Unicode: "unicode",
}
"""Parsed functions that are refused, by their name in `plan/functions/refused.py`."""
