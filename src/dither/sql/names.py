"""Names of output columns that a question leaves unnamed: `count`, `sum_cost`, `year_date`."""

from __future__ import annotations

import re

from sqlglot import exp

_SHORT = {
    "countif": "count_if",
    "variancepop": "var_pop",
    "stddevpop": "stddev_pop",
    "stddevsamp": "stddev_samp",
    "percentilecont": "quantile",
    "percentiledisc": "quantile",
    "approxquantile": "quantile",
    "covarpop": "covar_pop",
    "covarsamp": "covar_samp",
    "regrslope": "regr_slope",
    "regrintercept": "regr_intercept",
    "timestamptrunc": "date_trunc",
    "datetrunc": "date_trunc",
    "timetostr": "strftime",
}


def name_output(node: exp.Expr, position: int) -> str:
    """Name an output by its column, or by its function with the first column.

    Any other expression is named by its position in the list.
    """
    node = node.unnest()
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, exp.Filter):
        return name_output(node.this, position)
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        return "count"
    if isinstance(node, exp.WithinGroup):
        word = _name_function(node.this)
        columns = list(node.expression.find_all(exp.Column))
    elif isinstance(node, exp.Func):
        word = _name_function(node)
        columns = list(node.find_all(exp.Column))
    else:
        return f"column_{position}"
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Distinct):
        word = "count_distinct"
    if not columns:
        return word
    return f"{word}_{columns[0].name}" if len(columns) <= 2 else f"column_{position}"


def _name_function(node: exp.Expr) -> str:
    """Name a function in small letters; `value` for what is no plain name."""
    if isinstance(node, exp.Anonymous):
        word = str(node.this).lower()
    elif isinstance(node, exp.Extract):
        word = str(node.this.name).lower()
    else:
        word = _SHORT.get(node.key, node.key)
    return word if re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", word) else "value"
