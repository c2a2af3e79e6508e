"""Pages of stewards: drafts of acts, signed elsewhere and delivered here, and drafts of catalogs.

The page can move no limit: it shows an act, the steward signs it on another machine by `dither
sign`, and the curator verifies the signature. Repair logs, misses and numbers of incidents are not
defaults. A catalog is drafted from a header line that the steward pasted; no file is taken.
"""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response

from dither.catalog.file.kinds import KINDS
from dither.catalog.file.load import list_text_problems
from dither.catalog.file.quick import write_quick_catalog
from dither.console.act_forms import ACT_FORMS, MOST_TERM, draft_act, read_signed_text
from dither.console.catalog_drafts import read_decisions, read_header_line
from dither.console.curators import Curators, describe_head, list_page_values
from dither.console.dataset_pages import DatasetName
from dither.console.page_route import PageRoute
from dither.console.rendering import write_page
from dither.console.visitors import SentForm, SignedIn, Visitor
from dither.errors import CatalogError, DitherError
from dither.privacy.noise.source import fresh_bytes
from dither.protocol.act_messages import ActDone, LimitHead, ReadHead, SubmitAct
from dither.protocol.errors import BusyError, TokenError

MOST_CATALOG = 200_000


def make_steward_router(curators: Curators) -> APIRouter:
    """The routes of stewards."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    def write_steward_page(visitor: Visitor, dataset: str, **values: Any) -> Response:
        with curators.borrow(dataset, visitor) as borrowed:
            head = describe_head(borrowed)
            pots = [pot.name for pot in borrowed.connection.budget().shown()]
        defaults: dict[str, Any] = {
            "kind": "raise",
            "fields": {},
            "act": "",
            "message": "",
            "done": "",
        }
        return write_page(
            "steward.html",
            **list_page_values(visitor, head, "steward"),
            **{**defaults, **values},
            forms=ACT_FORMS,
            pots=pots,
            grant_id=fresh_bytes(4).hex(),
        )

    @router.get("/datasets/{dataset}/steward")
    def show_steward(
        request: Request, dataset: DatasetName, visitor: SignedIn, kind: str = "raise"
    ) -> Response:
        _read_head(curators, visitor, dataset)
        fields = {name: text[:MOST_TERM] for name, text in request.query_params.items()}
        kind = kind if kind in ACT_FORMS else "raise"
        return write_steward_page(visitor, dataset, kind=kind, fields=fields)

    @router.post("/datasets/{dataset}/steward/draft")
    def draft(dataset: DatasetName, visitor: SignedIn, form: SentForm) -> Response:
        """Write the act that a steward then signs. It does nothing by itself."""
        kind = form.get("act", "")
        head = _read_head(curators, visitor, dataset)
        try:
            act = draft_act(head, kind, form)
        except DitherError as error:
            return write_steward_page(
                visitor, dataset, kind=kind, fields=dict(form), message=str(error)
            )
        text = json.dumps(act, indent=2, sort_keys=True, ensure_ascii=False)
        return write_steward_page(visitor, dataset, kind=kind, fields=dict(form), act=text)

    @router.post("/datasets/{dataset}/steward/submit")
    def submit(dataset: DatasetName, visitor: SignedIn, form: SentForm) -> Response:
        """Deliver a signed act to the curator, which alone decides whether it counts."""
        transport = curators.make_transport(visitor.token, dataset)
        try:
            call = SubmitAct(signed=read_signed_text(form.get("signed", "")))
            done = transport.call(call, ActDone)
        except (TokenError, BusyError):
            raise
        except DitherError as error:
            return write_steward_page(visitor, dataset, message=str(error))
        return write_steward_page(visitor, dataset, kind=done.act, done=done.sentence)

    @router.get("/catalog")
    def show_draft(visitor: SignedIn) -> Response:
        return _write_draft_page(visitor)

    @router.post("/catalog/columns")
    def choose_columns(visitor: SignedIn, form: SentForm) -> Response:
        """The second step: who is protected, how many rows, and which columns may be asked for."""
        try:
            columns = read_header_line(form)
        except DitherError as error:
            return _write_draft_page(visitor, fields=dict(form), message=str(error))
        return _write_draft_page(visitor, fields=dict(form), columns=columns)

    @router.post("/catalog/draft")
    def draft_catalog(visitor: SignedIn, form: SentForm) -> Response:
        columns: tuple[str, ...] = ()
        try:
            columns = read_header_line(form)
            text = write_quick_catalog(read_decisions(form, columns))
        except DitherError as error:
            return _write_draft_page(
                visitor, fields=dict(form), columns=columns, message=str(error)
            )
        return _write_draft_page(visitor, fields=dict(form), columns=columns, text=text)

    @router.post("/catalog/check")
    def check_catalog(request: Request, visitor: SignedIn, form: SentForm) -> Response:
        text = form.get("catalog", "").replace("\r\n", "\n")[:MOST_CATALOG]
        problems = list_text_problems(text)
        return _write_draft_page(
            visitor, text=text, problems=tuple(_describe(problem, text) for problem in problems)
        )

    return router


def _write_draft_page(visitor: Visitor, **values: Any) -> Response:
    defaults: dict[str, Any] = {
        "fields": {},
        "columns": (),
        "text": "",
        "message": "",
        "problems": None,
    }
    return write_page(
        "catalog.html", visitor=visitor, page="catalog", kinds=KINDS, **{**defaults, **values}
    )


def _describe(problem: CatalogError, text: str) -> tuple[int, str, str]:
    """The number of a line, the line itself, and what is wrong with it."""
    lines = text.split("\n")
    line = lines[problem.line - 1] if 0 < problem.line <= len(lines) else ""
    return problem.line, line, problem.message


def _read_head(curators: Curators, visitor: Visitor, dataset: str) -> LimitHead:
    return curators.make_transport(visitor.token, dataset).call(ReadHead(), LimitHead)
