"""Logins by password: the same words and the same work, whoever is or is not a user."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dither.errors import ParameterError
from dither.identity import Authority, logins
from dither.identity.logins import MOST_FAILURES, MOST_WAITING, NOT_LOGGED_IN, Logins, WorkFactor
from dither.identity.sessions import KEPT_DAYS
from dither.protocol.errors import BusyError, TokenError
from tests.identity.test_directory import add_user, write_grant

PASSWORD = "correct horse battery"
LITTLE_WORK = WorkFactor(1, 8, 1)


@pytest.fixture
def authority(tmp_path):
    opened = Authority(tmp_path / "home")
    add_user(opened.acts, "alice")
    opened.acts.record(write_grant("00000001", "user:alice"), "local:ann")
    yield opened
    opened.close()


@pytest.fixture
def doors(authority):
    opened = Logins(authority, LITTLE_WORK)
    opened.set_password("alice", PASSWORD, "local:ann")
    yield opened
    opened.close()


def refuse(doors: Logins, name: str, password: str) -> str:
    with pytest.raises(TokenError) as refused:
        doors.log_in(name, password)
    return str(refused.value)


def test_a_login_opens_a_session_with_the_grants_of_the_user(doors, authority):
    text, session = doors.log_in("alice", PASSWORD)
    principal = authority.authorize(authority.verify(text), "clinic")
    assert (principal.name, principal.role, session.user) == ("alice", "analyst", "alice")


def test_a_session_ends_by_time_and_by_hand(doors, authority, monkeypatch):
    text, session = doors.log_in("alice", PASSWORD)
    second, _ = doors.log_in("alice", PASSWORD)
    authority.sessions.end_session(session.session_id)
    with pytest.raises(TokenError):
        authority.verify(text)
    authority.verify(second)
    monkeypatch.setattr("dither.identity.sessions.read_clock", lambda: session.expires)
    with pytest.raises(TokenError):
        authority.verify(second)
    with pytest.raises(ParameterError, match="no such session"):
        authority.sessions.end_session(session.session_id)


def test_neither_a_password_nor_a_session_is_stored_in_plain(doors, authority, tmp_path):
    text, _ = doors.log_in("alice", PASSWORD)
    content = b"".join(file.read_bytes() for file in (tmp_path / "home").iterdir())
    assert PASSWORD.encode() not in content
    assert text.removeprefix("dither-session-").encode() not in content
    assert b"$argon2id$" in content


def test_every_failure_has_the_same_words(doors, authority):
    """A wrong password, an unknown name, a user without one, an ended user, a locked name."""
    add_user(authority.acts, "bob")
    failures = {refuse(doors, "alice", "wrong password!"), refuse(doors, "nobody", PASSWORD)}
    failures |= {refuse(doors, "bob", PASSWORD), refuse(doors, "x" * 9999, "y" * 9999)}
    failures |= {refuse(doors, "\ud800", PASSWORD), refuse(doors, "", "")}
    for _ in range(MOST_FAILURES):
        failures.add(refuse(doors, "alice", "wrong password!"))
    failures.add(refuse(doors, "alice", PASSWORD))
    authority.acts.record({"act": "end-user", "name": "alice"}, "local:ann")
    failures.add(refuse(doors, "alice", PASSWORD))
    assert failures == {NOT_LOGGED_IN}


def test_every_login_does_the_same_work_whoever_it_names(doors, authority, monkeypatch):
    """One argon2 computation with the same parameters, and the same statements."""
    add_user(authority.acts, "bob")
    computed = []
    verify = Logins._verify

    def count(self, hashed, password):
        computed.append(hashed.split("$")[1:4])
        return verify(self, hashed, password)

    monkeypatch.setattr(Logins, "_verify", count)
    for _ in range(MOST_FAILURES + 1):
        refuse(doors, "nobody", PASSWORD)
    for name in ("alice", "bob", "nobody"):
        statements = []
        doors._database.set_trace_callback(statements.append)
        refuse(doors, name, "wrong password!")
        doors._database.set_trace_callback(None)
        assert [statement.split(" ")[0] for statement in statements] == [
            *("SELECT", "SELECT", "DELETE", "INSERT")
        ]
    assert len(computed) == MOST_FAILURES + 4
    assert {tuple(facts) for facts in computed} == {("argon2id", "v=19", "m=8,t=1,p=1")}


def test_a_hash_by_another_work_factor_is_not_accepted(doors, authority):
    """Else the time of its check would tell that the name has a password."""
    stronger = Logins(authority, WorkFactor(2, 8, 1))
    assert refuse(stronger, "alice", PASSWORD) == NOT_LOGGED_IN
    stronger.close()


def test_the_work_is_what_rfc_9106_recommends(authority):
    """Section 4, second recommended option: t=3, p=4, m=2^16 KiB."""
    opened = Logins(authority)
    assert opened._nobodys_hash.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    opened.close()


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_a_name_is_locked_after_failures_and_opens_with_time(doors, monkeypatch, name):
    for _ in range(MOST_FAILURES):
        refuse(doors, name, "wrong password!")
    assert doors._count_failures(name, datetime.now(UTC)) == MOST_FAILURES
    refuse(doors, name, PASSWORD)

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(minutes=logins.MINUTES_LOCKED + 1)

    monkeypatch.setattr(logins, "datetime", Later)
    if name == "alice":
        doors.log_in(name, PASSWORD)
    assert doors._count_failures(name, Later.now(UTC)) == 0


def test_a_new_password_unlocks_and_ends_all_sessions(doors, authority):
    text, _ = doors.log_in("alice", PASSWORD)
    for _ in range(MOST_FAILURES):
        refuse(doors, "alice", "wrong password!")
    doors.set_password("alice", "another long password", "local:ann")
    with pytest.raises(TokenError):
        authority.verify(text)
    refuse(doors, "alice", PASSWORD)
    assert doors.log_in("alice", "another long password")
    record = authority.acts.list_acts()[-1]
    assert record.body == {"act": "password", "name": "alice"} and record.who == "local:ann"


@pytest.mark.parametrize(("name", "password"), [("alice", "short"), ("nobody", PASSWORD)])
def test_a_password_that_cannot_be_set(doors, name, password):
    with pytest.raises(ParameterError):
        doors.set_password(name, password, "local:ann")
    assert doors.log_in("alice", PASSWORD)


def test_who_comes_when_too_many_wait_is_sent_away_whatever_the_name(doors):
    for _ in range(MOST_WAITING):
        doors._waiting.acquire()
    refusals = set()
    for name in ("alice", "nobody"):
        with pytest.raises(BusyError) as refused:
            doors.log_in(name, PASSWORD)
        refusals.add(str(refused.value))
    assert len(refusals) == 1


def test_a_login_that_a_new_password_overtakes_opens_no_session(doors, authority, monkeypatch):
    """The command runs in another process: it comes between the check and the session."""
    open_session = authority.sessions.open_session
    command = Logins(authority, LITTLE_WORK)
    sessions = []

    def set_password_and_open(name):
        command.set_password(name, "another long password", "local:ann")
        sessions.append(open_session(name))
        return sessions[-1]

    monkeypatch.setattr(authority.sessions, "open_session", set_password_and_open)
    assert refuse(doors, "alice", PASSWORD) == NOT_LOGGED_IN
    monkeypatch.undo()
    with pytest.raises(TokenError):
        authority.verify(sessions[0][0])
    doors.log_in("alice", "another long password")
    command.close()


def test_sessions_are_forgotten_long_after_their_end(doors, authority, monkeypatch):
    _, session = doors.log_in("alice", PASSWORD)
    authority.sessions.end_session(session.session_id)
    later = datetime.now(UTC) + timedelta(days=KEPT_DAYS - 1)
    for moment, count in ((later, 2), (later + timedelta(days=2), 2)):

        class Clock(datetime):
            @classmethod
            def now(cls, zone=None, moment=moment):
                return moment

        monkeypatch.setattr("dither.identity.sessions.datetime", Clock)
        authority.sessions.open_session("alice")
        assert len(authority.sessions.list_sessions()) == count
