"""Logins over the protocol: a session is a token that the curator gave."""

from __future__ import annotations

import pytest

from dither.identity import Authority
from dither.identity.logins import NOT_LOGGED_IN, Logins
from dither.identity.openid import NOT_SIGNED_ON
from dither.protocol import act_messages, messages
from dither.protocol.errors import TokenError
from dither.remote.transport import SocketTransport
from tests.datasets.served_clinic import COUNT, make_pool
from tests.identity.test_directory import add_user, write_grant
from tests.identity.test_openid import ISSUER, pin_issuer, write_claims, write_token

PASSWORD = "correct horse battery"


@pytest.fixture
def authority(served):
    opened = Authority(served.home)
    yield opened
    opened.close()


def open_door(served) -> SocketTransport:
    """Calls without a token."""
    return SocketTransport(make_pool(served.socket), "", "")


def test_log_in_ask_and_log_out(served, authority):
    add_user(authority.acts, "alice")
    authority.acts.record(write_grant("00000001", "user:alice"), "local:ann")
    logins = Logins(authority)
    logins.set_password("alice", PASSWORD, "local:ann")
    logins.close()
    door = open_door(served)
    for name, password in (("alice", "wrong password!"), ("nobody", PASSWORD)):
        with pytest.raises(TokenError) as refused:
            call = act_messages.LogIn(name=name, password=password)
            door.call(call, act_messages.SessionOpened)
        assert str(refused.value) == NOT_LOGGED_IN
    session = door.call(
        act_messages.LogIn(name="alice", password=PASSWORD), act_messages.SessionOpened
    )
    transport = served.make_transport(session.token)
    names = transport.call(messages.ListDatasets(), messages.DatasetNames).names
    assert names == ["clinic"] and session.name == "alice"
    served.connect(session.token).sql(COUNT, epsilon=1)
    transport.call(act_messages.LogOut(), act_messages.LoggedOut)
    with pytest.raises(TokenError):
        served.connect(session.token)


def test_sign_on_by_an_id_token_of_a_pinned_issuer(served, authority):
    """The gateway carries nonce and ID token; it can make neither, nor use them twice."""
    pin_issuer(authority)
    body = {"act": "user", "name": "alice", "issuer": ISSUER, "subject": "1234"}
    authority.acts.record(body, "local:ann")
    authority.acts.record(write_grant("00000001", "user:alice"), "local:ann")
    door = open_door(served)
    nonce = door.call(act_messages.BeginSignOn(), act_messages.SignOnBegun).nonce
    call = act_messages.SignOn(id_token=write_token(write_claims(nonce)))
    session = door.call(call, act_messages.SessionOpened)
    assert served.connect(session.token).budget().pots
    forged = act_messages.SignOn(id_token=write_token(write_claims("0" * 64)))
    for refused_call in (call, forged):
        with pytest.raises(TokenError) as refused:
            door.call(refused_call, act_messages.SessionOpened)
        assert str(refused.value) == NOT_SIGNED_ON
