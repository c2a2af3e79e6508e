"""The report: one HTML file that needs nothing else, and the same as JSON.

Claim, evidence, ROC and privacy profile (the claimed curve above, the measured lower bound below), sample sizes,
ceilings, the line of random guessing, and what was not tested.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from dither.audit.black_box import LIMITS, Verdict
from dither.surfaces import escape_html
from dither.version import __version__

_STYLE = """
:root { color-scheme: light dark; --ink: #1d1d1b; --soft: #5b5b57; --line: #d9d6cf; --paper: #fdfcfa; --box: #f4f2ed;
  --bad: #b3261e; --good: #1e6b34; --unsure: #7d5a00 }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e5de; --soft: #a9a69f; --line: #3b3b3f; --paper: #161618;
  --box: #1f1f22; --bad: #ff8a80; --good: #8fd19e; --unsure: #e6c068 } }
body { font: 16px/1.5 Georgia, serif; max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; color: var(--ink);
  background: var(--paper); overflow-wrap: break-word }
h1, h2, h3 { font-weight: normal; line-height: 1.25 } h2 { margin-top: 2.5rem }
h3 { margin: 0 0 .5rem; font-size: 1.15rem }
.limits, tr.notes td { color: var(--soft) } .limits { font-size: .9rem } tr.notes td { padding-bottom: .9rem }
tr.noted td { border-bottom: 0; padding-bottom: 0 } td, th { overflow-wrap: normal } td b { white-space: nowrap }
table { border-collapse: collapse; font-size: .875rem; width: 100%; margin: .5rem 0 1rem }
td, th { border-bottom: 1px solid var(--line); padding: .35rem .75rem .35rem 0; text-align: left; vertical-align: top }
th { font-weight: normal; color: var(--soft) } table.facts th { width: 13rem }
.violated, .bad { color: var(--bad); font-weight: bold } .fine { color: var(--good) } .unsure { color: var(--unsure) }
.verdict { background: var(--box); border: 1px solid var(--line); border-radius: 6px; padding: 1rem; margin: 1rem 0 }
.plots { display: flex; flex-wrap: wrap; gap: 1rem 2rem } figure { margin: 0; flex: 1 1 17rem; max-width: 27rem }
figcaption { font-size: .8rem; color: var(--soft) } svg { width: 100%; height: auto; display: block }
svg text { font: 12px sans-serif; fill: var(--soft) } svg .axis { stroke: var(--line) } svg .named { fill: var(--ink) }
svg .claim { stroke: var(--ink); stroke-dasharray: 5 4 } svg .shown { stroke: var(--bad); stroke-width: 2.5 }
svg .guess { stroke: var(--soft); stroke-dasharray: 1 4 } svg .top { stroke: var(--soft) }
@media (max-width: 48rem) { table.rows tr:first-child { display: none } table.rows tr { display: block;
  border-bottom: 1px solid var(--line); padding: .5rem 0 } table.rows td { display: block; border: 0; padding: 0 }
  table.rows tr.noted { border-bottom: 0; padding-bottom: 0 } td, th { overflow-wrap: anywhere }
  td b { white-space: normal }
  table.rows td[data-name]::before { content: attr(data-name) ": "; color: var(--soft) }
  table.facts th, table.facts td { display: block; width: auto; padding-right: 0 }
  table.facts th { border: 0; padding-bottom: 0 } }
"""
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
    limits = " ".join(map(_text, LIMITS))
    body = [f"<h1>{_text(title)}</h1>", f'<p class="limits">dither {__version__}. {limits}</p>']
    for each in sections:
        body.append(f"<h2>{_text(each.title)}</h2>")
        body += [f"<p>{_text(line)}</p>" for line in each.text]
        if each.rows:
            body.append(_table(each.head, each.rows))
        body += [_verdict(verdict) for verdict in each.verdicts]
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{view}<title>{_text(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def _text(words: str) -> str:
    return escape_html(str(words))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    short = [name for name in head if name not in _NOTES]
    top = "".join(f"<th>{_text(name)}</th>" for name in short)
    lines = []
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        first, *others = short
        told = [f"<td><b>{_text(cells[first])}</b></td>"]
        told += [f'<td data-name="{_text(name)}"{_kind(cells[name])}>{_text(cells[name])}</td>' for name in others]
        notes = [_text(cells[name]) for name in _NOTES if cells.get(name)]
        below = f'<tr class="notes"><td colspan="{len(short)}">{"<br>".join(notes)}</td></tr>' if notes else ""
        kind = ' class="noted"' if notes else ""
        lines.append(f"<tr{kind}>{''.join(told)}</tr>{below}")
    return f'<table class="rows"><tr>{top}</tr>{"".join(lines)}</table>'


def _kind(words: str) -> str:
    known = {"violated": "violated", "NO": "violated", "not refuted": "fine", "yes": "fine", "inconclusive": "unsure"}
    return f' class="{known[words]}"' if words in known else ""


def _verdict(verdict: Verdict) -> str:
    facts = [
        ("claim", f"epsilon {verdict.epsilon:.6g}, delta {verdict.delta:.3g}"),
        ("largest epsilon shown", f"{verdict.epsilon_lower:.4g}"),
        ("ceiling of this many runs", f"{verdict.ceiling:.4g}"),
        ("runs on each input", f"{verdict.runs:,}, of which {verdict.choosing:,} chose the events"),
        ("false alarms", f"at most {verdict.alpha:g}"),
        (
            "area under the ROC curve",
            f"{verdict.area:.4f} (guessing: 0.5; the claim allows {_most_area(verdict):.4f}; an estimate)",
        ),
    ]
    if verdict.certificate is not None:
        facts.append(("best evidence", str(verdict.certificate)))
    facts.append(("why this verdict", _why(verdict)))
    facts.append(("not tested", verdict.limits[1]))
    told = "".join(f"<tr><th>{_text(name)}</th><td>{_text(words)}</td></tr>" for name, words in facts)
    title = f"{_text(verdict.name)}: <span{_kind(verdict.outcome)}>{verdict.outcome}</span>"
    plots = f'<div class="plots">{_scale(verdict)}{_profile(verdict)}{_roc(verdict)}</div>'
    return f'<section class="verdict"><h3>{title}</h3><table class="facts">{told}</table>{plots}</section>'


def _why(verdict: Verdict) -> str:
    if verdict.violated:
        return (
            "The claim excludes these probabilities; a mechanism that keeps it shows such counts with probability at "
            f"most {verdict.alpha:g}."
        )
    if verdict.outcome == "inconclusive":
        return "The ceiling lies below the claim: with so few runs no violation could be shown. Run more."
    return (
        "Nothing that was tried breaks the claim, and the ceiling lies above it, so a clear violation would have shown."
    )


def _most_area(verdict: Verdict) -> float:
    """The area under the most that the claim allows, by trapezia on a fine grid: the claim's curve is two lines."""
    curve = _allowed(verdict, 2000)
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(curve))


def _allowed(verdict: Verdict, steps: int) -> list[tuple[float, float]]:
    """True against false positives of the best attack that (epsilon, delta) leaves."""
    grow, delta = math.exp(min(50.0, verdict.epsilon)), verdict.delta
    places = [i / steps for i in range(steps + 1)]
    return [(x, max(0.0, min(1.0, grow * x + delta, 1 - (1 - delta - x) / grow))) for x in places]


_WIDE, _HIGH, _LEFT, _LOW = 400, 290, 58, 44


def _plot(lines: Sequence[tuple[Sequence[tuple[float, float]], str]], axes: tuple[Axis, Axis], note: str) -> str:
    """Lines of points in the unit square as SVG: (points, class); an axis has a name and what its end means."""
    across, up = _WIDE - _LEFT - 14, _HIGH - _LOW - 14
    drawn = []
    for i in range(5):
        x, y = _LEFT + across * i / 4, _HIGH - _LOW - up * i / 4
        drawn.append(f'<line class="axis" x1="{x:.1f}" y1="14" x2="{x:.1f}" y2="{_HIGH - _LOW}"/>')
        drawn.append(f'<line class="axis" x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDE - 14}" y2="{y:.1f}"/>')
        low, left = f"{axes[0].end * i / 4:.3g}", f"{axes[1].end * i / 4:.3g}"
        drawn.append(f'<text x="{x:.1f}" y="{_HIGH - _LOW + 16}" text-anchor="middle">{low}</text>')
        drawn.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{left}</text>')
    middle = (_HIGH - _LOW) / 2
    drawn.append(
        f'<text class="named" x="{_LEFT + across / 2}" y="{_HIGH - 8}" text-anchor="middle">{axes[0].name}</text>'
    )
    turned = f'transform="rotate(-90 12 {middle})" text-anchor="middle"'
    drawn.append(f'<text class="named" x="12" y="{middle}" {turned}>{axes[1].name}</text>')
    for points, kind in lines:
        places = " ".join(f"{_LEFT + x * across:.1f},{_HIGH - _LOW - y * up:.1f}" for x, y in points)
        drawn.append(f'<polyline class="{kind}" fill="none" stroke-width="1.6" points="{places}"/>')
    return _figure(_WIDE, _HIGH, "".join(drawn), note)


def _figure(width: int, height: int, inside: str, note: str) -> str:
    start = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}">'
    title = f"<title>{_text(note)}</title>"
    return f"<figure>{start}{title}{inside}</svg><figcaption>{_text(note)}</figcaption></figure>"


@dataclass(frozen=True)
class Axis:
    """A name, and the number at its end; it starts at 0."""

    name: str
    end: float


def _scale(verdict: Verdict) -> str:
    """Epsilon on one line: what was shown, what was claimed, what could have been shown."""
    shown = verdict.epsilon_lower if math.isfinite(verdict.epsilon_lower) else verdict.ceiling
    end = 1.12 * max(shown, verdict.epsilon, verdict.ceiling, 1e-9)
    marks = [("shown at least", shown, 40, "shown"), ("claimed", verdict.epsilon, 66, "claim")]
    marks.append(("ceiling", verdict.ceiling, 92, "top"))
    drawn = ['<line class="axis" x1="110" y1="14" x2="110" y2="104"/>']
    for name, value, y, kind in marks:
        x = 110 + 250 * value / end
        drawn.append(f'<text x="102" y="{y + 4}" text-anchor="end">{name}</text>')
        drawn.append(f'<line class="{kind}" x1="110" y1="{y}" x2="{x:.1f}" y2="{y}" stroke-width="2"/>')
        drawn.append(f'<text class="named" x="{x + 6:.1f}" y="{y + 4}">{value:.3g}</text>')
    note = "Epsilon. 0 is guessing. Above the ceiling nothing can be shown with this many runs."
    return _figure(_WIDE, 118, "".join(drawn), note)


def _profile(verdict: Verdict) -> str:
    rows = [(at, _promised(verdict, at, said), low) for at, said, low in verdict.profile if math.isfinite(at)]
    most = max((row[0] for row in rows), default=1.0) or 1.0
    top = max((value for row in rows for value in row[1:] if math.isfinite(value)), default=1.0) or 1.0
    claimed = [(at / most, min(1.0, said / top)) for at, said, _ in rows if math.isfinite(said)]
    shown = [(at / most, min(1.0, low / top)) for at, _, low in rows]
    note = (
        "Privacy profile: delta that the claim allows at each epsilon (dashed), and the lower bound that was measured "
        "(solid, red). A solid line above the dashed one refutes the claim."
    )
    return _plot([(claimed, "claim"), (shown, "shown")], (Axis("epsilon", most), Axis("delta", top)), note)


def _promised(verdict: Verdict, at: float, said: float) -> float:
    """What the claim allows at `at`: its own curve, or below a point (epsilon, delta) what that point implies.

    (epsilon, delta) implies 1 - (1 - delta)(1 + e^at)/(1 + e^epsilon) at a smaller one
    (docs/proofs/audit.md#the-report).
    """
    if math.isfinite(said) or at >= verdict.epsilon:
        return said
    return 1 - (1 - verdict.delta) * (1 + math.exp(at)) / (1 + math.exp(min(50.0, verdict.epsilon)))


def _roc(verdict: Verdict) -> str:
    note = (
        "ROC of an attacker who learned from the first part of the runs (solid, red; an estimate), the most that the "
        "claim allows (dashed), and guessing (dotted)."
    )
    guess = [(0.0, 0.0), (1.0, 1.0)]
    lines = [(guess, "guess"), (_allowed(verdict, 80), "claim"), (list(verdict.roc), "shown")]
    return _plot(lines, (Axis("false positives", 1.0), Axis("true positives", 1.0)), note)
