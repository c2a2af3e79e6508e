"""Errors over HTTP: problem documents (RFC 9457) with the message and the rule of the library."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from dither.errors import (
    BudgetError,
    DitherError,
    ParameterError,
    QueryError,
    RefusedError,
    UnavailableError,
)
from dither.protocol.documents import read_error, write_error
from dither.protocol.errors import (
    AccessError,
    BusyError,
    FaultError,
    ProtocolError,
    TokenError,
)
from dither.protocol.messages import ErrorDocument

CONTENT_TYPE = "application/problem+json"
STATUSES: tuple[tuple[type[DitherError], int, str], ...] = (
    (TokenError, 401, "the token is not accepted"),
    (AccessError, 403, "the token does not allow this"),
    (BudgetError, 402, "the budget cannot pay"),
    (QueryError, 422, "the question cannot be answered as it is written"),
    (RefusedError, 422, "a rule of the platform forbids it"),
    (ParameterError, 400, "a parameter is wrong"),
    (ProtocolError, 400, "not a call of this version"),
    (BusyError, 503, "try again later"),
    (UnavailableError, 500, "the answer is unavailable"),
    (FaultError, 500, "a fault of dither"),
    (DitherError, 409, "it cannot be done now"),
)
"""The status and the title of each kind of error; the first kind that fits counts."""


class ProblemRule(BaseModel):
    """The rule that a refusal follows, and the page that explains it."""

    id: str
    sentence: str
    page: str


class Problem(BaseModel):
    """A problem document. `detail` is the library's own message, with the remedy."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    kind: str
    instance: str | None = None
    rule: ProblemRule | None = None
    start: int | None = None
    end: int | None = None


def describe_error(error: DitherError, instance: str) -> Problem:
    """The problem document of an error of dither."""
    _, status, title = next(entry for entry in STATUSES if isinstance(error, entry[0]))
    document = write_error(error)
    rule = None
    if isinstance(error, RefusedError):
        rule = ProblemRule(id=error.rule.value, sentence=error.rule.sentence, page=error.rule.link)
    return Problem(
        type=f"urn:dither:error:{document.kind}",
        title=title,
        status=status,
        detail=str(error),
        kind=document.kind,
        instance=instance,
        rule=rule,
        start=document.start,
        end=document.end,
    )


def describe_bad_body(problems: list[dict[str, Any]], instance: str) -> Problem:
    """The problem document of a body that has not the documented shape; it is not repeated."""
    first = problems[0] if problems else {"loc": ("body",), "msg": "cannot be read"}
    path = ".".join(str(step) for step in list(first["loc"])[:8])
    return Problem(
        type="urn:dither:error:ParameterError",
        title="a parameter is wrong",
        status=422,
        detail=f"{path}: {first['msg']}: /api/v1/openapi.json has the shape of every body",
        kind="ParameterError",
        instance=instance,
    )


def describe_status(status: int, detail: str, instance: str) -> Problem:
    """The problem document of what HTTP itself refuses, such as a path that does not exist."""
    return Problem(
        title=detail, status=status, detail=detail, kind="DitherError", instance=instance
    )


def read_problem(document: Any) -> DitherError:
    """The error that a problem document describes, as the library raises it."""
    try:
        problem = Problem.model_validate(document)
    except ValidationError:
        return ProtocolError("no problem document of dither: is this the address of a gateway?")
    document = ErrorDocument(
        kind=problem.kind,
        message=problem.detail,
        rule=None if problem.rule is None else problem.rule.id,
        start=problem.start,
        end=problem.end,
    )
    return read_error(document)
