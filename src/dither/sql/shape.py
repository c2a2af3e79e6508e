"""Refuses what the parser notes on a node and no rule reads: ignoring a flag would change the
meaning of a question.

Each node type that has a rule lists the parts that its rule reads, or that change nothing; any
other part is refused.
"""

from __future__ import annotations

from sqlglot import exp

from dither.rules import PrivacyRule
from dither.sql.aggregates import AGGREGATES
from dither.sql.expressions import COMPARISONS, RULES
from dither.sql.functions import TYPED
from dither.sql.refusals.refuse import quote_node
from dither.sql.scope import Context

_PLAIN = {"this", "expression", "expressions"}
_READ: dict[type[exp.Expr], set[str]] = {
    exp.Like: {"negate"},
    exp.Is: {"negate"},
    exp.Literal: {"is_string"},
    exp.Column: {"table", "db", "catalog"},  # the last two are refused by name
    exp.Div: {"typed", "safe"},
    exp.Case: {"ifs", "default"},
    exp.If: {"true", "false"},
    exp.Between: {"low", "high", "symmetric"},
    exp.In: {"query", "unnest", "field"},
    exp.Cast: {"to"},
    exp.Trim: {"position"},
    exp.Pad: {"fill_pattern", "is_left"},
    exp.Concat: {"safe", "coalesce"},
    exp.DPipe: {"safe"},
    exp.TimestampTrunc: {"unit", "input_type_preserved"},
    exp.DateTrunc: {"unit", "input_type_preserved"},
    exp.DateDiff: {"unit", "date_part_boundary", "big_int"},
    exp.Substring: {"start", "length"},
    exp.StrPosition: {"substr"},
    exp.Round: {"decimals"},
    exp.TimeToStr: {"format"},
    exp.Trunc: {"decimals", "fractions_supported"},
    exp.Replace: {"replacement"},
    exp.SplitPart: {"delimiter", "part_index"},
    exp.WidthBucket: {"min_value", "max_value", "num_buckets"},
    exp.Least: {"ignore_nulls"},
    exp.Greatest: {"ignore_nulls"},
    exp.Count: {"big_int"},
    exp.Quantile: {"quantile"},
    exp.ApproxQuantile: {"quantile"},
    exp.Interval: {"unit", "fraction_in_string"},
    exp.Ordered: {"desc", "nulls_first"},
    exp.Order: set(),
    exp.Join: {"on", "side", "kind", "using", "method"},
    exp.Group: {"rollup", "cube", "grouping_sets", "totals", "all"},
    exp.Limit: {"limit_options"},
    exp.Offset: set(),
    exp.Fetch: {"direction", "count", "limit_options"},
    exp.CTE: {"alias", "materialized"},
    exp.With: {"recursive"},
    exp.Union: {"with_", "distinct", "by_name", "on", "order", "limit", "offset"},
    exp.Subquery: {"alias", "with_", "joins", "sample", "pivots", "limit", "offset", "order"},
    exp.Distinct: {"on"},
    exp.TableAlias: {"columns"},
    exp.Filter: set(),
    exp.WithinGroup: set(),
    exp.Exists: set(),
    exp.Grouping: set(),
    exp.GroupingId: set(),
    exp.Rollup: set(),
    exp.Cube: set(),
    exp.GroupingSets: set(),
    exp.Tuple: set(),
    exp.Where: set(),
    exp.Having: set(),
    exp.Ln: set(),
    exp.Exp: set(),
}
_KNOWN = {**dict.fromkeys([*RULES, *TYPED, *COMPARISONS, *AGGREGATES], frozenset[str]()), **_READ}


def check_shape(nodes: list[exp.Expr], context: Context) -> None:
    """Refuse a part of a node that no rule reads."""
    for node in nodes:
        read_arguments = _KNOWN.get(type(node))
        if read_arguments is None:
            continue
        unread = [
            name
            for name, value in node.args.items()
            if value and name not in _PLAIN and name not in read_arguments
        ]
        if unread:
            words = ", ".join(name.rstrip("_") for name in unread)
            raise context.error(
                f"no rule for {quote_node(node)} with {words} {PrivacyRule.NO_RULE.label}",
                node,
            )
