"""Buying a bound or a limit: a private quantile on the declared grid, paid for like any question.

`bounds` are quantiles of a column, `rows_per_unit` and `max_groups` quantiles of what each unit
has. What share is kept is the share that was bought, never one measured on the data. Where the
declared range is so wide that the grid of a quantile would be coarse, the search is over
magnitudes: the quantile of how many powers of two of the grid step (and their negatives) lie below
the value; the answer is then such a power.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from dither.canonical import Number, decimal_text, exact, number_text, quote, shorten
from dither.catalog import Boolean, Bounded, Catalog, Date, Table, Timestamp
from dither.errors import ParameterError
from dither.plan.algebra import (
    Call,
    Column,
    Count,
    Named,
    PerUnit,
    Plan,
    Project,
    Quantiles,
    Scan,
    Value,
)
from dither.plan.domain import declared_domain
from dither.plan.facts import Facts
from dither.plan.grids import points_between
from dither.publish.text import render_text
from dither.question.expressions import Noisy
from dither.question.recipe import Atom, GroupingSet, Output, Recipe
from dither.surfaces import make_rich_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

What = Literal["bounds", "rows_per_unit", "max_groups"]
COUNTED = "of_one_unit"
_COARSEST = 1  # a grid coarser than the column's own is searched by magnitudes


@dataclass(frozen=True)
class Wish:
    """What is to be bought: the recipe, and how its answers become numbers of the catalog."""

    what: What
    column_path: str
    keep: Fraction
    recipe: Recipe
    edges: tuple[Fraction, ...] | None = None  # where magnitudes are searched: the ends of each
    declared: tuple[Fraction, Fraction] | None = None
    one_sided: bool = False


@dataclass(frozen=True)
class Suggestion:
    """A bought number, and the words to put beside it in the catalog."""

    what: What
    of: str
    low: Fraction | None
    high: Fraction
    keep: Fraction
    provenance: str
    info: dict[str, Any]
    rank: str

    @property
    def catalog_text(self) -> str:
        """Write the line to paste into the catalog."""
        if self.what == "bounds":
            low = Fraction(0) if self.low is None else self.low
            return (
                f"bounds: [{_format_number(low)}, {_format_number(self.high)}], "
                f"provenance: {self.provenance!r}"
            )
        return f"{self.what}: {_format_number(self.high)}  # {self.provenance}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = (
            f"{self.what} of {self.of}: {self.sentence}",
            f"  {self.catalog_text}",
            f"  {self.rank}",
        )
        yield from map(make_rich_text, lines)

    @property
    def sentence(self) -> str:
        """Write what the suggested bounds or limit keep, and what happens to the rest."""
        share = f"{float(self.keep) * 100:.4g}%"
        if self.what == "bounds":
            low = "" if self.low is None else f"{_format_number(self.low)} to "
            return (
                f"{low}{_format_number(self.high)} keeps about {share} of the rows as "
                "they are; the rest is clamped"
            )
        noun = "rows" if self.what == "rows_per_unit" else "groups"
        return (
            f"{_format_number(self.high)} keeps all {noun} of about {share} of the "
            "people; others lose some"
        )

    def __str__(self) -> str:
        return render_text(self)


def _format_number(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.10g}"


def read_wish(what: str, column_path: str, keep: Number, catalog: Catalog, facts: Facts) -> Wish:
    """Read a wish into the question behind it; refused where nothing of the kind is declared."""
    share = exact(keep, "keep")
    if not 0 < share < 1 or not 0.0 < float(share) < 1.0:
        raise ParameterError(f"keep must lie in (0, 1), got {number_text(share)}: choose e.g. 0.99")
    if not isinstance(column_path, str):
        raise ParameterError(
            "suggest for what? say table.column, as in 'visits.cost', got "
            f"{type(column_path).__name__}"
        )
    table, _, name = column_path.partition(".")
    try:
        private_table = catalog.table(table)
    except KeyError:
        raise ParameterError(
            f"no table {shorten(table)!r}: say table.column, as in 'visits.cost'"
        ) from None
    if private_table.kind != "private":
        raise ParameterError(f"{table} is public: its bounds can be read off it")
    if what == "bounds":
        return _wish_bounds(column_path, private_table, name, share, facts)
    if what == "rows_per_unit":
        plan: Plan = PerUnit(Scan(private_table.name), (), (Named(COUNTED, Count()),))
        return Wish(
            "rows_per_unit",
            column_path,
            share,
            _make_recipe(column_path, plan, COUNTED, (share,), Fraction(1), Fraction(0)),
        )
    if what == "max_groups":
        if not name:
            raise ParameterError(
                "max_groups of which column? say table.column, as in 'visits.county'"
            )
        _find_column(private_table, name)
        once = PerUnit(Scan(private_table.name), (name,), (Named("rows_of_group", Count()),))
        plan = PerUnit(once, (), (Named(COUNTED, Count()),))
        return Wish(
            "max_groups",
            column_path,
            share,
            _make_recipe(column_path, plan, COUNTED, (share,), Fraction(1), Fraction(0)),
        )
    raise ParameterError(
        "suggest what? 'bounds', 'rows_per_unit' or 'max_groups', or 'limits' of a question, got "
        f"{quote(what)}"
    )


def _find_column(table: Table, name: str) -> Any:
    """Return a declared column. Raises ParameterError where the table has none of this name."""
    try:
        return table.column(name)
    except KeyError:
        raise ParameterError(f"no column {shorten(name)!r} in {table.name}") from None


def _wish_bounds(column_path: str, table: Table, name: str, keep: Fraction, facts: Facts) -> Wish:
    """Read a wish for bounds as quantiles of the column.

    A column whose grid is too fine for that is replaced by its magnitude: the number of thresholds
    that a value exceeds. The suggestion then lies between two thresholds.
    """
    column = _find_column(table, name) if name else None
    if not isinstance(column, Bounded) or isinstance(column, (Boolean, Date, Timestamp)):
        raise ParameterError(
            f"{column_path} is no number with declared bounds: bounds are bought inside wide "
            "declared ones"
        )
    domain = declared_domain(table.column(name), table, facts)
    declared = (domain.low * domain.step, domain.high * domain.step)
    points = points_between(domain.low, domain.high)
    one_sided = domain.low == 0
    shares = (keep,) if one_sided else ((1 - keep) / 2, (1 + keep) / 2)
    if points.step <= _COARSEST:
        recipe = _make_recipe(column_path, Scan(table.name), name, shares, domain.step, Fraction(0))
        return Wish("bounds", column_path, keep, recipe, None, declared, one_sided)
    thresholds = list_magnitudes(domain.low, domain.high)
    terms = tuple(compare_threshold(name, threshold * domain.step) for threshold in thresholds)
    magnitude = Project(Scan(table.name), (Named("magnitude", add_terms(terms)),))
    recipe = _make_recipe(column_path, magnitude, "magnitude", shares, Fraction(1), Fraction(0))
    edges = (declared[0], *(threshold * domain.step for threshold in thresholds), declared[1])
    return Wish("bounds", column_path, keep, recipe, edges, declared, one_sided)


def list_magnitudes(low: int, high: int) -> tuple[int, ...]:
    """List zero and the powers of two on both sides of it, between two bounds, in order.

    >>> list_magnitudes(-3, 9)
    (-2, -1, 0, 1, 2, 4, 8)
    """
    powers = [1 << power for power in range(max(abs(low), abs(high)).bit_length())]
    return tuple(
        sorted(
            magnitude
            for magnitude in (0, *powers, *(-power for power in powers))
            if low < magnitude < high
        )
    )


def add_terms(terms: tuple[Call, ...]) -> Call:
    """Add up the terms in groups, since `add` takes at most fifty arguments."""
    while len(terms) > 1:
        groups = [terms[i : i + 40] for i in range(0, len(terms), 40)]
        terms = tuple(group[0] if len(group) == 1 else Call("add", group) for group in groups)
    return terms[0]


def compare_threshold(name: str, threshold: Fraction) -> Call:
    return Call("to_number", (Call("gt", (Column(name), Value("number", threshold))),))


def _make_recipe(
    column_path: str,
    plan: Plan,
    column: str,
    shares: tuple[Fraction, ...],
    unit: Fraction,
    offset: Fraction,
) -> Recipe:
    """Make a recipe that asks for quantiles of one column over all rows."""
    query = Quantiles(plan, (), column, shares)
    atoms = tuple(
        Atom(
            f"QUANTILE({column}, {float(share):g})",
            unit,
            offset,
            "integer" if unit == 1 else "number",
        )
        for share in shares
    )
    outputs = tuple(
        Output(f"q{i}", Noisy(i), "value", atom.aggregate) for i, atom in enumerate(atoms)
    )
    positions = tuple((0, i) for i in range(len(shares)))
    return Recipe(
        f"suggest {column_path}", (query,), (), atoms, (GroupingSet((), None, positions),), outputs
    )


def make_suggestion(
    wished: Wish, values: tuple[int, ...], info: dict[str, Any], rank: str
) -> Suggestion:
    """Make the suggestion from the released quantiles.

    Bounds are rounded outwards to two digits.
    """
    quantiles = [wished.recipe.atoms[i].unit * value for i, value in enumerate(values)]
    low: Fraction | None = None
    if wished.what == "bounds":
        assert wished.declared is not None
        declared_low, declared_high = wished.declared
        lowest = quantiles[0]
        highest = quantiles[-1]
        if wished.edges is not None:  # the quantile is how many edges lie below
            lowest = wished.edges[int(lowest)]
            highest = wished.edges[min(len(wished.edges) - 1, int(highest) + 1)]
        high = min(declared_high, round_up_to_two_digits(highest) if highest > 0 else highest)
        if not wished.one_sided:
            low = max(declared_low, -round_up_to_two_digits(-lowest) if lowest < 0 else lowest)
    else:
        high = max(Fraction(1), quantiles[-1])
    delta = Fraction(info["charges"].get(info["pot"], ("0", "0"))[1])
    price = f"{info['price_in']} {decimal_text(Fraction(info['price_asked']), up=True)}"
    paid = f"{price}, delta {decimal_text(Fraction(delta), up=True)}, for one {info['unit']}"
    provenance = (
        f"bought: release {info['release_id']}, {paid}, {float(wished.keep) * 100:.4g}% quantile"
    )
    return Suggestion(
        wished.what, wished.column_path, low, high, wished.keep, provenance, info, rank
    )


def round_up_to_two_digits(value: Fraction) -> Fraction:
    """Round a positive number up to two digits, so that no less is kept than was bought.

    >>> round_up_to_two_digits(Fraction(4712, 10)), round_up_to_two_digits(Fraction(30))
    (Fraction(480, 1), Fraction(30, 1))
    """
    step = Fraction(1)
    while value >= 100 * step:
        step *= 10
    while value < 10 * step:
        step /= 10
    return -(-value // step) * step
