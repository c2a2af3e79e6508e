"""`OVER w ... WINDOW w AS (...)`: the definition of a window is written where it is used."""

from __future__ import annotations

from sqlglot import exp


def write_named_windows(query: exp.Query) -> exp.Query:
    """Write out the windows that a SELECT names, in place; a name without a definition stays.

    >>> import sqlglot
    >>> sql = "SELECT SUM(n) OVER w FROM t WINDOW w AS (ORDER BY n)"
    >>> write_named_windows(sqlglot.parse_one(sql, read="duckdb")).sql("duckdb")
    'SELECT SUM(n) OVER (ORDER BY n) FROM t'
    """
    for select in list(query.find_all(exp.Select)):
        definitions = {window.name.lower(): window for window in select.args.get("windows") or []}
        if not definitions or any(window.args.get("alias") for window in definitions.values()):
            continue
        for window in list(select.find_all(exp.Window)):
            definition = definitions.get(window.alias.lower())
            has_more = any(window.args.get(part) for part in ("partition_by", "order", "spec"))
            if definition is None or has_more or window.parent_select is not select:
                continue
            window.set("alias", None)
            for part in ("partition_by", "order", "spec"):
                window.set(part, _copy(definition.args.get(part)))
        select.set("windows", None)
    return query


def _copy(argument: object) -> object:
    if isinstance(argument, list):
        return [member.copy() for member in argument]
    return argument.copy() if isinstance(argument, exp.Expr) else argument
