"""Calls that open and end sessions. They alone need no token, and tell nothing of accounts."""

from __future__ import annotations

from pydantic import BaseModel

from dither.errors import ParameterError
from dither.identity import Authority, Credential
from dither.identity.logins import Logins
from dither.identity.openid import SignOns
from dither.identity.sessions import Session
from dither.protocol import act_messages


class LoginCalls:
    """Logins of one curator, by password and by single sign-on."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._logins = Logins(authority)
        self._sign_ons = SignOns(authority)

    def serve(self, call: BaseModel) -> BaseModel | None:
        """The result of a call that needs no token; None where the call is another one."""
        if isinstance(call, act_messages.LogIn):
            return _describe_session(*self._logins.log_in(call.name, call.password))
        if isinstance(call, act_messages.BeginSignOn):
            return act_messages.SignOnBegun(nonce=self._sign_ons.begin())
        if isinstance(call, act_messages.SignOn):
            return _describe_session(*self._sign_ons.finish(call.id_token))
        return None

    def log_out(self, credential: Credential) -> BaseModel:
        """End the session of a credential; a token of `dither token` is not ended this way."""
        if credential.scope is not None:
            raise ParameterError("this token is no session: 'dither token revoke TOKEN' ends it")
        self._authority.sessions.end_session(credential.token_id)
        return act_messages.LoggedOut()


def _describe_session(text: str, session: Session) -> BaseModel:
    return act_messages.SessionOpened(token=text, name=session.user, expires=session.expires)
