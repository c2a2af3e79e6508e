"""Messages for pages: where a dataset stands, saved questions, and who has a role there."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from dither.protocol.act_messages import StrictModel

MOST_FIELDS = 60
MOST_NAME = 100
QuestionName = Annotated[str, StringConstraints(min_length=1, max_length=MOST_NAME)]
FieldName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
FieldText = Annotated[str, StringConstraints(max_length=10_000)]
PotName = Annotated[str, StringConstraints(min_length=1, max_length=128)]
QuestionFields = Annotated[dict[FieldName, FieldText], Field(max_length=MOST_FIELDS)]


class ReadStatus(StrictModel):
    """Who the asker is now, and whether incidents suspend the budgets of the asker."""

    kind: Literal["status"] = "status"


class SaveQuestion(StrictModel):
    """Keep a question under a name, for its owner or for all whose budget is the same.

    `fields` are those of the form of the console. Nothing is asked and nothing is priced.
    """

    kind: Literal["save_question"] = "save_question"
    name: QuestionName
    pot: PotName
    fields: QuestionFields
    is_shared: bool


class ListQuestions(StrictModel):
    """The saved questions of the asker, and those shared by others who use the same budgets."""

    kind: Literal["questions"] = "questions"


class RemoveQuestion(StrictModel):
    """Remove a saved question of the asker."""

    kind: Literal["remove_question"] = "remove_question"
    name: QuestionName


class ReadGrants(StrictModel):
    """The grants and tokens of a dataset that count now. Not for analysts."""

    kind: Literal["grants"] = "grants"


class DatasetStatus(StrictModel):
    """Who the asker is, and since when budgets are suspended; without a number of incidents.

    `since` is the end of the slot from which on questions were refused. `pots` are budgets of the
    asker; roles that see all budgets are told `since` for any of them.
    """

    kind: Literal["status"] = "status"
    name: str
    role: str
    own_pots: list[str]
    since: str | None
    pots: list[str]
    is_for_all: bool


class QuestionDocument(StrictModel):
    """A saved question."""

    name: str
    owner: str
    pot: str
    fields: dict[str, str]
    is_shared: bool
    saved_at: str


class QuestionList(StrictModel):
    """Saved questions: those of the asker first, each by name."""

    kind: Literal["questions"] = "questions"
    questions: list[QuestionDocument]


class GrantDocument(StrictModel):
    """A role of somebody at the dataset. A token has no purpose; a group has members."""

    id: str
    holder: str
    members: list[str]
    role: str
    pots: list[str]
    purpose: str
    expires: str


class GrantList(StrictModel):
    """Who may do what at a dataset now, by grants and by tokens that stand for themselves."""

    kind: Literal["grants"] = "grants"
    grants: list[GrantDocument]
    tokens: list[GrantDocument]
