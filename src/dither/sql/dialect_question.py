"""A question whose dialect was read: plain SQL, and the options and interval columns beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction

from dither.errors import QueryError
from dither.question.recipe import Recipe
from dither.sql.dialect_reports import ReportColumn
from dither.sql.refusals.reasons import SeveralReasons
from dither.sql.refusals.refuse import refuse


@dataclass(frozen=True)
class IntervalColumn:
    """A column that shows one end of another column's interval."""

    of: str
    end: str
    name: str


@dataclass(frozen=True)
class DialectQuestion:
    """A question in plain SQL, and what its dialect said beside it."""

    original: str
    sql: str
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    max_groups: int | None = None
    unit: str | None = None
    public_groups: bool = False
    least_units: int | None = None
    intervals: tuple[IntervalColumn, ...] = ()
    reports: tuple[ReportColumn, ...] = ()
    edits: tuple[tuple[int, int, str], ...] = ()
    rewritten: bool = False

    @property
    def is_plain(self) -> bool:
        return self.sql == self.original

    @contextmanager
    def locate_errors(self) -> Iterator[None]:
        """Show errors raised inside the block in the text that was written, not in the rewritten
        one."""
        try:
            yield
        except QueryError as error:
            if self.is_plain or error.start is None:
                raise
            if isinstance(error, SeveralReasons):
                raise SeveralReasons(list(map(self._locate_error, error.reasons))) from None
            raise self._locate_error(error) from None

    def _locate_error(self, error: QueryError) -> QueryError:
        """Mark in the text that was written what an error marks in the rewritten one."""
        if error.end <= error.start:
            return error
        message = error.message.rsplit("\n  ", 2)[0]
        if self.rewritten:
            return refuse(message, self.original)
        start = self._find_original(error.start)
        end = self._find_original(error.end)
        return refuse(message, self.original, span=(start, end))

    def _find_original(self, position: int) -> int:
        """Turn a position of the rewritten text into one of the text that was written."""
        shift = 0
        for start, end, text in self.edits:
            if position < start + shift:
                break
            if position < start + shift + len(text):
                return start
            shift += len(text) - (end - start)
        return position - shift


def name_interval_ends(recipe: Recipe, dialect: DialectQuestion) -> Recipe:
    """Name the columns of intervals as the question does.

    Raises QueryError for a value that is no column, or for two equal names.
    """
    outputs = list(recipe.outputs)
    for interval in dialect.intervals:
        index = next(
            (
                position
                for position, output in enumerate(outputs)
                if output.role == "value" and output.name == interval.of
            ),
            None,
        )
        if index is None:
            names = ", ".join(output.name for output in outputs if output.role == "value")
            raise refuse(
                f"DP_INTERVAL_{interval.end.upper()}({interval.of}): there is no value column "
                f"{interval.of}, only {names}",
                recipe.sql,
            )
        low, high = (
            (interval.name, outputs[index].high)
            if interval.end == "low"
            else (outputs[index].low, interval.name)
        )
        outputs[index] = replace(outputs[index], low=low, high=high)
    taken = [name.lower() for output in outputs for name in output.names]
    if twice := next((name for name in taken if taken.count(name) > 1), None):
        raise refuse(f"two columns would be called {twice}: rename one with AS", recipe.sql)
    return replace(recipe, outputs=tuple(outputs))


def check_reports(recipe: Recipe, reports: Sequence[ReportColumn]) -> None:
    """Raise QueryError unless every report is of a noisy column."""
    for report in reports:
        outputs = recipe.outputs
        if report.position >= len(outputs) or outputs[report.position].role != "value":
            raise refuse(
                "report_format belongs to an aggregate that is a column by itself", recipe.sql
            )
