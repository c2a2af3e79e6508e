"""An answer as the console shows it: a sentence, a chart, a table, notes, and files to keep."""

from __future__ import annotations

import csv
import io
import json
import shlex
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from dither.answer.column_info import ResultColumn
from dither.answer.history import PaidRelease
from dither.answer.result import Result
from dither.answer.show_result import list_chart_points, make_shown_table
from dither.console.charts import draw_answer
from dither.console.question_form import TypedQuestion
from dither.errors import DitherError
from dither.pages.charts import ChartPoint, format_number
from dither.pages.html import EMPTY, Html
from dither.publish.commitment import plain
from dither.publish.seal import write_certificate
from dither.surfaces import escape_csv, escape_json
from dither.version import __version__

MOST_ROWS_SHOWN = 1_000
_README = """\
This folder holds one answer of dither {version}, a differential-privacy curator.

data.csv          the answer: every value column is followed by the ends of its interval
answer.json       the same numbers, what is known of them, and the nonce of their commitment
certificate.json  what was promised for this release, signed; see below
plan.txt          how the question was answered: plan, noise, price
question.sql      the question

The numbers are noisy on purpose. Intervals cover the exact answer on the registered table at the
stated level; what limits and clamps did to the data before is named in plan.txt, not covered.

Check that nobody changed the certificate, and that it is of these numbers:

  dither verify certificate.json --key PUBLIC_KEY --values answer.json

Ask the data steward for the public key: one that comes with the file proves nothing.
"""


@dataclass(frozen=True)
class AnswerView:
    """An answer, ready to be shown."""

    sentence: str
    chart: Html
    heads: tuple[str, ...]
    figures: frozenset[int]
    rows: tuple[tuple[str, ...], ...]
    rows_left_out: int
    footnotes: tuple[str, ...]
    release_id: str
    released_at: str
    paid: str
    has_certificate: bool


def make_view(result: Result, paid: PaidRelease | None) -> AnswerView:
    """The view of a result. `paid` is its line of history, where the visitor's budget paid."""
    rows = result.table.to_pylist()
    table = make_shown_table(result.columns, rows)
    release_id = str(result.info.get("release_id", ""))
    return AnswerView(
        write_sentence(result.columns, rows),
        _draw_chart(result.columns, rows),
        tuple(table.heads),
        table.figures,
        tuple(table.rows[:MOST_ROWS_SHOWN]),
        max(0, len(rows) - MOST_ROWS_SHOWN),
        tuple(result.footnotes),
        release_id,
        str(result.info.get("released_at", "")),
        "" if paid is None else paid.paid,
        bool(release_id),
    )


def _draw_chart(columns: Sequence[ResultColumn], rows: Sequence[dict[str, Any]]) -> Html:
    chart = list_chart_points(columns, rows)
    if chart is None:
        return EMPTY
    name, points = chart
    return draw_answer(points, name, _find_level(columns))


def _find_level(columns: Sequence[ResultColumn]) -> str:
    levels = [column.confidence for column in columns if column.confidence is not None]
    return f"{float(levels[0]) * 100:.4g}%" if levels else ""


def write_sentence(columns: Sequence[ResultColumn], rows: Sequence[dict[str, Any]]) -> str:
    """The answer in a sentence: the number where there is one, else the largest of the rows."""
    if not rows:
        return "The answer has no row: no key was shared by enough people to be shown."
    chart = list_chart_points(columns, rows[:1] if len(rows) == 1 else rows)
    if chart is None:
        return f"The answer has {len(rows):,} row{'' if len(rows) == 1 else 's'}."
    name, points = chart
    level = _find_level(columns)
    if len(rows) == 1:
        return f"{name} is about {_say_point(points[0], level)}."
    numbered = [point for point in points if point.value == point.value]
    if not numbered:
        return f"The answer has {len(rows):,} rows, none with a value."
    largest = max(numbered, key=lambda point: point.value)
    return (
        f"{len(rows):,} rows. The largest {name} shown is that of {largest.label}: about "
        f"{_say_point(largest, level)}. Noise can change the order of rows whose intervals overlap."
    )


def _say_point(point: ChartPoint, level: str) -> str:
    value, low, high = map(format_number, (point.value, point.low, point.high))
    if point.low is None or point.high is None:
        return value
    return f"{value}, and with {level} confidence between {low} and {high}"


# -- files


def write_csv(result: Result) -> str:
    """The table as CSV that a spreadsheet shows and does not compute."""
    table = result.to_arrow()
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([escape_csv(name) for name in table.column_names])
    columns = [column.to_pylist() for column in table.columns]
    for row in zip(*columns, strict=True):
        writer.writerow(["" if cell is None else escape_csv(cell) for cell in row])
    return text.getvalue()


def write_document(result: Result) -> str:
    """The answer as JSON; with the nonce of its commitment where there is a release."""
    document: dict[str, Any] = {
        "columns": result.to_dict(),
        "info": result.info,
        "footnotes": list(result.footnotes),
    }
    try:
        document["nonce"] = result.opening()["nonce"]
    except DitherError:
        document["nonce"] = None
    text = json.dumps(document, default=plain, ensure_ascii=False, allow_nan=False, indent=2)
    return escape_json(text)


def write_opening(result: Result) -> str:
    """Numbers and nonce, as `dither verify --values` takes them."""
    text = json.dumps(result.opening(), default=plain, ensure_ascii=False, indent=2)
    return escape_json(text)


def write_zip(result: Result, plan: str) -> bytes:
    """Everything about an answer in one file. All times in it are the same: it tells none."""
    files = {
        "README.txt": _README.format(version=__version__),
        "question.sql": str(result.info["sql"]),
        "data.csv": write_csv(result),
        "answer.json": write_opening(result),
        "certificate.json": write_certificate(result.certificate()),
        "plan.txt": plan,
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text)
    return packed.getvalue()


# -- the same question in other words


def _make_plain(value: int | Decimal | str) -> int | float | str:
    """A value of a parameter as JSON and Python write it."""
    return float(value) if isinstance(value, Decimal) else value


def write_copies(address: str, dataset: str, question: TypedQuestion) -> dict[str, str]:
    """The question as Python, curl and R. The token stays in the environment."""
    body: dict[str, Any] = {"sql": question.sql, question.by: question.amount}
    if question.parameters:
        values = question.list_terms()["params"]
        body["params"] = {name: _make_plain(value) for name, value in values.items()}
    if question.pot:
        body["pot"] = question.pot
    if question.confidence not in ("", "0.95"):
        body["confidence"] = question.confidence
    document = json.dumps(body, default=str, ensure_ascii=True)
    url = f"{address}/api/v1/datasets/{quote(dataset)}/sql"
    terms = "".join(f", {name}={value!r}" for name, value in body.items() if name != "sql")
    terms = terms.replace(f", pot={question.pot!r}", "")
    pot = f", pot={question.pot!r}" if question.pot else ""
    python = (
        "import dither\n\n"
        f"con = dither.connect({f'{address}/datasets/{quote(dataset)}'!r}{pot})  # DITHER_TOKEN\n"
        f"result = con.sql({question.sql!r}{terms})\nprint(result)\n"
    )
    quoted = document.replace("'", "'\\''")
    curl = (
        "printf 'Authorization: Bearer %s' \"$DITHER_TOKEN\" | \\\n"
        "  curl -H @- -H 'Content-Type: application/json' \\\n"
        f"  -d '{quoted}' \\\n  {shlex.quote(url)}\n"
    )
    escaped = document.replace("\\", "\\\\").replace('"', '\\"')
    r_text = (
        'library(httr2)\n\nanswer <- request("' + url + '") |>\n'
        '  req_auth_bearer_token(Sys.getenv("DITHER_TOKEN")) |>\n'
        f'  req_body_raw("{escaped}", "application/json") |>\n'
        "  req_perform() |>\n  resp_body_json()\n"
    )
    return {"Python": python, "curl": curl, "R": r_text}
