"""The parts of a question over answers, as limits are bought for them before any is asked.

A part may wait for a number of another: `quantity < (SELECT 0.2 * AVG(quantity) ...)`. In its place
stands what it would be if every average were the middle of its public bounds. A part that waits for
any other number has no such value, and no limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyarrow as pa

from dither.answer.asked import Asked, Bound
from dither.answer.average_bounds import find_average_bounds
from dither.answer.blocks import list_keys
from dither.catalog import Catalog
from dither.errors import DitherError, QueryError
from dither.postprocess.ask_subquestions import ReadPublic, read_split
from dither.postprocess.combined_result import UNDEFINED, compute_numbers, name_public_rows
from dither.postprocess.split_question import SubQuestion, write_scalars
from dither.question.expressions import KeyValue
from dither.question.recipe import Recipe

Bind = Callable[[str], Bound]


@dataclass(frozen=True)
class LimitedPart:
    """A part: its text, and one in which a number for each public row is one number for all."""

    name: str
    sql: str | None
    uniform_sql: str | None


def list_limited_parts(
    question: Asked, refusal: QueryError, catalog: Catalog, read_public: ReadPublic, bind: Bind
) -> list[LimitedPart]:
    """The parts in the order in which they are asked; without a text where a number is missing.

    Raises the refusal where the question is not computed from answers.
    """
    split = read_split(question, refusal, catalog, read_public).split
    tables: dict[str, pa.Table] = {**name_public_rows(split.public_tables, read_public)}
    limited_parts = []
    for subquestion in split.subquestions:
        limited = _write_part(subquestion, tables)
        limited_parts.append(limited)
        if limited.sql is not None:
            stand_in = _make_stand_in(bind(limited.sql))
            if stand_in is not None:
                tables[subquestion.name] = stand_in
    return limited_parts


def _write_part(subquestion: SubQuestion, tables: dict[str, pa.Table]) -> LimitedPart:
    """Write the numbers of stand-ins into a part."""
    numbers: dict[str, str] = {}
    uniform: dict[str, str] = {}
    for scalar in subquestion.scalars:
        try:
            values = compute_numbers(scalar, tables)
        except DitherError:
            values = {}
        if not values or UNDEFINED in values.values():
            return LimitedPart(subquestion.name, None, None)
        numbers[scalar.name] = (
            values[0] if scalar.case is None else scalar.case.write(values, UNDEFINED)
        )
        if len(set(values.values())) == 1:
            uniform[scalar.name] = next(iter(values.values()))
    if not numbers:
        return LimitedPart(subquestion.name, subquestion.sql, subquestion.sql)
    is_uniform = len(uniform) == len(numbers)
    return LimitedPart(
        subquestion.name,
        write_scalars(subquestion, numbers),
        write_scalars(subquestion, uniform) if is_uniform else None,
    )


def _make_stand_in(bound: Bound) -> pa.Table | None:
    """The answer of a part in which every average is the middle of its public bounds, and every
    other number is unknown; None where its rows are not public."""
    recipe = bound.recipe
    if len(recipe.sets) != 1 or recipe.sets[0].selection is not None:
        return None
    keys = recipe.sets[0].keys
    cells = list(product(*(list_keys(recipe.keys[key]) for key in keys)))
    columns: dict[str, list[Any]] = {}
    for output in recipe.outputs:
        match output.formula:
            case KeyValue(key) if key in keys:
                columns[output.name] = [cell[keys.index(key)] for cell in cells]
            case formula:
                middle = _find_middle(recipe, bound, formula)
                columns[output.name] = [middle] * len(cells)
    return pa.table(columns)


def _find_middle(recipe: Recipe, bound: Bound, formula: Any) -> float | None:
    bounds = find_average_bounds(formula, recipe, bound.analyses)
    return None if bounds is None else float((bounds[0] + bounds[1]) / 2)
