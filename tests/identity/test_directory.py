"""Users, groups and grants: acts that are appended, and what they add up to."""

from __future__ import annotations

import sqlite3
import stat

import pytest

from dither.errors import DitherError, ParameterError
from dither.identity import NOT_GRANTED, ActLog, Authority
from dither.protocol.errors import AccessError, TokenError

LATER = "2999-01-01T00:00:00+00:00"
EARLIER = "2000-01-01T00:00:00+00:00"


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def acts(home):
    log = ActLog(home)
    yield log
    log.close()


@pytest.fixture
def authority(home):
    opened = Authority(home)
    yield opened
    opened.close()


def add_user(acts: ActLog, name: str) -> None:
    acts.record({"act": "user", "name": name, "issuer": None, "subject": None}, "local:ann")


def add_group(acts: ActLog, name: str, *members: str) -> None:
    acts.record({"act": "group", "name": name}, "local:ann")
    for member in members:
        acts.record({"act": "join", "group": name, "user": member}, "local:ann")


def write_grant(grant_id: str, holder: str, **changes) -> dict:
    terms = {"role": "analyst", "pots": ["total"], "purpose": "the report", "expires": LATER}
    body = {"act": "grant", "id": grant_id, "dataset": "clinic", "holder": holder}
    return {**body, **terms, **changes}


def open_principal(authority: Authority, name: str, dataset: str = "clinic"):
    text, _ = authority.sessions.open_session(name)
    return authority.authorize(authority.verify(text), dataset)


def refuse(authority: Authority, name: str, dataset: str = "clinic") -> str:
    with pytest.raises(AccessError) as refused:
        open_principal(authority, name, dataset)
    return str(refused.value)


# -- what acts add up to


def test_a_user_has_the_role_and_the_pots_of_all_grants_also_through_groups(acts, authority):
    add_user(acts, "alice")
    add_group(acts, "wards", "alice")
    acts.record(write_grant("00000001", "user:alice", pots=["total"]), "local:ann")
    acts.record(write_grant("00000002", "group:wards", pots=["board", "total"]), "local:ann")
    principal = open_principal(authority, "alice")
    assert (principal.role, principal.pots) == ("analyst", ("total", "board"))


def test_ending_a_grant_a_membership_a_group_or_a_user_takes_effect_at_once(acts, authority):
    endings = [
        {"act": "end-grant", "id": "00000001", "dataset": "clinic"},
        {"act": "leave", "group": "wards", "user": "bob"},
        {"act": "end-group", "name": "desk"},
    ]
    for name in ("alice", "bob", "carol", "dan"):
        add_user(acts, name)
    add_group(acts, "wards", "bob")
    add_group(acts, "desk", "carol")
    holders = ("user:alice", "group:wards", "group:desk", "user:dan")
    for number, holder in enumerate(holders, 1):
        acts.record(write_grant(f"0000000{number}", holder), "local:ann")
    for name, ending in zip(("alice", "bob", "carol"), endings, strict=True):
        assert open_principal(authority, name).role == "analyst"
        acts.record(ending, "local:ann")
        assert refuse(authority, name) == NOT_GRANTED
    text, _ = authority.sessions.open_session("dan")
    authority.verify(text)
    acts.record({"act": "end-user", "name": "dan"}, "local:ann")
    with pytest.raises(TokenError):
        authority.verify(text)


def test_an_expired_grant_gives_nothing(acts, authority):
    add_user(acts, "alice")
    acts.record(write_grant("00000001", "user:alice", expires=EARLIER), "local:ann")
    assert refuse(authority, "alice") == NOT_GRANTED


def test_what_is_missing_is_refused_in_one_sentence(acts, authority):
    """No grant at this dataset, a dataset of others, one that does not exist: the same words."""
    add_user(acts, "alice")
    add_user(acts, "bob")
    acts.record(write_grant("00000001", "user:bob", dataset="shop"), "local:ann")
    refusals = {refuse(authority, "alice", name) for name in ("clinic", "shop", "nowhere", "")}
    assert refusals == {NOT_GRANTED}
    principal = open_principal(authority, "bob", "shop")
    for pot in ("board", "does-not-exist"):
        with pytest.raises(AccessError) as refused:
            principal.check_pot(pot)
        assert str(refused.value) == NOT_GRANTED


def test_nobody_has_two_roles_at_one_dataset(acts):
    add_user(acts, "alice")
    add_group(acts, "auditors")
    acts.record(write_grant("00000001", "user:alice"), "local:ann")
    acts.record(write_grant("00000002", "group:auditors", role="auditor"), "local:ann")
    with pytest.raises(ParameterError, match="one role at a dataset"):
        acts.record({"act": "join", "group": "auditors", "user": "alice"}, "local:ann")
    with pytest.raises(ParameterError, match="one role at a dataset"):
        acts.record(write_grant("00000003", "user:alice", role="auditor"), "local:ann")
    acts.record(write_grant("00000004", "user:alice", role="auditor", dataset="shop"), "local:ann")


def test_a_token_of_a_user_goes_as_far_as_the_grants_do(acts, authority):
    own, _ = authority.tokens.create_token("alice", "clinic", "analyst", ("total", "board"), 1)
    high, _ = authority.tokens.create_token("alice", "clinic", "steward", ("total",), 1)
    assert authority.authorize(authority.verify(own), "clinic").pots == ("total", "board")
    add_user(acts, "alice")
    with pytest.raises(AccessError):
        authority.authorize(authority.verify(own), "clinic")
    acts.record(write_grant("00000001", "user:alice", pots=["board", "press"]), "local:ann")
    assert authority.authorize(authority.verify(own), "clinic").pots == ("board",)
    assert authority.list_datasets(authority.verify(own)) == ("clinic",)
    with pytest.raises(AccessError, match="not granted"):
        authority.authorize(authority.verify(high), "clinic")
    acts.record({"act": "end-user", "name": "alice"}, "local:ann")
    with pytest.raises(TokenError):
        authority.verify(own)


def test_an_ended_name_is_not_given_to_somebody_else(acts):
    add_user(acts, "alice")
    acts.record({"act": "end-user", "name": "alice"}, "local:ann")
    with pytest.raises(ParameterError, match="already, or was"):
        add_user(acts, "alice")


@pytest.mark.parametrize(
    "body",
    [
        {"act": "root"},
        {"act": ["user"]},
        {"act": "user", "name": "alice"},
        {"act": "user", "name": "a b", "issuer": None, "subject": None},
        {"act": "user", "name": "a", "issuer": "https://x", "subject": None},
        {"act": "end-user", "name": "nobody"},
        {"act": "join", "group": "g", "user": "nobody"},
        write_grant("00000001", "user:nobody"),
        write_grant("1", "user:alice"),
        write_grant("00000001", "alice"),
        write_grant("00000001", "user:alice", role="root"),
        write_grant("00000001", "user:alice", expires="tomorrow"),
        write_grant("00000001", "user:alice", pots="total"),
        write_grant("00000001", "user:alice", purpose=""),
        write_grant("00000001", "user:alice", extra=1),
        {"act": "pin-key", "name": "ann", "dataset": "clinic", "public_key": "AB" * 32},
        {"act": "pin-issuer", "issuer": "http://x", "audience": "d", "keys": []},
    ],
)
def test_an_act_that_makes_no_sense_is_not_recorded(acts, body):
    add_user(acts, "alice")
    with pytest.raises(ParameterError):
        acts.record(body, "local:ann")
    assert len(acts.list_acts()) == 1


# -- the log


def test_acts_say_who_and_when_and_follow_each_other(acts, home):
    add_user(acts, "alice")
    add_user(acts, "bob")
    first, second = acts.list_acts()
    assert first.who == "local:ann" and first.time.endswith("+00:00")
    assert second.previous == first.hash and acts.head == second.hash
    assert stat.S_IMODE((home / "curator.sqlite").stat().st_mode) == 0o600


def test_acts_can_be_neither_changed_nor_removed(acts, home):
    add_user(acts, "alice")
    raw = sqlite3.connect(home / "curator.sqlite")
    for statement in ("UPDATE act SET who = 'eve'", "DELETE FROM act"):
        with pytest.raises(sqlite3.IntegrityError, match="only appended"):
            raw.execute(statement)
    raw.close()


@pytest.mark.parametrize(
    "forgery",
    [
        "UPDATE act SET body = replace(body, 'alice', 'mallory') WHERE seq = 1",
        "UPDATE act SET who = 'local:eve' WHERE seq = 2",
        "DELETE FROM act WHERE seq = 1",
    ],
)
def test_a_forged_row_lets_nobody_in(acts, home, forgery):
    """Whoever drops the triggers still breaks the chain."""
    add_user(acts, "alice")
    add_user(acts, "bob")
    raw = sqlite3.connect(home / "curator.sqlite")
    raw.execute("DROP TRIGGER act_stays")
    raw.execute("DROP TRIGGER act_remains")
    raw.execute(forgery)
    raw.commit()
    raw.close()
    opened = Authority(home)
    with pytest.raises(DitherError, match="changed or removed"):
        opened.verify("dither-session-00")
    with pytest.raises(DitherError, match="changed or removed"):
        acts.list_acts()
    opened.close()


def test_two_processes_append_to_one_chain(acts, home):
    second = ActLog(home)
    add_user(acts, "alice")
    add_user(second, "bob")
    add_user(acts, "carol")
    assert set(second.read_directory().users) == {"alice", "bob", "carol"}
    assert len(acts.list_acts()) == 3
    second.close()
