"""A certificate that came over the wire is checked against the answer here."""

from __future__ import annotations

from copy import deepcopy

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dither.protocol import messages
from dither.protocol.errors import ProtocolError
from dither.publish.seal import sign
from tests.datasets.served_clinic import BY_WARD, COUNT, serving

STRANGER = Ed25519PrivateKey.from_private_bytes(b"\x08" * 32)


@pytest.fixture
def served(tmp_path):
    with serving(tmp_path) as clinic:
        yield clinic


def pass_on(con, monkeypatch, change) -> None:
    """A gateway that changes the certificates which pass through it."""
    transport = con._curator._transport
    call = transport.call

    def call_and_change(act, result):
        reply = call(act, result)
        if result is not messages.SignedCertificate:
            return reply
        return messages.SignedCertificate(certificate=change(deepcopy(reply.certificate)))

    monkeypatch.setattr(transport, "call", call_and_change)


def raise_epsilon(certificate: dict) -> dict:
    certificate["body"]["price"]["asked"] = "epsilon 9"
    return certificate


def test_a_certificate_of_these_numbers_is_taken(served):
    result = served.connect().sql(BY_WARD, epsilon=1)
    assert result.certificate()["body"]["release"]["id"] == result.info["release_id"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (raise_epsilon, "does not verify"),
        (lambda certificate: {}, "does not verify"),
        (lambda certificate: {**certificate, "signature": "0" * 128}, "does not verify"),
    ],
    ids=["altered", "none", "unsigned"],
)
def test_a_certificate_that_does_not_verify_is_refused(served, monkeypatch, change, words):
    con = served.connect()
    result = con.sql(COUNT, epsilon=1)
    pass_on(con, monkeypatch, change)
    with pytest.raises(ProtocolError, match=words) as refused:
        result.certificate()
    assert result.info["release_id"] in str(refused.value)


def test_a_certificate_of_another_answer_is_refused(served, monkeypatch):
    """One of another question, and one of the first answer to the same question."""
    con = served.connect()
    kept = [con.sql(BY_WARD, epsilon=1).certificate(), con.sql(COUNT, epsilon=1).certificate()]
    result = con.sql(COUNT, epsilon=1, fresh=True)
    for certificate in kept:
        pass_on(con, monkeypatch, lambda _, certificate=certificate: certificate)
        with pytest.raises(ProtocolError, match=r"of another answer \(its values.commitment"):
            result.certificate()
        monkeypatch.undo()


def test_a_certificate_by_another_key_than_before_is_refused(served, monkeypatch):
    con = served.connect()
    result = con.sql(COUNT, epsilon=1)
    result.certificate()
    pass_on(con, monkeypatch, lambda certificate: sign(certificate["body"], STRANGER))
    with pytest.raises(ProtocolError, match="does not verify"):
        result.certificate()
