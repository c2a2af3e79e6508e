"""Functions under the names that other engines give them."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dither.catalog import Catalog
from dither.sql.tree_nodes import list_nodes

_PI = "3.14159265"
_LONGEST_TEXT = 10_000
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_OF_ONE_COLUMN: dict[str, Callable[..., exp.Expr]] = {
    "std": exp.Stddev,
    "stdev": exp.Stddev,
    "stdevp": exp.StddevPop,
    "stddev_population": exp.StddevPop,
    "stddev_sample": exp.StddevSamp,
    "var": exp.Variance,
    "varp": exp.VariancePop,
    "variance_pop": exp.VariancePop,
    "variance_samp": exp.Variance,
}

OTHER_NAMES = (*_OF_ONE_COLUMN, "approx_count_distinct", "pi", "dayname", "monthname")
"""Names that have a rule by another name."""


def rewrite_functions(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Rewrite functions that have another name, or a shorter form, by those that have a rule.

    The arguments of a function are rewritten before it.
    """
    for node in reversed(list_nodes(query)):
        written = _rewrite(node)
        if written is not None and node.parent is not None:
            _keep_position(node, written)
            node.replace(written)
    return query


def _rewrite(node: exp.Expr) -> exp.Expr | None:
    """Return what to write in place of a node; None where it stays."""
    if not isinstance(node, exp.Func):
        return None
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower()
        arguments = node.expressions
        if name in _OF_ONE_COLUMN and len(arguments) == 1:
            return _OF_ONE_COLUMN[name](this=arguments[0].copy())
        if name == "pi" and not arguments:
            return exp.Literal.number(_PI)
        return None
    if isinstance(node, exp.Pi):
        return exp.Literal.number(_PI)
    if isinstance(node, exp.Substring) and node.args.get("length") is None:
        start = node.args.get("start")
        if start is not None:
            return exp.Substring(
                this=node.this.copy(),
                start=start.copy(),
                length=exp.Literal.number(_LONGEST_TEXT),
            )
    if isinstance(node, exp.ApproxDistinct):
        return exp.Count(this=exp.Distinct(expressions=[node.this.copy()]))
    if isinstance(node, exp.Dayname):
        return _write_labels("dow", node.this, dict(enumerate(_WEEKDAYS)))
    if isinstance(node, exp.Monthname):
        return _write_labels("month", node.this, dict(enumerate(_MONTHS, 1)))
    return None


def _write_labels(unit: str, date: exp.Expr, labels: dict[int, str]) -> exp.Expr:
    """Write a CASE over a field of a date: one label for each number."""
    number = exp.Extract(this=exp.Var(this=unit), expression=date.copy())
    choices = [
        exp.If(
            this=exp.EQ(this=number.copy(), expression=exp.Literal.number(value)),
            true=exp.Literal.string(label),
        )
        for value, label in labels.items()
    ]
    return exp.Case(ifs=choices)


def _keep_position(node: exp.Expr, written: exp.Expr) -> None:
    """What is written stands where the node stood, for the marks of errors."""
    for key in ("line", "col", "start", "end"):
        if key in node.meta:
            written.meta[key] = node.meta[key]
