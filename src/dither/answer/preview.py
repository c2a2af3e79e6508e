"""Preview: price and error of a question, from catalog and plan alone.

Reads no data, spends nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from dither.answer.blocks import count_cells
from dither.answer.preview_columns import (
    PreviewColumn,
    Terms,
    list_preview_columns,
)
from dither.answer.preview_selection import count_listed_rows, limit_rows
from dither.answer.size_shown import find_size_shown
from dither.canonical import decimal_text
from dither.errors import ParameterError
from dither.figures import write_figure
from dither.pages.notebook import write_cell, write_notes
from dither.privacy.kernel.kernel import Priced
from dither.privacy.ledger import Charge, Pot
from dither.publish.shown_table import ShownTable
from dither.publish.text import render_text
from dither.question.recipe import Recipe
from dither.stored import stored
from dither.surfaces import make_rich_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


@stored("amounts", amount="amount", delta="delta")
class Amounts(NamedTuple):
    """What a question takes from its pot: an amount in the measure of the pot, and a delta."""

    amount: Fraction
    delta: Fraction


@stored("balance", left="left", delta_left="delta_left", unit="unit")
@dataclass(frozen=True)
class Balance:
    """What a pot can still pay, for one unit."""

    left: Fraction
    delta_left: Fraction
    unit: str


@stored("earlier_sources", releases="release_ids", standard_error="standard_error")
@dataclass(frozen=True)
class EarlierSources:
    """Earlier releases from which a question is answered at no new loss, and its largest error."""

    release_ids: tuple[str, ...]
    standard_error: float

    def __str__(self) -> str:
        return (
            f"answered from earlier releases {', '.join(self.release_ids)}: standard error "
            f"{write_figure(self.standard_error)}, at no new loss; fresh=True measures anew"
        )


@stored(
    "preview",
    asked="price",
    measure="measure",
    charged="charged",
    charged_in="charged_in",
    rows="rows",
    confidence="confidence",
    columns="columns",
    balance="balance",
    stored="stored",
    group_size="group_size",
    smallest_group="smallest_group",
    within="within",
    unit="unit",
    earlier="earlier",
)
@dataclass(frozen=True)
class Preview:
    """What a question would cost and how far off its answers would be."""

    price: Fraction
    measure: str
    charged: Amounts
    charged_in: str
    rows: int | None
    confidence: Fraction
    columns: tuple[PreviewColumn, ...]
    balance: Balance | None
    stored: bool = False
    group_size: int | None = None
    smallest_group: int | None = None
    within: dict[str, float] | None = None
    unit: str = "unit"
    earlier: EarlierSources | None = None
    """Where earlier releases answer the question, and nothing is charged."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._make_table()
        yield from map(make_rich_text, self.lines())

    def _make_table(self) -> ShownTable:
        """Make the table of a preview as it is shown to people: one row for each column."""
        level = f"± at {float(self.confidence) * 100:.4g}%"
        heads = [
            "column",
            *(["by"] if self._several else []),
            "noise scale",
            "standard error",
            level,
            f"all cells {level}",
        ]
        heads += ["relative"] if self.group_size else []
        rows = []
        for column in self.columns:
            figures = [
                column.scale,
                column.standard_error,
                column.half_width,
                column.joint_half_width,
            ]
            cells = [
                column.name,
                *([column.by] if self._several else []),
                *map(_format_figure, figures),
            ]
            if self.group_size:
                cells.append(
                    "–" if column.relative_error is None else f"{column.relative_error:.2%}"
                )
            rows.append((*cells, "; ".join(column.limits)))
        first = 2 if self._several else 1
        return ShownTable((*heads, "limits"), tuple(rows), frozenset(range(first, len(heads))))

    @property
    def _several(self) -> bool:
        return len({column.by for column in self.columns}) > 1

    def lines(self) -> list[str]:
        """The sentences below the table: price, accuracy, keys, notes and what is left."""
        lines = [self._price()]
        if self.within is not None:
            widths = ", ".join(
                f"{name} ± {write_figure(width, 6)}" for name, width in self.within.items()
            )
            lines.append(
                f"this is the least price for {widths}"
                + ("" if self.fits else "; it does not fit the budget")
            )
        elif not self.fits:
            lines.append("it does not fit the budget")
        if self.group_size:
            lines.append(
                f"averages, ratios and relative errors are those of a group of {self.group_size:,} "
                f"rows"
            )
            if self.rows != 1:
                lines.append(
                    "a row of the answer without a value (NULL) widens the intervals of the others "
                    "a little"
                )
        elif any(
            column.needs_group_size and column.half_width is None and not column.is_quantile
            for column in self.columns
        ):
            lines.append(
                "a column without a figure errs by the size of the group: pass group_size="
            )
        if self.smallest_group is not None:
            lines.append(
                f"keys are not declared: a group of {self.smallest_group:,} {self._unit} is shown "
                "with 95%, smaller ones less often; how many are left out is not said"
            )
        lines += self._list_notes()
        if self.stored:
            lines.append("asked before: sql() returns the stored answer and reads no data")
        elif self.earlier is not None:
            lines.append(str(self.earlier))
        if self.balance is None:
            lines.append("no budget is open yet: the data steward runs 'dither budget open --help'")
        else:
            after = self.balance.left - self.charged.amount
            more = f"enough for {self.questions_left} like this"
            whole = (
                f"{self.charged_in} {decimal_text(self.balance.left)}, delta "
                f"{decimal_text(self.balance.delta_left)}, for one {self.unit}"
            )
            lines.append(f"left in the budget: {whole}; {more}" + self._afterwards(after))
        return lines

    def _list_notes(self) -> list[str]:
        """List the notes of columns; a note that several columns have is said once for them."""
        names: dict[str, dict[str, None]] = {}
        for column in self.columns:
            for note in column.notes:
                names.setdefault(note, {})[column.name] = None
        return [f"{', '.join(columns)}: {note}" for note, columns in names.items()]

    @property
    def _unit(self) -> str:
        return "owners" if self.balance is None else f"{self.balance.unit.partition(' ')[0]}s"

    def _afterwards(self, after: Fraction) -> str:
        if not self.fits:
            return ""
        return f"; afterwards {decimal_text(after)}, about {max(0, self.questions_left - 1)} more"

    def _price(self) -> str:
        """Write the line about the price.

        It says what was asked, what would be charged, and how many rows come.
        """
        price = (
            f"price: {self.measure} {decimal_text(self.price, up=True)} asked, {self.charged_in} "
            f"{decimal_text(self.charged.amount, up=True)}"
        )
        price += (
            f" and delta {decimal_text(self.charged.delta, up=True)} charged, for one {self.unit}"
        )
        count = "1 row" if self.rows == 1 else f"{self.rows} rows"
        rows = "a row for every key that is shown" if self.rows is None else count
        return f"{price}; {rows}"

    @property
    def left(self) -> Fraction | None:
        """What the pot has left, in its own measure."""
        return None if self.balance is None else self.balance.left

    @property
    def fits(self) -> bool:
        """Whether the pot could pay now; true where none is open."""
        if self.balance is None:
            return True
        return self.charged.amount <= self.balance.left and (
            not self.charged.delta or self.questions_left > 0
        )

    @property
    def questions_left(self) -> int:
        """Compute how many questions like this one the pot could pay; 0 without a pot."""
        if self.balance is None:
            return 0
        by_amount = self.balance.left // self.charged.amount if self.charged.amount else 0
        return (
            min(by_amount, self.balance.delta_left // self.charged.delta)
            if self.charged.delta
            else by_amount
        )

    def column(self, name: str) -> PreviewColumn:
        """Return a column by its name, from the first grouping set that has it.

        Raises ParameterError for a name that is none.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise ParameterError(
            f"no column {name!r}: there are {', '.join(column.name for column in self.columns)}"
        )

    def _repr_html_(self) -> str:
        return write_cell(self._make_table().write_html(), write_notes(self.lines()))

    def __str__(self) -> str:
        return render_text(self)

    def __repr__(self) -> str:
        return str(self)


def _format_figure(value: float | None) -> str:
    return "–" if value is None else write_figure(value)


def make_preview(
    priced: Priced,
    recipe: Recipe,
    terms: Terms,
    pot: Pot | None,
    charged: Charge,
    stored: bool,
    within: dict[str, float] | None = None,
) -> Preview:
    """Make the preview of a priced question."""
    mechanisms: list[Any] = [calibrated.mechanism for calibrated in priced.steps]
    cells = [count_cells(recipe, grouping_set) for grouping_set in recipe.sets]
    return replace(
        make_charge_preview(priced, pot, charged, stored),
        rows=None
        if any(count is None for count in cells)
        else limit_rows(recipe, count_listed_rows(recipe)),
        confidence=terms.level,
        columns=list_preview_columns(recipe, mechanisms, terms),
        group_size=terms.group_size,
        smallest_group=find_size_shown(mechanisms),
        within=within,
        unit=terms.analyses.catalog.unit.label,
    )


def make_charge_preview(priced: Priced, pot: Pot | None, charged: Charge, stored: bool) -> Preview:
    """Preview what a question takes from its pot, and none of its errors."""
    price = priced.request.price
    return Preview(
        price=price.value,
        measure=price.name,
        charged=Amounts(charged.amount, charged.delta),
        charged_in=price.name if pot is None else pot.rule.measure,
        rows=None,
        confidence=Fraction(0),
        columns=(),
        balance=None if pot is None else Balance(pot.left, pot.delta_left, pot.unit),
        stored=stored,
    )
