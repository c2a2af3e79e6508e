"""MODE: the most frequent value, chosen from noisy counts of all values."""

from __future__ import annotations

from sqlglot import exp

_VALUE = "mode_value"
_COUNT = "mode_count"
_CLAUSES = ("having", "distinct", "qualify", "with_")


def rewrite_mode(query: exp.Query) -> exp.Query:
    """Rewrite a question for the mode of a column as one over counts by that column.

    Any other question is returned as it is.

    >>> from dither.sql.parse import parse
    >>> rewrite_mode(parse("SELECT MODE(ward) AS m FROM visits")).sql()
    'SELECT ARG_MAX(mode_value, mode_count) AS m FROM (SELECT ward AS mode_value, \
COUNT(*) AS mode_count FROM visits GROUP BY ward) AS counts WHERE NOT mode_value IS NULL'
    """
    if not isinstance(query, exp.Select) or any(query.args.get(clause) for clause in _CLAUSES):
        return query
    modes = [output for output in query.expressions if _find_argument(output) is not None]
    others = [output for output in query.expressions if output not in modes]
    group = query.args.get("group")
    keys = list(group.expressions) if group is not None else []
    are_names = all(isinstance(key, exp.Column) and not key.table for key in keys)
    if len(modes) != 1 or not are_names or any(output not in keys for output in others):
        return query
    argument = _find_argument(modes[0])
    assert argument is not None
    return _choose_most_frequent(query, modes[0], argument, keys)


def _choose_most_frequent(
    query: exp.Select, mode: exp.Expr, argument: exp.Expr, keys: list[exp.Expr]
) -> exp.Select:
    """Write the question for the value with the largest noisy count of each group; NULL is no
    value."""
    counts = query.copy()
    for clause in ("order", "limit", "offset"):
        counts.set(clause, None)
    value = exp.alias_(argument.copy(), _VALUE)
    count = exp.alias_(exp.Count(this=exp.Star()), _COUNT)
    counts.set("expressions", [*(key.copy() for key in keys), value, count])
    counts.set("group", exp.Group(expressions=[*(key.copy() for key in keys), argument.copy()]))
    chosen = exp.ArgMax(this=exp.column(_VALUE), expression=exp.column(_COUNT))
    name = mode.alias or f"mode_{argument.name}"
    outputs = [
        exp.alias_(chosen, name) if output is mode else output.copy()
        for output in query.expressions
    ]
    outer = exp.select(*outputs).from_(counts.subquery("counts")).where(f"{_VALUE} IS NOT NULL")
    if keys:
        outer = outer.group_by(*(key.copy() for key in keys))
    for clause in ("order", "limit", "offset"):
        if query.args.get(clause):
            outer.set(clause, query.args[clause].copy())
    return outer


def _find_argument(output: exp.Expr) -> exp.Column | None:
    """Find the column of MODE(x), or of MODE() WITHIN GROUP (ORDER BY x); None for anything
    else."""
    node = output.unalias()
    argument = node.this if isinstance(node, exp.Mode) else None
    if isinstance(node, exp.WithinGroup) and isinstance(node.this, exp.Mode):
        terms = node.expression.expressions
        argument = terms[0].this if len(terms) == 1 else None
    return argument if isinstance(argument, exp.Column) else None
