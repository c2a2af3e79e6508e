"""Test cases of which a few run by default and the rest under the marker `all`."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings


def mark_rest(cases: Iterable[Any], quick: int) -> list[Any]:
    """The cases, all but the first `quick` of them marked `all`.

    >>> [len(case.marks) for case in mark_rest("abc", quick=1)]
    [0, 1, 1]
    """
    return [mark_case(case, number >= quick) for number, case in enumerate(cases)]


def mark_between(cases: Iterable[Any], step: int) -> list[Any]:
    """The cases, all but every `step`-th of them marked `all`.

    >>> [len(case.marks) for case in mark_between("abcd", step=3)]
    [0, 1, 1, 0]
    """
    return [mark_case(case, number % step > 0) for number, case in enumerate(cases)]


def mark_case(case: Any, is_long: bool) -> Any:
    """A case for `pytest.mark.parametrize`; a plain tuple holds the values of several arguments.

    A case that `pytest.param` made keeps its marks and its name.
    """
    marks = [pytest.mark.all] if is_long else []
    if isinstance(case, type(pytest.param())):
        return pytest.param(*case.values, marks=[*case.marks, *marks], id=case.id)
    values = case if type(case) is tuple else (case,)
    return pytest.param(*values, marks=marks)


def run_examples(
    check: Callable[..., None],
    examples: int,
    strategies: dict[str, Any],
    **options: Any,
) -> None:
    """Runs a check on so many examples of the strategies, without a deadline."""
    settings(max_examples=examples, deadline=None, **options)(given(**strategies)(check))()
