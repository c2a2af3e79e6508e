"""Questions that ask for one COUNT or SUM by declared keys, and for nothing else.

Such a question is a marginal of its rows, so that earlier releases over the same rows may answer it
(`earlier_releases.py`).
"""

from __future__ import annotations

from math import prod

from dither.errors import RefusedError
from dither.plan.algebra import Cells, Count, CountValues, Sum
from dither.plan.keys import MAX_CELLS, list_keys
from dither.question.expressions import KeyValue, Noisy
from dither.question.recipe import Recipe


def find_plain_marginal(recipe: Recipe) -> Cells | None:
    """The one query of such a question; None for every other question.

    Shifted sums, counts of people or of different values, undeclared keys, dates made of other
    columns, HAVING, ORDER BY and LIMIT are others.
    """
    query = recipe.queries[0] if len(recipe.queries) == 1 else None
    is_plain = (
        isinstance(query, Cells)
        and len(query.columns) == len(recipe.atoms) == len(recipe.sets) == 1
        and isinstance(query.columns[0], (Count, CountValues, Sum))
        and recipe.having is None
        and recipe.limit is None
        and not recipe.offset
        and not recipe.order
        and not recipe.atoms[0].offset
        and recipe.sets[0].selection is None
        and _has_plain_outputs(recipe)
    )
    if not is_plain or not isinstance(query, Cells):
        return None
    keys = [recipe.keys[index] for index in recipe.sets[0].keys]
    if tuple(key.column for key in keys) != query.keys or any(key.dated for key in keys):
        return None
    try:
        cells = prod(list_keys(key.column, key.domain).codes for key in keys)
    except RefusedError:
        return None
    return query if cells <= MAX_CELLS else None


def _has_plain_outputs(recipe: Recipe) -> bool:
    """Whether a question shows keys and one released number, as they are."""
    values = [output for output in recipe.outputs if output.role == "value"]
    keys = [output for output in recipe.outputs if output.role == "key"]
    return (
        len(values) == 1
        and values[0].formula == Noisy(0)
        and all(isinstance(output.formula, KeyValue) for output in keys)
    )
