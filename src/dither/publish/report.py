"""`report.html`: what was asked, learned and paid.

It states errors, the guarantee, and what is not protected.

One self-contained page: no script, nothing fetched. Sections that a caller has nothing for are left
out; a report made from a ledger alone has no values, since values belong to those who paid for
them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dither.pages.charts import ChartPoint, draw_meter, draw_signed_bar, format_number
from dither.pages.html import EMPTY, Html, join, write_details, write_element, write_list
from dither.pages.page import PageSection, write_card, write_page
from dither.pages.tables import Cell, Tone, write_facts, write_table
from dither.publish.harms import HARMS


@dataclass(frozen=True)
class AnsweredQuestion:
    """One question: what was asked, what it cost, and its chart.

    `expected` is what the preview said.
    """

    title: str
    sql: str
    paid: str
    expected: str
    chart: Html
    table: tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]
    learned: str
    points: tuple[ChartPoint, ...] = ()


@dataclass(frozen=True)
class Staged:
    """Where the error of an answer comes from: for each group the value in the file and the change
    at each stage."""

    title: str
    stages: tuple[str, ...]
    rows: tuple[tuple[str, float, tuple[float, ...], float, float], ...]
    note: str


@dataclass(frozen=True)
class Paid:
    """The balance of one pot: spent, cap and ceiling, the charges, and the guarantee."""

    pot: str
    measure: str
    spent: str
    cap: str
    ceiling: str
    charges: tuple[tuple[str, float], ...]
    guarantee: str
    refusal: str = ""
    delta_and_unit: str = ""


@dataclass(frozen=True)
class ReportPage:
    """The content of a report; sections without content are left out."""

    title: str
    lead: str
    context: str
    meaning: tuple[str, ...]
    questions: tuple[AnsweredQuestion, ...] = ()
    staged: tuple[Staged, ...] = ()
    paid: Paid | None = None
    releases: tuple[tuple[str, str, str], ...] = ()
    unprotected: tuple[str, ...] = ()
    hazards: tuple[str, ...] = ()
    certificate: dict[str, Any] | None = None
    verified: str = ""
    catalog: str = ""


def write_report(report: ReportPage) -> str:
    """Write the report as HTML."""
    return write_page(
        report.title,
        [
            PageSection("What was asked and learned", _show_answers(report.questions), "asked"),
            PageSection(
                "Where the error comes from", join(map(_show_stages, report.staged)), "error"
            ),
            PageSection("What was paid", _show_payment(report), "paid"),
            PageSection(
                "The guarantee in words",
                write_list(report.meaning) if report.meaning else EMPTY,
                "meaning",
            ),
            PageSection(
                "What differential privacy does not protect", _show_limits(report), "limits"
            ),
            PageSection("The certificate", _show_certificate(report), "certificate"),
            PageSection("Who is protected, and how", _show_catalog(report), "catalog"),
        ],
        lead=join([write_element("p", report.lead), _show_context(report)]),
    )


_CONTEXTS = {
    "dev": "dev dataset: invented data, so exact answers can stand beside the noisy ones",
    "prod": "prod dataset: exact answers never leave",
    "dry_run": "dry run: generated from the catalog, about nobody",
}


def _show_context(report: ReportPage) -> Html:
    return write_element("p", _CONTEXTS[report.context], class_=f"badge {report.context}")


_LEGEND = write_element(
    "p",
    write_element("span", write_element("i", class_="dot"), "answer, with its 95% interval"),
    write_element(
        "span",
        write_element("i", class_="bar"),
        "exact answer on the registered table (dev data only)",
    ),
    class_="legend",
)


def _show_answers(answers: Sequence[AnsweredQuestion]) -> Html:
    return join([_LEGEND, *map(_show_answer, answers)]) if answers else EMPTY


def _show_answer(answer: AnsweredQuestion) -> Html:
    """Write one answered question as a card: what was learned, its chart, price and table."""
    return write_card(
        answer.title,
        write_element("p", answer.learned),
        answer.chart,
        write_element("p", f"{answer.paid}. {answer.expected}", class_="quiet"),
        write_details(
            "question and table", write_element("pre", answer.sql), write_table(*answer.table)
        ),
    )


def _show_stages(staged: Staged) -> Html:
    """Write a table of where an answer's error comes from: the change that each stage makes."""
    largest_change = (
        max((abs(change) for *_, changes, _, _ in staged.rows for change in changes), default=0.0)
        or 1.0
    )
    head = ("", "in the file", *staged.stages, "answer", "± at 95%")
    rows = [
        (
            label,
            format_number(start),
            *(
                join([_format_change(change), draw_signed_bar(change / largest_change)])
                for change in changes
            ),
            format_number(end),
            format_number(half),
        )
        for label, start, changes, end, half in staged.rows
    ]
    return write_card(
        staged.title, write_table(head, rows, "stages"), write_element("p", staged.note)
    )


def _format_change(change: float) -> str:
    return ("+" if change > 0 else "") + format_number(change)


def _show_payment(report: ReportPage) -> Html:
    """Write what the pot spent, as a sentence and a meter, with refusal and releases if any."""
    paid = report.paid
    if paid is None:
        return EMPTY
    limits = f"cap {paid.cap}, ceiling {paid.ceiling}"
    balance = (
        f": spent {paid.measure} {paid.spent}{paid.delta_and_unit}; {limits}. {paid.guarantee}."
    )
    elements = [
        write_element("p", "Budget ", write_element("b", paid.pot), balance),
        draw_meter(
            paid.charges,
            float(paid.cap),
            float(paid.ceiling),
            f"spent {paid.spent}, {limits}",
        ),
    ]
    if paid.refusal:
        elements.append(write_element("p", paid.refusal, class_="refusal"))
    if report.releases:
        elements.append(write_table(("release", "asked", "paid"), report.releases))
    return join(elements)


_TONES: dict[str, Tone] = {"bounded": "good", "partly": "fair", "not covered": "bad"}


def _show_limits(report: ReportPage) -> Html:
    """Write what the guarantee does not cover: harms, unprotected facts, hazards."""
    head = ("kind", "harm", "by the noise", "what else it takes")
    rows = [
        (harm.family, harm.harm, Cell(harm.coverage, _TONES[harm.coverage]), harm.note)
        for harm in HARMS
    ]
    elements = [
        write_element(
            "p",
            "The guarantee bounds what the answers add to what anyone could learn about one "
            "protected unit. It is relative, not absolute: what is true of a population can be "
            "learned, and can be used against people who are not even in the data. It is evidence "
            "towards a judgement, never the judgement.",
        ),
        write_table(head, rows),
    ]
    if report.unprotected:
        elements.append(
            write_element("p", f"Outside the noise altogether: {'; '.join(report.unprotected)}.")
        )
    if report.hazards:
        elements.append(write_details("hazards to look at", write_list(report.hazards)))
    return join(elements)


def _show_certificate(report: ReportPage) -> Html:
    """Write the main facts of the certificate, the result of checking it, and its full text."""
    if report.certificate is None:
        return EMPTY
    body = report.certificate["body"]
    facts = [
        ("guarantee of this release", body["guarantee"]["stated"]),
        ("variant", body["guarantee"]["variant"]),
        ("mechanisms", ", ".join(sorted({step["mechanism"] for step in body["mechanisms"]}))),
        ("limits", "; ".join(body["limits"])),
        ("plan", body["release"]["plan_hash"]),
        ("signed by", report.certificate["header"]["public_key"]),
    ]
    text = json.dumps(report.certificate, indent=2, sort_keys=True)
    verdict = write_element("p", report.verified) if report.verified else EMPTY
    return join(
        [
            write_facts(facts),
            verdict,
            write_details("the whole certificate", write_element("pre", text)),
        ]
    )


def _show_catalog(report: ReportPage) -> Html:
    return write_element("pre", report.catalog) if report.catalog else EMPTY
