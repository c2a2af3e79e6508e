"""Who a token stands for, and what that person may do now: asked anew for every message.

A token of `dither token create` has a role and pots of its own. Where its name is that of a user,
it counts only as far as the user's grants go, so that ending a user or a grant ends what the token
could do, at once. A session is a token that a login gave: it has the user's grants and nothing
else. Tokens for names that are no user stand for themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dither.identity.act_log import ActLog
from dither.identity.directory import Directory, Rights
from dither.identity.principal import NOT_GRANTED, Principal
from dither.identity.private_file import read_clock
from dither.identity.sessions import SESSION_PREFIX, SessionStore
from dither.identity.tokens import NOT_ACCEPTED, TokenStore
from dither.protocol.errors import AccessError, TokenError


@dataclass(frozen=True)
class Credential:
    """A verified token: whose it is, and how far it goes by itself (a session: no limit)."""

    name: str
    token_id: str
    scope: Principal | None


class Authority:
    """The tokens, sessions and grants of one curator."""

    def __init__(self, home: Path) -> None:
        self.acts = ActLog(home)
        self.tokens = TokenStore(home)
        self.sessions = SessionStore(home)

    def close(self) -> None:
        """Close the files."""
        self.acts.close()
        self.tokens.close()
        self.sessions.close()

    def start(self) -> None:
        """What a curator does before it listens: end the tokens of a `dither serve` that was
        killed, and forget what ended long ago."""
        self.tokens.end_serve_tokens()
        self.tokens.forget_old_tokens()
        self.sessions.forget_old_sessions()

    def verify(self, text: str) -> Credential:
        """Whose token it is; TokenError in the same words whatever is wrong with it."""
        directory = self.acts.read_directory()
        if text.startswith(SESSION_PREFIX):
            session = self.sessions.find_session(text)
            user = None if session is None else directory.users.get(session.user)
            if session is None or user is None or user.is_ended:
                raise TokenError(NOT_ACCEPTED)
            return Credential(session.user, session.session_id, None)
        scope = self.tokens.verify_token(text)
        user = directory.users.get(scope.name)
        if user is not None and user.is_ended:
            raise TokenError(NOT_ACCEPTED)
        return Credential(scope.name, scope.token_id, scope)

    def list_datasets(self, credential: Credential) -> tuple[str, ...]:
        """The datasets at which the holder may do something now."""
        directory = self.acts.read_directory()
        if credential.scope is None:
            return directory.list_datasets(credential.name, read_clock())
        narrowed = _narrow(credential.scope, directory)
        return () if narrowed is None else (narrowed.dataset,)

    def authorize(self, credential: Credential, dataset: str) -> Principal:
        """The principal at a dataset; one refusal for whatever is missing there."""
        directory = self.acts.read_directory()
        if credential.scope is None:
            rights = directory.find_rights(credential.name, dataset, read_clock())
            principal = None if rights is None else _make_principal(credential, dataset, rights)
        else:
            principal = _narrow(credential.scope, directory)
        if principal is None:
            raise AccessError(NOT_GRANTED)
        principal.check_dataset(dataset)
        return principal


def _make_principal(credential: Credential, dataset: str, rights: Rights) -> Principal:
    return Principal(credential.name, dataset, rights.role, rights.pots, credential.token_id)


def _narrow(scope: Principal, directory: Directory) -> Principal | None:
    """A token's principal, as far as the grants of its user go; None where they do not."""
    if scope.name not in directory.users:
        return scope
    rights = directory.find_rights(scope.name, scope.dataset, read_clock())
    if rights is None or rights.role != scope.role:
        return None
    pots = tuple(pot for pot in scope.pots if pot in rights.pots)
    return Principal(scope.name, scope.dataset, scope.role, pots, scope.token_id)
