"""Questions for keys alone: `SELECT DISTINCT ward FROM visits`, `SELECT ward ... GROUP BY ward`.

Where all keys are declared, the catalog has the answer: every declared key, whether or not somebody
has it. Keys that are not declared need a paid selection, which binding makes by itself.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dither.catalog import Catalog
from dither.errors import QueryError
from dither.plan.facts import NO_FACTS, Facts
from dither.question.recipe import Recipe
from dither.sql.bind import bind
from dither.sql.parse import parse
from dither.sql.per_unit import has_aggregates

_COUNT = "dither_count"


def bind_declared_keys(sql: str, catalog: Catalog, facts: Facts = NO_FACTS) -> Recipe | None:
    """Make the recipe of a question for declared keys alone: it has no query. None for any other.

    The question is bound with a count beside its keys, so that all rules of GROUP BY hold; the
    count is taken off again.
    """
    query = parse(sql)
    if not isinstance(query, exp.Select) or has_aggregates(query):
        return None
    distinct = query.args.get("distinct")
    if bool(distinct) == bool(query.args.get("group")) or (distinct and distinct.args.get("on")):
        return None
    if distinct:
        query.set("distinct", None)
        query.set("group", exp.Group(all=True))
    counted = query.select(exp.alias_(exp.Count(this=exp.Star()), _COUNT))
    try:
        recipe = bind(counted.sql(dialect="duckdb"), catalog, facts)
    except QueryError:
        return None
    is_declared = all(grouping.selection is None for grouping in recipe.sets)
    if len(recipe.atoms) != 1 or not recipe.keys or not is_declared:
        return None
    return replace(
        recipe,
        sql=sql,
        queries=(),
        atoms=(),
        sets=tuple(replace(grouping, positions=()) for grouping in recipe.sets),
        outputs=recipe.outputs[:-1],
    )
