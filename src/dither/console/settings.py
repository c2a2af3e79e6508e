"""What whoever starts a gateway decides about its pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from urllib.parse import urlsplit

from dither.errors import ParameterError
from dither.strict_json import read_document


@dataclass(frozen=True)
class SignOnSettings:
    """A provider of OpenID Connect, as its own configuration document names things.

    `redirect_uri` is the address of this gateway that the provider sends people back to. The secret
    is what the provider gave the gateway, where it gave one: it proves nothing to the curator.
    """

    issuer: str
    client_id: str
    authorization_endpoint: str
    token_endpoint: str
    redirect_uri: str
    client_secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ConsoleSettings:
    """Single sign-on, and datasets whose register everybody may read.

    `register_tokens` are tokens of auditors by dataset: the public register shows what an auditor
    sees, so parameters and prices, and neither texts nor values.
    """

    sign_on: SignOnSettings | None = None
    register_tokens: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_sign_on(text: str) -> SignOnSettings:
    """The provider that a file of JSON describes; all addresses are https, or of this machine."""
    document = read_document(text, "the file of --sign-on")
    names = {entry.name for entry in fields(SignOnSettings)}
    required = {entry.name for entry in fields(SignOnSettings) if entry.default is MISSING}
    is_object = isinstance(document, dict) and required <= set(document) <= names
    if not is_object or not all(isinstance(entry, str) for entry in document.values()):
        listed = ", ".join(sorted(names))
        raise ParameterError(f"--sign-on is a file of JSON with the texts {listed}")
    if not all(_is_safe(document[name]) for name in required - {"client_id"}):
        raise ParameterError("the addresses of --sign-on begin with https://")
    return SignOnSettings(**document)


def _is_safe(address: str) -> bool:
    """Whether an address is reached over TLS, or is on this machine."""
    split = urlsplit(address)
    is_here = split.scheme == "http" and split.hostname in ("127.0.0.1", "localhost", "::1")
    return is_here or (split.scheme == "https" and bool(split.hostname))


def read_register_tokens(text: str) -> dict[str, str]:
    """Tokens by dataset, from lines `DATASET TOKEN`.

    >>> read_register_tokens("clinic dither-ab\\n")
    {'clinic': 'dither-ab'}
    """
    tokens = {}
    for line in text.splitlines():
        words = line.split()
        if words and len(words) != 2:
            raise ParameterError("--public-register has lines with a dataset and a token")
        if words:
            tokens[words[0]] = words[1]
    return tokens
