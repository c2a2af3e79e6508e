"""Which statements answer the steps of a request: counts and sums over the same rows and keys share one."""

from __future__ import annotations

from typing import Any

from dither.plan.algebra import Cells, Query
from dither.privacy.kernel.randomise import Exact
from dither.privacy.kernel.release import Priced


def statements(priced: Priced) -> list[Query]:
    """What is measured: counts and sums over the same rows and keys together, everything else by itself."""
    together: dict[Any, Query] = {}
    for query in (each.step.query for each in priced.steps):
        known = together.get(_rows_of(query))
        if isinstance(query, Cells) and isinstance(known, Cells):
            query = Cells(query.plan, query.keys, known.columns + query.columns)
        together[_rows_of(query)] = query
    return list(together.values())


def step_by_step(priced: Priced, measured: list[Any]) -> list[Exact]:
    """What the statements found, taken apart again: exact integers for each step."""
    found = {_rows_of(query): numbers for query, numbers in zip(statements(priced), measured, strict=True)}
    taken = dict.fromkeys(found, 0)
    exact: list[Exact] = []
    for query in (each.step.query for each in priced.steps):
        where = _rows_of(query)
        if not isinstance(query, Cells):
            exact.append(found[where])
            continue
        mine = slice(taken[where], taken[where] + len(query.columns))
        taken[where] = mine.stop
        if isinstance(found[where], dict):  # by unlisted key, the cells that hold rows
            exact.append({key: {code: row[mine] for code, row in at.items()} for key, at in found[where].items()})
        else:
            exact.append({(): found[where][:, mine]})
    return exact


def _rows_of(query: Query) -> Any:
    """What queries share that are measured in one statement."""
    return (query.plan, query.keys) if isinstance(query, Cells) else query
