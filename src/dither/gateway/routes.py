"""The routes of `/api/v1`. Each borrows a connection, calls one method of it, and writes JSON.

Reading is GET and spends nothing. Asking is POST, so that no link, image or prefetch can spend.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from dither.answer.documents import describe_preview
from dither.answer.suggest import Suggestion
from dither.answer.suggest_limits import LimitSuggestion
from dither.gateway import bodies
from dither.gateway.answers import ARROW, describe_answer, write_answer, write_json
from dither.gateway.connections import ConnectionPool
from dither.gateway.repeats import REPEAT_NAME, KeptAnswers
from dither.gateway.turns import TokenTurns
from dither.protocol import messages
from dither.protocol.act_messages import ActDone, LimitHead, ReadHead, SubmitAct
from dither.protocol.documents import write_pot
from dither.protocol.errors import ProtocolError, TokenError
from dither.protocol.frames import write_call
from dither.protocol.problems import Problem
from dither.remote.transport import SocketPool, SocketTransport, read_reply

Dataset = Annotated[str, Path(max_length=128, description="The dataset's name.")]
PotName = Annotated[
    str | None,
    Query(min_length=1, max_length=128, description="By default the token's first."),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=100,
        description="A name for this ask: sent again under the same one, it is bought once.",
    ),
]
_bearer = HTTPBearer(auto_error=False, description="dither token create DATASET NAME")


async def read_token(
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> AsyncIterator[str]:
    """The token of a request. The curator verifies it; the gateway only passes it on."""
    if credentials is None:
        raise TokenError(
            "send a token, 'Authorization: Bearer TOKEN': dither token create DATASET NAME"
        )
    turns: TokenTurns = request.app.state.turns
    with turns.take_turn(credentials.credentials):
        yield credentials.credentials


TokenText = Annotated[str, Depends(read_token)]
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "content": {"application/problem+json": {}}}
    for status in (400, 401, 402, 403, 409, 422, 500, 503)
}


def make_router(sockets: SocketPool) -> APIRouter:
    """The routes, over the sockets of one curator."""
    router = APIRouter(prefix="/api/v1", responses=_PROBLEMS)
    connections = ConnectionPool(sockets)

    @router.get("/datasets", response_model=bodies.DatasetList)
    def list_datasets(token: TokenText) -> Response:
        """List the datasets that the token is for."""
        transport = SocketTransport(sockets, "", token)
        names = transport.call(messages.ListDatasets(), messages.DatasetNames).names
        return write_json({"datasets": names})

    @router.get("/datasets/{dataset}", response_model=bodies.DatasetDocument)
    def read_dataset(dataset: Dataset, token: TokenText) -> Response:
        """Read the public facts of a dataset: tables, columns, bounds, whom it protects."""
        transport = SocketTransport(sockets, dataset, token)
        facts = transport.call(messages.ReadFacts(), messages.PublicFacts)
        return write_json(_describe_dataset(facts))

    @router.post("/datasets/{dataset}/preview", response_model=bodies.PreviewDocument)
    def preview_question(dataset: Dataset, body: bodies.PreviewBody, token: TokenText) -> Response:
        """Price and error of a question. Reads no data and spends nothing."""
        with connections.borrow(dataset, token, body.pot) as borrowed:
            preview = borrowed.connection.preview(body.sql, **body.list_terms())
        document = {"preview": describe_preview(preview), "sentences": preview.lines()}
        return write_json(document)

    @router.post("/datasets/{dataset}/explain", response_model=bodies.ExplanationDocument)
    def explain_question(dataset: Dataset, body: bodies.PreviewBody, token: TokenText) -> Response:
        """Explain how a question would be answered. Reads no data and spends nothing."""
        with connections.borrow(dataset, token, body.pot) as borrowed:
            explanation = borrowed.connection.explain(body.sql, **body.list_terms())
        document = {
            "explanation": str(explanation).splitlines(),
            "preview": describe_preview(explanation.preview),
        }
        return write_json(document)

    @router.post(
        "/datasets/{dataset}/sql",
        response_model=bodies.AnswerDocument,
        responses={200: {"content": {ARROW: {}}}},
    )
    def ask_question(
        dataset: Dataset,
        body: bodies.AskBody,
        token: TokenText,
        request: Request,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Ask a question, and pay for its answer. Asked again at the same price it is free."""
        terms = body.list_terms()
        result = connections.ask(dataset, token, body.pot, idempotency_key, body.sql, terms)
        accepted = request.headers.get("accept", "")
        if ARROW in accepted or body.certificate:
            return write_answer(result, accepted, body.certificate)
        document = describe_answer(result)
        repeats: KeptAnswers = request.app.state.repeats
        if not body.fresh:  # the same bytes under another idempotency key buy a new answer
            repeats.keep(request.scope.get(REPEAT_NAME), result, document)
        return write_json(document)

    @router.post("/datasets/{dataset}/suggest", response_model=bodies.SuggestionDocument)
    def buy_suggestion(
        dataset: Dataset,
        body: bodies.SuggestBody,
        token: TokenText,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Buy a bound or a limit."""
        with connections.borrow(dataset, token, body.pot, idempotency_key) as borrowed:
            suggestion = borrowed.connection.suggest(
                body.what,
                body.of,
                epsilon=body.epsilon,
                rho=body.rho,
                keep=body.keep,
                fresh=body.fresh,
            )
        return write_json(_describe_suggestion(suggestion))

    @router.get("/datasets/{dataset}/budget", response_model=bodies.BudgetDocument)
    def read_budget(dataset: Dataset, token: TokenText) -> Response:
        """What was spent and what is left, by what was released until now."""
        with connections.borrow(dataset, token) as borrowed:
            budget = borrowed.connection.budget()
        pots = [write_pot(pot).model_dump() for pot in budget.pots]
        return write_json({"pots": pots, "sentences": list(budget.lines())})

    @router.get("/datasets/{dataset}/history", response_model=bodies.HistoryDocument)
    def read_history(
        dataset: Dataset,
        token: TokenText,
        pot: PotName = None,
        start: Annotated[int, Query(ge=0, lt=2**53)] = 0,
        count: Annotated[int, Query(ge=1, le=messages.MOST_PAGE)] = 100,
    ) -> Response:
        """What was asked from a pot and what it paid, a page at a time."""
        with connections.borrow(dataset, token, pot) as borrowed:
            page = borrowed.curator.read_history_page(borrowed.pot, start, count)
        follows = start + len(page.releases)
        document = page.model_dump(exclude={"kind"})
        document["next"] = follows if page.releases and follows < page.total else None
        return write_json(document)

    @router.get("/datasets/{dataset}/head", response_model=LimitHead)
    def read_head(dataset: Dataset, token: TokenText) -> Response:
        """Read what an act on limits must name: lineage and heads. Not for analysts."""
        transport = SocketTransport(sockets, dataset, token)
        return write_json(transport.call(ReadHead(), LimitHead).model_dump())

    @router.post("/datasets/{dataset}/acts", response_model=ActDone)
    def submit_act(dataset: Dataset, body: bodies.SignedActBody, token: TokenText) -> Response:
        """Deliver an act that a steward signed elsewhere. The curator alone verifies it."""
        transport = SocketTransport(sockets, dataset, token)
        call = SubmitAct(signed=body.model_dump())
        return write_json(transport.call(call, ActDone).model_dump())

    @router.post("/datasets/{dataset}/calls", response_model=messages.ReplyFrame)
    def pass_call_on(dataset: Dataset, call: messages.CalledAct, token: TokenText) -> Response:
        """Pass one call of the protocol on to the curator: for `dither.connect(url)`."""
        write_call(call.model_dump())
        document = SocketTransport(sockets, dataset, token).exchange(call)
        if not isinstance(document, dict):
            raise ProtocolError("the curator sent no reply of this protocol")
        if document.get("error") is not None:
            read_reply(document, messages.DatasetNames)
        return write_json(document)

    return router


def _describe_dataset(facts: messages.PublicFacts) -> dict[str, Any]:
    catalog = facts.catalog
    return {
        "dataset": catalog["dataset"],
        "version": facts.version,
        "context": facts.context,
        "mode": facts.mode,
        "unit": catalog["unit"]["kind"],
        "neighbours": catalog["neighbours"],
        "principal": facts.principal.name,
        "role": facts.principal.role,
        "pots": facts.principal.pots,
        "tables": [
            {
                "name": table["name"],
                "kind": table["kind"],
                "columns": [column["name"] for column in table["columns"]],
            }
            for table in catalog["tables"]
        ],
        "catalog": catalog,
    }


def _describe_suggestion(suggestion: Suggestion | LimitSuggestion) -> dict[str, Any]:
    """Write what was bought: a line for the catalog, or limits to send with the question."""
    if isinstance(suggestion, Suggestion):
        bought: dict[str, Any] = {
            "sentence": suggestion.sentence,
            "catalog": suggestion.catalog_text,
        }
    else:
        limits = bodies.LimitsBody.write_suggested(suggestion.limits)
        bought = {"sentence": "; ".join(suggestion.lines()), "limits": limits.model_dump()}
    return bought | {"info": suggestion.info}
