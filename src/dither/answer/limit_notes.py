"""What a preview says about limits and keys that cost accuracy, from catalog and question alone.

Which limit would err least depends on the rows, so nothing here says it: it can be bought.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from dither.answer.blocks import list_keys
from dither.answer.shown_keys import count_shown_keys
from dither.catalog import Catalog
from dither.errors import ParameterError
from dither.figures import write_figure
from dither.question.kinds import key_kind
from dither.question.recipe import KeyColumn, Recipe
from dither.question.row_limits import list_limited_tables, name_unit
from dither.question.unit_limits import can_be_limited

_MOST_NUMBERS = 2000
_BINS = 20
_WIDE_LIMIT = 10
"""Rows per unit from which on a smaller limit may pay for its price."""


def list_limit_notes(recipe: Recipe, catalog: Catalog, atoms: Iterable[int]) -> list[str]:
    """Say of a wide limit that the noise grows with it, and how a better one is bought."""
    queries = {grouping.positions[atom][0] for grouping in recipe.sets for atom in atoms}
    tables = dict.fromkeys(
        table
        for query in sorted(queries)
        for table in list_limited_tables(catalog, recipe.queries[query].plan)
        if (table.rows_per_unit or 0) >= _WIDE_LIMIT
    )
    unit = name_unit(catalog)
    if tables and can_be_limited(recipe) and len(recipe.sets) == 1:
        limits = " and ".join(f"{table.rows_per_unit} rows of {table.name}" for table in tables)
        return [
            f"its noise grows with the limits of {limits} per {unit}; what errs least, to clamp "
            f"what each {unit} adds among it, is unknown: buy it for a tenth of the price, as in "
            'limits = con.suggest("limits", sql, epsilon=0.1), and ask with limits=limits'
        ]
    return [
        f"its noise grows with the limit of {table.rows_per_unit} rows per {unit}; "
        f'which limit errs least is unknown: buy it, as in con.suggest("rows_per_unit", '
        f'"{table.name}", epsilon=0.1), and register with it'
        for table in tables
    ]


def list_bin_notes(recipe: Recipe) -> list[str]:
    """Write, for each number that is grouped by value and has thousands of values, how to bin
    it."""
    grouped = dict.fromkeys(key for grouping_set in recipe.sets for key in grouping_set.keys)
    return [note for key in grouped if (note := _ask_for_bin(recipe.keys[key])) is not None]


def check_bins(recipe: Recipe, is_paid: Callable[[], bool]) -> None:
    """Refuse to spend on a row of noise for every one of thousands of numbers.

    An answer that was paid is handed out again.
    """
    notes = list_bin_notes(recipe)
    if notes and not is_paid():
        raise ParameterError(f"{notes[0]}. Nothing was spent")


def _ask_for_bin(key: KeyColumn) -> str | None:
    """Write the advice to group by a bin, for a numeric key of very many values; else None."""
    if key_kind(key) not in ("integer", "number"):
        return None
    if count_shown_keys(key.domain) <= _MOST_NUMBERS:
        return None
    numbers = [value for value in list_keys(key) if isinstance(value, (int, float, Fraction))]
    if len(numbers) <= _MOST_NUMBERS:
        return None
    width = _round_width(float(numbers[-1] - numbers[0]) / _BINS)
    written = write_figure(width).replace(",", "")
    return (
        f"{key.column} has {len(numbers):,} values, and each would be a row of noise: group by a "
        f"bin, as in GROUP BY BIN({key.column}, {written})"
    )


def _round_width(width: float) -> float:
    """Round a width up to 1, 2 or 5 times a power of ten.

    >>> _round_width(25.5), _round_width(0.7), _round_width(100)
    (50.0, 1.0, 100.0)
    """
    power = 10.0 ** math.floor(math.log10(width))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= width * (1 - 1e-9))
