"""The page that the demonstration writes: answers beside the truth, and the error of each stage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from dither.answer.preview import Preview
from dither.answer.result import Result, make_result
from dither.answer.shown_keys import list_shown_keys
from dither.canonical import decimal_text
from dither.catalog.explain import UNPROTECTED, guarantee
from dither.cli.registry import read_deployment
from dither.pages.charts import ChartPoint, draw_dots, format_number
from dither.pages.html import EMPTY, Html, join, write_element
from dither.plan.algebra import Cells
from dither.privacy.kernel.release import Release
from dither.publish import seal
from dither.publish.hazards import find_hazards
from dither.publish.interpret import interpret_pot
from dither.publish.report import AnsweredQuestion, Paid, ReportPage, Staged, write_report
from dither.question.recipe import Recipe
from dither.session import Connection
from dither.state import State
from dither.steward.stages import Cell, Stage, measure_stages, measure_truth


@dataclass(frozen=True)
class DemoAnswer:
    """A question of the demonstration: before, the answer, and the truth by label."""

    title: str
    top_label: str
    sql: str
    preview: Preview
    result: Result
    truth: dict[str, float]
    points: tuple[ChartPoint, ...]


def list_truths(state: State, result: Result) -> dict[str, float]:
    """Compute the exact answer by the labels of its rows, for every key that the release
    selected."""
    release, recipe = _release_and_recipe(result)
    exact = replace(release, values=measure_truth(state, release))
    whole = replace(recipe, order=(), limit=None, offset=0, having=None)
    table = make_result(exact, whole, Fraction(95, 100), result.info)
    return {point.label: point.value for point in _list_points(table, {})}


def list_points(result: Result, truth: dict[str, float]) -> tuple[ChartPoint, ...]:
    """The answers of a question's first value column."""
    return tuple(_list_points(result, truth))


def _list_points(result: Result, truth: dict[str, float]) -> list[ChartPoint]:
    """List a point for each row: label, value, ends of its interval, and the truth."""
    keys = [column.name for column in result.columns if column.role == "key"]
    value, low, high = next(
        (column.name, f"{column.name}_low", f"{column.name}_high")
        for column in result.columns
        if column.role == "value"
    )
    points = []
    for row in result.to_arrow().to_pylist():
        label = " · ".join(_format_label(row[key]) for key in keys) or value
        shown_value = math.nan if row[value] is None else float(row[value])
        points.append(
            ChartPoint(
                label, shown_value, _read_float(row[low]), _read_float(row[high]), truth.get(label)
            )
        )
    return points


def _format_label(value: Any) -> str:
    if value is None:
        return "unknown"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_float(value: Any) -> float | None:
    return None if value is None else float(value)


def _release_and_recipe(result: Result) -> tuple[Release, Recipe]:
    return result._release, result._recipe


def count_covered(answer: DemoAnswer) -> tuple[int, int]:
    """How many intervals hold the exact answer, of those that have both ends."""
    bounded = [
        p for p in answer.points if None not in (p.low, p.high, p.truth) and not math.isnan(p.value)
    ]
    return sum(p.low <= p.truth <= p.high for p in bounded), len(bounded)  # type: ignore[operator]


def demo_report(
    con: Connection,
    state: State,
    file: Path,
    answers: Sequence[DemoAnswer],
    refusal: str,
    certificate: dict[str, Any],
    people: int,
) -> str:
    """The page."""
    pot = con.budget().pots[0]
    facts = read_deployment(state)
    meaning = interpret_pot(pot)
    inside = [count_covered(answer) for answer in answers]
    hits = sum(a for a, _ in inside)
    intervals = sum(b for _, b in inside)
    releases = con.history().releases
    balance = Paid(
        pot.name,
        pot.rule.measure,
        decimal_text(pot.spent, up=True),
        decimal_text(pot.cap),
        decimal_text(pot.ceiling),
        tuple(
            (f"release {paid.release_id}: {paid.asks}", float(paid.charged)) for paid in releases
        ),
        "Whatever is asked, and whatever is raised later, all answers together stay within "
        f"{meaning.stated}",
        refusal,
        f", delta {decimal_text(pot.delta_spent, up=True)}, for one {pot.unit}",
    )
    report = ReportPage(
        title="A dozen questions to an invented clinic",
        lead=f"{people:,} invented patients, their visits and prescriptions. Each answer "
        "carries noise that hides any one person, and an interval that says how much; "
        f"{hits} of {intervals} intervals hold the exact answer, at 95% each.",
        context="dev",
        meaning=tuple(meaning.lines()),
        questions=tuple(map(_describe_question, answers)),
        staged=_describe_stages(state, file, answers[1], answers[9]),
        paid=balance,
        releases=tuple((paid.release_id, paid.asks, paid.paid) for paid in releases),
        unprotected=UNPROTECTED,
        hazards=tuple(f"{hazard.name}: {hazard.message}" for hazard in find_hazards(facts)),
        certificate=certificate,
        verified=say_verdict(certificate),
        catalog=guarantee(con.catalog),
    )
    return write_report(report)


def say_verdict(certificate: dict[str, Any]) -> str:
    """Check the certificate that the page shows, and write the verdict as a sentence."""
    verdict = seal.check(seal.write_certificate(certificate), [certificate["header"]["public_key"]])
    if not verdict.intact:
        return f"NOT what was signed: {'; '.join(verdict.problems)}"
    return (
        "Checked with the public key alone: every field is as it was signed (dither "
        "verify certificate.json)."
    )


def _describe_question(answer: DemoAnswer) -> AnsweredQuestion:
    """Describe an answered question for the report: price, error, table and finding."""
    head = ("", "answer", "from", "to", "exact (dev only)")
    rows = tuple(
        (
            p.label,
            format_number(p.value),
            format_number(p.low),
            format_number(p.high),
            format_number(p.truth),
        )
        for p in answer.points
    )
    first = answer.preview.columns[0]
    info = answer.result.info
    expected = "the error depends on the group's size"
    if first.half_width is not None and not first.needs_group_size:
        expected = (
            f"the preview promised ± {format_number(first.half_width)} at 95% "
            "before anything was read"
        )
    paid = f"Paid {info['measure']} {decimal_text(Fraction(info['charged']), up=True)}"
    return AnsweredQuestion(
        answer.title,
        answer.sql,
        paid,
        f"{expected[0].upper()}{expected[1:]}.",
        join([draw_dots(answer.points, answer.title), _write_limits(answer.result)]),
        (head, rows),
        _state_finding(answer),
        answer.points,
    )


def _write_limits(result: Result) -> Html:
    """What was limited in the rows behind a chart."""
    limits = dict.fromkeys(limit for column in result.columns for limit in column.limits)
    return write_element("p", "; ".join(limits), class_="quiet") if limits else EMPTY


def _state_finding(answer: DemoAnswer) -> str:
    """Write the finding in a sentence, as far as the intervals carry it."""
    points = [
        p for p in answer.points if not math.isnan(p.value) and p.label not in ("unknown", "other")
    ]
    if not points:
        return "Nothing could be shown."
    top = max(points, key=lambda p: p.value)
    rest = [p for p in points if p is not top]
    clear = top.low is not None and all(p.high is not None and p.high < top.low for p in rest)
    between = (
        ""
        if top.low is None
        else f", between {format_number(top.low)} and {format_number(top.high)}"
    )
    sentence = f"{answer.top_label}: {top.label}, {format_number(top.value)}{between}."
    if not rest:
        return sentence
    return sentence + (
        " No other comes near."
        if clear
        else " Others may be as large: their intervals overlap or are open."
    )


def _describe_stages(
    state: State, file: Path, cost: DemoAnswer, drugs: DemoAnswer
) -> tuple[Staged, ...]:
    """Tell two stories: sums that clamps and limits bias, and keys of which rare ones are
    suppressed."""
    queries = [
        next(
            query
            for query in _release_and_recipe(answer.result)[1].queries
            if isinstance(query, Cells)
        )
        for answer in (cost, drugs)
    ]
    first, second = measure_stages(state, file, *queries)
    return _describe_wards(first, cost), _describe_drugs(second, drugs)


def _describe_wards(stages: tuple[Stage, ...], demo_answer: DemoAnswer) -> Staged:
    """Follow the cost of each ward from the file to the answer."""
    recipe = _release_and_recipe(demo_answer.result)[1]
    unit = float(recipe.atoms[0].unit)
    cells_by_stage = [
        {cell: values[0] * unit for cell, values in stage.cells.items()} for stage in stages
    ]
    labels = [_format_label(key) for key in list_shown_keys(recipe.keys[0].domain)]
    answers = {p.label: p for p in demo_answer.points}
    rows = []
    for code, label in enumerate(labels):
        raw, clamped, limited = (stage_cells.get(((), code), 0.0) for stage_cells in cells_by_stage)
        answer = answers[label]
        half = (answer.high or 0.0) - answer.value
        rows.append(
            (
                label,
                raw,
                (clamped - raw, limited - clamped, answer.value - limited),
                answer.value,
                half,
            )
        )
    return Staged(
        "Cost by ward: from the file to the answer",
        ("clamps", "limits", "noise"),
        tuple(rows),
        "Bills above 2,000 are cut, and of each person at most five visits count: both pull sums "
        "down, by far more than the noise. Intervals cover the noise alone; the rest is decided by "
        "the catalog, before anyone asks.",
    )


def _describe_drugs(stages: tuple[Stage, ...], demo_answer: DemoAnswer) -> Staged:
    """Prescriptions: drugs that few people take are not shown at all."""
    release, recipe = _release_and_recipe(demo_answer.result)
    cells_by_stage = [
        {cell: float(values[0]) for cell, values in stage.cells.items()} for stage in stages
    ]
    whole = replace(recipe, order=(), limit=None, offset=0, having=None)
    answers = {
        p.label: p
        for p in _list_points(
            make_result(release, whole, Fraction(95, 100), demo_answer.result.info), {}
        )
    }
    drugs = sorted(
        {cell for stage_cells in cells_by_stage for cell in stage_cells},
        key=lambda cell: -cells_by_stage[0].get(cell, 0.0),
    )

    def row(
        label: str, cells: Sequence[Cell]
    ) -> tuple[str, float, tuple[float, ...], float, float]:
        raw, clamped, limited = (
            sum(stage_cells.get(cell, 0.0) for cell in cells) for stage_cells in cells_by_stage
        )
        points = [
            answers[_format_label(cell[0][0])]
            for cell in cells
            if _format_label(cell[0][0]) in answers
        ]
        kept = sum(
            cells_by_stage[2].get(cell, 0.0)
            for cell in cells
            if _format_label(cell[0][0]) in answers
        )
        value = sum(p.value for p in points)
        half = math.sqrt(sum(((p.high or 0.0) - p.value) ** 2 for p in points))
        changes = (clamped - raw, limited - clamped, kept - limited, value - kept)
        return label, raw, changes, value, half

    rows = [row(_format_label(cell[0][0]), [cell]) for cell in drugs[:4]]
    rows.append(row(f"the other {len(drugs) - 4}", drugs[4:]))
    return Staged(
        "Prescriptions by drug: from the file to the answer",
        ("clamps", "limits", "suppression", "noise"),
        tuple(rows),
        "The list of drugs is not in the catalog, so a drug is shown only if enough people take "
        "it; which ones are missing, and how many, is never said about real data. The last row "
        "adds up many drugs and all their noise.",
    )
