"""Answers and questions as files: only what is stored, by calls that cannot charge."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request, Response

from dither.console.answer_view import write_csv, write_document, write_zip
from dither.console.ask_pages import read_stored_answer
from dither.console.curators import Curators
from dither.console.dataset_pages import DatasetName
from dither.console.page_route import PageRoute
from dither.console.question_form import read_question
from dither.console.visitors import SignedIn
from dither.gateway.answers import ARROW, JSON
from dither.privacy.kernel.release import table_bytes
from dither.publish.seal import write_certificate

FileKind = Literal["csv", "json", "arrow", "certificate", "zip"]


def make_files_router(curators: Curators) -> APIRouter:
    """The routes of files."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.get("/datasets/{dataset}/answer.{kind}")
    def send_answer(
        request: Request, dataset: DatasetName, kind: FileKind, visitor: SignedIn
    ) -> Response:
        question = read_question(dict(request.query_params))
        connection = curators.open_stored(dataset, visitor, question.pot or None)
        result = read_stored_answer(connection, question)
        name = f"{dataset}-{result.info.get('release_id', 'keys')}"
        if kind == "csv":
            return _send(write_csv(result), "text/csv; charset=utf-8", f"{name}.csv")
        if kind == "json":
            return _send(write_document(result), JSON, f"{name}.json")
        if kind == "arrow":
            return _send(table_bytes(result.to_arrow()), ARROW, f"{name}.arrow")
        if kind == "certificate":
            text = write_certificate(result.certificate())
            return _send(text, JSON, f"{name}-certificate.json")
        plan = connection.explain(question.sql, **question.list_terms())
        return _send(write_zip(result, str(plan)), "application/zip", f"{name}.zip")

    return router


def _send(content: str | bytes, kind: str, name: str) -> Response:
    """A file to keep, under a name of plain characters."""
    plain = "".join(letter for letter in name if letter.isascii() and letter not in '"\\/\r\n')
    headers = {"content-disposition": f'attachment; filename="{plain}"'}
    data = content.encode() if isinstance(content, str) else content
    return Response(data, headers=headers, media_type=kind)
