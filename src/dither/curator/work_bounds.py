"""How long the work on a request may take, by public facts alone: its plan and declared sizes.

The slots that a question holds follow from this figure, never from true sizes or from past runs. It
is a generous price list, not a measurement: each operator of the plan may see as many rows as the
catalog lets it (`max_rows`, carried through joins by the analysis), and every row costs a fixed
time for the operator and for each byte of the written query. So whoever is in the data, a question
whose rows stay within the declared limits should end within its slots.
"""

from __future__ import annotations

from dither.canonical import dumps
from dither.curator.declared_rows import count_declared_rows, list_nodes
from dither.curator.expression_work import bound_expressions
from dither.curator.held_work import bound_held
from dither.curator.noise_work import NUMBER_S, bound_groups, bound_noise
from dither.curator.operator_work import bound_operators
from dither.curator.planning_work import bound_planning
from dither.curator.reply_limits import count_numbers
from dither.curator.tree_work import bound_growth, bound_leaves, list_levels
from dither.errors import RefusedError
from dither.plan.algebra import MeasuredQuery, Query, Scores, UnitVectors
from dither.plan.analyse import Analysed
from dither.plan.analysed_query import Analyses
from dither.plan.vectors import (
    MOST_KEPT,
    count_vector_numbers,
    is_rounded_by_factor,
    kept_bytes,
)
from dither.privacy.kernel.kernel import Priced
from dither.privacy.kernel.statements import statements
from dither.rules import PrivacyRule

ROW_S = 200e-9
"""Seconds for one row at one operator."""
BYTE_S = 0.2e-9
"""Seconds for one row and one byte of the written request: long expressions cost more."""
STEP_S = 1e-3
"""Seconds for one step of a request."""
PRICED_BYTE_S = 0.5e-6
"""Seconds for one byte of the written request: the kernel prices it again."""
LONGEST_WORK_S = 3600.0
"""The most seconds that a question may take by its declared sizes."""
TRAINING_STEP_S = 20e-3
"""Seconds for one step of a training."""
TRAINED_NUMBER_S = 3e-6
"""Seconds for one number that a step of a training releases: its noise, and storing it."""
VECTOR_NUMBER_S = 30e-9
"""Seconds for one number of the vector of one row."""
PRODUCT_NUMBER_S = 5e-9
"""The same where vectors are summed by products of matrices, and none of them is made."""
LONG_VECTOR = 1 << 15
"""A number of a vector of this length takes twice as long: few such vectors fit into a block."""
MOST_TRAINED_NUMBERS = 20_000_000
"""The most numbers that all steps of one job release together. The job keeps them until its end."""


def bound_work(priced: Priced) -> float:
    """Bound the seconds that a request may take by its plan and sizes; refuse more than an hour."""
    length = len(dumps(priced.request.to_json()))
    seconds = sum(_bound_statement(query, priced, length) for query in statements(priced))
    seconds += PRICED_BYTE_S * length
    seconds += NUMBER_S * count_numbers(priced) + STEP_S * len(priced.steps)
    seconds += bound_noise(priced)
    analyses = priced.version.analyses
    seconds += sum(bound_operators(step.step.query, analyses) for step in priced.steps)
    seconds += bound_planning(analyses.analyse_rows(query.plan) for query in statements(priced))
    if seconds > LONGEST_WORK_S:
        raise RefusedError(
            f"the declared sizes let this question work for {seconds:,.0f} s, and answers leave on "
            f"a schedule of at most {LONGEST_WORK_S:,.0f} s: ask about fewer rows or groups at "
            "once, or let the steward declare a smaller max_rows",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    return seconds


def check_step(priced: Priced, longest_s: float | None) -> None:
    """Refuse a step that may take longer than the whole job, by declared sizes; None: no limit."""
    if longest_s is None:
        return
    seconds = bound_work(priced)
    if seconds > longest_s:
        raise RefusedError(
            f"the declared sizes let one step of this job work for {seconds:,.0f} s, and a job of "
            f"this curator has {longest_s:,.1f} s: choose fewer columns, or let the steward serve "
            "it with a longer --job-slot",
            rule=PrivacyRule.BOUNDED_WORK,
        )


def check_training(query: Query, analyses: Analyses, steps: int, longest_s: float | None) -> None:
    """Refuse a training that may take too long or release too many numbers, by declared sizes.

    It may take `longest_s` seconds; None is no limit of time. A longer one would miss its slot,
    which makes the slots of all askers longer for good. One that releases more numbers than a job
    keeps could end the curator for want of memory.
    """
    vectors = query.cells if isinstance(query, Scores) else query
    if not isinstance(vectors, UnitVectors):
        return
    rows = analyses.analyse_rows(vectors.plan)
    numbers = sum(
        count_vector_numbers(level, rows) for level in list_levels(vectors, rows, steps)
    ) or steps * count_vector_numbers(vectors, rows)
    if numbers > MOST_TRAINED_NUMBERS:
        raise RefusedError(
            f"all steps of this training release {numbers:,} numbers, and a job keeps at most "
            f"{MOST_TRAINED_NUMBERS:,}: choose fewer steps, columns or weights",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    seconds = bound_training(vectors, rows, steps)
    if longest_s is not None and seconds > longest_s:
        raise RefusedError(
            f"the declared sizes let this training work for {seconds:,.0f} s, and a job of this "
            f"curator has {longest_s:,.1f} s: choose fewer steps, columns or weights, or let the "
            "steward serve it with a longer --job-slot",
            rule=PrivacyRule.BOUNDED_WORK,
        )


def bound_training(vectors: UnitVectors, rows: Analysed, steps: int) -> float:
    """Bound the seconds of a training of so many steps; rows that fit into memory are read once."""
    readings = 1 if kept_bytes(vectors, rows) <= MOST_KEPT else steps
    levels = list_levels(vectors, rows, steps)
    steps_s = sum(_bound_step(level, rows) for level in levels)
    if not levels:
        grown_s = count_declared_rows(rows) * bound_growth(vectors, rows, steps)
        steps_s = steps * _bound_step(vectors, rows) + grown_s
    return readings * _bound_rows(rows) + steps_s


def _bound_step(vectors: UnitVectors, rows: Analysed) -> float:
    """Seconds for one step of a training."""
    released_s = TRAINED_NUMBER_S * count_vector_numbers(vectors, rows)
    return TRAINING_STEP_S + released_s + _bound_vectors(vectors, rows)


def _bound_vectors(vectors: UnitVectors, rows: Analysed) -> float:
    """Bound the seconds that it takes to make and add up the vectors of all rows."""
    numbers = count_vector_numbers(vectors, rows)
    number_s = PRODUCT_NUMBER_S if is_rounded_by_factor(vectors) else VECTOR_NUMBER_S
    row_s = numbers * number_s * (1 + numbers / LONG_VECTOR) + bound_leaves(vectors)
    return count_declared_rows(rows) * row_s


def _bound_statement(query: MeasuredQuery, priced: Priced, length: int) -> float:
    """Bound the seconds of one statement of the engine, whose aggregates read its rows again."""
    analyses = priced.version.analyses
    analysed = analyses.analyse_rows(query.plan)
    most_rows = max(count_declared_rows(node) for node in list_nodes(analysed))
    vectors_s = _bound_vectors(query, analysed) if isinstance(query, UnitVectors) else 0.0
    groups_s = bound_held(query, analysed) + bound_groups(query, analyses)
    return _bound_rows(analysed) + BYTE_S * length * most_rows + vectors_s + groups_s


def _bound_rows(analysed: Analysed) -> float:
    """Bound the seconds for the rows of every operator of a plan; its result is read once more."""
    nodes = list(list_nodes(analysed))
    rows = [count_declared_rows(node) for node in nodes]
    expressions_s = sum(
        bound_expressions(node.plan, source.columns) * count_declared_rows(source)
        for node in nodes
        for source in node.sources
    )
    return ROW_S * (sum(rows) + rows[0]) + expressions_s
