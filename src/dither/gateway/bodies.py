"""The bodies of the HTTP API: what a client sends, and what it is sent."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from dither.protocol.messages import MOST_TEXT, PaidReleaseDocument, PotDocument
from dither.question.unit_limits import PartLimits, UnitClamp, UnitLimits

HttpNumber = Annotated[
    int | float | Annotated[str, StringConstraints(max_length=1_000)],
    Field(description="A number, or its decimal text: 0.5, '0.5' and '1/2' are the same."),
]
PotText = Annotated[str, StringConstraints(min_length=1, max_length=128)]
SqlText = Annotated[str, StringConstraints(max_length=MOST_TEXT)]
ColumnNumbers = Annotated[dict[str, HttpNumber], Field(max_length=1_000)]
ParameterValue = str | bool | int | float | None


class SentBody(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


Exact = Annotated[str, StringConstraints(max_length=1_000, pattern=r"^-?\d+(/[1-9]\d*)?$")]


class ClampBody(SentBody):
    """What one person adds to a group of an aggregate lies between two exact numbers."""

    aggregate: SqlText
    low: Exact
    high: Exact
    size: Exact | None = None


class UnitLimitsBody(SentBody):
    """Limits of one question."""

    clamps: Annotated[list[ClampBody], Field(max_length=1_000)]
    max_groups: int | None = None
    is_total: bool = False

    @classmethod
    def write(cls, limits: UnitLimits) -> Self:
        """Write limits as a body."""
        clamps = [
            ClampBody(
                aggregate=clamp.aggregate,
                low=str(clamp.low),
                high=str(clamp.high),
                size=None if clamp.size is None else str(clamp.size),
            )
            for clamp in limits.clamps
        ]
        return cls(clamps=clamps, max_groups=limits.max_groups, is_total=limits.is_total)

    def read(self) -> UnitLimits:
        """Read the limits of a body; whether they fit a question is checked when it is bound."""
        clamps = tuple(
            UnitClamp(
                clamp.aggregate,
                Fraction(clamp.low),
                Fraction(clamp.high),
                None if clamp.size is None else Fraction(clamp.size),
            )
            for clamp in self.clamps
        )
        return UnitLimits(clamps, self.max_groups, self.is_total)


class PartLimitsBody(SentBody):
    """Limits of one part of a question that is asked in parts; null for a part without."""

    name: SqlText
    limits: UnitLimitsBody | None = None


class LimitsBody(UnitLimitsBody):
    """Limits of a question, as `suggest` sold them: of the whole, or of each of its parts."""

    clamps: Annotated[list[ClampBody], Field(max_length=1_000)] = []
    part_limits: Annotated[list[PartLimitsBody], Field(max_length=100)] | None = None

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        """Refuse limits of the whole beside those of parts: they would be dropped in silence."""
        if self.part_limits is not None and (self.clamps or self.max_groups or self.is_total):
            raise ValueError(
                "part_limits has the limits of each part: leave clamps, max_groups and is_total out"
            )
        return self

    @classmethod
    def write_suggested(cls, limits: UnitLimits | PartLimits) -> LimitsBody:
        """Write limits of a question, or of its parts, as a body."""
        if isinstance(limits, UnitLimits):
            return cls.write(limits)
        bodies = [
            PartLimitsBody(name=name, limits=None if own is None else UnitLimitsBody.write(own))
            for name, own in limits.parts
        ]
        return cls(part_limits=bodies)

    def read_suggested(self) -> UnitLimits | PartLimits:
        """Read the limits of a body, those of parts where it has some."""
        if self.part_limits is None:
            return self.read()
        return PartLimits(
            tuple(
                (own.name, None if own.limits is None else own.limits.read())
                for own in self.part_limits
            )
        )


class QuestionBody(SentBody):
    """A question and its terms, as in `con.sql` and `con.preview`."""

    sql: SqlText
    epsilon: HttpNumber | None = None
    rho: HttpNumber | None = None
    confidence: HttpNumber = 0.95
    group_size: int | None = None
    quantile_intervals: bool | HttpNumber = True
    weights: ColumnNumbers | None = None
    max_groups: int | None = None
    limits: LimitsBody | None = None
    params: list[ParameterValue] | dict[str, ParameterValue] | None = None
    pot: PotText | None = Field(
        None, description="The pot that pays; by default the token's first."
    )

    def list_terms(self) -> dict[str, Any]:
        """The keyword arguments of a connection's method."""
        terms = {name: value for name, value in self if name not in ("sql", "pot")}
        return terms | {"limits": None if self.limits is None else self.limits.read_suggested()}


class PreviewBody(QuestionBody):
    """A question to preview; `within` in the place of a price finds the least one."""

    within: HttpNumber | ColumnNumbers | None = None


class AskBody(QuestionBody):
    """A question to ask."""

    fresh: bool = Field(False, description="Buy a new answer to a question asked before.")
    dry_run: bool = Field(False, description="Rehearse on invented rows: free, about nobody.")
    certificate: bool = Field(False, description="Send the signed certificate with the answer.")

    def list_terms(self) -> dict[str, Any]:
        """The keyword arguments of `con.sql`."""
        return {
            name: value for name, value in super().list_terms().items() if name != "certificate"
        }


class SuggestBody(SentBody):
    """A bound or a limit to buy, as in `con.suggest`."""

    what: Annotated[str, StringConstraints(max_length=64)]
    of: SqlText
    epsilon: HttpNumber | None = None
    rho: HttpNumber | None = None
    keep: HttpNumber = 0.99
    fresh: bool = False
    pot: PotText | None = None


class SignedActBody(SentBody):
    """An act with a steward's signature, as `dither sign` prints it."""

    act: dict[str, Any]
    public_key: Annotated[str, StringConstraints(max_length=64)]
    signature: Annotated[str, StringConstraints(max_length=128)]


class DatasetList(BaseModel):
    """The datasets that the token is for."""

    datasets: list[str]


class TableDocument(BaseModel):
    """A table that can be asked about."""

    name: str
    kind: str
    columns: list[str]


class DatasetDocument(BaseModel):
    """The public facts of a dataset."""

    dataset: str
    version: int
    context: str
    mode: str
    unit: str
    neighbours: str
    principal: str
    role: str
    pots: list[str]
    tables: list[TableDocument]
    catalog: dict[str, Any]


class AnswerDocument(BaseModel):
    """An answer: columns by name, what is known of it, and what is printed below it."""

    columns: dict[str, list[Any]]
    info: dict[str, Any]
    footnotes: list[str]
    certificate: dict[str, Any] | None = None
    nonce: str | None = None


class PreviewDocument(BaseModel):
    """Price and error of a question, and the same in sentences."""

    preview: dict[str, Any]
    sentences: list[str]


class ExplanationDocument(BaseModel):
    """Plan, stability, sensitivity, mechanisms and price of a question, in lines of text."""

    explanation: list[str]
    preview: dict[str, Any]


class SuggestionDocument(BaseModel):
    """A bound or a limit that was bought."""

    sentence: str
    catalog: str | None = Field(None, description="The line for the catalog, of a bound or limit.")
    limits: LimitsBody | None = Field(None, description="Limits to send with the question.")
    info: dict[str, Any]


class BudgetDocument(BaseModel):
    """The pots that the token may see, and what they promise."""

    pots: list[PotDocument]
    sentences: list[str]


class HistoryDocument(BaseModel):
    """Releases that a pot paid for; `next` is the start of the next page, if there is one."""

    releases: list[PaidReleaseDocument]
    total: int
    next: int | None


class HealthDocument(BaseModel):
    """The gateway runs. It says nothing of what is under way."""

    status: str
