"""Texts that have few values although the catalog lists none: those that a WHERE leaves, and those
of a public column.

`WHERE SUBSTR(phone, 1, 2) IN ('13', '31')` leaves two texts. A public column holds the texts that
registration read off its table. Both are known to everybody, so all of them are keys.
"""

from __future__ import annotations

from collections.abc import Iterator

from dither.plan.algebra import (
    Call,
    Column,
    Compare,
    Condition,
    Expression,
    Filter,
    Holds,
    Join,
    Or,
    Plan,
    Value,
    conjuncts,
)
from dither.sql.constants import number
from dither.sql.key_codes import KeyEncoding
from dither.sql.scope import Field

_MOST_CASES = 50


def encode_listed_text(
    value: Expression, field: Field | None, plan: Plan, *, nullable: bool
) -> KeyEncoding | None:
    """The codes of a text that has a list: by conditions on the rows, or its public column."""
    if texts := _list_filtered_texts(value, plan):
        return KeyEncoding(_write_codes(value, texts, is_whole=True), texts)
    if field is not None and field.texts:
        return KeyEncoding(_index_texts(value, field.texts, is_whole=not nullable), field.texts)
    return None


def _index_texts(value: Expression, texts: tuple[str, ...], *, is_whole: bool) -> Expression:
    """The index of a public text in its list; where there is no null the last one is the rest.

    Few texts are a CASE. A longer list is looked up: the text of a public row is one of it.
    """
    if len(texts) <= _MOST_CASES:
        return _write_codes(value, texts, is_whole=is_whole)
    index = Call("index_in", (value, *(Value("text", text) for text in texts)))
    return Call("coalesce", (index, number(len(texts) - 1))) if is_whole else index


def _write_codes(value: Expression, texts: tuple[str, ...], *, is_whole: bool) -> Expression:
    """CASE value WHEN a text THEN its position; where there is no null the last one is the rest.

    A CASE takes fifty cases: longer lists are cut into groups, one CASE for each.
    """
    starts = range(0, len(texts), _MOST_CASES)
    groups = [texts[start : start + _MOST_CASES] for start in starts]
    codes = [
        _write_group(value, group, start, is_whole=is_whole)
        for start, group in zip(starts, groups, strict=True)
    ]
    if len(groups) == 1:
        return codes[0]
    tests = [Call("in", (value, *(Value("text", text) for text in group))) for group in groups]
    arguments = [argument for pair in zip(tests, codes, strict=True) for argument in pair]
    return Call("case", tuple(arguments[:-2] + codes[-1:] if is_whole else arguments))


def _write_group(
    value: Expression, texts: tuple[str, ...], start: int, *, is_whole: bool
) -> Expression:
    arguments: list[Expression] = []
    for code, text in enumerate(texts, start):
        if is_whole and code == start + len(texts) - 1:
            arguments.append(number(code))
        else:
            arguments += [Call("eq", (value, Value("text", text))), number(code)]
    return Call("case", tuple(arguments)) if len(arguments) > 1 else arguments[0]


def _list_filtered_texts(value: Expression, plan: Plan) -> tuple[str, ...]:
    """The texts that the conditions on all rows of a plan leave to an expression, if they list any.

    Columns keep their values above a filter and on the left of a join.
    """
    while isinstance(plan, (Filter, Join)):
        if isinstance(plan, Filter):
            for condition in conjuncts(plan.condition):
                texts = tuple(dict.fromkeys(_list_allowed(condition, value)))
                if texts:
                    return texts
            plan = plan.source
        else:
            plan = plan.left
    return ()


def _list_allowed(condition: Condition, value: Expression) -> Iterator[str]:
    """The texts that an expression can have where a condition holds; none if it allows others."""
    match condition:
        case Compare(column, "=", str() as text) if value == Column(column):
            yield text
        case Holds(Call("eq", (tested, Value("text", text)))) if tested == value:
            yield str(text)
        case Holds(Call("in", (tested, *constants))) if tested == value:
            if all(
                isinstance(constant, Value) and constant.kind == "text" for constant in constants
            ):
                yield from (str(constant.value) for constant in constants)  # type: ignore[union-attr]
        case Or(conditions):
            branches = [list(_list_allowed(branch, value)) for branch in conditions]
            if all(branches):
                yield from (text for branch in branches for text in branch)
