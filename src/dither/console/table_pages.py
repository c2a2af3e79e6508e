"""Every page of facts as JSON, CSV and Arrow, from the same readings as the page itself."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from dither.console.budget_page import read_pot_panels
from dither.console.curators import Curators
from dither.console.dataset_pages import DatasetName, list_tables, read_cards
from dither.console.history_pages import Text, read_history_lines
from dither.console.page_route import PageRoute
from dither.console.page_tables import (
    TableKind,
    make_page_table,
    send_page_table,
    tabulate_history,
    tabulate_pots,
    tabulate_preview,
    tabulate_register,
    tabulate_sections,
)
from dither.console.preview_panel import make_panel
from dither.console.question_form import read_question
from dither.console.register_pages import read_about, read_register
from dither.console.saved_pages import read_saved
from dither.console.user_pages import HEADS, read_grants
from dither.console.visitors import OpenToAll, SignedIn


def make_table_router(curators: Curators) -> APIRouter:
    """The routes of pages as tables. All are GET, and none can charge."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.get("/datasets.{kind}")
    def send_datasets(kind: TableKind, visitor: SignedIn) -> Response:
        heads = ("dataset", "protected", "tables", "cost", "left", "role", "suspended")
        rows = [
            (
                *(card.name, card.protected or card.message, ", ".join(card.tables), card.cost),
                *(card.remaining, card.role, card.suspended),
            )
            for card in read_cards(curators, visitor)
        ]
        return send_page_table(make_page_table("datasets", heads, rows), kind)

    @router.get("/datasets/{dataset}/tables.{kind}")
    def send_tables(dataset: DatasetName, kind: TableKind, visitor: SignedIn) -> Response:
        with curators.borrow(dataset, visitor) as borrowed:
            borrowed.curator.read_status()
            panels = list_tables(borrowed.connection.catalog)
        heads = ("table", "kind", "limit", *panels[0].heads)
        rows = [
            (panel.name, panel.kind, panel.limit, *row) for panel in panels for row in panel.rows
        ]
        return send_page_table(make_page_table("tables", heads, rows), kind)

    @router.get("/datasets/{dataset}/ask.{kind}")
    def send_preview(
        request: Request, dataset: DatasetName, kind: TableKind, visitor: SignedIn
    ) -> Response:
        question = read_question(dict(request.query_params))
        with curators.borrow(dataset, visitor, question.pot or None) as borrowed:
            borrowed.curator.read_status()
            return send_page_table(tabulate_preview(make_panel(borrowed, question)), kind)

    @router.get("/datasets/{dataset}/budget.{kind}")
    def send_budget(dataset: DatasetName, kind: TableKind, visitor: SignedIn) -> Response:
        with curators.borrow(dataset, visitor) as borrowed:
            return send_page_table(tabulate_pots(read_pot_panels(borrowed)), kind)

    @router.get("/datasets/{dataset}/history.{kind}")
    def send_history(
        dataset: DatasetName, kind: TableKind, visitor: SignedIn, pot: Text = "", words: Text = ""
    ) -> Response:
        with curators.borrow(dataset, visitor, pot or None) as borrowed:
            lines = read_history_lines(borrowed, dataset, words)
        return send_page_table(tabulate_history(lines), kind)

    @router.get("/datasets/{dataset}/register.{kind}")
    def send_register(dataset: DatasetName, kind: TableKind, visitor: OpenToAll) -> Response:
        return send_page_table(tabulate_register(read_register(curators, dataset, visitor)), kind)

    @router.get("/datasets/{dataset}/about.{kind}")
    def send_about(dataset: DatasetName, kind: TableKind, visitor: OpenToAll) -> Response:
        return send_page_table(tabulate_sections(read_about(curators, dataset, visitor)), kind)

    @router.get("/datasets/{dataset}/questions.{kind}")
    def send_questions(dataset: DatasetName, kind: TableKind, visitor: SignedIn) -> Response:
        with curators.borrow(dataset, visitor) as borrowed:
            principal = borrowed.curator.read_status().name
        saved = read_saved(curators, dataset, visitor, principal)
        rows = [(line.name, line.owner, line.sql, line.link) for line in saved]
        heads = ("name", "owner", "sql", "link")
        return send_page_table(make_page_table("questions", heads, rows), kind)

    @router.get("/datasets/{dataset}/users.{kind}")
    def send_users(dataset: DatasetName, kind: TableKind, visitor: SignedIn) -> Response:
        rows = [entry.write_row() for entry in read_grants(curators, dataset, visitor)]
        return send_page_table(make_page_table("users", HEADS, rows), kind)

    return router
