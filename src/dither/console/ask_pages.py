"""Ask: write a question, see price and error while typing, confirm, pay, and see the answer.

GET never spends: it previews, or reads what is stored by a call that cannot charge. Asking is POST,
with the token of the form and a confirmation of the price that was shown.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from dither.answer.history import PaidRelease
from dither.answer.result import Result
from dither.catalog import Catalog
from dither.console.answer_view import make_view, write_copies
from dither.console.curators import (
    Curators,
    DatasetHead,
    describe_head,
    list_page_values,
    read_beside_head,
)
from dither.console.dataset_pages import DatasetName, list_tables, write_first_question
from dither.console.page_route import PageRoute
from dither.console.preview_panel import PreviewPanel, RefusedPanel, make_panel
from dither.console.question_form import (
    AGGREGATES,
    TESTS,
    BuiltQuestion,
    TypedQuestion,
    read_question,
    write_sql,
)
from dither.console.rendering import write_page
from dither.console.visitors import SentForm, SignedIn, Visitor, is_secure
from dither.errors import ParameterError
from dither.gateway.connections import AskedConnection
from dither.privacy.noise.source import fresh_bytes
from dither.session import Connection

MOST_ADDRESS = 8_000
"""Characters of an address that every browser and proxy passes on."""
CLAUSES = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "JOIN", "LEFT JOIN"),
    *("ON", "AS", "AND", "OR", "NOT", "IN", "BETWEEN", "IS NULL", "IS NOT NULL", "LIKE"),
    *("CASE WHEN", "THEN", "ELSE", "END", "UNION ALL", "DISTINCT", "FILTER (WHERE", "DESC"),
    *("COUNT(*)", "COUNT(DISTINCT", "SUM(", "AVG(", "MEDIAN(", "QUANTILE(", "STDDEV(", "VAR_POP("),
    *("EXTRACT(YEAR FROM", "DATE_TRUNC(", "CAST("),
    *("WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=", "DP_INTERVAL_LOW(", "DP_INTERVAL_HIGH("),
)
"""What the editor offers beside names: clauses, aggregates, and the option of another dialect."""


def make_ask_router(curators: Curators) -> APIRouter:
    """The routes of asking."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.get("/datasets/{dataset}/ask")
    def show_ask(request: Request, dataset: DatasetName, visitor: SignedIn) -> Response:
        question = read_question(dict(request.query_params))
        with curators.borrow(dataset, visitor, question.pot or None) as borrowed:
            head, panel = _preview(borrowed, question)
            is_offered = "offer" in request.query_params
            return _write_ask_page(borrowed, visitor, head, question, panel, is_offered=is_offered)

    @router.post("/datasets/{dataset}/preview")
    def show_preview(dataset: DatasetName, visitor: SignedIn, form: SentForm) -> Response:
        """The panel below the text while somebody types. It spends nothing."""
        question = read_question(form)
        with curators.borrow(dataset, visitor, question.pot or None) as borrowed:
            head, panel = _preview(borrowed, question)
            values = list_page_values(visitor, head, "ask")
        response = write_page(
            "live.html",
            **values,
            question=question,
            panel=panel,
            is_offered=False,
            has_new_parameters=set(question.values) != set(question.parameters),
        )
        address = f"/datasets/{quote(dataset)}/ask?{question.write_query()}"
        if len(address) <= MOST_ADDRESS:
            response.headers["hx-replace-url"] = address
        return response

    @router.get("/datasets/{dataset}/build")
    def build_question(request: Request, dataset: DatasetName, visitor: SignedIn) -> Response:
        """Write the SQL of choices in a form, and show it in the editor."""
        names = BuiltQuestion.__dataclass_fields__
        choices = {name: text for name, text in request.query_params.items() if name in names}
        with curators.borrow(dataset, visitor) as borrowed:
            borrowed.curator.read_status()
            sql = write_sql(BuiltQuestion(**{"table": "", **choices}), borrowed.connection.catalog)
        return _go_to(f"/datasets/{quote(dataset)}/ask", TypedQuestion(sql))

    @router.post("/datasets/{dataset}/confirm")
    def confirm_question(dataset: DatasetName, visitor: SignedIn, form: SentForm) -> Response:
        """Show the price once more. Nothing is spent before it is confirmed."""
        question = read_question(form)
        with curators.borrow(dataset, visitor, question.pot or None) as borrowed:
            head, panel = _preview(borrowed, question)
            if not isinstance(panel, PreviewPanel):
                return _write_ask_page(borrowed, visitor, head, question, panel)
            return _write_confirm_page(visitor, head, panel)

    @router.post("/datasets/{dataset}/ask")
    def ask_question(dataset: DatasetName, visitor: SignedIn, form: SentForm) -> Response:
        """Pay for an answer, at the price that was confirmed and no other."""
        question = read_question(form)
        ask_key = form.get("ask_key", "")[:64] or None
        with curators.borrow(dataset, visitor, question.pot or None, ask_key) as borrowed:
            head, panel = _preview(borrowed, question)
            if not isinstance(panel, PreviewPanel):
                return _write_ask_page(borrowed, visitor, head, question, panel)
            if form.get("confirmed") != panel.exact_charge:
                return _write_confirm_page(visitor, head, panel)
            terms = panel.priced.list_terms()
            borrowed.connection.sql(panel.priced.sql, **terms)
        return _go_to(f"/datasets/{quote(dataset)}/answer", panel.priced)

    @router.post("/datasets/{dataset}/rehearse")
    def rehearse_question(dataset: DatasetName, visitor: SignedIn, form: SentForm) -> Response:
        """Answer on invented rows: free, about nobody."""
        question = read_question(form)
        with curators.borrow(dataset, visitor, question.pot or None) as borrowed:
            head, panel = _preview(borrowed, question)
            if not isinstance(panel, PreviewPanel):
                return _write_ask_page(borrowed, visitor, head, question, panel)
            terms = panel.priced.list_terms()
            result = borrowed.connection.sql(panel.priced.sql, dry_run=True, **terms)
            values = list_page_values(visitor, head, "ask")
        view = make_view(result, None)
        return write_page(
            "answer.html", **values, question=question, view=view, is_rehearsal=True, copies={}
        )

    @router.get("/datasets/{dataset}/answer")
    def show_answer(request: Request, dataset: DatasetName, visitor: SignedIn) -> Response:
        """A stored answer. Where none is stored, the question is shown with its price."""
        question = read_question(dict(request.query_params))
        connection = curators.open_stored(dataset, visitor, question.pot or None)
        try:
            result = read_stored_answer(connection, question)
        except ParameterError:
            address = f"/datasets/{quote(dataset)}/ask?{question.write_query()}&offer=1"
            return RedirectResponse(address, 303)
        with curators.borrow(dataset, visitor, question.pot or None) as borrowed:
            values = list_page_values(visitor, describe_head(borrowed), "ask")
        return write_page(
            "answer.html",
            **values,
            question=question,
            view=make_view(result, find_paid(connection, result)),
            is_rehearsal=False,
            copies=write_copies(write_address(request), dataset, question),
        )

    return router


def read_stored_answer(connection: Connection, question: TypedQuestion) -> Result:
    """The stored answer to a question; ParameterError where there is none."""
    if question.by == "within":
        raise ParameterError("an answer is stored under its price: preview it first")
    return connection.sql(question.sql, **question.list_terms())


def find_paid(connection: Connection, result: Result) -> PaidRelease | None:
    """The line of history of a result; None where the visitor's own budget did not pay."""
    release_id = result.info.get("release_id")
    releases = connection.history().releases if release_id else ()
    return next((paid for paid in releases if paid.release_id == release_id), None)


def write_address(request: Request) -> str:
    """The address of this gateway as the browser knows it."""
    scheme = "https" if is_secure(request) else "http"
    return f"{scheme}://{request.headers.get('host', '127.0.0.1')}"


def _go_to(path: str, question: TypedQuestion) -> Response:
    return RedirectResponse(f"{path}?{question.write_query()}", 303)


def _preview(
    borrowed: AskedConnection, question: TypedQuestion
) -> tuple[DatasetHead, PreviewPanel | RefusedPanel | None]:
    """The head of the page and the panel of a question, asked for at once."""
    return read_beside_head(borrowed, lambda: make_panel(borrowed, question))


def _write_confirm_page(visitor: Visitor, head: DatasetHead, panel: PreviewPanel) -> Response:
    values = list_page_values(visitor, head, "ask")
    return write_page(
        "confirm.html",
        **values,
        question=panel.priced,
        panel=panel,
        confirmed=panel.exact_charge,
        ask_key=fresh_bytes(16).hex(),
    )


def _write_ask_page(
    borrowed: AskedConnection,
    visitor: Visitor,
    head: DatasetHead,
    question: TypedQuestion,
    panel: PreviewPanel | RefusedPanel | None,
    *,
    is_offered: bool = False,
) -> Response:
    """The page of a question. `is_offered`: no stored answer is free to this budget."""
    catalog = borrowed.connection.catalog
    values = list_page_values(visitor, head, "ask", "ask", question.write_query())
    return write_page(
        "ask.html",
        **values,
        question=question,
        panel=panel,
        is_offered=is_offered,
        tables=list_tables(catalog),
        completions=json.dumps(list_completions(catalog), ensure_ascii=True),
        example=write_first_question(catalog),
        aggregates=AGGREGATES,
        tests=TESTS,
        group_columns=_list_columns(catalog),
    )


def list_completions(catalog: Catalog) -> dict[str, Any]:
    """What the editor offers: tables with their columns, and clauses."""
    tables = {table.name: list(table.column_names) for table in catalog.tables}
    return {"tables": tables, "clauses": list(CLAUSES)}


def _list_columns(catalog: Catalog) -> list[tuple[str, str]]:
    """Columns for the form that writes SQL, each with its table; ids can be asked for nowhere."""
    return [
        (table.name, column.name)
        for table in catalog.tables
        for column in table.columns
        if column.type != "id"
    ]
