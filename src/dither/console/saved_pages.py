"""Saved questions: kept by the curator under a name, for oneself or for all of the same budget.

Opening one shows it with its price, like any other address of a question: nothing is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from fastapi import APIRouter, Response
from starlette.responses import RedirectResponse

from dither.console.curators import Curators, describe_head, list_page_values
from dither.console.dataset_pages import DatasetName
from dither.console.page_route import PageRoute
from dither.console.question_form import read_question
from dither.console.rendering import write_page
from dither.console.visitors import SentForm, SignedIn, Visitor
from dither.errors import DitherError, ParameterError
from dither.protocol.page_messages import (
    MOST_NAME,
    ListQuestions,
    QuestionDocument,
    QuestionList,
    RemoveQuestion,
    SaveQuestion,
)


@dataclass(frozen=True)
class SavedLine:
    """A saved question, with the address that opens it."""

    name: str
    owner: str
    sql: str
    link: str
    is_own: bool
    is_shared: bool


def make_saved_router(curators: Curators) -> APIRouter:
    """The routes of saving and removing."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.get("/datasets/{dataset}/questions")
    def list_questions(dataset: DatasetName, visitor: SignedIn) -> Response:
        with curators.borrow(dataset, visitor) as borrowed:
            head = describe_head(borrowed)
        values = list_page_values(visitor, head, "ask", "questions")
        saved = read_saved(curators, dataset, visitor, head.principal)
        return write_page("questions.html", **values, saved=saved)

    @router.post("/datasets/{dataset}/questions")
    def save_question(dataset: DatasetName, visitor: SignedIn, form: SentForm) -> Response:
        question = read_question(form)
        with curators.borrow(dataset, visitor, question.pot or None) as borrowed:
            pot = borrowed.pot
        name = " ".join(form.get("question_name", "").split())
        if not 0 < len(name) <= MOST_NAME or not name.isprintable():
            raise ParameterError(f"name the question: 1 to {MOST_NAME} characters")
        call = SaveQuestion(
            name=name,
            pot=pot,
            fields=question.list_fields(),
            is_shared=form.get("is_shared") == "yes",
        )
        curators.make_transport(visitor.token, dataset).call(call, QuestionList)
        return RedirectResponse(f"/datasets/{quote(dataset)}/questions", 303)

    @router.post("/datasets/{dataset}/questions/remove")
    def remove_question(dataset: DatasetName, visitor: SignedIn, form: SentForm) -> Response:
        name = form.get("question_name", "")
        if not 0 < len(name) <= MOST_NAME:
            raise ParameterError("name the question that is to be removed")
        transport = curators.make_transport(visitor.token, dataset)
        transport.call(RemoveQuestion(name=name), QuestionList)
        return RedirectResponse(f"/datasets/{quote(dataset)}/questions", 303)

    return router


def read_saved(
    curators: Curators, dataset: str, visitor: Visitor, principal: str
) -> list[SavedLine]:
    """The saved questions that a visitor may see."""
    transport = curators.make_transport(visitor.token, dataset)
    documents = transport.call(ListQuestions(), QuestionList).questions
    return [_describe_saved(document, dataset, principal) for document in documents]


def _describe_saved(document: QuestionDocument, dataset: str, principal: str) -> SavedLine:
    """A line for a saved question; one that this version cannot read opens the empty page."""
    link = f"/datasets/{quote(dataset)}/ask"
    try:
        question = read_question(document.fields)
        link += f"?{question.write_query()}"
    except DitherError:
        question = read_question({})
    is_own = document.owner == principal
    name = document.name
    return SavedLine(name, document.owner, question.sql, link, is_own, document.is_shared)
