"""Single sign-on: the curator itself verifies ID tokens of OpenID Connect.

Signature, issuer, audience, expiry and nonce are checked against keys that a steward pinned; no key
is fetched, and no claim but issuer and subject says who it is. The nonce is the curator's own, for
one login: a gateway that keeps an ID token cannot use it twice (OpenID Connect Core 1.0, section
3.1.3.7).
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

import jwt

from dither.errors import ParameterError
from dither.identity.authority import Authority
from dither.identity.directory import Issuer
from dither.identity.private_file import open_database, read_clock, write_time
from dither.identity.sessions import Session
from dither.privacy.noise.source import fresh_bytes
from dither.protocol.errors import TokenError

ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")
"""Signatures with a public key alone: `none` and shared secrets are no signatures of an issuer."""
MOST_TOKEN_CHARACTERS = 20_000
MINUTES_FOR_A_LOGIN = 10
SECONDS_OF_LEEWAY = 30
NOT_SIGNED_ON = (
    "the sign-on is not accepted: begin again; if that does not help, ask the administrator "
    "whether your account is that of a user"
)
_TABLE = "CREATE TABLE IF NOT EXISTS sign_on (nonce TEXT PRIMARY KEY, expires TEXT NOT NULL)"


class SignOns:
    """Logins through issuers whose keys are pinned."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._key = fresh_bytes(32)
        self._lock = Lock()
        self._database = open_database(authority.tokens.file.parent)
        self._database.execute(_TABLE)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def begin(self) -> str:
        """A nonce for one login, which the issuer puts into the ID token.

        Nothing is stored until a nonce is used: who begins logins without end fills no disk.
        """
        expires = datetime.now(UTC) + timedelta(minutes=MINUTES_FOR_A_LOGIN)
        content = f"{fresh_bytes(16).hex()}.{write_time(expires)}"
        return f"{content}.{self._seal(content)}"

    def _seal(self, content: str) -> str:
        """A code that shows that a nonce is this process's own."""
        message = content.encode(errors="surrogatepass")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()

    def finish(self, id_token: str) -> tuple[str, Session]:
        """Open a session for the user of an ID token; one refusal whatever is wrong with it."""
        claims = self._verify(id_token)
        directory = self._authority.acts.read_directory()
        user = directory.find_account(claims["iss"], claims["sub"])
        if not self._use_nonce(claims["nonce"]) or user is None:
            raise TokenError(NOT_SIGNED_ON)
        text, session = self._authority.sessions.open_session(user.name)
        if self._find_issuer(claims["iss"]) is None:
            # the issuer was ended meanwhile, and with it the sessions before this one
            self._authority.sessions.end_sessions(user.name)
            raise TokenError(NOT_SIGNED_ON)
        return text, session

    def _find_issuer(self, name: str) -> Issuer | None:
        """An issuer whose keys are pinned now."""
        issuer = self._authority.acts.read_directory().issuers.get(name)
        return None if issuer is None or issuer.is_ended else issuer

    def _verify(self, id_token: str) -> dict[str, Any]:
        if len(id_token) > MOST_TOKEN_CHARACTERS:
            raise TokenError(NOT_SIGNED_ON)
        try:
            stated = jwt.decode(id_token, options={"verify_signature": False})
            issuer = self._find_issuer(str(stated.get("iss")))
            if issuer is None:
                raise TokenError(NOT_SIGNED_ON)
            return verify_id_token(id_token, issuer)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise TokenError(NOT_SIGNED_ON) from None

    def _use_nonce(self, nonce: str) -> bool:
        """Whether the nonce is one of ours, not expired and not used; it is used up now."""
        content, _, seal = nonce.rpartition(".")
        expires = content.rpartition(".")[2]
        now = read_clock()
        expected = self._seal(content)
        if not hmac.compare_digest(seal.encode(errors="surrogatepass"), expected.encode()):
            return False
        if expires <= now:
            return False
        with self._lock:
            self._database.execute("DELETE FROM sign_on WHERE expires <= ?", (now,))
            row = (expected, expires)
            added = self._database.execute("INSERT OR IGNORE INTO sign_on VALUES (?, ?)", row)
        return added.rowcount == 1


def verify_id_token(id_token: str, issuer: Issuer) -> dict[str, Any]:
    """The claims of an ID token by a pinned key; an error of the library or ValueError if not.

    The key is chosen by its id among the pinned ones, and its algorithm is the pinned one: the
    token's header decides neither.
    """
    header = jwt.get_unverified_header(id_token)
    jwk = next((key for key in issuer.keys if key["kid"] == header.get("kid")), None)
    if jwk is None or jwk["alg"] not in ALGORITHMS:
        raise ValueError("no pinned key")
    claims: dict[str, Any] = jwt.decode(
        id_token,
        jwt.PyJWK.from_dict(jwk).key,
        algorithms=[jwk["alg"]],
        issuer=issuer.issuer,
        audience=issuer.audience,
        leeway=SECONDS_OF_LEEWAY,
        options={"require": ["iss", "sub", "aud", "exp", "iat", "nonce"], "strict_aud": False},
    )
    is_ours = claims.get("azp") in (None, issuer.audience)
    is_for_others = isinstance(claims["aud"], list) and set(claims["aud"]) != {issuer.audience}
    if not is_ours or is_for_others or not isinstance(claims["nonce"], str) or not claims["sub"]:
        raise ValueError("not made out to us")
    return claims


def check_keys(keys: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The keys of an issuer's JWK set that can be pinned, public members alone.

    Refused where none is left, or one cannot be read.
    """
    kept = []
    for key in keys:
        if key.get("use", "sig") != "sig" or key.get("alg") not in ALGORITHMS or "kid" not in key:
            continue
        members = ("kty", "kid", "alg", "n", "e", "crv", "x", "y")
        public = {name: str(key[name]) for name in members if name in key}
        try:
            jwt.PyJWK.from_dict(public)
        except (jwt.PyJWTError, ValueError, TypeError):
            raise ParameterError("a key of this set cannot be read: export the set anew") from None
        kept.append(public)
    if not kept:
        raise ParameterError(
            f"no key of this set has a kid and one of the algorithms {', '.join(ALGORITHMS)}"
        )
    return kept
