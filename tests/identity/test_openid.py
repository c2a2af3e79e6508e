"""Single sign-on: the curator verifies ID tokens against pinned keys, by issuer and subject."""

from __future__ import annotations

import json
import re
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from dither.errors import ParameterError
from dither.identity import Authority, openid
from dither.identity.openid import NOT_SIGNED_ON, SignOns, check_keys
from dither.protocol.errors import TokenError

ISSUER = "https://id.example.org"
KEYS = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
STRANGER = ec.generate_private_key(ec.SECP256R1())


def write_jwk(algorithm: str) -> dict:
    public = KEYS[algorithm].public_key()
    written = json.loads(jwt.get_algorithm_by_name(algorithm).to_jwk(public))
    return {**written, "kid": f"key-{algorithm}", "alg": algorithm, "use": "sig"}


def pin_issuer(authority: Authority, issuer: str = ISSUER) -> None:
    keys = check_keys([write_jwk(algorithm) for algorithm in KEYS])
    body = {"act": "pin-issuer", "issuer": issuer, "audience": "dither", "keys": keys}
    authority.acts.record(body, "local:ann")


@pytest.fixture
def authority(tmp_path):
    opened = Authority(tmp_path / "home")
    pin_issuer(opened)
    body = {"act": "user", "name": "alice", "issuer": ISSUER, "subject": "1234"}
    opened.acts.record(body, "local:ann")
    yield opened
    opened.close()


@pytest.fixture
def sign_ons(authority):
    opened = SignOns(authority)
    yield opened
    opened.close()


def write_claims(begun: str, **changes) -> dict:
    now = int(time.time())
    claims = {"iss": ISSUER, "sub": "1234", "aud": "dither", "iat": now, "exp": now + 300}
    return {**claims, "nonce": begun, **changes}


def write_token(claims: dict, algorithm: str = "ES256", key=None, **header) -> str:
    headers = {"kid": f"key-{algorithm}", **header}
    return jwt.encode(claims, key or KEYS[algorithm], algorithm, headers=headers)


def refuse(sign_ons: SignOns, token: str) -> None:
    with pytest.raises(TokenError) as refused:
        sign_ons.finish(token)
    assert str(refused.value) == NOT_SIGNED_ON


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_sign_on_opens_a_session_of_the_user(sign_ons, authority, algorithm):
    token = write_token(write_claims(sign_ons.begin()), algorithm)
    text, session = sign_ons.finish(token)
    assert session.user == "alice" and authority.verify(text).name == "alice"


def test_an_id_token_is_used_once(sign_ons):
    token = write_token(write_claims(sign_ons.begin()))
    sign_ons.finish(token)
    refuse(sign_ons, token)


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://evil.example.org"},
        {"iss": ISSUER + "/"},
        {"aud": "another-client"},
        {"aud": ["dither", "another-client"]},
        {"azp": "another-client"},
        {"exp": 1_000_000_000},
        {"iat": 9_999_999_999},
        {"sub": "5678"},
        {"sub": ""},
        {"sub": 1234},
        {"nonce": "0" * 64},
        {"nonce": 7},
        {"sub": "5678", "email": "alice@example.org", "email_verified": True, "name": "alice"},
        {"sub": "5678", "preferred_username": "alice"},
    ],
    ids=str,
)
def test_a_claim_that_is_not_ours_is_refused(sign_ons, changes):
    """Also an e-mail or a name that is that of a user: accounts are issuer and subject alone."""
    refuse(sign_ons, write_token(write_claims(sign_ons.begin(), **changes)))


@pytest.mark.parametrize("missing", ["iss", "sub", "aud", "exp", "iat", "nonce"])
def test_a_claim_that_is_missing_is_refused(sign_ons, missing):
    claims = write_claims(sign_ons.begin())
    del claims[missing]
    refuse(sign_ons, write_token(claims))


def test_a_signature_by_another_key_is_refused(sign_ons):
    refuse(sign_ons, write_token(write_claims(sign_ons.begin()), key=STRANGER))


def test_the_header_chooses_neither_key_nor_algorithm(sign_ons):
    claims = write_claims(sign_ons.begin())
    public = write_jwk("RS256")["n"]
    unsigned = jwt.encode(claims, None, "none", headers={"kid": "key-ES256"})
    shared = jwt.encode(claims, public, "HS256", headers={"kid": "key-RS256"})
    crossed = write_token(claims, "RS256", kid="key-ES256")
    stranger_jwk = json.loads(jwt.get_algorithm_by_name("ES256").to_jwk(STRANGER.public_key()))
    own = write_token(claims, key=STRANGER, jwk=stranger_jwk, jku="https://evil.example.org")
    unknown = write_token(claims, kid="key-of-nobody")
    for token in (unsigned, shared, crossed, own, unknown):
        refuse(sign_ons, token)


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "..", "\ud800", "[" * 20_001, "e30.e30.e30"])
def test_what_is_no_token_is_refused_in_the_same_words(sign_ons, text):
    refuse(sign_ons, text)


def test_a_nonce_of_another_process_or_without_its_seal_is_refused(sign_ons, authority):
    second = SignOns(authority)
    begun = second.begin()
    forged = begun[:-1] + ("0" if begun[-1] != "0" else "1")
    longer = re.sub(r"\.20", ".29", begun)
    for nonce in (begun, forged, longer, "", ".", "..", "\u00e9.\u00e9.\u00e9"):
        refuse(sign_ons, write_token(write_claims(nonce)))
    second.finish(write_token(write_claims(begun)))
    second.close()


def test_beginning_a_login_stores_nothing(sign_ons):
    assert len({sign_ons.begin() for _ in range(50)}) == 50
    assert sign_ons._database.execute("SELECT COUNT(*) FROM sign_on").fetchone() == (0,)


def test_a_nonce_expires(sign_ons, monkeypatch):
    token = write_token(write_claims(sign_ons.begin()))
    monkeypatch.setattr(openid, "read_clock", lambda: "2999-01-01T00:00:00+00:00")
    refuse(sign_ons, token)


def test_an_ended_issuer_and_an_ended_user_sign_on_no_more(sign_ons, authority):
    authority.acts.record({"act": "end-user", "name": "alice"}, "local:ann")
    refuse(sign_ons, write_token(write_claims(sign_ons.begin())))
    body = {"act": "user", "name": "alice2", "issuer": ISSUER, "subject": "1234"}
    authority.acts.record(body, "local:ann")
    sign_ons.finish(write_token(write_claims(sign_ons.begin())))
    authority.acts.record({"act": "end-issuer", "issuer": ISSUER}, "local:ann")
    refuse(sign_ons, write_token(write_claims(sign_ons.begin())))


def test_keys_are_replaced_when_they_are_pinned_again(sign_ons, authority):
    keys = check_keys([write_jwk("RS256")])
    body = {"act": "pin-issuer", "issuer": ISSUER, "audience": "dither", "keys": keys}
    authority.acts.record(body, "local:ann")
    refuse(sign_ons, write_token(write_claims(sign_ons.begin())))
    sign_ons.finish(write_token(write_claims(sign_ons.begin()), "RS256"))


def test_only_public_keys_that_sign_are_pinned(authority):
    secret = json.loads(jwt.get_algorithm_by_name("ES256").to_jwk(STRANGER))
    (kept,) = check_keys([{**secret, "kid": "k", "alg": "ES256"}])
    assert "d" in secret and "d" not in kept
    for key in ({"kty": "oct", "k": "AA", "kid": "k", "alg": "HS256"}, {"kid": "k"}):
        with pytest.raises(ParameterError, match="no key of this set"):
            check_keys([key])
    body = {"act": "pin-issuer", "issuer": ISSUER, "audience": "d"}
    with pytest.raises(ParameterError):
        authority.acts.record({**body, "keys": [{**secret, "kid": "k", "alg": "ES256"}]}, "x")


def test_a_sign_on_that_the_end_of_its_issuer_overtakes_opens_no_session(
    sign_ons, authority, monkeypatch
):
    open_session = authority.sessions.open_session
    sessions = []

    def end_issuer_and_open(name):
        authority.acts.record({"act": "end-issuer", "issuer": ISSUER}, "local:ann")
        sessions.append(open_session(name))
        return sessions[-1]

    monkeypatch.setattr(authority.sessions, "open_session", end_issuer_and_open)
    refuse(sign_ons, write_token(write_claims(sign_ons.begin())))
    with pytest.raises(TokenError):
        authority.verify(sessions[0][0])


def test_a_key_of_one_issuer_signs_for_no_other(sign_ons, authority):
    """The second issuer is pinned with the first one's key id, and has a user of the same name."""
    second = "https://second.example.org"
    key = json.loads(jwt.get_algorithm_by_name("ES256").to_jwk(STRANGER.public_key()))
    keys = check_keys([{**key, "kid": "key-ES256", "alg": "ES256"}])
    body = {"act": "pin-issuer", "issuer": second, "audience": "dither", "keys": keys}
    authority.acts.record(body, "local:ann")
    claims = write_claims(sign_ons.begin(), iss=second)
    refuse(sign_ons, write_token(claims))
    refuse(sign_ons, write_token(claims, key=STRANGER))  # its subject 1234 is no user of ours
    refuse(sign_ons, write_token(write_claims(sign_ons.begin()), key=STRANGER))
