"""One column of a catalog: its keys read, its bounds put on the grid."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Literal

from dither.catalog import columns, scalars, written
from dither.catalog.file.decide import COLUMN_KEYS, DECIDE
from dither.catalog.file.fields import Fields, Where
from dither.catalog.file.tree import Entry, Mapping, Node, Scalar, Sequence

KEEP_OR_DROP: tuple[Literal["keep", "drop"], ...] = ("keep", "drop")
A_DATE = "a date written as YYYY-MM-DD"
A_TIME = "a time written as YYYY-MM-DDTHH:MM:SS"
A_LIST_HAS_WIDTH = "it belongs to `values: undeclared`; a list bounds its labels itself"
ReadGrid = Callable[[Node, str], int]


def read_source_name(entry: Entry, table: str, file: str) -> str | None:
    """The name that the column `entry` has at the source, where the catalog says another."""
    keys = entry.node.entries if isinstance(entry.node, Mapping) else ()
    node = next((key.node for key in keys if key.key == "from"), None)
    return None if node is None else Where(file, f"column {table}.{entry.key}").text(node, "from")


def read_column(entry: Entry, table: str, file: str) -> columns.Column:
    """Read the column `entry` of the table, by its type."""
    where = Where(file, f"column {table}.{entry.key}")
    kind = Fields(where, entry.node, entry.line, "column").choice("type", tuple(COLUMN_KEYS))
    where = Where(file, f"{kind} column {table}.{entry.key}")
    fields = Fields(where, entry.node, entry.line, "column", COLUMN_KEYS[kind])
    return _READERS[kind](fields, entry.key)


def _read_id(fields: Fields, name: str) -> columns.Column:
    return columns.Id(name, line=fields.line)


def _read_boolean(fields: Fields, name: str) -> columns.Column:
    def read(node: Node, what: str) -> int:
        return int(fields.where.typed(node, what, written.boolean, "true or false"))

    return columns.Boolean(name, _read_nulls(fields, read), line=fields.line)


def _read_integer(fields: Fields, name: str) -> columns.Column:
    """Read an integer column: bounds, null rule and provenance."""

    def read(node: Node, what: str) -> int:
        return fields.where.typed(node, what, written.whole, "a whole number")

    lower, upper = _read_bounds(fields, read, Fraction(1))
    nulls = _read_nulls(fields, read, (lower, upper))
    return columns.Integer(name, nulls, lower, upper, fields.prose("provenance"), line=fields.line)


def _read_date(fields: Fields, name: str) -> columns.Column:
    """Read a date column; bounds are days since 1970."""

    def read(node: Node, what: str) -> int:
        return fields.where.typed(node, what, scalars.days, A_DATE)

    lower, upper = _read_bounds(fields, read, Fraction(1))
    nulls = _read_nulls(fields, read, (lower, upper))
    return columns.Date(name, nulls, lower, upper, fields.prose("provenance"), line=fields.line)


def _read_timestamp(fields: Fields, name: str) -> columns.Column:
    """Read a timestamp column; bounds are seconds since 1970 at its zone."""
    offset = fields.offset("zone")

    def read(node: Node, what: str) -> int:
        return fields.where.typed(node, what, lambda text: scalars.seconds(text, offset), A_TIME)

    lower, upper = _read_bounds(fields, read, Fraction(1))
    nulls = _read_nulls(fields, read, (lower, upper))
    return columns.Timestamp(
        name, nulls, lower, upper, fields.prose("provenance"), offset, line=fields.line
    )


def _read_decimal(fields: Fields, name: str) -> columns.Column:
    """Read a decimal column; bounds are multiples of its resolution."""
    resolution = _read_resolution(fields)

    def read(node: Node, what: str) -> int:
        value = fields.where.typed(node, what, scalars.number, "a number such as 0.5")
        grid = value / resolution
        if grid.denominator != 1:
            raise fields.where.error(
                f"{what} {_write_decimal(value)} is not a multiple of the resolution "
                f"{_write_decimal(resolution)}: values are rounded to the resolution, so take a "
                "bound that can occur",
                node.line,
            )
        return int(grid)

    lower, upper = _read_bounds(fields, read, resolution)
    nulls = _read_nulls(fields, read, (lower, upper))
    provenance = fields.prose("provenance")
    return columns.Decimal(
        name,
        nulls,
        lower * resolution,
        upper * resolution,
        resolution,
        provenance,
        line=fields.line,
    )


def _read_text(fields: Fields, name: str) -> columns.Column:
    width = fields.count("width")
    return columns.Text(name, _read_text_nulls(fields, width), width, line=fields.line)


def _read_category(fields: Fields, name: str) -> columns.Column:
    """Read a category: a list of labels, the list of a public table, or undeclared labels."""
    values = fields.node("values")
    if not isinstance(values, Sequence):
        return _read_category_without_list(fields, name, values)
    fields.forbid("width", A_LIST_HAS_WIDTH)
    other = fields.choice("other", KEEP_OR_DROP)
    labels = _read_labels(fields, values)
    nulls = _read_text_nulls(fields, None)
    if nulls.rule == "value" and nulls.value not in labels:
        raise fields.error(
            f"nulls: value '{nulls.value}' is not one of the values: choose one of them", "nulls"
        )
    return columns.Category(name, nulls, labels, other, line=fields.line)


def _read_category_without_list(
    fields: Fields, name: str, values: Scalar | Mapping
) -> columns.Column:
    """Read a category whose labels are in a public table, or are not declared."""
    domain: columns.FromPublic | columns.Undeclared
    other: Literal["keep", "drop"] | None
    if isinstance(values, Scalar):
        fields.where.choice(values, "values", ("undeclared",))
        fields.forbid("other", "undeclared values have no list to be outside of")
        domain = columns.Undeclared(fields.count("width"))
        other = None
        nulls = _read_text_nulls(fields, domain.width)
    else:
        fields.forbid("width", A_LIST_HAS_WIDTH)
        domain = _read_from_public(fields, values)
        other = fields.choice("other", KEEP_OR_DROP)
        nulls = _read_text_nulls(fields, None)
    if nulls.value == columns.OTHER:
        _refuse_other(fields, columns.OTHER, fields.line_of("nulls"))
    return columns.Category(name, nulls, domain, other, line=fields.line)


def _read_labels(fields: Fields, values: Sequence) -> tuple[str, ...]:
    """Read the list of labels. Raises CatalogError for none, or for one twice."""
    labels: dict[str, None] = {}
    for node in values.nodes:
        label = fields.where.text(node, "a value")
        if label in labels:
            raise fields.where.error(f"the value '{label}' is listed twice: remove one", node.line)
        _refuse_other(fields, label, node.line)
        labels[label] = None
    if not labels:
        raise fields.error(f"values is an empty list: {DECIDE['column']['values']}", "values")
    return tuple(labels)


def _refuse_other(fields: Fields, label: str, line: int) -> None:
    """Raise CatalogError for the label `other`, which stands for labels outside the list."""
    if label == columns.OTHER:
        raise fields.where.error(
            f"the value '{columns.OTHER}' is taken: it is the name under which values outside the "
            "list are shown; use `other: keep` for them, or rename the label at the source",
            line,
        )


def _read_from_public(fields: Fields, values: Mapping) -> columns.FromPublic:
    """Read {from: table.column}: the labels are those of a public table."""
    if [entry.key for entry in values.entries] != ["from"]:
        raise fields.where.error(
            "values must be a list, {from: table.column} or undeclared", values.line
        )
    node = values.entries[0].node
    names = fields.where.text(node, "from").split(".")
    if len(names) != 2 or not all(scalars.is_name(name) for name in names):
        raise fields.where.error("from must be written as table.column", node.line)
    return columns.FromPublic(names[0], names[1], line=node.line)


def _read_resolution(fields: Fields) -> Fraction:
    """Read the resolution: a power of ten below 1, or a positive whole number."""
    value = fields.where.typed(
        fields.node("resolution"), "resolution", scalars.number, "a number such as 0.01"
    )
    is_power = value.numerator == 1 and value.denominator in {10**digits for digits in range(19)}
    if not is_power and not (value.denominator == 1 and 0 < value < 2**63):
        raise fields.error(
            f"resolution must be 1, 0.1, 0.01, ... (down to 1e-18) or a positive integer, got "
            f"{_write_decimal(value)}",
            "resolution",
        )
    return value


def _read_bounds(fields: Fields, read: ReadGrid, step: Fraction) -> tuple[int, int]:
    """Lower and upper bound as grid integers."""
    node = fields.node("bounds")
    ends = fields.where.read_list(node, "bounds")
    if len(ends) != 2:
        raise fields.where.error(
            f"bounds must be [lower, upper], got {len(ends)} values", node.line
        )
    lower = read(ends[0], "the lower bound")
    upper = read(ends[1], "the upper bound")
    if lower > upper:
        raise fields.where.error(
            "the lower bound is above the upper one: write [lower, upper]", ends[0].line
        )
    for end, grid in zip(ends, (lower, upper), strict=True):
        if abs(grid) >= 2**63:
            raise fields.where.error(
                f"a bound is 2^63 or more steps of {_write_decimal(step)} away from 0, and sums "
                "would leave exact integers: take a narrower bound or a coarser resolution",
                end.line,
            )
    return lower, upper


def _read_nulls(
    fields: Fields, read: ReadGrid, bounds: tuple[int, int] | None = None
) -> columns.Nulls:
    """Read the null rule of a column of numbers; a replacement lies inside the bounds."""
    node = fields.node("nulls")
    replacement = _find_replacement(fields, node)
    if replacement is None:
        return columns.Nulls(fields.choice("nulls", KEEP_OR_DROP))
    value = read(replacement, "nulls: value")
    if bounds and not bounds[0] <= value <= bounds[1]:
        raise fields.where.error(
            "nulls: value lies outside the bounds: take one inside", replacement.line
        )
    return columns.Nulls("value", value)


def _read_text_nulls(fields: Fields, width: int | None) -> columns.Nulls:
    """Read the null rule of a text column; a replacement has at most `width` characters."""

    def read(node: Node, what: str) -> str:
        text = fields.where.text(node, what)
        if width is not None and len(text) > width:
            raise fields.where.error(
                f"{what} is longer than the width {width}: shorten it", node.line
            )
        return text

    node = fields.node("nulls")
    replacement = _find_replacement(fields, node)
    if replacement is None:
        return columns.Nulls(fields.choice("nulls", KEEP_OR_DROP))
    return columns.Nulls("value", read(replacement, "nulls: value"))


def _find_replacement(fields: Fields, node: Node) -> Node | None:
    """Return the node of v in `{value: v}`; None where the null rule is a word."""
    if isinstance(node, Scalar):
        return None
    if not isinstance(node, Mapping) or [entry.key for entry in node.entries] != ["value"]:
        raise fields.where.error("nulls must be keep, drop or {value: v}", node.line)
    return node.entries[0].node


def _write_decimal(value: Fraction) -> str:
    """Write an exact number as a decimal where that is short, cut at 30 characters."""
    text = str(value)
    if value.denominator == 1:
        return text if len(text) <= 30 else text[:27] + "..."
    for digits in range(1, 19):
        if (value * 10**digits).denominator == 1:
            sign = "-" if value < 0 else ""
            whole = str(abs(value) * 10**digits).rjust(digits + 1, "0")
            return f"{sign}{whole[:-digits]}.{whole[-digits:]}"
    return text if len(text) <= 30 else text[:27] + "..."


_READERS: dict[str, Callable[[Fields, str], columns.Column]] = {
    "id": _read_id,
    "integer": _read_integer,
    "decimal": _read_decimal,
    "boolean": _read_boolean,
    "category": _read_category,
    "date": _read_date,
    "timestamp": _read_timestamp,
    "text": _read_text,
}
