"""Reading and writing the ledger's rows, inside one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.exc import NoResultFound

from dither.canonical import fraction_text
from dither.errors import BudgetError, RefusedError
from dither.privacy.ledger import chain, pots, tables
from dither.privacy.ledger.head import ROLLBACK, START, Anchor
from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.records import Incident, Registered, Reservation, Stored

ONCE = "a reserve is committed once"

# built once: SQLAlchemy takes longer to build a statement than SQLite to run it
_ENTRY, _RELEASE, _POT = tables.entry.c, tables.release.c, tables.pot_state.c
_LAST = select(_ENTRY.seq, _ENTRY.hash).order_by(_ENTRY.seq.desc()).limit(1)
_OF_KIND = select(_ENTRY.seq, _ENTRY.body_json).where(_ENTRY.kind == bindparam("kind")).order_by(_ENTRY.seq)
_KIND_OF = select(_ENTRY.kind).where(_ENTRY.seq == bindparam("seq"), _ENTRY.hash == bindparam("hash"))
_STORED = select(tables.release).where(_RELEASE.seq == bindparam("seq"))
_TOTALS = select(tables.pot_state).where(_POT.pot == bindparam("name"))
_NEW_TOTALS = update(tables.pot_state).where(_POT.pot == bindparam("name"))
_NEW_ENTRY, _NEW_RELEASE, _NEW_POT = insert(tables.entry), insert(tables.release), insert(tables.pot_state)


def last(connection: Connection) -> Anchor:
    """The newest entry."""
    row = connection.execute(_LAST).one_or_none()
    return START if row is None else Anchor(row.seq, row.hash)


def append(connection: Connection, kind: str, body: dict[str, Any]) -> Anchor:
    """One more entry at the end of the chain."""
    before, body_json = last(connection), chain.canonical_text(body, f"a {kind} entry")
    hashed = chain.entry_hash(before.seq + 1, kind, body_json, before.hash)
    row = {"seq": before.seq + 1, "kind": kind, "body_json": body_json, "prev_hash": before.hash, "hash": hashed}
    connection.execute(_NEW_ENTRY, row)
    return Anchor(before.seq + 1, hashed)


def bodies(connection: Connection, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The entries of one kind, oldest first."""
    for seq, body_json in connection.execute(_OF_KIND, {"kind": kind}):
        yield seq, json.loads(body_json)


def openings(connection: Connection) -> dict[str, Pot]:
    """Every pot as it was opened."""
    return {body["pot"]: pots.from_body(body) for _, body in bodies(connection, "open")}


def pot(connection: Connection, name: str) -> Pot:
    """A pot with its running totals. Pots are few, so their terms are read anew each time."""
    terms = openings(connection).get(name)
    if terms is None:
        raise BudgetError(
            f"no pot {name!r} is open. Steward: dither budget open {name} --epsilon 1 --ceiling 2 "
            "--question '...' --population '...' --recipient '...'"
        )
    try:
        row = connection.execute(_TOTALS, {"name": name}).one()
        now = replace(terms, spent=Fraction(row.spent), cap=Fraction(row.cap))
    except (NoResultFound, ValueError, TypeError, ZeroDivisionError):
        now = replace(terms, spent=Fraction(-1))
    if not 0 <= now.spent <= now.cap <= now.ceiling:
        raise RefusedError(f"the totals of pot {name!r} are damaged: run 'dither ledger verify'", rule=ROLLBACK)
    return now


def write(connection: Connection, pot: Pot) -> None:
    """A pot's new totals."""
    values = {"name": pot.name, "spent": fraction_text(pot.spent), "cap": fraction_text(pot.cap)}
    connection.execute(_NEW_TOTALS, values)


def write_new(connection: Connection, pot: Pot) -> None:
    """The totals of a pot just opened."""
    numbers = {"spent": pot.spent, "cap": pot.cap, "ceiling": pot.ceiling}
    connection.execute(_NEW_POT, {"pot": pot.name} | {key: fraction_text(value) for key, value in numbers.items()})


def release(connection: Connection, seq: int) -> Stored | None:
    """The stored release of a reserve."""
    row = connection.execute(_STORED, {"seq": seq}).one_or_none()
    return None if row is None else Stored(row.nonce, row.arrow_bytes, json.loads(row.meta_json))


def write_release(connection: Connection, seq: int, nonce: bytes, arrow_bytes: bytes, meta_json: str) -> None:
    """Stores the release of a reserve."""
    row = {"seq": seq, "nonce": nonce, "arrow_bytes": arrow_bytes, "meta_json": meta_json}
    connection.execute(_NEW_RELEASE, row)


def registered(connection: Connection) -> Registered | None:
    """The newest version."""
    versions = [body for _, body in bodies(connection, "register")]
    return Registered(**versions[-1]) if versions else None


def incidents_open(connection: Connection) -> tuple[Incident, ...]:
    """Incidents after the last clear."""
    cleared = max((seq for seq, _ in bodies(connection, "clear")), default=0)
    return tuple(Incident(seq, **body) for seq, body in bodies(connection, "incident") if seq > cleared)


def has_incident(connection: Connection, reservation: Reservation) -> bool:
    """Whether a reservation ended in an incident; incidents are few."""
    return any(body["reserve"] == reservation.seq for _, body in bodies(connection, "incident"))


def check_reserve(connection: Connection, reservation: Reservation) -> None:
    """Refuses a reservation that this ledger did not make."""
    here = {"seq": reservation.seq, "hash": reservation.hash}
    kind = connection.execute(_KIND_OF, here).scalar_one_or_none()
    if kind != "reserve":
        raise RefusedError(f"entry {reservation.seq} is not this reserve of this ledger", rule=ONCE)


def check_pending(connection: Connection, reservation: Reservation) -> None:
    """Refuses a reservation that was committed, or ended in an incident."""
    check_reserve(connection, reservation)
    if release(connection, reservation.seq) is not None:
        raise RefusedError(f"reserve {reservation.seq} is committed already", rule=ONCE)
    if has_incident(connection, reservation):
        raise RefusedError(f"reserve {reservation.seq} ended in an incident", rule=ONCE)
