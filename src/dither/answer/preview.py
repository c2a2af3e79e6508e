"""Preview: price and error of a question, from catalog and plan alone. Reads no data, spends nothing.

The noise of counts, sums and their affine functions is the same in every cell. An average or a ratio errs more in a
small group: its figures are those of a *reference cell* of `group_size` rows, half of them at the lower bound of every
column and half at the upper, which is as spread out as bounds allow. Joint half-widths hold for all cells of a column
at once: noises are independent, so each is taken at the level's m-th root. Where noisy values choose what is shown, the
half-width is the widest that the result can have (`preview_selection.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable

from dither.answer.alternatives import list_noisy_values
from dither.answer.blocks import count_cells
from dither.answer.evaluate import FormulaInputs, evaluate, scale_integers
from dither.answer.interval_notes import write_interval_notes
from dither.answer.intervals import Noises, affine_half, compute_interval
from dither.answer.preview_selection import count_listed_rows, foresee, limit_rows
from dither.answer.quantile_intervals import NO_BANDS, Bands
from dither.answer.result import list_noises
from dither.errors import ParameterError
from dither.laws import KeyErrorLaw
from dither.pages.html import write_element
from dither.plan.algebra import Cells, Sum
from dither.plan.analysed_query import Analyses
from dither.plan.keys import bounds_in
from dither.privacy.kernel.kernel import Priced
from dither.privacy.ledger import Charge, Pot
from dither.publish.text import as_text
from dither.question.expressions import Formula, Noisy
from dither.question.kinds import key_kind
from dither.question.recipe import GroupingSet, Output, Recipe
from dither.question.shapes import affine, atoms_of
from dither.stored import stored
from dither.surfaces import make_rich_cell, make_rich_text

SURVIVES = Fraction(95, 100)
_ROWS = 4


@stored(
    "preview_column",
    name="name",
    scale="scale",
    standard_error="standard_error",
    half_width="half_width",
    sensitivity="sensitivity",
    limits="limits",
    by="by",
    joint_half_width="joint_half_width",
    relative_error="relative_error",
    notes="notes",
    is_quantile="is_quantile",
    needs_group_size="needs_group_size",
)
@dataclass(frozen=True)
class PreviewColumn:
    """The error that one value column will have, in its own units; None where it depends on the data."""

    name: str
    scale: float | None
    standard_error: float | None
    half_width: float | None
    sensitivity: float | None
    limits: tuple[str, ...]
    by: str = ""
    joint_half_width: float | None = None
    relative_error: float | None = None
    notes: tuple[str, ...] = ()
    is_quantile: bool = False
    needs_group_size: bool = False


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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
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
        shown = RichTable(*heads, "limits")
        for column in self.columns:
            figures = [column.scale, column.standard_error, column.half_width, column.joint_half_width]
            cells = [column.name, *([column.by] if self._several else []), *map(_format_figure, figures)]
            if self.group_size:
                cells.append("–" if column.relative_error is None else f"{column.relative_error:.2%}")
            cells.append("; ".join(column.limits))
            shown.add_row(*map(make_rich_cell, cells))
        yield shown
        yield from map(make_rich_text, self.lines())

    @property
    def _several(self) -> bool:
        return len({column.by for column in self.columns}) > 1

    def lines(self) -> list[str]:
        """The sentences below the table: price, accuracy, keys, notes and what is left."""
        lines = [self._price()]
        if self.within is not None:
            wanted = ", ".join(f"{name} ± {width:g}" for name, width in self.within.items())
            lines.append(f"this is the least price for {wanted}" + ("" if self.fits else "; it does not fit the pot"))
        elif not self.fits:
            lines.append("it does not fit the pot")
        if self.group_size:
            lines.append(f"averages, ratios and relative errors are those of a group of {self.group_size:,} rows")
            if self.rows != 1:
                lines.append("a row of the answer without a value (NULL) widens the intervals of the others a little")
        elif any(column.needs_group_size and not column.is_quantile for column in self.columns):
            lines.append("a column without a figure errs by the size of the group: pass group_size=")
        if self.smallest_group is not None:
            lines.append(
                f"keys are not declared: a group of {self.smallest_group:,} {self._unit} is shown with 95%, smaller "
                "ones less often; how many are left out is not said"
            )
        lines += list(dict.fromkeys(f"{column.name}: {note}" for column in self.columns for note in column.notes))
        if self.stored:
            lines.append("asked before: sql() returns the stored answer and reads no data")
        if self.balance is None:
            lines.append("no pot is open yet: the data steward runs 'dither budget open'")
        else:
            left = float(self.balance.left)
            after = float(self.balance.left - self.charged.amount)
            more = f"enough for {self.questions_left} like this"
            whole = f"{self.charged_in} {left:g}, delta {float(self.balance.delta_left):g}, for one {self.unit}"
            lines.append(f"left in the pot: {whole}; {more}" + self._afterwards(after))
        return lines

    @property
    def _unit(self) -> str:
        return "owners" if self.balance is None else f"{self.balance.unit}s"

    def _afterwards(self, after: float) -> str:
        if not self.fits:
            return ""
        return f"; afterwards {after:g}, about {max(0, self.questions_left - 1)} more"

    def _price(self) -> str:
        price = f"price: {self.measure} {float(self.price):g} asked, {self.charged_in} {float(self.charged.amount):g}"
        price += f" and delta {float(self.charged.delta):g} charged, for one {self.unit}"
        rows = "a row for every key that is shown" if self.rows is None else f"{self.rows} rows"
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
        return self.charged.amount <= self.balance.left and (not self.charged.delta or self.questions_left > 0)

    @property
    def questions_left(self) -> int:
        """How many questions like this one the pot could pay."""
        if self.balance is None:
            return 0
        by_amount = self.balance.left // self.charged.amount if self.charged.amount else 0
        return min(by_amount, self.balance.delta_left // self.charged.delta) if self.charged.delta else by_amount

    def column(self, name: str) -> PreviewColumn:
        """A column by its name; the first of its grouping sets."""
        for column in self.columns:
            if column.name == name:
                return column
        raise ParameterError(f"no column {name!r}: there are {', '.join(column.name for column in self.columns)}")

    def _repr_html_(self) -> str:
        return write_element("pre", str(self))

    def __str__(self) -> str:
        return as_text(self)


def _format_figure(value: float | None) -> str:
    return "–" if value is None else f"{value:,.4g}"


@dataclass(frozen=True)
class Terms:
    """What a preview is made for: the level, the group size, and the public facts that bounds come from."""

    level: Fraction
    analyses: Analyses
    group_size: int | None = None
    bands: Bands = NO_BANDS


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
    price = priced.request.price
    measure = price.name if pot is None else pot.filter.measure
    laws = [mechanism.error_law() for mechanism in mechanisms]
    sizes = [law.size_shown(SURVIVES) for law in laws if isinstance(law, KeyErrorLaw)]
    cells = [count_cells(recipe, of) for of in recipe.sets]
    return Preview(
        price.value,
        price.name,
        Amounts(charged.amount, charged.delta),
        measure,
        None if any(count is None for count in cells) else limit_rows(recipe, count_listed_rows(recipe)),
        terms.level,
        list_preview_columns(recipe, mechanisms, terms),
        None if pot is None else Balance(pot.left, pot.delta_left, pot.unit),
        stored,
        terms.group_size,
        max(sizes, default=None),
        within,
        terms.analyses.catalog.unit.label,
    )


def list_preview_columns(recipe: Recipe, mechanisms: Sequence[Any], terms: Terms) -> tuple[PreviewColumn, ...]:
    """List the previews of all value columns, in every grouping set."""
    columns: list[PreviewColumn] = []
    for of, noises in zip(recipe.sets, list_noises(recipe, mechanisms, terms.bands), strict=True):
        inputs = make_reference_cell(recipe, of, terms)
        values = [output for output in recipe.outputs if output.role == "value"]
        columns += [_preview_column(recipe, of, output, mechanisms, noises, inputs, terms) for output in values]
    return tuple(columns)


def _preview_column(
    recipe: Recipe,
    of: GroupingSet,
    output: Output,
    mechanisms: Sequence[Any],
    noises: Noises,
    inputs: FormulaInputs | None,
    terms: Terms,
) -> PreviewColumn:
    formula = output.formula
    read = atoms_of(output.formula)
    limits = tuple(dict.fromkeys(limit for atom in read for limit in recipe.atoms[atom].limits))
    values = tuple(list_noisy_values(formula))
    cells = (count_cells(recipe, of) or 0) * len(values)
    foreseen = foresee(recipe, formula, terms.level)
    half = _find_widest(values, noises, inputs, foreseen.level)
    scale = sensitivity = None
    law = noises.laws[formula.atom] if isinstance(formula, Noisy) else None
    if isinstance(formula, Noisy) and law is not None:
        query, column = of.places[formula.atom]
        unit = float(recipe.atoms[formula.atom].unit)
        scale = float(law.error.noise_scale) * unit
        sensitivity = mechanisms[query].column_sensitivity(column).l1 * unit
    notes = [output.note] if output.note else []
    level = foreseen.level or terms.level
    notes += write_interval_notes(formula, terms.bands, level, mechanisms)
    return PreviewColumn(
        output.name,
        scale,
        _find_deviation(values[0], noises) if len(values) == 1 else None,
        half,
        sensitivity,
        limits,
        ", ".join(recipe.keys[key].column for key in of.keys) or "all",
        None if not cells else _find_widest(values, noises, inputs, find_joint_level(terms.level, cells)),
        _divide_by_value(half, formula, inputs),
        (*notes, *foreseen.notes),
        any(terms.bands.is_quantile(atom) for atom in read),
        inputs is None and foreseen.level is not None and any(affine(value) is None for value in values),
    )


def _divide_by_value(half: float | None, formula: Formula, inputs: FormulaInputs | None) -> float | None:
    """Divide half the length of an interval by the value at the reference cell."""
    value = None if inputs is None else np.ravel(evaluate(formula, inputs))[0]
    if half is None or not isinstance(value, float) or not value or math.isnan(value):
        return None
    return half / abs(value)


def find_joint_level(level: Fraction, cells: int) -> Fraction:
    """The level of each of `cells` independent intervals that all hold together with the given one.

    >>> round(float(find_joint_level(Fraction(95, 100), 100)) ** 100, 9)
    0.95
    """
    if level < Fraction(1, 10**9):  # as a float 1 - level may be 1, and has no logarithm of its complement
        return Fraction(math.exp(math.log(level) / cells) * (1 + 1e-12))
    miss = -math.expm1(math.log1p(-float(1 - level)) / cells)
    return 1 - Fraction(miss)


def _find_widest(
    values: tuple[Formula, ...], noises: Noises, inputs: FormulaInputs | None, level: Fraction | None
) -> float | None:
    """Half the length of the widest interval that a column may show; None where one of them is not known."""
    halves = [None if level is None else _find_half(value, noises, inputs, level) for value in values]
    bounded_halves = [half for half in halves if half is not None]
    return max(bounded_halves, default=None) if len(bounded_halves) == len(halves) else None


def _find_half(formula: Formula, noises: Noises, inputs: FormulaInputs | None, level: Fraction) -> float | None:
    """Half the length of an interval: known for affine functions, at the reference cell for others."""
    if any(noises.laws[atom] is None for atom in atoms_of(formula)):
        return None
    whole = affine(formula)
    if whole is not None:
        return affine_half(whole, noises, level)
    if inputs is None:
        return None
    low, high = compute_interval(formula, inputs, noises, level)
    length = float(high[0] - low[0])
    return None if math.isnan(length) else length / 2


def _find_deviation(formula: Formula, noises: Noises) -> float | None:
    whole = affine(formula)
    if whole is None or any(noises.laws[atom] is None for atom, _ in whole.weights):
        return None
    terms = [(weight * noises.atoms[atom].unit, noises.laws[atom]) for atom, weight in whole.weights]
    return math.sqrt(sum((float(weight) * law.deviation) ** 2 for weight, law in terms if law is not None))


def make_reference_cell(recipe: Recipe, of: GroupingSet, terms: Terms) -> FormulaInputs | None:
    """The reference cell: counts of `group_size`, sums half-way between their bounds; None without a group size.

    Repeated as the answer repeats it, up to four rows: points that serve one row may be too few for several.
    """
    if terms.group_size is None:
        return None
    atoms = []
    rows = min(_ROWS, count_cells(recipe, of) or _ROWS)
    for atom, (query, column) in zip(recipe.atoms, of.places, strict=True):
        released_query = recipe.queries[query]
        middle = Fraction(1)
        aggregate = released_query.columns[column] if isinstance(released_query, Cells) else None
        if isinstance(released_query, Cells) and isinstance(aggregate, Sum):
            between = bounds_in(aggregate.column, terms.analyses.analyse_rows(released_query.plan).columns)
            middle = Fraction(between.low + between.high, 2)
        atoms.append(scale_integers(atom, np.full(rows, float(middle * terms.group_size))))
    keys = {
        key: np.full(rows, np.nan) if key_kind(recipe.keys[key]) != "text" else np.full(rows, None, object)
        for key in range(len(recipe.keys))
    }
    return FormulaInputs(tuple(atoms), keys, {key: float(key not in of.keys) for key in range(len(recipe.keys))})
