"""Repeats at the gateway: the same body from the same token has the same answer.

An answer that was handed out as a free repeat is kept with its question. When the same bytes come
again, the curator is asked one thing: whether that release is still the stored answer, free to this
token and pot now. It verifies token and grants and notes the access, as for every answer. Where it
says anything but yes, or a new version is registered, the question goes the whole way.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from fastapi import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dither.answer.result import Result
from dither.errors import DitherError
from dither.gateway.answers import write_json
from dither.gateway.turns import TokenTurns
from dither.privacy.kernel.kernel import Release
from dither.protocol.repeat_messages import RepeatStored, StillStored
from dither.remote.transport import SocketPool, SocketTransport

MOST_KEPT = 1_000
MOST_BYTES = 2**16
"""Answers that are kept, and the length of the longest body and answer among them."""
MOST_AT_ONCE = 16
"""Calls of repeats under way at the curator, which serves as many again for all else."""
REPEAT_NAME = "dither.repeat_name"
"""Where the scope of a request holds the name under which its answer may be kept."""
_PATH = re.compile(r"/api/v1/datasets/([^/]{1,128})/sql")
_SCHEME = b"bearer "


@dataclass(frozen=True)
class KeptAnswer:
    """An answer as it was handed out, and what the curator must confirm."""

    call: RepeatStored
    still: StillStored
    document: Mapping[str, Any]
    response: Response


class RepeatPath:
    """Answers repeats from what is kept; all other requests pass through."""

    def __init__(
        self, app: ASGIApp, sockets: SocketPool, turns: TokenTurns, answers: KeptAnswers
    ) -> None:
        self._app = app
        self._sockets = sockets
        self._turns = turns
        self._answers = answers
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, "repeat")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request whose body was received as a whole."""
        body = scope.get("dither.body", b"")
        asked = _read_ask(scope, body) if scope["type"] == "http" else None
        if asked is not None:
            dataset, token, name = asked
            scope[REPEAT_NAME] = name
            response = await self._repeat(name, dataset, token)
            if response is not None:
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _repeat(self, name: str, dataset: str, token: str) -> Response | None:
        """The kept answer, if the curator lets this token have it now; else None."""
        kept = self._answers.find(name)
        if kept is None:
            return None
        transport = SocketTransport(self._sockets, dataset, token)
        loop = asyncio.get_running_loop()
        try:
            with self._turns.take_turn(token):
                still = await loop.run_in_executor(
                    self._threads, transport.call, kept.call, StillStored
                )
        except DitherError:
            # whatever the reason is, the question that goes the whole way is told it
            self._answers.forget(name)
            return None
        return self._answers.renew(name, kept, still)


class KeptAnswers:
    """The newest repeats, by token, dataset and bytes of the question."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, KeptAnswer] = OrderedDict()

    def find(self, name: str) -> KeptAnswer | None:
        """What is kept under a name."""
        return self._kept.get(name)

    def forget(self, name: str) -> None:
        """Keep it no longer."""
        self._kept.pop(name, None)

    def keep(self, name: str | None, result: object, document: Mapping[str, Any]) -> None:
        """Keep the answer of a question, if it was a free repeat of one release."""
        call = _make_call(result)
        if name is None or call is None:
            return
        still = StillStored(
            version=document["info"]["version"],
            spent_after=document["info"]["pot_spent_after"],
            cap=document["info"]["pot_cap"],
        )
        self._put(name, KeptAnswer(call, still, document, write_json(document)))

    def renew(self, name: str, kept: KeptAnswer, still: StillStored) -> Response | None:
        """The response, with the balances of now; None where a newer version is registered."""
        if still.version != kept.still.version:
            self.forget(name)
            return None
        if still != kept.still:
            balances = {"pot_spent_after": still.spent_after, "pot_cap": still.cap}
            document = {**kept.document, "info": kept.document["info"] | balances}
            kept = KeptAnswer(kept.call, still, document, write_json(document))
            self._put(name, kept)
        return kept.response

    def _put(self, name: str, kept: KeptAnswer) -> None:
        if len(kept.response.body) > MOST_BYTES:
            return
        self._kept[name] = kept
        self._kept.move_to_end(name)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)


def _make_call(result: object) -> RepeatStored | None:
    """What confirms a result: None where it is no free repeat of one stored release.

    Answers from several releases are not kept, nor those that show a person's budgets of windows.
    """
    if type(result) is not Result or "person" in result.info:
        return None
    release: Release = result._release
    if not release.repeated or release.charged or result._derived:
        return None
    pot = release.priced.request.pot
    return RepeatStored(pot=pot, key=release.priced.key, release_id=release.release_id)


def _read_ask(scope: Scope, body: bytes) -> tuple[str, str, str] | None:
    """Dataset, token and name of an ask; None for any other request."""
    match = _PATH.fullmatch(scope["path"]) if scope["method"] == "POST" else None
    if match is None or scope["query_string"] or len(body) > MOST_BYTES:
        return None
    headers = dict(scope["headers"])
    authorization = headers.get(b"authorization", b"")
    if authorization[: len(_SCHEME)].lower() != _SCHEME:
        return None
    token = authorization[len(_SCHEME) :].decode("latin-1")
    named = hashlib.sha256()
    for part in (
        authorization,
        scope["path"].encode(),
        headers.get(b"accept", b""),
        headers.get(b"content-type", b""),
        body,
    ):
        named.update(len(part).to_bytes(8, "big") + part)
    return match[1], token, named.hexdigest()
