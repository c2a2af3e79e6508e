"""Saved questions: whose they are, who sees them, and how many; and who is told of grants."""

from __future__ import annotations

import pytest

from dither.curator import saved_questions
from dither.errors import ParameterError
from dither.identity import Authority
from dither.protocol.errors import AccessError
from dither.protocol.page_messages import (
    GrantList,
    ListQuestions,
    QuestionList,
    ReadGrants,
    RemoveQuestion,
    SaveQuestion,
)
from tests.datasets.served_clinic import COUNT, ServedClinic

FIELDS = {"sql": COUNT, "by": "epsilon", "amount": "0.1"}


def save(served: ServedClinic, who: str, name: str = "visits", **more) -> QuestionList:
    call = SaveQuestion(
        **{"name": name, "pot": "total", "fields": FIELDS, "is_shared": False} | more
    )
    return served.make_transport(served.make_token(who)).call(call, QuestionList)


def list_names(served: ServedClinic, who: str, role: str = "analyst", pots=("total",)) -> list[str]:
    transport = served.make_transport(served.make_token(who, role, pots))
    return [line.name for line in transport.call(ListQuestions(), QuestionList).questions]


def test_a_question_is_seen_by_its_owner_and_shared_with_those_of_its_budget(served):
    save(served, "ann", "mine")
    save(served, "ann", "ours", is_shared=True)
    assert list_names(served, "ann") == ["mine", "ours"]
    assert list_names(served, "bob") == ["ours"]
    assert list_names(served, "sue", "steward", ()) == ["ours"]
    assert list_names(served, "cid", "analyst", ("another",)) == []
    assert list_names(served, "zoe", "auditor", ("total",)) == []
    assert list_names(served, "adm", "admin", ()) == []
    assert served.read_spent() == 0


def test_a_question_is_replaced_and_removed_by_its_owner_alone(served):
    save(served, "ann", is_shared=True)
    lines = save(served, "ann", fields={**FIELDS, "amount": "0.2"}, is_shared=True).questions
    assert [line.fields["amount"] for line in lines] == ["0.2"]
    with pytest.raises(ParameterError, match="saved no question"):
        served.make_transport(served.make_token("bob")).call(
            RemoveQuestion(name="visits"), QuestionList
        )
    own = served.make_transport(served.make_token("ann"))
    assert own.call(RemoveQuestion(name="visits"), QuestionList).questions == []


def test_nobody_saves_for_a_budget_that_is_not_theirs_or_without_end(served, monkeypatch):
    with pytest.raises(AccessError):
        save(served, "ann", pot="another")
    with pytest.raises(AccessError):
        served.make_transport(served.make_token("zoe", "auditor")).call(
            SaveQuestion(name="n", pot="total", fields=FIELDS, is_shared=True), QuestionList
        )
    monkeypatch.setattr(saved_questions, "MOST_SAVED", 2)
    for name in ("first", "second", "second"):
        save(served, "ann", name)
    with pytest.raises(ParameterError, match="remove one first"):
        save(served, "ann", "third")
    with pytest.raises(ParameterError, match="characters"):
        save(served, "bob", fields={f"p_{i}": "x" * 9_000 for i in range(3)})
    for name in (" blank", "line\nbreak", "hidden\u202e"):
        with pytest.raises(ParameterError, match="a name has"):
            save(served, "bob", name)


def test_grants_are_told_to_those_who_prepare_acts(served):
    authority = Authority(served.home)
    for body in (
        {"act": "user", "name": "ann", "issuer": None, "subject": None},
        {"act": "group", "name": "wards"},
        {"act": "join", "group": "wards", "user": "ann"},
        grant("0000000a", "clinic", "2999-01-01T00:00:00+00:00"),
        grant("0000000b", "other", "2999-01-01T00:00:00+00:00"),
        grant("0000000c", "clinic", "2020-01-01T00:00:00+00:00"),
    ):
        authority.acts.record(body, "test")
    authority.close()
    served.tokens.create_token("sue", "elsewhere", "analyst", ("total",), 1)
    reply = served.make_transport(served.make_token("sue", "steward")).call(ReadGrants(), GrantList)
    assert [(line.id, line.holder, line.members) for line in reply.grants] == [
        ("0000000a", "group:wards", ["ann"])
    ]
    assert {line.holder for line in reply.tokens} == {"sue"} and len(reply.tokens) == 1
    with pytest.raises(AccessError):
        served.make_transport(served.make_token("bob")).call(ReadGrants(), GrantList)


def grant(grant_id: str, dataset: str, expires: str) -> dict:
    terms = {"id": grant_id, "dataset": dataset, "holder": "group:wards", "role": "analyst"}
    return {"act": "grant", **terms, "pots": ["total"], "purpose": "a report", "expires": expires}
