"""Formulas over whole columns: NumPy in, NumPy out, null as NaN, never an error or a warning.

Numbers, truth values, dates (days) and times (seconds) are float64 arrays; texts (keys, or
constants to compare them with) are object arrays with None for null. The arrays of atoms may have a
leading axis of draws: everything broadcasts, so that an interval evaluates the same formula on
thousands of plausible cells at once.

>>> half = Apply("divide", (Noisy(0), Constant(Fraction(2))))
>>> evaluate(half, FormulaInputs((np.array([3.0, 4.0]),), {}, {}))
array([1.5, 2. ])
>>> evaluate(Apply("ln", (Noisy(0),)), FormulaInputs((np.array([1.0, -1.0]),), {}, {}))
array([ 0., nan])
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.answer.blocks import Block
from dither.question.expressions import Apply, Constant, Formula, Grouping, KeyValue, Noisy
from dither.question.kinds import key_kind
from dither.question.recipe import Atom, Recipe

Array = NDArray[Any]
_EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True)
class FormulaInputs:
    """What a formula may read.

    A number for every atom, the keys of every row, and which keys a row leaves out.

    `guarded`: the first axis holds draws, the first of them the release itself. A division then has
    no value where the sign of its denominator differs from the released one: the draw has passed
    the pole.
    """

    atoms: tuple[Array, ...]
    keys: dict[int, Array]
    absent: dict[int, float]
    guarded: bool = False

    def take_rows(self, rows: Array) -> FormulaInputs:
        """Some of the rows, in the given order."""
        keys = {key: values[rows] for key, values in self.keys.items()}
        return replace(self, atoms=tuple(atom[..., rows] for atom in self.atoms), keys=keys)


def scale_integers(atom: Atom, integers: Array) -> Array:
    """Scale released integers to the units of their atom, as float64."""
    scaled = integers.astype(np.float64) * atom.unit.numerator / atom.unit.denominator
    return scaled + float(atom.offset) if atom.offset else scaled


def make_inputs(recipe: Recipe, block: Block) -> FormulaInputs:
    """Make the inputs of a formula from a block of rows."""
    atoms = tuple(
        scale_integers(atom, released)
        for atom, released in zip(recipe.atoms, block.atoms, strict=True)
    )
    return FormulaInputs(atoms, *read_keys(recipe, block))


def read_keys(recipe: Recipe, block: Block) -> tuple[dict[int, Array], dict[int, float]]:
    """Read the keys of a block as arrays.

    Also, for each key of the question, whether the block leaves it out.
    """
    keys = {}
    for key in range(len(recipe.keys)):
        values: list[Any] = block.keys.get(key, [None] * block.rows)
        if key_kind(recipe.keys[key]) != "text":
            keys[key] = np.array([_to_number(value) for value in values], np.float64)
        else:
            keys[key] = _make_objects(values)
    return keys, {key: float(key not in block.grouping_set.keys) for key in range(len(recipe.keys))}


def _make_objects(values: list[Any]) -> Array:
    objects = np.empty(len(values), object)
    objects[:] = values
    return objects


def evaluate(formula: Formula, inputs: FormulaInputs) -> Array:
    """Evaluate a formula for every row (and draw)."""
    with np.errstate(all="ignore"):
        result = _evaluate(formula, inputs)
    if result.dtype != object:
        result = np.where(np.isfinite(result), result, np.nan)
    return result


def _evaluate(formula: Formula, inputs: FormulaInputs) -> Array:
    """Compute the values of a formula in all rows.

    Numbers and conditions are floats with NaN for null, other values are objects with None.
    """
    match formula:
        case Noisy(atom):
            return inputs.atoms[atom]
        case Constant(value):
            if isinstance(value, str):
                return np.array(value, object)
            return np.array(np.nan if value is None else float(value))
        case KeyValue(key):
            return inputs.keys[key]
        case Grouping(key):
            return np.array(inputs.absent[key])
        case Apply("divide", (above, below)):
            return _divide(
                _to_numbers(_evaluate(above, inputs)),
                _to_numbers(_evaluate(below, inputs)),
                inputs.guarded,
            )
        case Apply(name, arguments):
            return _FUNCTIONS[name](*(_evaluate(argument, inputs) for argument in arguments))
    raise AssertionError(formula)


def _divide(above: Array, below: Array, guarded: bool) -> Array:
    """Divide; null where the divisor is 0.

    With `guarded` and several draws (one a row), it is also null where a draw of the divisor has
    another sign than the first.
    """
    usable = below != 0
    if guarded and below.ndim == 2:
        usable = usable & (np.sign(below) == np.sign(below[:1]))
    return np.where(usable, above / below, np.nan)


# -- numbers
# --------------------------------------------------------------------------------------------------


def _to_numbers(value: Array) -> Array:
    """Convert an array to float64: dates count days, times seconds, texts are no number."""
    if value.dtype != object:
        return value
    return np.array([_to_number(element) for element in value.ravel()], np.float64).reshape(
        value.shape
    )


def _to_number(value: Any) -> float:
    """Turn a date into days and a time into seconds since 1970; NaN for what is no number."""
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH).total_seconds()
    if isinstance(value, datetime.date):
        return float((value - _EPOCH.date()).days)
    return float(value) if isinstance(value, (int, float, Fraction)) else np.nan


def _numeric(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *values: function(*(_to_numbers(value) for value in values))


def round_half_away(value: Array, decimals: Array | float = 0.0) -> Array:
    """Round half away from zero, as SQL does."""
    scale = np.power(10.0, decimals)
    result: Array = np.sign(value) * np.floor(np.abs(value) * scale + 0.5) / scale
    return result


# -- choices
# --------------------------------------------------------------------------------------------------


def is_null(value: Array) -> Array:
    if value.dtype != object:
        return np.isnan(value)
    return np.array([element is None for element in value.ravel()], bool).reshape(value.shape)


def _align_kinds(*values: Array) -> tuple[Array, ...]:
    """Convert all arrays to objects if one of them is. NaN becomes None, numbers stay numbers."""
    if all(value.dtype != object for value in values):
        return values
    return tuple(value if value.dtype == object else _to_objects(value) for value in values)


def _to_objects(value: Array) -> Array:
    objects = value.astype(object)
    objects[np.isnan(value)] = None
    return objects


def _coalesce(*values: Array) -> Array:
    """Return in each row the first value that is not null."""
    result, *fallbacks = _align_kinds(*values)
    for fallback in fallbacks:
        result = np.where(is_null(result), fallback, result)
    return result


def _nullif(value: Array, nulled_value: Array) -> Array:
    equal = _compare(value, nulled_value, "eq") == 1
    empty: Array = np.array(None if value.dtype == object else np.nan, value.dtype)
    return np.where(equal, empty, value)


def _case(*branches: Array) -> Array:
    """Evaluate CASE.

    `branches` are condition, value, condition, value, ..., and the ELSE if any.
    """
    *values, otherwise = (
        _align_kinds(*branches[1::2], branches[-1])
        if len(branches) % 2
        else (*_align_kinds(*branches[1::2]), np.array(np.nan))
    )
    conditions = [_to_numbers(condition) == 1 for condition in branches[0 : 2 * len(values) : 2]]
    result = otherwise
    for condition, value in zip(reversed(conditions), reversed(values), strict=True):
        result = np.where(condition, value, result)
    return result


# -- conditions: 1 true, 0 false, NaN unknown
# ----------------------------------------------------------------------

_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def _compare(left: Array, right: Array, name: str) -> Array:
    """Compare two columns row by row by the operator `name`: 1, 0, or NaN where one is null."""
    if left.dtype != object and right.dtype != object:
        return np.where(np.isnan(left) | np.isnan(right), np.nan, _ORDER[name](left, right))
    pairs = np.broadcast(*_align_kinds(left, right))
    return np.array([_compare_values(a, b, name) for a, b in pairs], np.float64).reshape(
        pairs.shape
    )


def _compare_values(a: Any, b: Any, name: str) -> float:
    """Compare two values; 1.0 is true, 0.0 false, and NaN says that one is null.

    A text that meets a number or a date is read as one.
    """
    if a is None or b is None:
        return np.nan
    if isinstance(a, str) != isinstance(b, str):
        a, b = _read(a, b), _read(b, a)
    elif not isinstance(a, str):
        a = _to_number(a)
        b = _to_number(b)
    return np.nan if a is None or b is None else float(_ORDER[name](a, b))


def _read(value: Any, beside: Any) -> float | None:
    """Read a text as a date or a time beside one, and as a number beside a number."""
    if not isinstance(value, str):
        return _to_number(value)
    try:
        if isinstance(beside, datetime.datetime):
            return _to_number(datetime.datetime.fromisoformat(value))
        return (
            _to_number(datetime.date.fromisoformat(value))
            if isinstance(beside, datetime.date)
            else float(value)
        )
    except ValueError:
        return None


def _and(*values: Array) -> Array:
    """Compute AND as SQL does: 0 where a value is false, else null where one is null, else 1."""
    conjunction = np.array(1.0)
    for value in map(_to_numbers, values):
        false = (conjunction == 0) | (value == 0)
        conjunction = np.where(
            false, 0.0, np.where(np.isnan(conjunction) | np.isnan(value), np.nan, 1.0)
        )
    return conjunction


def _or(*values: Array) -> Array:
    return 1.0 - _and(*(1.0 - _to_numbers(value) for value in values))


def _extreme(keep: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """Make LEAST or GREATEST, which leave nulls out."""

    def keep_extreme(*values: Array) -> Array:
        first, *later_numbers = (_to_numbers(value) for value in values)
        for numbers in later_numbers:
            first = keep(first, numbers)
        return first

    return keep_extreme


def _sum(*values: Array) -> Array:
    return sum(values[1:], start=values[0])


def _product(*values: Array) -> Array:
    """Multiply all values, row by row."""
    product = values[0]
    for value in values[1:]:
        product = product * value
    return product


_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": _numeric(_sum),
    "subtract": _numeric(lambda a, b: a - b),
    "multiply": _numeric(_product),
    "divide": _numeric(lambda a, b: _divide(a, b, False)),
    "power": _numeric(np.power),
    "negate": _numeric(np.negative),
    "abs": _numeric(np.abs),
    "sqrt": _numeric(np.sqrt),
    "round": _numeric(round_half_away),
    "floor": _numeric(np.floor),
    "ceil": _numeric(np.ceil),
    "sign": _numeric(np.sign),
    "ln": _numeric(np.log),
    "exp": _numeric(np.exp),
    "least": _extreme(np.fmin),
    "greatest": _extreme(np.fmax),
    "coalesce": _coalesce,
    "nullif": _nullif,
    "case": _case,
    **{name: (lambda a, b, name=name: _compare(a, b, name)) for name in _ORDER},
    "and": _and,
    "or": _or,
    "not": _numeric(lambda value: 1.0 - value),
    "is_null": lambda value: is_null(value).astype(np.float64),
}
