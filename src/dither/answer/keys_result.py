"""The answer to a question for declared keys: a result without a release.

The keys come from the catalog and the public facts of the version. No data is read, nothing is
charged, and every database has the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, cast

import pyarrow as pa

from dither.answer.asked import Asked
from dither.answer.choose_rows import choose_rows
from dither.answer.column_info import ResultColumn
from dither.answer.noises import Noises
from dither.answer.preview import Amounts, Preview
from dither.answer.quantile_intervals import NO_BANDS
from dither.answer.result import Result
from dither.answer.show_result import make_shown_table
from dither.answer.table import make_column
from dither.answer.unreleased_result import UnreleasedResult
from dither.canonical import Number
from dither.catalog import Catalog
from dither.errors import QueryError
from dither.plan.facts import Facts
from dither.privacy.kernel.kernel import Release
from dither.sql.dialects import read_dialect
from dither.sql.keys_only import bind_declared_keys
from dither.surfaces import make_rich_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

ALL_KEYS = (
    "all declared keys, whether or not somebody has them: no data was read, nothing was charged"
)


@dataclass(frozen=True)
class KeysResult(UnreleasedResult):
    """The declared keys that a question lists. It holds no release: nothing was measured."""

    _remedy: ClassVar[str] = (
        "these are declared keys, and nothing was released: ask for a count beside them"
    )

    @cached_property
    def table(self) -> pa.Table:
        """One row for each combination of the keys, as a count by these keys would have."""
        return self._add_metadata(self._make_table(intervals=False))

    def _make_table(self, *, intervals: bool) -> pa.Table:
        """Make the table of declared keys; it has no intervals, since nothing is noisy."""
        recipe = self._recipe
        rows = choose_rows(recipe, ())
        noises = [
            Noises.from_mechanisms((), (), grouping.positions, NO_BANDS) for grouping in recipe.sets
        ]
        columns = [
            make_column(recipe, output, rows, noises, (), self._level, False)
            for output in recipe.outputs
        ]
        arrays = [array for column in columns for array in column.arrays()]
        return pa.table(arrays, [output.name for output in recipe.outputs])

    @cached_property
    def columns(self) -> tuple[ResultColumn, ...]:
        """Every column is a key."""
        return tuple(ResultColumn(output.name, "key") for output in self._recipe.outputs)

    def interval(self, level: Number) -> Result:
        """The result itself: keys have no intervals."""
        return self

    def explain(self) -> str:
        """Explain where the keys come from."""
        return f"Question: {self.info['sql'].strip()}\n{ALL_KEYS}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield make_shown_table(self.columns, self.table.to_pylist())
        yield from map(make_rich_text, self.notes)


def answer_declared_keys(
    question: Asked, catalog: Catalog, facts: Facts, pot: str
) -> KeysResult | None:
    """Answer a question for declared keys alone, for free; None for any other question."""
    try:
        recipe = bind_declared_keys(read_dialect(question.sql, catalog).sql, catalog, facts)
    except QueryError:
        return None
    if recipe is None:
        return None
    no_release = cast(Release, None)
    info = {
        "sql": question.sql,
        "dataset": catalog.dataset,
        "lineage": catalog.lineage,
        "pot": pot,
        "charged": "0/1",
        "charges": {},
        "repeated": False,
    }
    return KeysResult(info, no_release, recipe, question.level, notes=(ALL_KEYS,))


def preview_declared_keys(result: KeysResult) -> Preview:
    """The preview of a question for declared keys: it is free and has no error."""
    free = Amounts(Fraction(0), Fraction(0))
    rows = result.table.num_rows
    return Preview(Fraction(0), "epsilon", free, "epsilon", rows, result._level, (), None)
