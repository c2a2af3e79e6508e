"""`report.html`: what was asked, learned and paid, with its errors, its guarantee, and what is not protected.

One self-contained page: no script, nothing fetched. Sections that a caller has nothing for are left out; a report made
from a ledger alone has no values, since values belong to those who paid for them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dither.publish.charts import Point, dots, meter, number, signed
from dither.publish.harms import HARMS
from dither.publish.style import STYLE
from dither.surfaces import escape_html
from dither.version import __version__


@dataclass(frozen=True)
class Answered:
    """One question: what was asked, what it cost, and its chart; `expected` is what the preview said."""

    title: str
    sql: str
    paid: str
    expected: str
    chart: str
    table: tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]
    learned: str
    points: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Staged:
    """Where the error of an answer comes from: for each group the value in the file and the change at each stage."""

    title: str
    stages: tuple[str, ...]
    rows: tuple[tuple[str, float, tuple[float, ...], float, float], ...]
    note: str


@dataclass(frozen=True)
class Paid:
    """Where the budget stands."""

    pot: str
    measure: str
    spent: str
    cap: str
    ceiling: str
    parts: tuple[tuple[str, float], ...]
    guarantee: str
    refusal: str = ""
    towards: str = ""


@dataclass(frozen=True)
class Report:
    """Everything that a page may show."""

    title: str
    lead: str
    context: str
    meaning: tuple[str, ...]
    answered: tuple[Answered, ...] = ()
    staged: tuple[Staged, ...] = ()
    paid: Paid | None = None
    releases: tuple[tuple[str, str, str], ...] = ()
    unprotected: tuple[str, ...] = ()
    hazards: tuple[str, ...] = ()
    certificate: dict[str, Any] | None = None
    verified: str = ""
    catalog: str = ""


def page(report: Report) -> str:
    """The report as HTML."""
    sections = [
        ("asked", "What was asked and learned", _answered(report.answered)),
        ("error", "Where the error comes from", "".join(map(_staged, report.staged))),
        ("paid", "What was paid", _paid(report)),
        ("meaning", "The guarantee in words", _list(report.meaning)),
        ("limits", "What differential privacy does not protect", _limits(report)),
        ("certificate", "The certificate", _certificate(report)),
        ("catalog", "Who is protected, and how", f"<pre>{escape_html(report.catalog)}</pre>" if report.catalog else ""),
    ]
    kept = [(name, title, body) for name, title, body in sections if body]
    links = "".join(f"<a href='#{name}'>{escape_html(title)}</a>" for name, title, _ in kept)
    body = "".join(f"<section id='{name}'><h2>{escape_html(title)}</h2>{text}</section>" for name, title, text in kept)
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape_html(report.title)}</title><style>{STYLE}</style></head><body>"
        f"<header><h1>{escape_html(report.title)}</h1><p>{escape_html(report.lead)}</p>{_badge(report)}<nav>{links}</nav></header>"
        f"<main>{body}</main><footer>made by dither {__version__}; no script, nothing fetched</footer></body></html>\n"
    )


def _badge(report: Report) -> str:
    said = {
        "dev": "dev lineage: invented data, so exact answers can stand beside the noisy ones",
        "prod": "prod lineage: exact answers never leave",
        "dry_run": "dry run: generated from the catalog, about nobody",
    }[report.context]
    return f"<p class='badge {report.context}'>{escape_html(said)}</p>"


def _list(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape_html(line)}</li>" for line in lines) + "</ul>" if lines else ""


_LEGEND = (
    "<p class='legend'><span><i class='dot'></i>answer, with its 95% interval</span>"
    "<span><i class='bar'></i>exact answer on the registered table (dev data only)</span></p>"
)


def _answered(found: Sequence[Answered]) -> str:
    if not found:
        return ""
    return _LEGEND + "".join(
        f"<article><h3>{escape_html(each.title)}</h3><p>{escape_html(each.learned)}</p>{each.chart}"
        f"<p class='quiet'>{escape_html(each.paid)}. {escape_html(each.expected)}</p>"
        f"<details><summary>question and table</summary><pre>{escape_html(each.sql)}</pre>"
        f"{_table(*each.table)}</details></article>"
        for each in found
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    top = "".join(f"<th>{escape_html(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape_html(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class='wide'><table class='{kind}'><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def _staged(each: Staged) -> str:
    most = max((abs(change) for *_, changes, _, _ in each.rows for change in changes), default=0.0) or 1.0
    head = "".join(f"<th>{escape_html(name)}</th>" for name in ("", "in the file", *each.stages, "answer", "± at 95%"))
    rows = []
    for label, start, changes, end, half in each.rows:
        cells = "".join(f"<td>{_plus(change)}{signed(change / most)}</td>" for change in changes)
        rows.append(
            f"<tr><th>{escape_html(label)}</th><td>{number(start)}</td>{cells}<td>{number(end)}</td>"
            f"<td>{number(half)}</td></tr>"
        )
    table = f"<table class='stages'><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    title = f"<h3>{escape_html(each.title)}</h3>"
    return f"<article>{title}<div class='wide'>{table}</div><p>{escape_html(each.note)}</p></article>"


def _plus(change: float) -> str:
    return ("+" if change > 0 else "") + number(change)


def _paid(report: Report) -> str:
    paid = report.paid
    if paid is None:
        return ""
    text = (
        f"<p>Pot <b>{escape_html(paid.pot)}</b>: spent {escape_html(paid.measure)} "
        f"{escape_html(paid.spent)}{escape_html(paid.towards)}; "
        f"cap {escape_html(paid.cap)}, "
        f"ceiling {escape_html(paid.ceiling)}. {escape_html(paid.guarantee)}.</p>"
        + meter(paid.parts, float(paid.cap), float(paid.ceiling))
    )
    if paid.refusal:
        text += f"<p class='refusal'>{escape_html(paid.refusal)}</p>"
    if report.releases:
        text += _table(("release", "asked", "paid"), report.releases)
    return text


def _limits(report: Report) -> str:
    names = {"bounded": "bounded", "partly": "partly", "not covered": "none"}
    rows = "".join(
        f"<tr><td>{escape_html(h.family)}</td><td>{escape_html(h.harm)}</td>"
        f"<td class='{names[h.coverage]}'>{h.coverage}</td><td>{escape_html(h.note)}</td></tr>"
        for h in HARMS
    )
    table = (
        "<div class='wide'><table><thead><tr><th>kind</th><th>harm</th><th>by the noise</th><th>what else it takes</th>"
        f"</tr></thead><tbody>{rows}</tbody></table></div>"
    )
    text = (
        "<p>The guarantee bounds what the answers add to what anyone could learn about one protected unit. It is "
        "relative, not absolute: what is true of a population can be learned, and can be used against people who are "
        "not even in the data. It is evidence towards a judgement, never the judgement.</p>" + table
    )
    if report.unprotected:
        text += f"<p>Outside the noise altogether: {escape_html('; '.join(report.unprotected))}.</p>"
    if report.hazards:
        text += f"<details><summary>hazards to look at</summary>{_list(report.hazards)}</details>"
    return text


def _certificate(report: Report) -> str:
    if report.certificate is None:
        return ""
    body = report.certificate["body"]
    facts = [
        ("guarantee of this release", body["guarantee"]["stated"]),
        ("variant", body["guarantee"]["variant"]),
        ("mechanisms", ", ".join(sorted({each["mechanism"] for each in body["mechanisms"]}))),
        ("limits", "; ".join(body["limits"])),
        ("plan", body["release"]["plan_hash"]),
        ("signed by", report.certificate["header"]["public_key"]),
    ]
    text = json.dumps(report.certificate, indent=2, sort_keys=True)
    checked = f"<p>{escape_html(report.verified)}</p>" if report.verified else ""
    shown = "".join(f"<dt>{escape_html(name)}</dt><dd>{escape_html(value)}</dd>" for name, value in facts)
    whole = f"<details><summary>the whole certificate</summary><pre>{escape_html(text)}</pre></details>"
    return f"<dl>{shown}</dl>{checked}{whole}"


__all__ = ["Answered", "Paid", "Point", "Report", "Staged", "dots", "page"]
