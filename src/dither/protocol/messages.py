"""Every message of the protocol, version 1.

A frame from the asker is a `CallFrame`: version, number, token, dataset and what is called. A frame
from the curator is a `ReplyFrame` with the same number: a result or an error. Fractions are texts
"p/q", since JSON has no exact ones. Unknown fields are refused on both sides.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from dither.protocol.act_messages import (
    AccessPage,
    ActDone,
    BeginSignOn,
    LimitHead,
    LoggedOut,
    LogIn,
    LogOut,
    ReadAccessLog,
    ReadHead,
    SessionOpened,
    SignOn,
    SignOnBegun,
    StrictModel,
    SubmitAct,
)
from dither.protocol.job_messages import JobDone, RunJob
from dither.protocol.page_messages import (
    DatasetStatus,
    GrantList,
    ListQuestions,
    QuestionList,
    ReadGrants,
    ReadStatus,
    RemoveQuestion,
    SaveQuestion,
)
from dither.protocol.repeat_messages import RepeatStored, StillStored

VERSION = 1
MOST_TEXT = 100_000
MOST_STEPS = 1_000
MOST_PAGE = 1_000
MOST_SOURCES = 20
Document = dict[str, Any]
"""A document that its own reader checks: a catalog, facts, a query, a loss, a certificate."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=128)]
RemarkText = Annotated[str, StringConstraints(max_length=MOST_TEXT)]
ExactNumber = Annotated[str, StringConstraints(max_length=8_200, pattern=r"^-?[0-9]+/[0-9]+$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
ReleaseId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
RulesNumber = Annotated[int, Field(ge=1, le=2)]
VersionNumber = Annotated[int, Field(ge=VERSION, le=VERSION)]
"""Numbers with bounds, since a Literal takes true for 1."""


class StepDocument(StrictModel):
    """One step of a request: columns of one of its queries, a family and a share of the price."""

    query: Annotated[int, Field(ge=0, lt=MOST_STEPS)]
    columns: Annotated[list[int], Field(max_length=MOST_STEPS)] | None = None
    family: Name
    weight: ExactNumber


class PriceDocument(StrictModel):
    """A price: epsilon or rho."""

    epsilon: ExactNumber | None = None
    rho: ExactNumber | None = None


class RequestDocument(StrictModel):
    """A request: queries, each once, and the steps over them. It has no scale and no SQL."""

    queries: Annotated[list[Document], Field(min_length=1, max_length=MOST_STEPS)]
    steps: Annotated[list[StepDocument], Field(min_length=1, max_length=MOST_STEPS)]
    price: PriceDocument
    pot: Name


class RuleDocument(StrictModel):
    """The rule of a pot, with the numbers that its name needs."""

    name: Name
    delta: ExactNumber | None = None
    delta_per_question: ExactNumber | None = None
    delta_conversion: ExactNumber | None = None
    delta_selection: ExactNumber | None = None
    alpha: ExactNumber | None = None


class PotDocument(StrictModel):
    """A pot: its terms, and what was released from it until now."""

    name: Name
    cap: ExactNumber
    ceiling: ExactNumber
    rule: RuleDocument
    reissue: ExactNumber
    neighbours: Name
    unit: Name
    question: str
    population: str
    recipient: str
    kind: Name
    inside: Name | None = None
    policy: Name | None = None
    max_incidents: int | None = None
    relations: dict[str, str] = {}
    column: str | None = None
    value: str | None = None
    version: int | None = None
    spent: ExactNumber
    delta_spent: ExactNumber
    reissued: ExactNumber


# -- calls


class ListDatasets(StrictModel):
    """Which datasets the token is for."""

    kind: Literal["datasets"] = "datasets"


class ReadFacts(StrictModel):
    """The public facts of a dataset, and who the curator takes the asker for."""

    kind: Literal["facts"] = "facts"


class ReadView(StrictModel):
    """The newest version, and the terms of a pot and of all that it is inside of."""

    kind: Literal["view"] = "view"
    pot: Name


class PriceRequest(StrictModel):
    """What a request would cost, and whether its answer is stored. Reads no data."""

    kind: Literal["price"] = "price"
    request: RequestDocument
    rules: RulesNumber


class ReleaseRequest(StrictModel):
    """Ask: charge, measure and store, or hand out the stored answer.

    `key` is the one that the asker computed from public facts: where the curator computes another,
    a version was registered meanwhile, and nothing is charged. `remark` is the text of the question
    as the asker tells it. A second call with the same `idempotency_key` buys nothing new.
    """

    kind: Literal["release"] = "release"
    request: RequestDocument
    rules: RulesNumber
    key: Digest
    fresh: bool = False
    remark: RemarkText | None = None
    idempotency_key: Name | None = None


class ReadStored(StrictModel):
    """The stored answer to a request, for a pot that owes nothing for it. It never charges.

    Where no answer is stored, or asking would cost something, it is refused. So a page that is
    opened again, shared or prefetched cannot spend, whatever the gateway does.
    """

    kind: Literal["stored"] = "stored"
    request: RequestDocument
    rules: RulesNumber
    key: Digest


class RehearseRequest(StrictModel):
    """Answer a request on rows that were invented from the catalog."""

    kind: Literal["rehearse"] = "rehearse"
    request: RequestDocument


class ReadBudget(StrictModel):
    """The pots that the asker may see."""

    kind: Literal["budget"] = "budget"


class ReadHistory(StrictModel):
    """The releases that a pot paid for, a page at a time."""

    kind: Literal["history"] = "history"
    pot: Name
    start: Annotated[int, Field(ge=0)] = 0
    count: Annotated[int, Field(ge=1, le=MOST_PAGE)] = MOST_PAGE


class ReadValues(StrictModel):
    """The released integers of a release that the pot paid for."""

    kind: Literal["values"] = "values"
    pot: Name
    release_id: ReleaseId


class Remarks(StrictModel):
    """What the asker tells about an answer, and the curator cannot check: it runs no recipe."""

    sql: RemarkText
    limits: Annotated[list[RemarkText], Field(max_length=MOST_STEPS)]
    post_processing: Annotated[list[RemarkText], Field(max_length=MOST_STEPS)]
    commitment: Digest


class CertifyRelease(StrictModel):
    """The signed certificate of a release."""

    kind: Literal["certificate"] = "certificate"
    request: RequestDocument
    rules: RulesNumber
    release_id: ReleaseId
    remarks: Remarks


class ReadSources(StrictModel):
    """The newest releases that a pot paid for over some rows, from which a question may follow.

    `rows` are the document of a plan. Reads no data, charges nothing.
    """

    kind: Literal["sources"] = "sources"
    pot: Name
    rows: Document


class CertifySources(StrictModel):
    """The signed certificate of an answer that was computed from some of these releases alone."""

    kind: Literal["derived_certificate"] = "derived_certificate"
    pot: Name
    rows: Document
    release_ids: Annotated[list[ReleaseId], Field(min_length=1, max_length=MOST_SOURCES)]
    plan_hash: Digest
    remarks: Remarks


CalledAct = Annotated[
    ListDatasets
    | ReadFacts
    | ReadView
    | PriceRequest
    | ReleaseRequest
    | ReadStored
    | RepeatStored
    | RunJob
    | RehearseRequest
    | ReadBudget
    | ReadHistory
    | ReadValues
    | CertifyRelease
    | ReadSources
    | CertifySources
    | ReadHead
    | SubmitAct
    | ReadAccessLog
    | ReadStatus
    | SaveQuestion
    | ListQuestions
    | RemoveQuestion
    | ReadGrants
    | LogIn
    | LogOut
    | BeginSignOn
    | SignOn,
    Field(discriminator="kind"),
]


class CallFrame(StrictModel):
    """A frame from the asker."""

    v: VersionNumber = VERSION
    number: Annotated[int, Field(ge=0, lt=2**53)]
    token: Annotated[str, StringConstraints(max_length=256)]
    dataset: Annotated[str, StringConstraints(max_length=128)] = ""
    call: CalledAct


# -- results


class DatasetNames(StrictModel):
    """The datasets that a token is for."""

    kind: Literal["datasets"] = "datasets"
    names: list[str]


class PrincipalDocument(StrictModel):
    """Who the curator takes the asker for."""

    name: str
    role: str
    pots: list[str]


class PublicFacts(StrictModel):
    """The registered version: all that previews need."""

    kind: Literal["facts"] = "facts"
    version: int
    catalog: Document
    catalog_hash: Digest
    facts: Document
    context: str
    mode: str
    principal: PrincipalDocument


class PotView(StrictModel):
    """The newest version's number, and the terms of a pot's path; none where it is not open."""

    kind: Literal["view"] = "view"
    version: int | None
    path: list[PotDocument]
    windows: PotDocument | None = None


class PricedRequest(StrictModel):
    """The key under which the answer is stored, its loss, and whether there is one already."""

    kind: Literal["price"] = "price"
    key: Digest
    loss: Document
    stored: bool


class ReleasedAnswer(StrictModel):
    """What leaves: noisy integers or selected keys, a list for each step, and what was paid."""

    kind: Literal["release"] = "release"
    release_id: str
    values: list[list[int | list[str | None]]]
    charged: ExactNumber
    spent_after: ExactNumber
    cap: ExactNumber
    released_at: str
    charges: dict[str, list[ExactNumber]]
    repeated: bool


class VisiblePots(StrictModel):
    """The pots that the asker may see."""

    kind: Literal["budget"] = "budget"
    pots: list[PotDocument]


class PaidReleaseDocument(StrictModel):
    """One line of history."""

    release_id: str
    released_at: str
    version: int
    asks: str
    charged: ExactNumber
    delta: ExactNumber
    measure: str
    superseded_by: str | None
    unit: str
    sql: str | None
    price: PriceDocument | None = None


class HistoryPage(StrictModel):
    """Releases in order; `total` is how many there are in all."""

    kind: Literal["history"] = "history"
    releases: list[PaidReleaseDocument]
    total: int


class ReleasedValues(StrictModel):
    """The integers and keys of one release."""

    kind: Literal["values"] = "values"
    values: list[list[int | list[str | None]]]


class SourceDocument(StrictModel):
    """A release with the request that it answered, and the key under which it is stored."""

    key: Digest
    request: RequestDocument
    release: ReleasedAnswer


class EarlierReleases(StrictModel):
    """Releases over the same rows, the newest first."""

    kind: Literal["sources"] = "sources"
    sources: list[SourceDocument]


class SignedCertificate(StrictModel):
    """A certificate, signed by the curator."""

    kind: Literal["certificate"] = "certificate"
    certificate: Document


class ErrorDocument(StrictModel):
    """An error as the library raises it: its kind, message, rule and position in the question."""

    kind: str
    message: str
    rule: str | None = None
    start: int | None = None
    end: int | None = None


Outcome = Annotated[
    DatasetNames
    | PublicFacts
    | PotView
    | PricedRequest
    | ReleasedAnswer
    | StillStored
    | JobDone
    | VisiblePots
    | HistoryPage
    | ReleasedValues
    | EarlierReleases
    | SignedCertificate
    | LimitHead
    | ActDone
    | AccessPage
    | DatasetStatus
    | QuestionList
    | GrantList
    | SessionOpened
    | SignOnBegun
    | LoggedOut,
    Field(discriminator="kind"),
]


class ReplyFrame(StrictModel):
    """A frame from the curator: a result, or an error."""

    v: VersionNumber = VERSION
    number: int
    result: Outcome | None = None
    error: ErrorDocument | None = None
