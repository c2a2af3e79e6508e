"""The ledger: what was opened, charged and released, durable before anything is sent.

The kernel's order is `reserve` (check and spend, one transaction), read the data, `commit` (the release and its
entry in one transaction, then the head), send. A crash anywhere keeps the charge; nothing is refunded, changed or
deleted. Entries carry no times: the one time anywhere is that of the release, given by the caller, since the
difference of two times would tell how long a query ran (privacy-rules 17).

Any error after `reserve` reaches an analyst as `UnavailableError` only; turning it into that is the kernel's part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from dither.canonical import Number
from dither.errors import ParameterError, RefusedError
from dither.privacy.ledger import chain, pots, rows, sqlite
from dither.privacy.ledger.head import ROLLBACK, START, Anchor, Head
from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.records import Committed, Incident, Record, Registered, Reservation, Stored
from dither.privacy.ledger.verify import missing_head
from dither.privacy.losses import Loss, Neighbours
from dither.privacy.noise.source import fresh_bytes


class Ledger:
    """One ledger file and its head. Safe to use from several processes and threads at once."""

    def __init__(self, path: Path, head_path: Path) -> None:
        """Use `create` or `open`."""
        self.path, self._head = Path(path), Head(Path(head_path), Path(path))
        self._database = sqlite.Database(self.path, "rw")

    @classmethod
    def create(cls, path: Path, head_path: Path) -> Ledger:
        """An empty ledger, mode 0600; refused where a ledger lies, or a head remembers one."""
        anchor = Head(Path(head_path), Path(path)).read()
        if anchor is not None and anchor.seq:
            raise RefusedError(
                f"the head {head_path} remembers a ledger of {anchor.seq} entries: restore that ledger to {path}. "
                "A lost ledger does not give back what was spent",
                rule=ROLLBACK,
            )
        sqlite.create_schema(Path(path))
        return cls.open(path, head_path)

    @classmethod
    def open(cls, path: Path, head_path: Path) -> Ledger:
        """An existing ledger; refused if it is behind its head or another one. One ahead of it repairs the head."""
        ledger = cls(path, head_path)
        anchor = ledger._head.read()
        with ledger._database.transaction(write=False) as connection:
            if (problem := sqlite.check_schema(connection)) is not None:
                raise RefusedError(f"{path}: {problem}", rule=sqlite.DURABLE)
            last = rows.last(connection)
            if anchor is None and last.seq:
                raise RefusedError(missing_head(ledger._head.path, last), rule=ROLLBACK)
            last = ledger._follow(connection, anchor or START)
        ledger._head.advance(last)
        return ledger

    def close(self) -> None:
        """Closes this process's connections."""
        self._database.close()

    # -- the steward's acts -------------------------------------------------------------------------------------

    def open_pot(
        self,
        name: str,
        epsilon: Number,
        ceiling: Number,
        *,
        neighbours: Neighbours,
        unit: str,
        question: str,
        population: str,
        recipient: str,
        rule: str = "pure",
    ) -> Pot:
        """Opens a pot with the cap `epsilon`; cap, ceiling, rule and purpose are fixed before any answer is seen."""
        purpose = {"question": question, "population": population, "recipient": recipient}
        pot = pots.opened(name, epsilon, ceiling, neighbours=neighbours, unit=unit, rule=rule, **purpose)
        with self._appending() as connection:
            if name in rows.openings(connection):
                raise RefusedError(f"pot {name!r} is open already; its terms never change", rule="a pot is opened once")
            rows.append(connection, "open", pots.to_body(pot))
            rows.write_new(connection, pot)
        return pot

    def raise_cap(self, pot: str, cap: Number, reason: str) -> Pot:
        """Raises a pot's cap, at most to its ceiling."""
        with self._appending() as connection:
            after = pots.raised(rows.pot(connection, pot), cap, reason)
            rows.append(connection, "raise", {"pot": pot, "cap": after.cap, "reason": reason})
            rows.write(connection, after)
        return after

    def record_register(self, version: int, catalog_hash: str, public: dict[str, Any] | None = None) -> None:
        """A new version of the data, by its catalog's hash and public facts; versions count 1, 2, 3, ..."""
        _check_hash(catalog_hash, "catalog_hash")
        with self._appending() as connection:
            before = rows.registered(connection)
            expected = 1 if before is None else before.version + 1
            if version != expected or type(version) is not int:
                raise ParameterError(f"the next version is {expected}, got {version!r}")
            body = {"version": version, "catalog_hash": catalog_hash, "public": public or {}}
            rows.append(connection, "register", body)

    def clear_incidents(self, reason: str) -> None:
        """Answers may leave again; the incidents stay on record."""
        pots.sentence(reason, "the reason to clear incidents", "the engine ran out of memory, now doubled")
        with self._appending() as connection:
            if not rows.incidents_open(connection):
                raise ParameterError("no incident is open")
            rows.append(connection, "clear", {"reason": reason})

    # -- the kernel's steps -------------------------------------------------------------------------------------

    def reserve(self, pot: str, loss: Loss, request_hash: str, public: dict[str, Any]) -> Reservation:
        """Charges `pot` for `loss`, for ever. On BudgetError or RefusedError nothing was spent.

        (Only a disk that fails in the act leaves this open; the message then says so.)

        The head need not move: nothing has left yet, and what leaves does so after `commit` moved it past this entry.
        """
        _check_hash(request_hash, "request_hash")
        chain.canonical_text(public, "public")
        self._head.check_writable()
        with self._appending(anchored=False) as connection:
            before = rows.pot(connection, pot)
            charge = pots.charge(before, loss)
            after = pots.spend(before, charge)
            body = {
                "pot": pot,
                "charge": charge,
                "loss": loss.to_json(),
                "request_hash": request_hash,
                "public": public,
            }
            entry = rows.append(connection, "reserve", body)
            rows.write(connection, after)
        return Reservation(entry.seq, entry.hash, pot, charge, after.spent, after.cap)

    def commit(
        self, reservation: Reservation, release_bytes: bytes, meta: dict[str, Any], *, released_at: str
    ) -> Committed:
        """Stores a release with its entry, moves the head; only then may it be sent.

        `meta` is as secret as the values; `released_at` (ISO 8601, quantised by the caller) is public.
        """
        if not isinstance(release_bytes, bytes):
            raise ParameterError(f"a release is bytes, got {type(release_bytes).__name__}")
        meta_json = chain.canonical_text(meta, "meta")
        _check_time(released_at)
        nonce = fresh_bytes(chain.NONCE_BYTES)
        promise = chain.commitment(nonce, release_bytes, meta_json)
        with self._appending() as connection:
            rows.check_pending(connection, reservation)
            body = {"reserve": reservation.seq, "commitment": promise, "released_at": released_at}
            entry = rows.append(connection, "commit", body)
            rows.write_release(connection, reservation.seq, nonce, release_bytes, meta_json)
        return Committed(entry.seq, entry.hash, reservation.seq)

    def record_incident(self, reservation: Reservation, code: str) -> None:
        """A failure after `reservation`: the charge stays, a later commit of it is refused.

        `code` is one word from the kernel's fixed list, never an engine's message, which may quote a row.
        """
        if not re.fullmatch("[a-z][a-z_]{0,39}", code):
            raise ParameterError("an incident's code is one word of small letters, from the kernel's list")
        with self._appending() as connection:
            rows.check_reserve(connection, reservation)
            if rows.has_incident(connection, reservation):
                raise RefusedError(f"reserve {reservation.seq} has its incident already", rule="one incident each")
            rows.append(connection, "incident", {"reserve": reservation.seq, "code": code})

    # -- readings -----------------------------------------------------------------------------------------------

    def pot(self, name: str) -> Pot:
        """Where a pot stands: spent, left, cap, ceiling, and its terms. The sums are exact."""
        with self._database.transaction(write=False) as connection:
            return rows.pot(connection, name)

    def pots(self) -> tuple[Pot, ...]:
        """All pots, in the order of their opening."""
        with self._database.transaction(write=False) as connection:
            return tuple(rows.pot(connection, name) for name in rows.openings(connection))

    def registered(self) -> Registered | None:
        """The newest registered version."""
        with self._database.transaction(write=False) as connection:
            return rows.registered(connection)

    def incidents_open(self) -> tuple[Incident, ...]:
        """Incidents since the steward last cleared them."""
        with self._database.transaction(write=False) as connection:
            return rows.incidents_open(connection)

    def release(self, reservation_seq: int) -> Stored | None:
        """A stored release, for those whose pot paid for it."""
        with self._database.transaction(write=False) as connection:
            return rows.release(connection, reservation_seq)

    def history(self, *, unreleased: bool = False) -> tuple[Record, ...]:
        """Parameters of what was released, in the order of the charges.

        `unreleased=True` adds charges without a release, which only the steward's local command may show: the
        moment between charge and release tells how long a query runs.
        """
        with self._database.transaction(write=False) as connection:
            times = {body["reserve"]: body["released_at"] for _, body in rows.bodies(connection, "commit")}
            reserves = list(rows.bodies(connection, "reserve"))
        return tuple(
            Record(seq, **(body | {"charge": Fraction(body["charge"])}), released_at=times.get(seq))
            for seq, body in reserves
            if unreleased or seq in times
        )

    # -- inside one transaction ---------------------------------------------------------------------------------

    @contextmanager
    def _appending(self, *, anchored: bool = True) -> Iterator[Connection]:
        """A writing transaction on a ledger that agrees with its head, and the head moved after it."""
        with self._database.transaction(write=True) as connection:
            anchor = self._head.read()
            if anchor is None:
                raise RefusedError(missing_head(self._head.path, rows.last(connection)), rule=ROLLBACK)
            self._follow(connection, anchor)
            yield connection
            last = rows.last(connection)
        if anchored:
            self._head.advance(last)

    def _follow(self, connection: Connection, anchor: Anchor) -> Anchor:
        try:
            return chain.follow(connection, anchor)
        except chain.Broken as error:
            raise RefusedError(
                f"the ledger {self.path} was changed or rolled back: {error}. "
                "Steward: restore its newest copy, then run 'dither ledger verify'",
                rule=ROLLBACK,
            ) from None


def _check_hash(text: str, name: str) -> None:
    if not isinstance(text, str) or not re.fullmatch("[0-9a-f]{64}", text):
        raise ParameterError(f"{name} is a sha256 in hex, got {text!r}")


def _check_time(text: str) -> None:
    try:
        datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise ParameterError(f"released_at is a time such as 2026-03-01T12:00:00+00:00, got {text!r}") from None
