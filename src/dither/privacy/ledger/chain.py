"""The hash chain: what the entries say, and how anyone checks it.

Each entry's hash covers its number, kind, body and the hash before it. Bodies hold requests, charges, public facts and
*salted* commitments to releases: sha256 over 32 random bytes and the release, since the bare hash of a count is
found by trying every count. Never a duration, a true value, or a fingerprint of data. A chain cannot be changed
without changing every later hash, and the newest is anchored outside the file (`head`).

>>> from dither.canonical import digest
>>> entry_hash(1, "clear", "{}", "00") == digest({"body": {}, "kind": "clear", "prev_hash": "00", "seq": 1})
True
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, select
from sqlalchemy.exc import DBAPIError

from dither.canonical import dumps, exact, fraction_text
from dither.errors import DitherError, ParameterError
from dither.privacy.ledger import pots, tables
from dither.privacy.ledger.head import START, Anchor
from dither.privacy.losses import from_json

NONCE_BYTES = 32
_FROM = select(tables.entry).where(tables.entry.c.seq >= bindparam("start")).order_by(tables.entry.c.seq)


class Broken(Exception):
    """The chain, or what hangs on it, is not what dither writes; `seq` is the first bad entry, where one is."""

    def __init__(self, seq: int | None, problem: str) -> None:
        super().__init__(problem if seq is None else f"entry {seq}: {problem}")
        self.seq = seq


def entry_hash(seq: int, kind: str, body_json: str, prev_hash: str) -> str:
    """sha256 of the canonical JSON of {body, kind, prev_hash, seq}; the body goes in as the very text stored."""
    text = f'{{"body":{body_json},"kind":{dumps(kind)},"prev_hash":{dumps(prev_hash)},"seq":{seq}}}'
    return hashlib.sha256(text.encode()).hexdigest()


def commitment(nonce: bytes, arrow_bytes: bytes, meta_json: str) -> str:
    """sha256(nonce ‖ length of the release in 8 bytes ‖ release ‖ meta): hides the release, and binds to it."""
    if len(nonce) != NONCE_BYTES:
        raise ParameterError(f"a nonce has {NONCE_BYTES} bytes")
    length = len(arrow_bytes).to_bytes(8, "big")
    return hashlib.sha256(nonce + length + arrow_bytes + meta_json.encode()).hexdigest()


def canonical_text(value: Any, what: str) -> str:
    """Canonical JSON that can be stored for ever; refuses floats and whatever else has no one text."""
    try:
        text = dumps(value)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(f"{what} must be canonical JSON, numbers as integers or fractions: {error}") from None
    return text


@dataclass
class Replay:
    """The state that a sequence of entries leads to, each checked as it was checked when it was written."""

    last: Anchor = START
    pots: dict[str, pots.Pot] = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)
    incidents: set[int] = field(default_factory=set)
    commitments: dict[int, tuple[int, str]] = field(default_factory=dict)
    version: int = 0
    incidents_open: int = 0

    def add(self, seq: Any, kind: Any, body_json: Any, prev_hash: Any, hashed: Any) -> None:
        """One more entry; Broken if it does not follow."""
        here = self.last.seq + 1
        if seq != here or type(seq) is not int:
            raise Broken(here, f"missing; the next one in the file is numbered {seq!r}")
        if not all(isinstance(text, str) for text in (kind, body_json, prev_hash, hashed)):
            raise Broken(seq, "holds something other than text")
        if prev_hash != self.last.hash:
            raise Broken(seq, "does not name the hash of the entry before it")
        try:
            if hashed != entry_hash(seq, kind, body_json, prev_hash):
                raise Broken(seq, "its content does not have its hash")
            if kind not in tables.BODIES:
                raise Broken(seq, f"is of the unknown kind {kind!r}")
            body = json.loads(body_json)
            if set(body) != tables.BODIES[kind]:
                raise Broken(seq, f"its body is not that of a {kind} entry")
            getattr(self, f"_{kind}")(seq, body)
        except DitherError as error:
            raise Broken(seq, f"dither would have refused this {kind}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            raise Broken(seq, f"its body is not that of a {kind} entry") from None
        self.last = Anchor(seq, hashed)

    def _open(self, seq: int, body: dict[str, Any]) -> None:
        if body["pot"] in self.pots:
            raise Broken(seq, f"opens pot {body['pot']!r} a second time")
        self.pots[body["pot"]] = pots.from_body(body)

    def _raise(self, seq: int, body: dict[str, Any]) -> None:
        self.pots[body["pot"]] = pots.raised(self.pots[body["pot"]], exact(body["cap"], "cap"), body["reason"])

    def _reserve(self, seq: int, body: dict[str, Any]) -> None:
        pot = self.pots[body["pot"]]
        charge = pots.charge(pot, from_json(body["loss"]))
        if fraction_text(charge) != body["charge"]:
            raise Broken(seq, "its charge is not that of its loss")
        self.pots[pot.name] = pots.spend(pot, charge)
        self.pending.add(seq)

    def _commit(self, seq: int, body: dict[str, Any]) -> None:
        if body["reserve"] not in self.pending:
            raise Broken(seq, f"commits {body['reserve']!r}, which is not an open reserve")
        self.pending.remove(body["reserve"])
        self.commitments[body["reserve"]] = (seq, body["commitment"])

    def _incident(self, seq: int, body: dict[str, Any]) -> None:
        reserve = body["reserve"]
        if reserve in self.incidents or not (reserve in self.pending or reserve in self.commitments):
            raise Broken(seq, f"reports {reserve!r}, which is not a reserve without an incident")
        self.incidents.add(reserve)
        self.pending.discard(reserve)
        self.incidents_open += 1

    def _clear(self, seq: int, body: dict[str, Any]) -> None:
        pots.sentence(body["reason"], "the reason", "")
        if not self.incidents_open:
            raise Broken(seq, "clears incidents where none were open")
        self.incidents_open = 0

    def _register(self, seq: int, body: dict[str, Any]) -> None:
        if body["version"] != self.version + 1:
            raise Broken(seq, f"registers version {body['version']!r} after {self.version}")
        self.version += 1


def follow(connection: Connection, after: Anchor) -> Anchor:
    """The newest entry, every link from `after` to it checked; Broken if `after` is not in this chain.

    Reads only what came after, so it is cheap where `after` is the head.
    """
    last = START
    for seq, kind, body_json, prev_hash, hashed in connection.execute(_FROM, {"start": after.seq}):
        if seq == after.seq:
            if hashed != after.hash:
                raise Broken(seq, "the head names another hash here: this is not the ledger that was anchored")
        elif prev_hash != last.hash or hashed != entry_hash(last.seq + 1, kind, body_json, prev_hash):
            raise Broken(seq, "it does not follow from the entry before it")
        last = Anchor(seq, hashed)
    if last.seq < after.seq:
        raise Broken(
            None, f"the ledger ends before entry {after.seq}, which the head names: an older copy was put back"
        )
    return last


def replayed(connection: Connection) -> Replay:
    """Every entry from the first."""
    replay = Replay()
    try:
        for row in connection.execute(select(tables.entry).order_by(tables.entry.c.seq)):
            replay.add(*row)
    except DBAPIError as error:
        if not _is_bad_value(error):
            raise
        raise Broken(replay.last.seq + 1, "it cannot be read") from None
    return replay


def check_releases(connection: Connection, replay: Replay) -> None:
    """Every commit has its release, the one it committed to, and no release is without a commit."""
    columns = (tables.release.c.nonce, tables.release.c.arrow_bytes, tables.release.c.meta_json)
    for seq, (commit, promised) in replay.commitments.items():
        other = f"its release (reserve {seq}) is not the one committed to"
        try:
            row = connection.execute(select(*columns).where(tables.release.c.seq == seq)).one_or_none()
        except (DBAPIError, TypeError) as error:
            if not _is_bad_value(error):
                raise
            raise Broken(commit, other) from None
        if row is None:
            raise Broken(commit, f"its release (reserve {seq}) is missing")
        nonce, arrow_bytes, meta_json = row
        whole = isinstance(nonce, bytes) and isinstance(arrow_bytes, bytes) and isinstance(meta_json, str)
        if not whole or len(nonce) != NONCE_BYTES or commitment(nonce, arrow_bytes, meta_json) != promised:
            raise Broken(commit, other)
    stored = set(connection.execute(select(tables.release.c.seq)).scalars())
    if extra := stored - set(replay.commitments):
        raise Broken(None, f"release {min(extra)} belongs to no commit")


def _is_bad_value(error: Exception) -> bool:
    """Whether a *value* could not be read (text that is no UTF-8, text where bytes belong), rather than the file."""
    return not getattr(getattr(error, "orig", None), "sqlite_errorcode", 0)


def check_totals(connection: Connection, replay: Replay) -> None:
    """The running totals are those that the entries add up to."""
    stored = {row.pot: tuple(row)[1:] for row in connection.execute(select(tables.pot_state))}
    for name, pot in replay.pots.items():
        derived = tuple(fraction_text(value) for value in (pot.spent, pot.cap, pot.ceiling))
        if stored.pop(name, None) != derived:
            raise Broken(None, f"pot_state of {name!r} is not what the entries add up to: {', '.join(derived)}")
    if stored:
        raise Broken(None, f"pot_state holds {sorted(map(str, stored))[0]!r}, which no entry opened")
