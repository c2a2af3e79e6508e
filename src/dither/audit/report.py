"""The report: one HTML file that needs nothing else, and the same as JSON.

Claim, evidence, ROC and privacy profile (the claimed curve above, the measured lower bound below),
sample sizes, ceilings, the line of random guessing, and what was not tested.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from dither.audit.verdict import LIMITS, Verdict
from dither.figures import write_bound
from dither.pages.html import Html, join, write_element
from dither.pages.page import PageSection, write_page
from dither.pages.plots import Axis, ChartLine, draw_curves, draw_lengths
from dither.pages.tables import Cell, TableRow, Tone, write_facts, write_table
from dither.version import __version__

_NOTES = ("what", "origin", "evidence")  # columns that are sentences: shown below the name


@dataclass(frozen=True)
class Section:
    """A heading, some sentences, a table, and verdicts with their plots."""

    title: str
    text: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)


def write(file: Path, title: str, sections: Sequence[Section]) -> tuple[Path, Path]:
    """Write `file` (HTML) and the same name with .json; both paths."""
    page = file.with_suffix(".html")
    plain = file.with_suffix(".json")
    page.write_text(to_html(title, sections), encoding="utf-8")
    plain.write_text(
        json.dumps(to_json(title, sections), indent=1, allow_nan=False), encoding="utf-8"
    )
    return page, plain


def to_json(title: str, sections: Sequence[Section]) -> dict[str, Any]:
    """Write the report as plain data; NaN and infinities become null."""
    plain_sections = [
        {
            "title": section.title,
            "text": list(section.text),
            "table": [dict(zip(section.head, row, strict=True)) for row in section.rows],
            "verdicts": [verdict.to_json() for verdict in section.verdicts],
            "data": section.data,
        }
        for section in sections
    ]
    document: dict[str, Any] = finite(
        {"title": title, "dither": __version__, "limits": list(LIMITS), "sections": plain_sections}
    )
    return document


def finite(tree: Any) -> Any:
    """Turn data into JSON that every reader takes: NaN and infinities become null."""
    if isinstance(tree, dict):
        return {str(key): finite(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [finite(value) for value in tree]
    if isinstance(tree, float) and not math.isfinite(tree):
        return None
    return tree if isinstance(tree, (str, int, float, bool, type(None))) else str(tree)


def to_html(title: str, sections: Sequence[Section]) -> str:
    """Write one page without a single outside resource."""
    return write_page(
        title,
        [PageSection(section.title, _show_section(section)) for section in sections],
        lead=write_element("p", f"dither {__version__}. {' '.join(LIMITS)}", class_="quiet"),
    )


def _show_section(section: Section) -> Html:
    elements = [write_element("p", line) for line in section.text]
    if section.rows:
        elements.append(_show_table(section.head, section.rows))
    return join([*elements, *map(_show_verdict, section.verdicts)])


def _show_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    """Write a table whose sentences stand below each row, not in columns of their own."""
    short = [name for name in head if name not in _NOTES]
    lines = []
    for row in rows:
        texts = {name: str(text) for name, text in zip(head, row, strict=True)}
        notes = [texts[name] for name in _NOTES if texts.get(name)]
        lines.append(
            TableRow([Cell(texts[name], _TONES.get(texts[name])) for name in short], notes)
        )
    return write_table(short, lines)


_TONES: dict[str, Tone] = {
    "violated": "bad",
    "NO": "bad",
    "not refuted": "good",
    "yes": "good",
    "inconclusive": "fair",
}


def _show_verdict(verdict: Verdict) -> Html:
    """Write one verdict: its facts, the reason for it, and three plots."""
    epsilon = write_bound(verdict.epsilon, up=True)
    areas = (write_bound(verdict.area), write_bound(_largest_area(verdict), up=True))
    facts = [
        ("claim", f"epsilon {epsilon}, delta {write_bound(verdict.delta, up=True)}"),
        ("largest epsilon shown", write_bound(verdict.epsilon_lower)),
        ("ceiling of this many runs", write_bound(verdict.ceiling, up=True)),
        ("runs on each input", f"{verdict.runs:,}, of which {verdict.choosing:,} chose the events"),
        ("false alarms", f"at most {write_bound(verdict.alpha, up=True)}"),
        (
            "area under the ROC curve",
            f"{areas[0]} (guessing: 0.5; the claim allows {areas[1]}; an estimate)",
        ),
    ]
    if verdict.certificate is not None:
        facts.append(("best evidence", str(verdict.certificate)))
    if verdict.guesses is not None and verdict.guesses is not verdict.certificate:
        facts.append(("guesses", str(verdict.guesses)))
    facts.append(("why this verdict", _explain_outcome(verdict)))
    facts.append(("not tested", " ".join([verdict.limits[1], *verdict.limits[len(LIMITS) :]])))
    outcome = write_element("span", verdict.outcome, class_=_TONES.get(verdict.outcome))
    heading = write_element("h3", f"{verdict.name}: ", outcome)
    plots = write_element(
        "div", _draw_scale(verdict), _draw_profile(verdict), _draw_roc(verdict), class_="plots"
    )
    return write_element("article", heading, write_facts(facts), plots)


def _explain_outcome(verdict: Verdict) -> str:
    """Explain in one sentence why the verdict is what it is."""
    if verdict.violated:
        return (
            "The claim excludes these probabilities; a mechanism that keeps it shows such counts "
            "with probability at "
            f"most {write_bound(verdict.alpha, up=True)}."
        )
    if verdict.unexamined:
        return (
            f"Some of the outputs could not be looked at ({'; '.join(verdict.unexamined)}), so the "
            "mechanism is not acquitted."
        )
    if verdict.outcome == "inconclusive":
        return (
            "The ceiling lies below the claim: with so few runs no violation could be "
            "shown. Run more."
        )
    return (
        "Nothing that was tried breaks the claim, and the ceiling lies above it, so a "
        "clear violation would have shown."
    )


def _largest_area(verdict: Verdict) -> float:
    """The area under the most that the claim allows, by trapezia on a fine grid: the claim's curve
    is two lines."""
    curve = _list_allowed_rates(verdict, 2000)
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(curve))


def _list_allowed_rates(verdict: Verdict, steps: int) -> list[tuple[float, float]]:
    """List (false, true) positives of the best attack that (epsilon, delta) leaves."""
    grow = math.exp(min(50.0, verdict.epsilon))
    delta = verdict.delta
    false_positives = [i / steps for i in range(steps + 1)]
    return [
        (x, max(0.0, min(1.0, grow * x + delta, 1 - (1 - delta - x) / grow)))
        for x in false_positives
    ]


def _draw_scale(verdict: Verdict) -> Html:
    """Draw epsilon on one line: what was shown, what was claimed, what could have been shown."""
    epsilon_lower = (
        verdict.epsilon_lower if math.isfinite(verdict.epsilon_lower) else verdict.ceiling
    )
    return draw_lengths(
        [
            ("shown at least", epsilon_lower, "shown"),
            ("claimed", verdict.epsilon, "claim"),
            ("ceiling", verdict.ceiling, "top"),
        ],
        1.12 * max(epsilon_lower, verdict.epsilon, verdict.ceiling, 1e-9),
        "Epsilon. 0 is guessing. Above the ceiling nothing can be shown with this many runs.",
    )


def _draw_profile(verdict: Verdict) -> Html:
    """Draw the delta that the claim allows and the measured lower bound, over epsilon."""
    rows = [
        (epsilon, _read_promise(verdict, epsilon, claimed_delta), low)
        for epsilon, claimed_delta, low in verdict.profile
        if math.isfinite(epsilon)
    ]
    last_epsilon = max((row[0] for row in rows), default=1.0) or 1.0
    top = (
        max((value for row in rows for value in row[1:] if math.isfinite(value)), default=1.0)
        or 1.0
    )
    claimed = [
        (epsilon / last_epsilon, min(1.0, claimed_delta / top))
        for epsilon, claimed_delta, _ in rows
        if math.isfinite(claimed_delta)
    ]
    measured = [(epsilon / last_epsilon, min(1.0, low / top)) for epsilon, _, low in rows]
    note = (
        "Privacy profile: delta that the claim allows at each epsilon (dashed), and the lower "
        "bound that was measured "
        "(solid, red). A solid line above the dashed one refutes the claim."
    )
    return draw_curves(
        [ChartLine(claimed, "claim"), ChartLine(measured, "shown")],
        Axis("epsilon", last_epsilon),
        Axis("delta", top),
        note,
    )


def _read_promise(verdict: Verdict, epsilon: float, claimed_delta: float) -> float:
    """Compute the delta that the claim allows at `epsilon`: by its curve, or by what one point
    implies.

    A claim (E, delta) implies 1 - (1 - delta)(1 + e^epsilon)/(1 + e^E) at an epsilon below E
    (docs/proofs/audit.md#the-report).
    """
    if math.isfinite(claimed_delta) or epsilon >= verdict.epsilon:
        return claimed_delta
    return 1 - (1 - verdict.delta) * (1 + math.exp(epsilon)) / (
        1 + math.exp(min(50.0, verdict.epsilon))
    )


def _draw_roc(verdict: Verdict) -> Html:
    """Draw the attacker's ROC curve beside the one that the claim allows."""
    note = (
        "ROC of an attacker who learned from the first part of the runs (solid, red; an estimate), "
        "the most that the "
        "claim allows (dashed), and guessing (dotted)."
    )
    lines = [
        ChartLine([(0.0, 0.0), (1.0, 1.0)], "guess"),
        ChartLine(_list_allowed_rates(verdict, 80), "claim"),
        ChartLine(list(verdict.roc), "shown"),
    ]
    return draw_curves(lines, Axis("false positives", 1.0), Axis("true positives", 1.0), note)
