"""How long the work on a request may take, by public facts alone: its plan and declared sizes.

The slots that a question holds follow from this figure, never from true sizes or from past runs. It
is a generous price list, not a measurement: each operator of the plan may see as many rows as the
catalog lets it (`max_rows`, carried through joins by the analysis), and every row costs a fixed
time for the operator and for each byte of the written query. So whoever is in the data, a question
whose rows stay within the declared limits should end within its slots.
"""

from __future__ import annotations

from collections.abc import Iterator

from dither.canonical import dumps
from dither.curator.reply_limits import count_numbers
from dither.errors import RefusedError
from dither.plan.algebra import MeasuredQuery
from dither.plan.analyse import Analysed
from dither.privacy.kernel.kernel import Priced
from dither.privacy.kernel.statements import statements
from dither.rules import PrivacyRule

ROW_S = 200e-9
"""Seconds for one row at one operator."""
BYTE_S = 0.2e-9
"""Seconds for one row and one byte of the written request: long expressions cost more."""
NUMBER_S = 10e-6
"""Seconds for one released number: its noise."""
STEP_S = 1e-3
PRICED_BYTE_S = 0.5e-6
"""Seconds for one step, and for one byte of the written request: the kernel prices it again."""
LONGEST_WORK_S = 3600.0


def bound_work(priced: Priced) -> float:
    """Seconds that a request may take by its plan and sizes; refused where that is past an hour."""
    length = len(dumps(priced.request.to_json()))
    seconds = sum(_bound_statement(query, priced, length) for query in statements(priced))
    seconds += PRICED_BYTE_S * length
    seconds += NUMBER_S * count_numbers(priced) + STEP_S * len(priced.steps)
    if seconds > LONGEST_WORK_S:
        raise RefusedError(
            f"the declared sizes let this question work for {seconds:,.0f} s, and answers leave on "
            f"a schedule of at most {LONGEST_WORK_S:,.0f} s: ask about fewer rows or groups at "
            "once, or let the steward declare a smaller max_rows",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    return seconds


def _bound_statement(query: MeasuredQuery, priced: Priced, length: int) -> float:
    """Seconds of one statement of the engine; its aggregates read the rows of the plan again."""
    analysed = priced.version.analyses.analyse_rows(query.plan)
    rows = [count_declared_rows(node) for node in _walk(analysed)]
    return ROW_S * (sum(rows) + rows[0]) + BYTE_S * length * max(rows)


def count_declared_rows(analysed: Analysed) -> int:
    """As many rows as a node may have, by what the catalog declares; 1 where they are public."""
    return max(1, getattr(analysed.node, "most", 0))


def _walk(analysed: Analysed) -> Iterator[Analysed]:
    yield analysed
    for source in analysed.sources:
        yield from _walk(source)
