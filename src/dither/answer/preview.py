"""Preview: price and error of a question, from catalog and plan alone. Reads no data, spends nothing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable

from dither.answer.intervals import half_width, noise_scale
from dither.answer.recipe import Recipe, ValueColumn
from dither.privacy.kernel import Priced
from dither.privacy.ledger import Charge, Pot


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

    asked: Fraction
    measure: str
    charged: Charge
    charged_in: str
    rows: int
    confidence: Fraction
    columns: tuple[PreviewColumn, ...]
    pot: Pot | None
    stored: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = RichTable("column", "noise scale", "standard error", f"± at {float(self.confidence):.0%}", "limits")
        for column in self.columns:
            numbers = (f"{value:,.4g}" for value in (column.scale, column.standard_error, column.half_width))
            shown.add_row(column.name, *numbers, "; ".join(column.limits))
        yield shown
        yield self._price()
        if self.stored:
            yield "asked before: sql() returns the stored answer and reads no data"
        if self.pot is None:
            yield "no pot is open yet: the data steward runs 'dither budget open'"
        else:
            more = self.questions_left
            yield f"left in the pot: {self.charged_in} {float(self.pot.left):g}, enough for {more} like this"

    def _price(self) -> str:
        price = f"price: {self.measure} {float(self.asked):g} asked, {self.charged_in} {float(self.charged.amount):g}"
        price += f" and delta {float(self.charged.delta):g}" if self.charged.delta else ""
        return f"{price} charged, for {self.rows} rows"

    @property
    def left(self) -> Fraction | None:
        """What the pot has left, in its own measure."""
        return None if self.pot is None else self.pot.left

    @property
    def questions_left(self) -> int:
        """How many more questions like this one the pot could pay."""
        if self.pot is None:
            return 0
        by_amount = self.pot.left // self.charged.amount if self.charged.amount else 0
        return min(by_amount, self.pot.delta_left // self.charged.delta) if self.charged.delta else by_amount

    def __str__(self) -> str:
        console = Console(width=120)
        with console.capture() as captured:
            console.print(self)
        return captured.get()


def preview(
    priced: Priced, recipe: Recipe, rows: int, level: Fraction, pot: Pot | None, charged: Charge, stored: bool
) -> Preview:
    """The preview of a priced question."""
    columns = []
    for column in recipe.columns:
        if isinstance(column, ValueColumn):
            mechanism = priced.steps[column.step].mechanism
            unit = float(recipe.unit(column))
            columns.append(
                PreviewColumn(
                    column.name,
                    float(noise_scale(mechanism)) * unit,
                    mechanism.error().variance ** 0.5 * unit,
                    half_width(mechanism, level) * unit,
                    mechanism.sensitivity.l1 * unit,
                    recipe.limits(column),
                )
            )
    price = priced.request.price
    measure = price.name if pot is None else pot.filter.measure
    return Preview(price.value, price.name, charged, measure, rows, level, tuple(columns), pot, stored)
