"""Names that SQL has for the functions of the table, and how their arguments are ordered there."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

Arguments = Callable[[exp.Expr], list[exp.Expr | None]]


def _args(*names: str) -> Arguments:
    def found(node: exp.Expr) -> list[exp.Expr | None]:
        listed: list[exp.Expr | None] = []
        for name in names:
            value = node.args.get(name)
            listed += value if isinstance(value, list) else [value]
        return listed

    return found


_ONE, _TWO, _MANY = _args("this"), _args("this", "expression"), _args("this", "expressions")

TYPED: dict[type[exp.Expr], tuple[str, Arguments]] = {
    exp.Mul: ("multiply", _TWO),
    exp.Div: ("divide", _TWO),
    exp.IntDiv: ("integer_divide", _TWO),
    exp.Mod: ("mod", _TWO),
    exp.Pow: ("power", _TWO),
    exp.Neg: ("negate", _ONE),
    exp.Abs: ("abs", _ONE),
    exp.Sign: ("sign", _ONE),
    exp.Sqrt: ("sqrt", _ONE),
    exp.Floor: ("floor", _ONE),
    exp.Ceil: ("ceil", _ONE),
    exp.Least: ("least", _MANY),
    exp.Greatest: ("greatest", _MANY),
    exp.Nullif: ("nullif", _TWO),
    exp.WidthBucket: ("width_bucket", _args("this", "min_value", "max_value", "num_buckets")),
    exp.ToNumber: ("to_number", _ONE),
    exp.Lower: ("lower", _ONE),
    exp.Upper: ("upper", _ONE),
    exp.Length: ("length", _ONE),
    exp.ByteLength: ("byte_length", _ONE),
    exp.Left: ("left", _TWO),
    exp.Right: ("right", _TWO),
    exp.Substring: ("substring", _args("this", "start", "length")),
    exp.StartsWith: ("starts_with", _TWO),
    exp.EndsWith: ("ends_with", _TWO),
    exp.Contains: ("contains", _TWO),
    exp.StrPosition: ("position", _args("this", "substr")),
    exp.Replace: ("replace", _args("this", "expression", "replacement")),
    exp.SplitPart: ("split_part", _args("this", "delimiter", "part_index")),
    exp.Year: ("year", _ONE),
    exp.Quarter: ("quarter", _ONE),
    exp.Month: ("month", _ONE),
    exp.Week: ("week", _ONE),
    exp.WeekOfYear: ("week", _ONE),
    exp.Day: ("day", _ONE),
    exp.DayOfMonth: ("day", _ONE),
    exp.DayOfWeekIso: ("day_of_week", _ONE),
    exp.DayOfYear: ("day_of_year", _ONE),
    exp.Hour: ("hour", _ONE),
    exp.Minute: ("minute", _ONE),
    exp.Second: ("second", _ONE),
    exp.LastDay: ("last_day", _ONE),
    exp.AddMonths: ("add_months", _TWO),
}
"""Parsed functions: the table's name, and its arguments in the table's order."""

SAME = {"strlen": "byte_length", "suffix": "ends_with", "prefix": "starts_with", "iff": "if", "isodow": "day_of_week"}
"""Other names that are not parsed to a type of their own."""

PARTS = {
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
    exp.TimeToStr: "format",
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
