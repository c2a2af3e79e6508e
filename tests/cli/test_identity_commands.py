"""`dither user`, `group`, `grant`, `issuer`, `steward-key`, `sign` and `access-log`."""

from __future__ import annotations

import json
import stat

import pytest
from typer.testing import CliRunner

from dither.cli.main import app
from dither.errors import DitherError, ParameterError
from dither.identity import Access, AccessLog, Authority
from dither.identity.signed_acts import draft_act, read_signed_act
from dither.protocol.errors import TokenError


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def run(home, *words: str):
    result = CliRunner().invoke(app, [*words, "--home", str(home), "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_user_is_granted_a_role_through_a_group_and_all_of_it_is_listed(home):
    run(home, "user", "create", "alice")
    run(home, "group", "create", "wards")
    run(home, "group", "add", "wards", "alice")
    terms = ("--group", "--pot", "total", "--purpose", "the winter report")
    grant = run(home, "grant", "create", "clinic", "wards", *terms)
    (user,) = run(home, "user", "list")
    assert user["groups"] == "wards" and user["state"] == "active"
    (listed,) = run(home, "grant", "list")
    assert (listed["holder"], listed["purpose"]) == ("group:wards", "the winter report")
    authority = Authority(home)
    text, _ = authority.sessions.open_session("alice")
    assert authority.authorize(authority.verify(text), "clinic").pots == ("total",)
    run(home, "grant", "revoke", grant["id"])
    run(home, "group", "remove", "wards", "alice")
    run(home, "group", "revoke", "wards")
    run(home, "user", "revoke", "alice")
    authority.close()
    acts = run(home, "grant", "acts")
    assert [json.loads(act["what"])["act"] for act in acts] == [
        *("user", "group", "join", "grant", "end-grant", "leave", "end-group", "end-user")
    ]
    assert all(act["who"].startswith("local:") for act in acts)
    assert run(home, "group", "list")[0]["state"] == "ended"
    with pytest.raises(ParameterError, match="no such grant"):
        run(home, "grant", "revoke", "00000000")


def test_tokens_are_acts_too(home):
    token = run(home, "token", "create", "clinic", "alice")
    run(home, "token", "revoke", token["id"])
    bodies = [json.loads(act["what"]) for act in run(home, "grant", "acts")]
    assert [body["act"] for body in bodies] == ["token", "end-token"]
    assert token["token"] not in json.dumps(bodies)
    with pytest.raises(ParameterError):  # no act names a dataset without a name
        run(home, "token", "create", "", "alice")
    assert run(home, "token", "list")[-1]["state"].startswith("revoked")


def test_a_password_is_set_and_sessions_are_listed_and_ended(home):
    run(home, "user", "create", "alice")
    run(home, "user", "password", "alice", "--password", "correct horse battery")
    authority = Authority(home)
    text, session = authority.sessions.open_session("alice")
    (listed,) = run(home, "user", "sessions")
    assert listed["session"] == session.session_id and text not in json.dumps(listed)
    run(home, "user", "end-session", session.session_id)
    assert authority.sessions.find_session(text) is None
    authority.close()


def test_a_steward_makes_a_key_pins_it_and_signs(home, tmp_path):
    key = tmp_path / "steward.key"
    made = json.loads(CliRunner().invoke(app, ["steward-key", "create", str(key), "--json"]).stdout)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    public_key = made["public_key"]
    run(home, "steward-key", "pin", "clinic", "ann", public_key)
    terms = {"pot": "total", "cap": "2", "reason": "a second report"}
    draft = tmp_path / "act.json"
    draft.write_text(json.dumps(draft_act("clinic", "clinic", "0" * 64, "0" * 64, "raise", terms)))
    result = CliRunner().invoke(app, ["sign", str(draft), "--key", str(key), "--json"])
    act = read_signed_act(json.loads(result.stdout))
    act.check_signature()
    act.check_time()
    assert (act.public_key, act.terms) == (public_key, terms)
    assert key.read_text().strip() not in result.output
    run(home, "steward-key", "rotate", "clinic", public_key, "ab" * 32)
    states = {row["public key"]: row["state"] for row in run(home, "steward-key", "list")}
    assert states == {public_key: "ended", "ab" * 32: "pinned"}
    run(home, "steward-key", "revoke", "clinic", "ab" * 32)


def test_a_key_that_others_can_read_does_not_sign(tmp_path):
    key = tmp_path / "steward.key"
    CliRunner().invoke(app, ["steward-key", "create", str(key)])
    key.chmod(0o644)
    draft = tmp_path / "act.json"
    draft.write_text("{}")
    result = CliRunner().invoke(app, ["sign", str(draft), "--key", str(key)])
    assert isinstance(result.exception, DitherError) and "chmod 600" in str(result.exception)


def test_an_issuer_is_pinned_listed_and_ended(home, tmp_path):
    keys = tmp_path / "keys.json"
    point = {"x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}  # RFC 8037, appendix A.2
    key = {"kty": "OKP", "crv": "Ed25519", **point, "kid": "k", "alg": "EdDSA"}
    keys.write_text(json.dumps({"keys": [key]}))
    address = "https://id.example.org"
    run(home, "issuer", "pin", address, "dither", "--keys", str(keys))
    assert run(home, "issuer", "list")[0]["keys"] == "k"
    run(home, "user", "create", "alice", "--issuer", address, "--subject", "1234")
    run(home, "user", "create", "bob")
    authority = Authority(home)
    token, _ = authority.sessions.open_session("alice")
    kept, _ = authority.sessions.open_session("bob")
    run(home, "issuer", "revoke", address)
    with pytest.raises(TokenError):
        authority.verify(token)
    authority.verify(kept)
    authority.close()
    assert run(home, "issuer", "list")[0]["state"] == "ended"


def test_the_access_log_is_listed_rotated_and_verified(home, tmp_path):
    log = AccessLog(home)
    time = "2026-03-01T12:00:00+00:00"
    entry = Access("clinic", 0, time, "alice", "t", "release", "total", "a" * 64, "b" * 16)
    for _ in range(3):
        log.record(entry)
    assert [row["seq"] for row in run(home, "access-log", "list", "clinic")] == [1, 2, 3]
    file = tmp_path / "old.jsonl"
    assert run(home, "access-log", "rotate", "clinic", "--to", str(file))["entries"] == 3
    log.record(entry)
    log.close()
    checked = run(home, "access-log", "verify", "clinic", "--after", str(file))
    assert checked["entries"] == 4
    file.write_text(file.read_text().replace("alice", "mallory", 1))
    with pytest.raises(DitherError, match="changed or removed"):
        run(home, "access-log", "verify", "clinic", "--after", str(file))
