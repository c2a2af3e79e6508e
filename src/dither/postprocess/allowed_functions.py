"""The functions that a statement over answers may call.

None makes something large out of something small beyond the engine's bound on memory, and none
reads a clock, a setting, or chance: asked again, a question has the same table.
"""

from __future__ import annotations

from sqlglot import exp

_LOGIC = (exp.And, exp.Or, exp.Xor, exp.Exists, exp.Case, exp.If, exp.Coalesce, exp.Nullif)
_AGGREGATES = (
    exp.AnyValue,
    exp.ArgMax,
    exp.ArgMin,
    exp.Avg,
    exp.Corr,
    exp.Count,
    exp.CountIf,
    exp.CovarPop,
    exp.CovarSamp,
    exp.LogicalAnd,
    exp.LogicalOr,
    exp.Max,
    exp.Median,
    exp.Min,
    exp.PercentileCont,
    exp.PercentileDisc,
    exp.Quantile,
    exp.Stddev,
    exp.StddevPop,
    exp.StddevSamp,
    exp.Sum,
    exp.Variance,
    exp.VariancePop,
)
_WINDOWS = (
    exp.CumeDist,
    exp.DenseRank,
    exp.First,
    exp.FirstValue,
    exp.Lag,
    exp.Last,
    exp.LastValue,
    exp.Lead,
    exp.NthValue,
    exp.Ntile,
    exp.PercentRank,
    exp.Rank,
    exp.RowNumber,
)
_NUMBERS = (
    exp.Abs,
    exp.Cast,
    exp.Cbrt,
    exp.Ceil,
    exp.Exp,
    exp.Floor,
    exp.Greatest,
    exp.IsInf,
    exp.IsNan,
    exp.Least,
    exp.Ln,
    exp.Log,
    exp.Pow,
    exp.Round,
    exp.SafeDivide,
    exp.Sign,
    exp.Sqrt,
    exp.Trunc,
    exp.TryCast,
)
_TEXTS_AND_DATES = (
    exp.Concat,
    exp.Date,
    exp.DateAdd,
    exp.DateDiff,
    exp.DateFromParts,
    exp.DateSub,
    exp.DateTrunc,
    exp.Day,
    exp.DayOfWeek,
    exp.DayOfYear,
    exp.Dayname,
    exp.Extract,
    exp.Left,
    exp.Length,
    exp.Lower,
    exp.Month,
    exp.Monthname,
    exp.Quarter,
    exp.Right,
    exp.Substring,
    exp.TimestampAdd,
    exp.TimestampTrunc,
    exp.Trim,
    exp.Upper,
    exp.Week,
    exp.Year,
)
_ALLOWED = {*_LOGIC, *_AGGREGATES, *_WINDOWS, *_NUMBERS, *_TEXTS_AND_DATES}


def is_allowed(node: exp.Expr) -> bool:
    """Whether a node of a statement is no function, or one of those that are listed."""
    if isinstance(node, (exp.Lambda, exp.Command)):
        return False
    return not isinstance(node, exp.Func) or type(node) in _ALLOWED
