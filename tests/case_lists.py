"""Lists of test cases of which a few run by default and the rest under the marker `all`."""

from collections.abc import Iterable
from typing import Any

import pytest


def mark_rest(cases: Iterable[Any], quick: int) -> list[Any]:
    """The cases, all but the first `quick` of them marked `all`.

    >>> [len(case.marks) for case in mark_rest("abc", 1)]
    [0, 1, 1]
    """
    marked = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        marks = [] if number < quick else [pytest.mark.all]
        marked.append(pytest.param(*values, marks=marks))
    return marked
