"""Keys computed from a category: their values are computed once, from the labels in the catalog.

UPPER(ward), COALESCE(ward, 'none') and CASE WHEN ward = 'a' THEN 'x' ELSE ward END have as many
values as the labels of the ward give. The engine never computes such a text: rows are grouped by a
map of codes. The label `other` stands for values that nobody listed, and stays itself.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dither.catalog import OTHER
from dither.plan.algebra import Call, Column, Expression, Value
from dither.plan.conditions import columns_of
from dither.plan.domain import Columns
from dither.sql.constants import number

Text = str | None
MOST_LABELS = 1000


class _Underivable(Exception):
    """An expression that is not computed from labels alone."""


def derive_labels(value: Expression, columns: Columns) -> tuple[Expression, tuple[str, ...]] | None:
    """Find the codes of a text that is computed from one category, and the texts of these codes.

    None where the text is computed from anything else.

    >>> from dither.plan.domain import Domain
    >>> ward = {"ward": Domain("category", False, 0, 1, labels=("a", "b"))}
    >>> upper = Call("upper", (Call("label", (Column("ward"),)),))
    >>> derive_labels(upper, ward)[1]
    ('A', 'B')
    """
    names = columns_of(value)
    if len(names) != 1 or not isinstance(value, Call):
        return None
    (name,) = names
    domain = columns[name]
    if domain.kind != "category" or len(domain.labels) > MOST_LABELS:
        return None
    labels: tuple[Text, ...] = (*domain.labels, *([None] if domain.nullable else []))
    try:
        results = [OTHER if label == OTHER else _compute(value, label) for label in labels]
    except _Underivable:
        return None
    texts = tuple(dict.fromkeys(text for text in results if text is not None))
    groups = [
        [label for label, result in zip(labels, results, strict=True) if result == text]
        for text in texts
    ]
    if not texts:
        return None
    return _write_map(Column(name), groups, is_whole=None not in results), texts


def _write_map(column: Column, groups: list[list[Text]], *, is_whole: bool) -> Expression:
    """Write CASE column WHEN one of the labels of a group THEN its code.

    With `is_whole` the last group is the ELSE.
    """
    arguments: list[Expression] = []
    for code, labels in enumerate(groups):
        if is_whole and code == len(groups) - 1:
            arguments.append(number(code))
            break
        arguments += [_write_test(column, labels), number(code)]
    return Call("case", tuple(arguments)) if len(arguments) > 1 else number(0)


def _write_test(column: Column, labels: list[Text]) -> Expression:
    """Write the condition that a column has one of these labels; None stands for null."""
    listed = tuple(Value("text", label) for label in labels if label is not None)
    tests: list[Expression] = [Call("in", (column, *listed))] if listed else []
    if None in labels:
        tests.append(Call("is_null", (column,)))
    return tests[0] if len(tests) == 1 else Call("or", tuple(tests))


def _compute(expression: Expression, label: Text) -> Text:
    """Compute the text of an expression in a row that has the label.

    Raises _Underivable where it cannot.
    """
    match expression:
        case Value("text", str() as text):
            return text
        case Call("label", (Column(),)):
            return label
        case Call("coalesce", choices):
            texts = (_compute(choice, label) for choice in choices)
            return next((text for text in texts if text is not None), None)
        case Call("case" | "if", arguments):
            last = len(arguments) - 1
            for position in range(0, last, 2):
                if _test(arguments[position], label):
                    return _compute(arguments[position + 1], label)
            return _compute(arguments[last], label) if len(arguments) % 2 else None
        case Call(function, (text_argument, *constants)) if function in _TEXTS:
            subject = _compute(text_argument, label)
            texts_after = map(_read_constant, constants)
            return None if subject is None else _TEXTS[function](subject, *texts_after)
    raise _Underivable


def _test(condition: Expression, label: Text) -> bool:
    """Whether a condition on the label is true; unknown is not."""
    match condition:
        case Call("is_null", (Column() | Call("label", (Column(),)),)):
            return label is None
        case Call("is_not_null", (Column() | Call("label", (Column(),)),)):
            return label is not None
        case Call("eq" | "in", (subject, *constants)):
            return _read_subject(subject, label) in [_read_text(constant) for constant in constants]
        case Call("ne", (subject, constant)):
            text = _read_subject(subject, label)
            return text is not None and text != _read_text(constant)
    raise _Underivable


def _read_subject(subject: Expression, label: Text) -> Text:
    return label if isinstance(subject, Column) else _compute(subject, label)


def _read_text(constant: Expression) -> str:
    if isinstance(constant, Value) and isinstance(constant.value, str):
        return constant.value
    raise _Underivable


def _read_constant(constant: Expression) -> int | str:
    if isinstance(constant, Value) and constant.kind in ("text", "number"):
        return int(constant.value) if isinstance(constant.value, Fraction) else constant.value
    raise _Underivable


def _change_case(text: str, is_upper: bool) -> str:
    """The 26 letters of ASCII alone, as the function table says."""
    return "".join(
        (char.upper() if is_upper else char.lower()) if char.isascii() else char for char in text
    )


_TEXTS: dict[str, Callable[..., str]] = {
    "upper": lambda text: _change_case(text, True),
    "lower": lambda text: _change_case(text, False),
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "left": lambda text, length: text[:length],
    "right": lambda text, length: text[-length:] if length else "",
    "substring": lambda text, start, length: text[start - 1 :][:length],
    "replace": lambda text, old, new: text.replace(old, new),
}
