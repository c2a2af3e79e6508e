"""Acts that a steward signs on a machine of their own, for a curator to do.

An act names the dataset, its lineage, the state of its limits that the steward saw (two heads), a
nonce and an expiry. The signature (Ed25519) covers the canonical JSON of all of it, so whoever
carries it can deliver it once, as it is, or not at all. Proof: docs/proofs/signed-acts.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dither.canonical import dumps, quote
from dither.errors import DitherError, ParameterError
from dither.identity.private_file import read_time, write_time
from dither.privacy.noise.source import fresh_bytes
from dither.protocol.errors import AccessError

FORMAT = 1
LIMIT_ACTS = ("register", "open", "raise", "clear")
"""Acts on the ledger of a dataset; beside them there are acts on its roles."""
MOST_HOURS = 24 * 31
_DRAFT = {"dither_act", "dataset", "lineage", "ledger_head", "acts_head", "kind", "terms"}
_FIELDS = _DRAFT | {"nonce", "expires"}
_TEXTS = ("dataset", "lineage", "ledger_head", "acts_head", "kind", "nonce", "expires")
_HEX = re.compile(r"[0-9a-f]+")
NOT_SIGNED = (
    "this act is not signed by a steward's key that is pinned for its dataset: see 'dither sign "
    "--help' and 'dither steward-key pin --help'"
)


@dataclass(frozen=True)
class SignedAct:
    """An act and its signature, both read and neither believed."""

    dataset: str
    lineage: str
    ledger_head: str
    acts_head: str
    kind: str
    terms: Mapping[str, Any]
    nonce: str
    expires: str
    public_key: str
    signed_text: str
    signature: str

    def check_signature(self) -> None:
        """Refuse an act that the holder of its public key did not sign."""
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.public_key))
            key.verify(bytes.fromhex(self.signature), self.signed_text.encode())
        except (InvalidSignature, ValueError):
            raise AccessError(NOT_SIGNED) from None

    def check_time(self) -> None:
        """Refuse an act that has expired, or would last longer than acts may."""
        now = datetime.now(UTC)
        expires = read_time(self.expires, "the expiry of an act")
        if not now < expires <= now + timedelta(hours=MOST_HOURS):
            raise ParameterError(
                f"this act expired, or lasts more than {MOST_HOURS} hours: draft and sign a new one"
            )

    @property
    def evidence(self) -> str:
        """The signed document, as it is kept."""
        return dumps(
            {"act": self.signed_text, "public_key": self.public_key, "signature": self.signature}
        )


def read_signed_act(document: Any) -> SignedAct:
    """The signed act of a document; ParameterError where it has not the shape of one."""
    if not isinstance(document, dict) or set(document) != {"act", "public_key", "signature"}:
        raise ParameterError("a signed act has act, public_key and signature: dither sign --help")
    public_key = document["public_key"]
    signature = document["signature"]
    if not _is_hex(public_key, 64) or not _is_hex(signature, 128):
        raise AccessError(NOT_SIGNED)
    act = document["act"]
    check_act(act, _FIELDS)
    texts = {name: act[name] for name in _TEXTS}
    terms = act["terms"]
    return SignedAct(
        **texts, terms=terms, public_key=public_key, signed_text=dumps(act), signature=signature
    )


def check_act(act: Any, fields: set[str]) -> None:
    """Refuse what has not exactly the fields of an act."""
    if not isinstance(act, dict) or set(act) != fields or not isinstance(act["terms"], dict):
        raise ParameterError(f"an act has the fields {', '.join(sorted(fields))}")
    is_ours = type(act["dither_act"]) is int and act["dither_act"] == FORMAT
    texts = [act[name] for name in _TEXTS if name in fields]
    if not is_ours or not all(isinstance(text, str) and len(text) <= 500 for text in texts):
        raise ParameterError(f"an act of format {FORMAT} has texts in its fields, and terms")


def sign_act(draft: Any, key: Ed25519PrivateKey, hours: int) -> dict[str, Any]:
    """Sign a draft. Nonce and expiry are set here, by the one who signs."""
    if not 1 <= hours <= MOST_HOURS:
        raise ParameterError(f"an act lasts 1 to {MOST_HOURS} hours, got {quote(hours)}")
    check_act(draft, _DRAFT)
    expires = write_time(datetime.now(UTC) + timedelta(hours=hours))
    act = {**draft, "nonce": fresh_bytes(16).hex(), "expires": expires}
    return {
        "act": act,
        "public_key": key.public_key().public_bytes_raw().hex(),
        "signature": key.sign(dumps(act).encode()).hex(),
    }


def draft_act(
    dataset: str,
    lineage: str,
    ledger_head: str,
    acts_head: str,
    kind: str,
    terms: Mapping[str, Any],
) -> dict[str, Any]:
    """An act to be signed: for this dataset, while these are its heads."""
    return {
        "dither_act": FORMAT,
        "dataset": dataset,
        "lineage": lineage,
        "ledger_head": ledger_head,
        "acts_head": acts_head,
        "kind": kind,
        "terms": dict(terms),
    }


def create_key_file(file: Path) -> str:
    """Make a steward's key in a new file, mode 0600; the public key in hex."""
    secret = fresh_bytes(32)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ParameterError(f"{file} exists already: name a new file") from None
    with os.fdopen(descriptor, "w") as opened:
        opened.write(secret.hex() + "\n")
        opened.flush()
        os.fsync(opened.fileno())
    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw().hex()


def read_key_file(file: Path) -> Ed25519PrivateKey:
    """A steward's key; refused where others can read the file."""
    if file.stat().st_mode & 0o077:
        raise DitherError(f"{file} can be read by others: chmod 600 it, or make a new key")
    text = file.read_text(encoding="utf-8", errors="replace").strip()
    if not _is_hex(text, 64):
        raise ParameterError(
            f"{file} is no steward's key: 'dither steward-key create FILE' makes one"
        )
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text))


def _is_hex(value: Any, digits: int) -> bool:
    return isinstance(value, str) and len(value) == digits and bool(_HEX.fullmatch(value))
