"""Workloads as text, for the command line: the words of the language, `+`, `*` and weights.

>>> str(read_workload("ranges(age) * identity(sex) + 2 * total()").products[0])
'ranges(age) x identity(sex)'
>>> len(read_workload("marginals(2, ward, sex, age)").products)
3
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from dither.errors import ParameterError
from dither.workloads.language import (
    CountingWorkload,
    cube,
    identity,
    marginals,
    prefixes,
    ranges,
    total,
)

MOST_LETTERS = 10_000
_WORDS: dict[str, Callable[..., CountingWorkload]] = {
    "identity": identity,
    "prefixes": prefixes,
    "ranges": ranges,
    "total": total,
    "marginals": lambda k, *columns: marginals(k, of=columns),
    "cube": lambda up_to, *columns: cube(columns, up_to),
}
_EXAMPLE = "e.g. 'ranges(age) * identity(sex) + 2 * total()' or 'marginals(2, ward, sex, age)'"


def read_workload(text: str) -> CountingWorkload:
    """The workload of a text; ParameterError where it is none. Nothing of it is executed."""
    if len(text) > MOST_LETTERS:
        raise ParameterError(f"a workload of more than {MOST_LETTERS:,} letters: {_EXAMPLE}")
    try:
        workload = _read(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise ParameterError(f"no workload: write {_EXAMPLE}") from None
    if not isinstance(workload, CountingWorkload):
        raise ParameterError(f"no workload: write {_EXAMPLE}")
    return workload


def _read(node: ast.expr) -> Any:
    """A workload, a number or the name of a column."""
    match node:
        case ast.BinOp(left, ast.Add(), right):
            return _read_whole(left) + _read_whole(right)
        case ast.BinOp(ast.Constant(int() | float() as weight), ast.Mult(), right):
            return weight * _read_whole(right)
        case ast.BinOp(left, ast.Mult(), right):
            return _read_whole(left) * _read_whole(right)
        case ast.Call(ast.Name(word), arguments, []) if word in _WORDS:
            return _WORDS[word](*map(_read, arguments))
        case ast.Name(name):
            return name
        case ast.Constant(int() | float() | str() as value) if type(value) is not bool:
            return value
    raise ValueError("no word of the language")


def _read_whole(node: ast.expr) -> CountingWorkload:
    """A workload, and nothing else."""
    workload = _read(node)
    if not isinstance(workload, CountingWorkload):
        raise ValueError("no workload")
    return workload
