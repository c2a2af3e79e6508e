"""The hash chain: what the entries say, and how anyone checks it.

Each entry's hash covers its number, kind, body and the hash before it. Bodies hold requests,
charges, public facts and *salted* commitments to releases: sha256 over 32 random bytes and the
release, since the bare hash of a count is found by trying every count. Never a duration, a true
value, or a fingerprint of data. A chain cannot be changed without changing every later hash, and
the newest is anchored outside the file (`head`).

>>> from dither.canonical import digest
>>> entry_hash(1, "clear", "{}", "00") == digest({"body": {}, "kind": "clear", "prev_hash": "00",
...     "seq": 1})
True
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dither.canonical import digest, dumps
from dither.errors import ParameterError
from dither.privacy.ledger import tables
from dither.privacy.ledger.database import Transaction
from dither.privacy.ledger.head import START, Anchor

NONCE_BYTES = 32
_FROM = f"{tables.ENTRY.selection} WHERE seq >= :start ORDER BY seq"


class Broken(Exception):
    """The chain, or what hangs on it, is not what dither writes.

    `seq` is the first bad entry, where there is one.
    """

    def __init__(self, seq: int | None, problem: str) -> None:
        super().__init__(problem if seq is None else f"entry {seq}: {problem}")
        self.seq = seq


def entry_hash(seq: int, kind: str, body_json: str, prev_hash: str) -> str:
    """sha256 of the canonical JSON of {body, kind, prev_hash, seq}.

    The body goes in as the very text that is stored.
    """
    text = (
        f'{{"body":{body_json},"kind":{_quoted(kind)},'
        f'"prev_hash":{_quoted(prev_hash)},"seq":{seq}}}'
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def commitment(nonce: bytes, arrow_bytes: bytes, meta_json: str) -> str:
    """Hash a release: sha256(nonce ‖ length of the release in 8 bytes ‖ release ‖ meta).

    The hash hides the release, and no other release fits it.
    """
    if len(nonce) != NONCE_BYTES:
        raise ParameterError(f"a nonce has {NONCE_BYTES} bytes")
    length = len(arrow_bytes).to_bytes(8, "big")
    return hashlib.sha256(nonce + length + arrow_bytes + meta_json.encode()).hexdigest()


def digest_totals(texts: Mapping[str, Iterable[str]]) -> str:
    """The digest of all running totals, which an entry names.

    It is the sha256 of {pot: [spent, delta_spent, reissued, cap]}.

    >>> digest_totals({"total": ("1/2", "0/1", "0/1", "3/1")})[:16]
    'fbd4f18b79d1daaa'
    """
    return digest({pot: list(numbers) for pot, numbers in texts.items()})


def canonical_text(value: Any, what: str) -> str:
    """Write canonical JSON that can be stored for ever.

    Floats, and whatever else has no one text, are refused.
    """
    try:
        text = dumps(value)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(
            f"{what} must be canonical JSON, numbers as integers or fractions: {error}"
        ) from None
    return text


class Tail(NamedTuple):
    """The end of a chain: its newest entry, and the entries past an anchor, oldest first.

    `anchored_body` is the body of the anchored entry itself, None where the anchor is that of the
    empty chain.
    """

    last: Anchor
    entries: tuple[tuple[str, str], ...]  # kind and body
    anchored_body: str | None

    @property
    def newest_body(self) -> str | None:
        """The body of the newest entry."""
        return self.entries[-1][1] if self.entries else self.anchored_body


def follow(transaction: Transaction, after: Anchor) -> Tail:
    """Read the chain from `after` to its end, with every link checked.

    Broken, if `after` is not in this chain. Reads only what came after, so it is cheap where
    `after` is the head. The anchored entry is hashed again: its body is believed, and its stored
    hash alone would not show that the body was changed.
    """
    last = START
    entries: list[tuple[str, str]] = []
    anchored_body = None
    for seq, kind, body_json, prev_hash, hashed in transaction.stream(_FROM, {"start": after.seq}):
        if seq == after.seq:
            if hashed != after.hash:
                raise Broken(
                    seq,
                    "the head names another hash here: this is not the ledger that was anchored",
                )
            if hashed != entry_hash(seq, kind, body_json, prev_hash):
                raise Broken(seq, "its content does not have its hash")
            anchored_body = body_json
        else:
            if prev_hash != last.hash or hashed != entry_hash(
                last.seq + 1, kind, body_json, prev_hash
            ):
                raise Broken(seq, "it does not follow from the entry before it")
            entries.append((kind, body_json))
        last = Anchor(seq, hashed)
    if last.seq < after.seq:
        raise Broken(
            None,
            f"the ledger ends before entry {after.seq}, which the head names: an older copy was "
            f"put back",
        )
    return Tail(last, tuple(entries), anchored_body)
