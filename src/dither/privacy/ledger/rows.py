"""Reading and writing the ledger's rows, inside one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, insert, select, update

from dither.canonical import fraction_text
from dither.errors import BudgetError, RefusedError
from dither.privacy.ledger import chain, pots, tables
from dither.privacy.ledger.head import START, Anchor
from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.records import Incident, Registered, Reservation

ONCE = "a reserve is committed once"


def last(connection: Connection) -> Anchor:
    """The newest entry."""
    newest = select(tables.entry.c.seq, tables.entry.c.hash).order_by(tables.entry.c.seq.desc()).limit(1)
    row = connection.execute(newest).one_or_none()
    return START if row is None else Anchor(row.seq, row.hash)


def append(connection: Connection, kind: str, body: dict[str, Any]) -> Anchor:
    """One more entry at the end of the chain."""
    before, body_json = last(connection), chain.canonical_text(body, f"a {kind} entry")
    hashed = chain.entry_hash(before.seq + 1, kind, body_json, before.hash)
    row = {"seq": before.seq + 1, "kind": kind, "body_json": body_json, "prev_hash": before.hash, "hash": hashed}
    connection.execute(insert(tables.entry).values(row))
    return Anchor(before.seq + 1, hashed)


def bodies(connection: Connection, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The entries of one kind, oldest first."""
    statement = select(tables.entry.c.seq, tables.entry.c.body_json).where(tables.entry.c.kind == kind)
    for seq, body_json in connection.execute(statement.order_by(tables.entry.c.seq)):
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
    row = connection.execute(select(tables.pot_state).where(tables.pot_state.c.pot == name)).one()
    return replace(terms, spent=Fraction(row.spent), cap=Fraction(row.cap))


def write(connection: Connection, pot: Pot) -> None:
    """A pot's new totals."""
    values = {"spent": fraction_text(pot.spent), "cap": fraction_text(pot.cap)}
    connection.execute(update(tables.pot_state).where(tables.pot_state.c.pot == pot.name).values(values))


def registered(connection: Connection) -> Registered | None:
    """The newest version."""
    versions = [body for _, body in bodies(connection, "register")]
    return Registered(**versions[-1]) if versions else None


def incidents_open(connection: Connection) -> tuple[Incident, ...]:
    """Incidents after the last clear."""
    cleared = max((seq for seq, _ in bodies(connection, "clear")), default=0)
    return tuple(Incident(seq, **body) for seq, body in bodies(connection, "incident") if seq > cleared)


def check_reserve(connection: Connection, reservation: Reservation) -> None:
    """Refuses a reservation that this ledger did not make."""
    here = (tables.entry.c.seq == reservation.seq) & (tables.entry.c.hash == reservation.hash)
    kind = connection.execute(select(tables.entry.c.kind).where(here)).scalar_one_or_none()
    if kind != "reserve":
        raise RefusedError(f"entry {reservation.seq} is not this reserve of this ledger", rule=ONCE)


def check_pending(connection: Connection, reservation: Reservation) -> None:
    """Refuses a reservation that was committed, or ended in an incident."""
    check_reserve(connection, reservation)
    stored = select(tables.release.c.seq).where(tables.release.c.seq == reservation.seq)
    if connection.execute(stored).scalar_one_or_none() is not None:
        raise RefusedError(f"reserve {reservation.seq} is committed already", rule=ONCE)
    if any(body["reserve"] == reservation.seq for _, body in bodies(connection, "incident")):
        raise RefusedError(f"reserve {reservation.seq} ended in an incident", rule=ONCE)
