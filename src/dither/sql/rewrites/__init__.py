"""Ways to write SQL that mean the same as others: each is rewritten before the question is bound.

Each pass is one file with one function: a query and the catalog in, the query out. A pass changes
only what would be refused otherwise, so that questions which were asked before keep their answers.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dither.catalog import Catalog
from dither.sql.rewrites.comma_joins import rewrite_comma_joins
from dither.sql.rewrites.constant_subqueries import rewrite_constant_subqueries
from dither.sql.rewrites.distinct_ids import rewrite_distinct_ids
from dither.sql.rewrites.distinct_references import rewrite_distinct_references
from dither.sql.rewrites.filtered_people import rewrite_filtered_people
from dither.sql.rewrites.functions import rewrite_functions
from dither.sql.rewrites.lateral_aliases import rewrite_lateral_aliases
from dither.sql.rewrites.natural_joins import rewrite_natural_joins
from dither.sql.rewrites.public_scalars import rewrite_public_scalars
from dither.sql.rewrites.schema_names import rewrite_schema_names
from dither.sql.rewrites.unnest_lists import rewrite_unnest
from dither.sql.tree_nodes import list_nodes

Pass = Callable[[exp.Query, Catalog], exp.Query]
PASSES: tuple[tuple[Pass, type[exp.Expr]], ...] = (
    (rewrite_schema_names, exp.Query),
    (rewrite_functions, exp.Func),
    (rewrite_unnest, exp.Array),
    (rewrite_natural_joins, exp.Join),
    (rewrite_comma_joins, exp.Join),
    (rewrite_lateral_aliases, exp.Query),
    (rewrite_constant_subqueries, exp.Subquery),
    (rewrite_public_scalars, exp.Query),
    (rewrite_distinct_ids, exp.Distinct),
    (rewrite_distinct_references, exp.Distinct),
    (rewrite_filtered_people, exp.Filter),
)
"""The passes in order, each with a kind of node without which it changes nothing. No pass writes a
kind that a later one needs and the question has not."""


def rewrite(query: exp.Query, catalog: Catalog) -> exp.Query:
    """The query after every pass that could change it."""
    kinds = {type(node) for node in list_nodes(query)}
    for apply, needed in PASSES:
        if any(issubclass(kind, needed) for kind in kinds):
            query = apply(query, catalog)
    return query
