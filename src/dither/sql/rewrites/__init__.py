"""Ways to write SQL that mean the same as others: each is rewritten before the question is bound.

Each pass is one file with one function: a query and the catalog in, the query out. A pass changes
only what would be refused otherwise, so that questions which were asked before keep their answers.
"""

from __future__ import annotations

from sqlglot import exp

from dither.catalog import Catalog
from dither.sql.rewrites.comma_joins import rewrite_comma_joins
from dither.sql.rewrites.constant_subqueries import rewrite_constant_subqueries
from dither.sql.rewrites.distinct_ids import rewrite_distinct_ids
from dither.sql.rewrites.distinct_references import rewrite_distinct_references
from dither.sql.rewrites.functions import rewrite_functions
from dither.sql.rewrites.lateral_aliases import rewrite_lateral_aliases
from dither.sql.rewrites.natural_joins import rewrite_natural_joins
from dither.sql.rewrites.schema_names import rewrite_schema_names

PASSES = (
    rewrite_schema_names,
    rewrite_functions,
    rewrite_natural_joins,
    rewrite_comma_joins,
    rewrite_lateral_aliases,
    rewrite_constant_subqueries,
    rewrite_distinct_ids,
    rewrite_distinct_references,
)


def rewrite(query: exp.Query, catalog: Catalog) -> exp.Query:
    """The query after every pass."""
    for apply in PASSES:
        query = apply(query, catalog)
    return query
