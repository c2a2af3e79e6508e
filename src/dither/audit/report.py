"""The report: one HTML file that needs nothing else, and the same as JSON.

Claim, evidence, ROC and privacy profile (the claimed curve above, the measured lower bound below), sample sizes,
ceilings, the line of random guessing, and what was not tested.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dither.audit.black_box import LIMITS, Verdict
from dither.version import __version__

_STYLE = """
body { font: 15px/1.5 Georgia, serif; max-width: 62em; margin: 2em auto; padding: 0 1em; color: #222 }
h1, h2 { font-weight: normal } table { border-collapse: collapse; font-size: 13px; width: 100% }
td, th { border-bottom: 1px solid #ddd; padding: .3em .6em; text-align: left; vertical-align: top }
.violated, .bad { color: #a40000; font-weight: bold } .fine { color: #205020 } .unsure { color: #7a5a00 }
figure { display: inline-block; margin: 0 1.5em 1em 0 } figcaption { font-size: 12px; max-width: 26em }
svg text { font: 11px sans-serif; fill: #444 }
"""


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
    page, plain = file.with_suffix(".html"), file.with_suffix(".json")
    page.write_text(to_html(title, sections), encoding="utf-8")
    plain.write_text(json.dumps(to_json(title, sections), indent=1, allow_nan=False), encoding="utf-8")
    return page, plain


def to_json(title: str, sections: Sequence[Section]) -> dict[str, Any]:
    """Plain data; numbers that are no numbers become null."""
    parts = [
        {
            "title": each.title,
            "text": list(each.text),
            "table": [dict(zip(each.head, row, strict=True)) for row in each.rows],
            "verdicts": [verdict.to_json() for verdict in each.verdicts],
            "data": each.data,
        }
        for each in sections
    ]
    found: dict[str, Any] = finite({"title": title, "dither": __version__, "limits": list(LIMITS), "sections": parts})
    return found


def finite(tree: Any) -> Any:
    """Plain data that every reader of JSON takes: numbers that are no numbers become null."""
    if isinstance(tree, dict):
        return {str(key): finite(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [finite(value) for value in tree]
    if isinstance(tree, float) and not math.isfinite(tree):
        return None
    return tree if isinstance(tree, (str, int, float, bool, type(None))) else str(tree)


def to_html(title: str, sections: Sequence[Section]) -> str:
    """One page without a single outside resource."""
    body = [f"<h1>{_text(title)}</h1>", f"<p>dither {__version__}. {' '.join(map(_text, LIMITS))}</p>"]
    for each in sections:
        body.append(f"<h2>{_text(each.title)}</h2>")
        body += [f"<p>{_text(line)}</p>" for line in each.text]
        if each.rows:
            body.append(_table(each.head, each.rows))
        body += [_verdict(verdict) for verdict in each.verdicts]
    head = f'<meta charset="utf-8"><title>{_text(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def _text(words: str) -> str:
    return html.escape(str(words))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{_text(cell)}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{lines}</table>"


def _verdict(verdict: Verdict) -> str:
    kind = {"violated": "violated", "not refuted": "fine", "inconclusive": "unsure"}[verdict.outcome]
    facts = [
        ("claim", f"epsilon {verdict.epsilon:.6g}, delta {verdict.delta:.3g}"),
        ("largest epsilon shown", f"{verdict.epsilon_lower:.4g}"),
        ("ceiling of this many runs", f"{verdict.ceiling:.4g}"),
        ("runs on each input", f"{verdict.runs:,}, of which {verdict.choosing:,} chose the events"),
        ("false alarms", f"at most {verdict.alpha:g}"),
        ("area under the ROC curve", f"{verdict.area:.4f} (guessing: 0.5; an estimate, without confidence)"),
    ]
    if verdict.certificate is not None:
        c = verdict.certificate
        facts.append(
            (
                "best evidence",
                f"{c.event} ({c.direction}): {c.hits[0]:,} against {c.hits[1]:,} of {c.runs:,} runs; probability above "
                f"{c.low:.6g} on one input and below {c.high:.6g} on the other",
            )
        )
    table = _table(("", ""), facts)
    return (
        f'<h3>{_text(verdict.name)}: <span class="{kind}">{verdict.outcome}</span></h3>{table}'
        f"{_profile(verdict)}{_roc(verdict)}<p>Not tested: {_text(verdict.limits[1])}</p>"
    )


def _plot(lines: Sequence[tuple[Sequence[tuple[float, float]], str, bool]], labels: tuple[str, str], note: str) -> str:
    """Lines of points in the unit square as SVG: (points, colour, dashed)."""
    width, height, edge = 330, 240, 38
    drawn = []
    for points, colour, dashed in lines:
        places = [
            f"{edge + x * (width - edge - 10):.1f},{height - edge - y * (height - edge - 10):.1f}" for x, y in points
        ]
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.6"{dash} points="{" ".join(places)}"/>')
    frame = (
        f'<line x1="{edge}" y1="{height - edge}" x2="{width - 10}" y2="{height - edge}" stroke="#999"/>'
        f'<line x1="{edge}" y1="10" x2="{edge}" y2="{height - edge}" stroke="#999"/>'
        f'<text x="{width / 2}" y="{height - 8}" text-anchor="middle">{_text(labels[0])}</text>'
        f'<text x="12" y="{height / 2}" text-anchor="middle" transform="rotate(-90 12 {height / 2})">'
        f"{_text(labels[1])}</text>"
    )
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    picture = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>{frame}{"".join(drawn)}</svg>'
    return f"<figure>{picture}<figcaption>{_text(note)}</figcaption></figure>"


def _profile(verdict: Verdict) -> str:
    rows = [row for row in verdict.profile if math.isfinite(row[0])]
    most = max((row[0] for row in rows), default=1.0) or 1.0
    tops = [value for row in rows for value in row[1:] if math.isfinite(value)]
    top = max(tops, default=1.0) or 1.0
    claimed = [(row[0] / most, min(1.0, row[1] / top)) for row in rows if math.isfinite(row[1])]
    shown = [(row[0] / most, min(1.0, row[2] / top)) for row in rows]
    note = (
        f"Privacy profile up to epsilon {most:.3g} and delta {top:.3g}: claimed (black, dashed), and the lower bound "
        "that was measured (red). A red line above the black one refutes the claim."
    )
    return _plot([(claimed, "#222", True), (shown, "#a40000", False)], ("epsilon", "delta"), note)


def _roc(verdict: Verdict) -> str:
    bound = [i / 40 for i in range(41)]
    grow = math.exp(min(50.0, verdict.epsilon))
    claim = [(x, max(0.0, min(1.0, grow * x + verdict.delta, 1 - (1 - verdict.delta - x) / grow))) for x in bound]
    note = (
        "ROC of an attacker who learned from the first part (red, estimated), the most that the claim allows (black, "
        "dashed), and guessing (grey)."
    )
    lines = [(list(verdict.roc), "#a40000", False), (claim, "#222", True), ([(0.0, 0.0), (1.0, 1.0)], "#aaa", False)]
    return _plot(lines, ("false positives", "true positives"), note)
