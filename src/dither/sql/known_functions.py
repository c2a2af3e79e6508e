"""Refuses functions that a question cannot use, by name and before anything else is read.

An unknown function would else be met as what it looks like where it stands: a column that is no
key, or an aggregate at the wrong position.
"""

from __future__ import annotations

from functools import cache

from sqlglot import exp

from dither.errors import QueryError
from dither.plan.functions import REFUSED, TABLE
from dither.rules import PrivacyRule
from dither.sql.aggregates import AGGREGATES
from dither.sql.expressions import RULES
from dither.sql.functions import REFUSED_TYPES, SAME, TYPED
from dither.sql.refusals.refuse import did_you_mean
from dither.sql.rewrites.functions import OTHER_NAMES
from dither.sql.scope import Context

_BY_NAME = frozenset((*TABLE, *SAME, "date_part", "histogram", "product"))
"""Functions that the parser leaves by name, and that have a rule."""
_SPELLINGS = ("count", "sum", "avg", "min", "max", "median", "quantile", "stddev", "var_pop")


def check_functions(nodes: list[exp.Expr], context: Context) -> None:
    """Refuse the first function without a rule among the nodes of a question."""
    for node in nodes:
        if isinstance(node.parent, (exp.Window, exp.Table, exp.IgnoreNulls, exp.RespectNulls)):
            continue
        if (error := _refuse_function(node, context)) is not None:
            raise error


def _refuse_function(node: exp.Expr, context: Context) -> QueryError | None:
    """Make the error for a function that is refused or that nobody knows; None for any other
    node."""
    if isinstance(node, exp.Anonymous):
        name = str(node.this)
        if name.lower() in _BY_NAME:
            return None
    elif isinstance(node, exp.AggFunc) and not isinstance(node, _ANSWERED):
        name = node.sql(dialect="duckdb").split("(")[0]
    else:
        return None
    label = PrivacyRule.LISTED_FUNCTIONS.label
    if name.lower() in REFUSED:
        return context.error(f"{name.lower()} is refused: {REFUSED[name.lower()]} {label}", node)
    return context.error(f"no function {name}: {_suggest(name)} {label}", node)


_ANSWERED = (*AGGREGATES, *REFUSED_TYPES, exp.Grouping, exp.GroupingId)


def _suggest(name: str) -> str:
    hint = did_you_mean(name, list_function_names())
    if not hint.startswith("did"):
        return "the functions that a question can use are in docs/reference/functions.md"
    return hint.upper().replace("DID YOU MEAN", "did you mean") if name.isupper() else hint


@cache
def list_function_names() -> tuple[str, ...]:
    """Every name under which a question can call a function; the usual ones first."""
    types = [kind for kind in (*AGGREGATES, *TYPED, *RULES) if issubclass(kind, exp.Func)]
    typed = [name.lower() for kind in types for name in kind.sql_names()]
    names = (*_SPELLINGS, *OTHER_NAMES, *sorted(_BY_NAME - {"product"}), *typed)
    return tuple(name for name in dict.fromkeys(names) if name.isidentifier())
