"""History: what was asked and paid, certificates, and checking them in the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request, Response

from dither.answer.history import PaidRelease
from dither.canonical import dumps
from dither.console.ask_pages import read_stored_answer
from dither.console.curators import Curators, describe_head, list_page_values
from dither.console.dataset_pages import DatasetName
from dither.console.page_route import PageRoute
from dither.console.question_form import TypedQuestion, read_question
from dither.console.rendering import write_page
from dither.console.visitors import SentForm, SignedIn, Visitor, identify_visitor
from dither.errors import DitherError
from dither.gateway.connections import AskedConnection
from dither.publish.seal import SealVerdict, check, list_leaves, write_certificate

PAGE_LENGTH = 50
MOST_CERTIFICATE = 500_000
Text = Annotated[str, Query(max_length=200)]


@dataclass(frozen=True)
class HistoryLine:
    """One release, with a link to its answer where its question is known."""

    release_id: str
    released_at: str
    asks: str
    sql: str
    paid: str
    superseded_by: str
    link: str
    certificate_link: str


def make_history_router(curators: Curators) -> APIRouter:
    """The routes of history and certificates."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.get("/datasets/{dataset}/history")
    def show_history(
        dataset: DatasetName, visitor: SignedIn, pot: Text = "", words: Text = "", start: int = 0
    ) -> Response:
        with curators.borrow(dataset, visitor, pot or None) as borrowed:
            query = urlencode({"pot": pot, "words": words})
            head = describe_head(borrowed)
            values = list_page_values(visitor, head, "history", "history", query)
            names = [opened.name for opened in borrowed.connection.budget().shown()]
            lines = read_history_lines(borrowed, dataset, words)
            paying_pot = borrowed.pot
        start = max(0, min(start, len(lines)))
        return write_page(
            "history.html",
            **values,
            lines=lines[start : start + PAGE_LENGTH],
            total=len(lines),
            start=start,
            previous_start=max(0, start - PAGE_LENGTH),
            next_start=start + PAGE_LENGTH,
            pot=paying_pot,
            pots=names,
            words=words,
            query=query,
        )

    @router.get("/datasets/{dataset}/certificate")
    def show_certificate(request: Request, dataset: DatasetName, visitor: SignedIn) -> Response:
        """The certificate of a stored answer, checked as anybody would check it."""
        question = read_question(dict(request.query_params))
        connection = curators.open_stored(dataset, visitor, question.pot or None)
        result = read_stored_answer(connection, question)
        text = write_certificate(result.certificate())
        with curators.borrow(dataset, visitor, question.pot or None) as borrowed:
            values = list_page_values(visitor, describe_head(borrowed), "history")
        return write_page(
            "certificate.html",
            **values,
            question=question,
            text=text,
            verdict=check(text),
            facts=list_facts(check(text)),
        )

    @router.get("/verify")
    def show_verify(request: Request) -> Response:
        return _write_verify_page(identify_visitor(request), "", "", None, "")

    @router.post("/verify")
    def verify(request: Request, form: SentForm) -> Response:
        """Check a pasted certificate. It is kept nowhere."""
        text = form.get("certificate", "")[:MOST_CERTIFICATE]
        key = form.get("key", "")[:200].strip()
        visitor = identify_visitor(request)
        try:
            verdict = check(text, [key] if key else [])
        except DitherError as error:
            return _write_verify_page(visitor, text, key, None, str(error))
        return _write_verify_page(visitor, text, key, verdict, "")

    return router


def read_history_lines(borrowed: AskedConnection, dataset: str, words: str) -> list[HistoryLine]:
    """What the budget of a connection paid for, the newest first, as far as it has the words."""
    releases = borrowed.curator.read_history(borrowed.pot).releases
    return [
        describe_release(dataset, borrowed.pot, release)
        for release in reversed(releases)
        if _matches(release, words)
    ]


def _write_verify_page(
    visitor: Visitor, text: str, key: str, verdict: SealVerdict | None, message: str
) -> Response:
    facts = () if verdict is None else list_facts(verdict)
    return write_page(
        "verify.html",
        visitor=visitor,
        page="verify",
        text=text,
        key=key,
        verdict=verdict,
        facts=facts,
        message=message,
    )


def _matches(release: PaidRelease, words: str) -> bool:
    """Whether all words occur in the text, the description or the id of a release."""
    text = f"{release.sql or ''} {release.asks} {release.release_id}".lower()
    return all(word in text for word in words.lower().split())


def describe_release(dataset: str, pot: str, release: PaidRelease) -> HistoryLine:
    """A line of history."""
    link = ""
    certificate_link = ""
    if release.sql is not None and release.price is not None:
        price = release.price
        question = TypedQuestion(release.sql, price.name, str(price.value), pot=pot)
        link = f"/datasets/{quote(dataset)}/answer?{question.write_query()}"
        certificate_link = f"/datasets/{quote(dataset)}/certificate?{question.write_query()}"
    return HistoryLine(
        release.release_id,
        release.released_at,
        release.asks,
        release.sql or "",
        release.paid,
        release.superseded_by or "",
        link,
        certificate_link,
    )


def list_facts(verdict: SealVerdict) -> tuple[tuple[str, str], ...]:
    """The fields that were signed, as texts; none where the certificate is not as signed."""
    if verdict.body is None:
        return ()
    return tuple((path, _write_fact(value)) for path, value in list_leaves(verdict.body))


def _write_fact(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return "; ".join(value)
    return dumps(value)
