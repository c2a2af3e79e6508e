"""The curator checks role and pot of every message, and notes who was handed what."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from dither.canonical import dumps
from dither.curator import dataset
from dither.errors import BudgetError
from dither.identity import NOT_GRANTED, ActLog, Authority
from dither.protocol import act_messages, documents, messages
from dither.protocol.errors import AccessError, TokenError
from dither.remote.transport import SocketTransport
from tests.datasets.served_clinic import BY_WARD, COUNT, make_pool
from tests.identity.test_directory import add_user, write_grant


@pytest.fixture
def authority(served):
    opened = Authority(served.home)
    yield opened
    opened.close()


def grant(acts: ActLog, name: str, role: str, *pots: str) -> None:
    add_user(acts, name)
    number = len(acts.list_acts())
    body = write_grant(f"{number:08x}", f"user:{name}", role=role, pots=list(pots))
    acts.record(body, "local:ann")


def log_in(authority: Authority, name: str) -> str:
    return authority.sessions.open_session(name)[0]


def read_log(served, token: str) -> act_messages.AccessPage:
    call = act_messages.ReadAccessLog()
    return served.make_transport(token).call(call, act_messages.AccessPage)


def test_an_analyst_asks_from_granted_pots_until_the_grant_ends(served, authority):
    grant(authority.acts, "alice", "analyst", "total")
    token = log_in(authority, "alice")
    con = served.connect(token)
    con.sql(COUNT, epsilon=1)
    with pytest.raises(AccessError) as refused:
        served.connect(token, "board").history()
    assert str(refused.value) == NOT_GRANTED
    (name,) = authority.acts.read_directory().grants
    authority.acts.record({"act": "end-grant", "id": name, "dataset": "clinic"}, "local:ann")
    with pytest.raises(AccessError) as refused:
        con.sql(BY_WARD, epsilon=1)
    assert str(refused.value) == NOT_GRANTED and served.read_spent() == 1


def test_a_user_without_a_grant_learns_of_no_dataset(served, authority):
    """The served dataset, one that is not served and one that does not exist read the same."""
    add_user(authority.acts, "eve")
    token = log_in(authority, "eve")
    replies = set()
    for name in ("clinic", "shop", "", "no such"):
        transport = SocketTransport(make_pool(served.socket), name, token)
        for call in (messages.ReadFacts(), messages.ReadView(pot="total"), messages.ReadBudget()):
            replies.add(dumps(transport.exchange(call)["error"]))
    assert len(replies) == 1 and NOT_GRANTED in replies.pop()
    names = served.make_transport(token).call(messages.ListDatasets(), messages.DatasetNames)
    assert names.names == []


def test_an_ended_user_is_refused_like_an_unknown_token(served, authority):
    grant(authority.acts, "alice", "analyst", "total")
    token = log_in(authority, "alice")
    served.connect(token)
    authority.acts.record({"act": "end-user", "name": "alice"}, "local:ann")
    refusals = set()
    for text in (token, "dither-session-" + "0" * 64, "dither-" + "0" * 64):
        with pytest.raises(TokenError) as refused:
            served.connect(text)
        refusals.add(str(refused.value))
    assert len(refusals) == 1


def test_an_auditor_sees_history_certificates_and_the_log_and_never_asks(served, authority):
    grant(authority.acts, "eve", "auditor")
    grant(authority.acts, "alice", "analyst", "total")
    con = served.connect(log_in(authority, "alice"))
    result = con.sql(COUNT, epsilon=1)
    certificate = result.certificate()
    token = log_in(authority, "eve")
    auditor = served.connect(token)
    (line,) = auditor.history().releases
    assert line.sql is None and line.release_id == result.info["release_id"]
    priced = con._kernel.price_at(con.request(COUNT, epsilon=1))
    remarks = messages.Remarks(sql="", limits=[], post_processing=[], commitment="0" * 64)
    call = messages.CertifyRelease(
        request=documents.write_request(priced.request),
        rules=priced.version.rules,
        release_id=line.release_id,
        remarks=remarks,
    )
    signed = served.make_transport(token).call(call, messages.SignedCertificate).certificate
    assert signed["body"]["price"] == certificate["body"]["price"]
    acts = [entry.act for entry in read_log(served, token).entries]
    assert acts == ["release", "certificate", "certificate"]
    for act in (
        lambda: auditor.sql(BY_WARD, epsilon=1),
        lambda: auditor.sql(BY_WARD, epsilon=1, dry_run=True),
        lambda: auditor.history().raw(line.release_id),
    ):
        with pytest.raises(AccessError):
            act()
    assert served.read_spent() == 1


# -- the access log


def test_the_log_says_who_was_handed_what_at_the_time_of_the_release(served, authority):
    con = served.connect(served.make_token("alice"))
    first = con.sql(COUNT, epsilon=1)
    served.connect(served.make_token("bob")).sql(COUNT, epsilon=1)
    page = read_log(served, served.make_token("eve", "auditor"))
    release, repeat = page.entries
    (line,) = con.history().releases
    assert (release.principal, release.act) == ("alice", "release")
    assert release.time == line.released_at and release.release == first.info["release_id"]
    assert (repeat.principal, repeat.act) == ("bob", "repeat")
    assert repeat.time >= line.released_at and repeat.question == release.question
    assert page.total == 2 and repeat.previous == release.hash


def test_a_repeat_that_waited_for_its_release_is_not_dated_before_it(served, monkeypatch):
    """Else the log would tell how long the question ran: asked at one time, released at another."""
    served.connect().sql(COUNT, epsilon=1)
    monkeypatch.setattr(dataset, "read_clock", lambda: "2000-01-01T00:00:00+00:00")
    con = served.connect()
    con.sql(COUNT, epsilon=1)
    entries = read_log(served, served.make_token("eve", "auditor")).entries
    (line,) = con.history().releases
    assert [entry.time for entry in entries] == [line.released_at, line.released_at]


def test_refused_questions_and_rehearsals_are_not_in_the_log(served):
    con = served.connect()
    con.sql(COUNT, epsilon=1, dry_run=True)
    with pytest.raises(BudgetError):
        con.sql(COUNT, epsilon=11)
    assert read_log(served, served.make_token("eve", "auditor")).entries == []


@pytest.mark.parametrize("role", ["analyst", "admin"])
def test_only_auditors_and_stewards_read_the_log(served, role):
    with pytest.raises(AccessError) as refused:
        read_log(served, served.make_token("eve", role))
    assert str(refused.value) == NOT_GRANTED
    assert read_log(served, served.make_token("ann", "steward")).total == 0


@pytest.mark.parametrize("end", [{"act": "end-user", "name": "alice"}, "grant", "session"])
def test_who_is_ended_while_a_question_waits_for_its_slot_buys_nothing(
    served, authority, monkeypatch, end
):
    """A slot may be minutes away: what was granted when the question came may have ended."""
    grant(authority.acts, "alice", "analyst", "total")
    token, session = authority.sessions.open_session("alice")
    con = served.connect(token)
    dataset = served.server._service._datasets["clinic"]
    price = dataset._price_ask

    def price_and_end(*arguments):
        priced = price(*arguments)
        if end == "session":
            authority.sessions.end_session(session.session_id)
        elif end == "grant":
            (name,) = authority.acts.read_directory().grants
            authority.acts.record({"act": "end-grant", "id": name, "dataset": "clinic"}, "ann")
        else:
            authority.acts.record(end, "local:ann")
        return priced

    monkeypatch.setattr(dataset, "_price_ask", price_and_end)
    with pytest.raises(AccessError):
        con.sql(COUNT, epsilon=1)
    assert served.read_spent() == 0


def test_who_is_ended_while_a_reading_waits_reads_nothing(served, authority, monkeypatch):
    grant(authority.acts, "alice", "analyst", "total")
    con = served.connect(log_in(authority, "alice"))
    schedule = served.server._service._datasets["clinic"]._schedule
    reading = schedule.read_released

    @contextmanager
    def end_and_read():
        authority.acts.record({"act": "end-user", "name": "alice"}, "local:ann")
        with reading():
            yield

    monkeypatch.setattr(schedule, "read_released", end_and_read)
    with pytest.raises(TokenError):
        con.history()
