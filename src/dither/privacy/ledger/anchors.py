"""Anchors: signed lines that say how far a ledger had come.

They are kept where the ledger's own user cannot rewrite them.

The head tells that an older copy was put back, but the user who runs the ledger can write both: cut
the newest entries off, and write a head that ends there. Nothing inside the installation can show
that. A line of this kind, sent to somebody else (an auditor, another user's file, a mailbox), can:
`verify` then requires every anchored entry.

A line is canonical JSON of {at, dither_anchor, hash, installation, public_key, seq, signature}; the
signature (Ed25519) covers the canonical JSON of all the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dither.canonical import dumps
from dither.errors import ParameterError
from dither.privacy.ledger.head import Anchor
from dither.strict_json import read_json

FORMAT = 1
_FIELDS = {"at", "dither_anchor", "hash", "installation", "public_key", "seq", "signature"}


@dataclass(frozen=True)
class SignedAnchor:
    """One line: the ledger of `installation` had this entry when the line was written."""

    installation: str
    anchor: Anchor
    written_at: str
    public_key: str


def write_line(installation: str, anchor: Anchor, written_at: str, key: Ed25519PrivateKey) -> str:
    """Write and sign the line that names a ledger's newest entry, for somebody else to keep."""
    facts = {
        "at": written_at,
        "dither_anchor": FORMAT,
        "hash": anchor.hash,
        "installation": installation,
        "public_key": key.public_key().public_bytes_raw().hex(),
        "seq": anchor.seq,
    }
    return dumps(facts | {"signature": key.sign(dumps(facts).encode()).hex()})


def read_lines(text: str) -> tuple[SignedAnchor, ...]:
    """Read all anchors of a file.

    ParameterError names the first line that is none, or whose signature does not match.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    return tuple(_read_line(line, number) for number, line in enumerate(lines, 1))


def _read_line(line: str, number: int) -> SignedAnchor:
    """Read one line of an anchors file and check its signature by the key that it names.

    The caller decides whether that key is the right one. Every problem is a ParameterError that
    names the line.
    """
    problem = f"line {number} is no anchor that 'dither ledger anchor CATALOG' wrote"
    try:
        facts = read_json(line, max_characters=10_000)
        if not isinstance(facts, dict) or set(facts) != _FIELDS or facts["dither_anchor"] != FORMAT:
            raise ValueError("not the fields of an anchor")
        if dumps(facts) != line.strip():  # canonical: no duplicate key, one text for one meaning
            raise ValueError("not canonical")
        signature = bytes.fromhex(facts.pop("signature"))
        public_key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(facts["public_key"]))
        public_key.verify(signature, dumps(facts).encode())
        if type(facts["seq"]) is not int or not 0 <= facts["seq"] < 2**63:
            raise ValueError("no number of an entry")
        anchor = Anchor(facts["seq"], str(facts["hash"]))
        return SignedAnchor(
            str(facts["installation"]), anchor, str(facts["at"]), str(facts["public_key"])
        )
    except (ValueError, TypeError, KeyError, RecursionError, ParameterError):
        raise ParameterError(problem) from None
    except InvalidSignature:
        raise ParameterError(f"{problem}: its signature does not match") from None
