"""Preview: price and error of a question, from catalog and plan alone. Reads no data, spends nothing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable

from dither.answer.intervals import half_width
from dither.answer.recipe import Recipe, ValueColumn
from dither.privacy.kernel import Priced
from dither.privacy.ledger import charge_pure


@dataclass(frozen=True)
class PreviewColumn:
    """The error that one value column will have, in its own units."""

    name: str
    scale: float
    standard_error: float
    half_width: float
    sensitivity: float
    limits: tuple[str, ...]


@dataclass(frozen=True)
class Preview:
    """What a question would cost and how far off its answers would be."""

    epsilon: Fraction
    charged: Fraction
    rows: int
    confidence: Fraction
    columns: tuple[PreviewColumn, ...]
    left: Fraction | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = RichTable("column", "noise scale", "standard error", f"± at {float(self.confidence):.0%}", "limits")
        for column in self.columns:
            numbers = (f"{value:,.4g}" for value in (column.scale, column.standard_error, column.half_width))
            shown.add_row(column.name, *numbers, "; ".join(column.limits))
        yield shown
        yield f"price: epsilon {float(self.charged):g} of {float(self.epsilon):g} asked, for {self.rows} rows"
        if self.left is not None:
            more = self.left // self.charged
            yield f"left in the pot: {float(self.left):g}, enough for {more} question{'s' * (more != 1)} like this"
        else:
            yield "no pot is open yet: the data steward runs 'dither budget open'"

    def __str__(self) -> str:
        console = Console(width=120)
        with console.capture() as captured:
            console.print(self)
        return captured.get()


def preview(priced: Priced, recipe: Recipe, rows: int, level: Fraction, left: Fraction | None) -> Preview:
    """The preview of a priced question."""
    columns = []
    for column in recipe.columns:
        if isinstance(column, ValueColumn):
            mechanism = priced.steps[column.step].mechanism
            unit = float(recipe.unit(column))
            columns.append(
                PreviewColumn(
                    column.name,
                    float(mechanism.scale) * unit,
                    mechanism.error().variance ** 0.5 * unit,
                    half_width(mechanism, level) * unit,
                    mechanism.sensitivity.l1 * unit,
                    recipe.limits(column),
                )
            )
    price = priced.request.price.epsilon
    return Preview(price, charge_pure(priced.loss), rows, level, tuple(columns), left)
