"""Messages about who did what: heads and signed acts, the access log, logins."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MOST_LOG_PAGE = 1_000
ShortText = Annotated[str, StringConstraints(min_length=1, max_length=500)]


class StrictModel(BaseModel):
    """A message without unknown fields, whose values have exactly the stated types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ReadHead(StrictModel):
    """What an act on limits must name: lineage and heads. Not for analysts."""

    kind: Literal["head"] = "head"


class SubmitAct(StrictModel):
    """An act that a steward signed elsewhere (`dither sign`).

    The curator verifies the signature against the keys that are pinned for the dataset. An act that
    was altered, is for other heads, has expired or was done before is refused.
    """

    kind: Literal["act"] = "act"
    signed: dict[str, Any]


class ReadAccessLog(StrictModel):
    """The access log of the dataset, a page at a time; for auditors and stewards."""

    kind: Literal["access_log"] = "access_log"
    start: Annotated[int, Field(ge=0, lt=2**53)] = 0
    count: Annotated[int, Field(ge=1, le=MOST_LOG_PAGE)] = MOST_LOG_PAGE


class LogIn(StrictModel):
    """Open a session with a password; needs no token. One answer to every failure."""

    kind: Literal["log_in"] = "log_in"
    name: ShortText
    password: ShortText


class BeginSignOn(StrictModel):
    """A nonce for one login by single sign-on; needs no token."""

    kind: Literal["begin_sign_on"] = "begin_sign_on"


class SignOn(StrictModel):
    """Open a session with an ID token of OpenID Connect, which the curator verifies by itself.

    Needs no token. The ID token holds a nonce of `begin_sign_on`, which is used up.
    """

    kind: Literal["sign_on"] = "sign_on"
    id_token: Annotated[str, StringConstraints(min_length=1, max_length=20_000)]


class LogOut(StrictModel):
    """End the session whose token the frame carries."""

    kind: Literal["log_out"] = "log_out"


class SessionOpened(StrictModel):
    """A session: its token, which every further call carries, and when it ends."""

    kind: Literal["session"] = "session"
    token: str
    name: str
    expires: str


class SignOnBegun(StrictModel):
    """The nonce that the issuer must put into the ID token."""

    kind: Literal["sign_on"] = "sign_on"
    nonce: str


class LoggedOut(StrictModel):
    """The session is ended."""

    kind: Literal["log_out"] = "log_out"


class LimitHead(StrictModel):
    """What an act on limits must name.

    `ledger_head` is the hash of the newest entry that moved a limit: questions do not change it,
    so it tells nothing of what is under way. `acts_head` is that of the curator's newest act.
    """

    kind: Literal["head"] = "head"
    dataset: str
    lineage: str
    ledger_head: str
    acts_head: str


class ActDone(StrictModel):
    """A signed act was done. No figure of the data comes with it."""

    kind: Literal["act"] = "act"
    act: str
    sentence: str


class AccessDocument(StrictModel):
    """An entry of the access log: who was handed what. No duration, no value and no text."""

    dataset: str
    seq: int
    time: str
    principal: str
    token: str
    act: str
    pot: str
    question: str | None
    release: str
    previous: str
    hash: str


class AccessPage(StrictModel):
    """Entries in order; `total` is the number of the newest, those in rotated files included."""

    kind: Literal["access_log"] = "access_log"
    entries: list[AccessDocument]
    total: int
