"""Datasets: what is there, who is protected and who is not, limits, and what one answer costs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Request, Response
from starlette.responses import RedirectResponse

from dither.answer.describe_tables import describe_table
from dither.answer.preview import Preview
from dither.canonical import decimal_text
from dither.catalog import Catalog
from dither.catalog.explain import list_guarantee_sections
from dither.console.curators import Curators, DatasetHead, list_page_values, read_beside_head
from dither.console.page_route import PageRoute
from dither.console.question_form import START_EPSILON, TypedQuestion
from dither.console.rendering import write_page
from dither.console.visitors import OpenToAll, SignedIn, Visitor, is_direct
from dither.errors import DitherError
from dither.gateway.connections import AskedConnection
from dither.pages.charts import format_number
from dither.protocol.errors import BusyError, TokenError

DatasetName = Annotated[str, Path(max_length=128)]


@dataclass(frozen=True)
class DatasetCard:
    """A dataset in a few plain words."""

    name: str
    protected: str
    tables: tuple[str, ...]
    cost: str
    remaining: str
    role: str
    is_invented: bool
    first_question: str
    suspended: str
    message: str = ""


@dataclass(frozen=True)
class TablePanel:
    """A table of the catalog: its limit and its columns."""

    name: str
    kind: str
    limit: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def make_dataset_router(curators: Curators) -> APIRouter:
    """The routes of datasets."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.get("/")
    def show_start(request: Request) -> Response:
        return RedirectResponse("/datasets", 303)

    @router.get("/datasets")
    def list_datasets(visitor: SignedIn) -> Response:
        cards = read_cards(curators, visitor)
        return write_page(
            "datasets.html",
            visitor=visitor,
            cards=cards,
            page="datasets",
            page_files="/datasets.KIND",
        )

    @router.get("/datasets/{dataset}")
    def show_dataset(request: Request, dataset: DatasetName, visitor: OpenToAll) -> Response:
        """A dataset. Whoever is not signed in may come with a link whose fragment has a token."""
        if visitor.token is None:
            return write_page(
                "enter.html",
                visitor=visitor,
                next_path=f"/datasets/{dataset}",
                page="enter",
                is_direct=is_direct(request),
            )
        with curators.borrow(dataset, visitor) as borrowed:
            catalog = borrowed.connection.catalog
            head, preview = read_beside_head(borrowed, lambda: preview_first_question(borrowed))
            card = describe_dataset(borrowed, head, preview)
        return write_page(
            "dataset.html",
            **list_page_values(visitor, head, "dataset", files="tables"),
            card=card,
            sections=list_guarantee_sections(catalog),
            tables=list_tables(catalog),
        )

    return router


_CARD_READERS = ThreadPoolExecutor(8, "dither-cards")


def read_cards(curators: Curators, visitor: Visitor) -> list[DatasetCard]:
    """A card for each dataset of the visitor, read side by side."""
    names = curators.list_datasets(visitor)
    return list(_CARD_READERS.map(lambda name: read_card(curators, visitor, name), names))


def read_card(curators: Curators, visitor: Visitor, name: str) -> DatasetCard:
    """The card of a dataset; one that cannot be read says why."""
    try:
        with curators.borrow(name, visitor) as borrowed:
            head, preview = read_beside_head(borrowed, lambda: preview_first_question(borrowed))
            return describe_dataset(borrowed, head, preview)
    except (TokenError, BusyError):
        raise
    except DitherError as error:
        return _describe_failure(name, error)


def write_first_question(catalog: Catalog) -> str:
    """A question that every dataset answers: how many rows its first private table has."""
    return f"SELECT COUNT(*) AS n\nFROM {catalog.private_tables[0].name}"


def preview_first_question(borrowed: AskedConnection) -> Preview | None:
    """What a count costs; None where the visitor cannot ask."""
    sql = write_first_question(borrowed.connection.catalog)
    try:
        return borrowed.connection.preview(sql, epsilon=START_EPSILON)
    except (TokenError, BusyError):
        raise
    except DitherError:
        return None


def describe_dataset(
    borrowed: AskedConnection, head: DatasetHead, preview: Preview | None
) -> DatasetCard:
    """The card of a dataset: from its catalog, and what its budget has left."""
    catalog = borrowed.connection.catalog
    sql = write_first_question(catalog)
    cost = ""
    remaining = ""
    if preview is not None:
        half_width = format_number(preview.columns[0].half_width)
        cost = (
            f"A count at epsilon {START_EPSILON} is off by at most {half_width} in 95 of 100 "
            "answers, however large it is."
        )
        if preview.balance is not None:
            remaining = (
                f"{preview.charged_in} {decimal_text(preview.balance.left)} is left: enough for "
                f"about {preview.questions_left:,} such counts."
            )
    tables = tuple(f"{table.name} ({table.kind})" for table in catalog.tables)
    protected = next(lines[0] for title, lines in list_guarantee_sections(catalog))
    question = TypedQuestion(sql).write_query()
    return DatasetCard(
        catalog.dataset,
        protected,
        tables,
        cost,
        remaining,
        head.role,
        head.context == "dev",
        f"/datasets/{quote(catalog.dataset)}/ask?{question}",
        head.suspended,
    )


def _describe_failure(name: str, error: DitherError) -> DatasetCard:
    return DatasetCard(name, "", (), "", "", "", False, "", "", str(error))


def list_tables(catalog: Catalog) -> tuple[TablePanel, ...]:
    """The tables of a catalog, as a connection describes them."""
    panels = []
    for table in catalog.tables:
        described = describe_table(catalog, table.name)
        panels.append(
            TablePanel(
                table.name,
                table.kind,
                "; ".join(described.lines),
                described.table.heads,
                described.table.rows,
            )
        )
    return tuple(panels)
