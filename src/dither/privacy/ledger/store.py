"""The ledger: what was opened, charged and released, durable before anything is sent.

The kernel's order is `reserve` (check and spend, one transaction), read the data, `commit` (the
release and its entry in one transaction, then the head), send. A crash anywhere keeps the charge;
nothing is refunded, changed or deleted. Entries carry no times: the one time anywhere is that of
the release, given by the caller, since the difference of two times would tell how long a query ran
(rule release-times-only).

Any error after `reserve` reaches an analyst as the kernel's `UnavailableError` only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from dither.canonical import quote
from dither.errors import BudgetError, ParameterError, RefusedError
from dither.privacy.charges.rules import Charge
from dither.privacy.ledger import chain, epochs, pot_tree, pots, queries, rows, suspension
from dither.privacy.ledger.database import Transaction
from dither.privacy.ledger.head import START, Anchor, Head
from dither.privacy.ledger.location import Location, database_at, is_url, missing_head
from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.process import is_dead, this_process
from dither.privacy.ledger.records import Committed, Reservation
from dither.privacy.ledger.writer import ReplayNeededError, Seal, Writer
from dither.privacy.loss_documents import read_loss
from dither.privacy.losses import Loss
from dither.privacy.noise.source import fresh_bytes
from dither.rules import PrivacyRule

SUSPENDED = "suspended until the data steward clears an incident"
Append = Callable[..., Anchor]  # Writer.append
Payment = tuple[dict[str, Charge], dict[str, Pot]]


class Ledger(queries.Readings):
    """One ledger and its head. Safe to use from several processes and threads at once."""

    def __init__(self, location: Location, head_path: Path, seal: Seal | None = None) -> None:
        """Use `open`; the steward makes ledgers by `StewardLedger.create`."""
        self._seal = seal
        self.location: Location = location if is_url(location) else Path(location)
        self._head = Head(Path(head_path), self.location)
        self.epoch: int | None = None  # the one that a curator holds (takeover.take_over)
        self.on_abandoned: Callable[[int, str], None] = lambda reserve, pot: None
        super().__init__(database_at(self.location))

    @classmethod
    def open(cls, location: Location, head_path: Path, seal: Seal | None = None) -> Self:
        """Open an existing ledger; refuse one that is behind its head, or another one.

        One that is ahead of its head moves the head. `seal` is what a replay found, for a ledger
        whose newest entry names no totals (`replaying.replay_ledger`).
        """
        ledger = cls(location, head_path, seal)
        anchor = ledger._head.read()
        with ledger._database.transaction(write=False) as transaction:
            if (problem := ledger._database.check_schema(transaction)) is not None:
                raise RefusedError(f"{ledger._database.label}: {problem}", rule=PrivacyRule.DURABLE)
            if anchor is None and (last := rows.last(transaction)).seq:
                raise RefusedError(missing_head(ledger._head.path, last), rule=PrivacyRule.ROLLBACK)
            writer = Writer(
                ledger._database, transaction, ledger._follow(transaction, anchor or START), seal
            )
            writer.checked_totals()
            epochs.check_heads(epochs.read_epoch(transaction), ledger._head.path)
        with ledger._head.locked():
            ledger._head.move(anchor or START, writer.last, ledger._follow_now)
        return ledger

    # -- the kernel's steps
    # ------------------------------------------------------------------------------------

    def reserve(
        self,
        pot: str | tuple[str, ...],
        loss: Loss,
        request_hash: str,
        public: dict[str, Any],
        *,
        reissue: dict[str, Any] | None = None,
        leaves_early: bool = False,
    ) -> Reservation:
        """Charge `pot` and all pots around it for `loss`, for ever.

        On an error nothing was spent. (Only a disk that fails in the act leaves this open; the
        message then says so.) Refused while incidents suspend the dataset, in the same transaction.
        The head need not move: what leaves does so after `commit` moved it past this entry; a
        lease, whose answers leave before its commit, says so by `leaves_early`.
        """
        leaves = (pot,) if isinstance(pot, str) else tuple(pot)
        check_hash(request_hash, "request_hash")
        self._head.check_writable()
        self._count_abandoned()
        arguments = (leaves, loss, request_hash, public, reissue, leaves_early)
        try:
            return self._reserve(*arguments, anchored=leaves_early)
        except ReplayNeededError:
            # waits for whoever wrote past the head to move it
            return self._reserve(*arguments, anchored=True)

    def _reserve(
        self,
        leaves: tuple[str, ...],
        loss: Loss,
        request_hash: str,
        public: dict[str, Any],
        reissue: dict[str, Any] | None,
        leaves_early: bool,
        *,
        anchored: bool,
    ) -> Reservation:
        """Write a charge in one transaction: check the pots, pay, append the entry."""
        with self._appending(anchored=anchored) as (transaction, append):
            terms = self._terms_of(transaction)
            pot_tree.check_names(terms, leaves)
            self._refuse_suspended(transaction, terms, leaves)
            if reissue is not None:
                queries.check_reissue(transaction, reissue, leaves)
            payment = self._pay(transaction, terms, leaves, loss, reissue=reissue is not None)
            charges, changed = payment
            settled = self._settled_payment(
                transaction, terms, payment, leaves, loss, reissue=reissue is not None
            )
            body = {
                "pots": list(leaves),
                "charges": rows.charges_to(charges),
                "loss": loss.to_json(),
                "request_hash": request_hash,
                "public": public,
                "reissue": reissue,
                "lease": leaves_early,
            }
            entry = append("reserve", body, changed.values())
            rows.hold(transaction, entry.seq, this_process())
        return _reservation(entry, leaves[0], settled)

    def _pay(
        self,
        transaction: Transaction,
        terms: dict[str, Pot],
        leaves: tuple[str, ...],
        loss: Loss,
        **how: Any,
    ) -> Payment:
        """Compute what each pot pays and its balance after that; nothing is written.

        Raises BudgetError where a pot cannot pay. A refusal speaks of settled figures alone (rule
        settled-figures-only).
        """
        names = pot_tree.needed(terms, leaves)
        try:
            return pot_tree.pay(rows.totals(transaction, terms, names), leaves, loss, **how)
        except BudgetError:
            pass  # its figures include charges under way: the next line refuses in settled ones
        pot_tree.pay(self._settled(transaction, terms, names), leaves, loss, **how)
        raise pots.cannot_pay_now(terms[leaves[0]], loss)

    def _settled_payment(
        self,
        transaction: Transaction,
        terms: dict[str, Pot],
        payment: Payment,
        leaves: tuple[str, ...],
        loss: Loss,
        **how: Any,
    ) -> Payment:
        """Compute the payment as if no other charge were under way: what may be shown of it."""
        if not rows.list_pending(transaction):
            return payment
        settled = self._settled(transaction, terms, pot_tree.needed(terms, leaves))
        return pot_tree.pay(settled, leaves, loss, **how)

    def _refuse_suspended(
        self, transaction: Transaction, terms: dict[str, Pot], leaves: tuple[str, ...]
    ) -> None:
        """Refuse a charge while open incidents stop the dataset or one of the pots."""
        failed = rows.failed_leaves(transaction)
        if suspension.is_full(terms, len(failed)) or suspension.is_path_suspended(
            terms, failed, leaves
        ):
            raise RefusedError(SUSPENDED, rule=PrivacyRule.INCIDENTS_CAPPED)

    def _count_abandoned(self) -> None:
        """Turn what dead processes left between reserve and commit into incidents.

        This comes before anyone reserves again.
        """
        with self._database.transaction(write=False) as transaction:
            if not any(is_dead(holder) for _, holder in rows.list_pending(transaction)):
                return
        abandoned: dict[int, str] = {}
        with self._appending() as (transaction, append):
            for seq, holder in rows.list_pending(transaction):
                if is_dead(holder):
                    append("incident", {"reserve": seq, "code": rows.ABANDONED})
                    rows.let_go(transaction, seq)
                    abandoned[seq] = rows.entry(transaction, seq)[1]["pots"][0]
        for seq, pot in abandoned.items():
            self.on_abandoned(seq, pot)

    def commit(
        self,
        reservation: Reservation,
        release_bytes: bytes,
        meta: dict[str, Any],
        *,
        released_at: str,
    ) -> Committed:
        """Stores a release with its entry, moves the head; only then may it be sent.

        `meta` is as secret as the values; `released_at` (ISO 8601, quantised by the caller) is
        public.
        """
        if not isinstance(release_bytes, bytes):
            raise ParameterError(f"a release is bytes, got {type(release_bytes).__name__}")
        meta_json = chain.canonical_text(meta, "meta")
        _check_time(released_at)
        nonce = fresh_bytes(chain.NONCE_BYTES)
        promise = chain.commitment(nonce, release_bytes, meta_json)
        with self._appending() as (transaction, append):
            reserve = rows.check_pending(transaction, reservation)
            if not reserve["lease"]:
                # another request failed meanwhile: whether this one would have is not told
                self._refuse_suspended(
                    transaction, self._terms_of(transaction), tuple(reserve["pots"])
                )
            entry = append(
                "commit",
                {"reserve": reservation.seq, "commitment": promise, "released_at": released_at},
            )
            row = {
                "seq": reservation.seq,
                "request_hash": reserve["request_hash"],
                "commit_seq": entry.seq,
            }
            rows.write_release(
                transaction,
                row | {"nonce": nonce, "arrow_bytes": release_bytes, "meta_json": meta_json},
            )
            rows.let_go(transaction, reservation.seq)
        return Committed(entry.seq, entry.hash, reservation.seq)

    def share(self, release: int, pot: str, *, released_at: str) -> Reservation:
        """Charge `pot` for a stored release, with all pots around it that have not paid.

        No data is read.
        """
        _check_time(released_at)
        with self._appending() as (transaction, append):
            terms = self._terms_of(transaction)
            if rows.release(transaction, release) is None:
                raise RefusedError(
                    f"there is no stored release {release}", rule=PrivacyRule.PAID_VALUES
                )
            _, reserve, _ = rows.entry(transaction, release)
            paid = rows.payers(transaction, release, reserve)
            loss = read_loss(reserve["loss"])
            payment = self._pay(transaction, terms, (pot,), loss, paid=paid)
            charges, changed = payment
            settled = self._settled_payment(transaction, terms, payment, (pot,), loss, paid=paid)
            if not charges:
                raise RefusedError(
                    f"budget {pot!r} has paid for release {release}", rule=PrivacyRule.PAID_VALUES
                )
            body = {
                "release": release,
                "pots": [pot],
                "charges": rows.charges_to(charges),
                "released_at": released_at,
            }
            entry = append("share", body, changed.values())
            rows.write_shares(transaction, release, charges.keys() - paid)
        return _reservation(entry, pot, settled)

    def ensure_anchored(self) -> None:
        """Move the head to the newest entry, before a stored answer leaves.

        So no older copy of the ledger can forget who paid.
        """
        if (anchor := self._head.read()) is None:
            return
        with self._database.transaction(write=False) as transaction:
            tail = self._follow(transaction, anchor)
        if tail.entries:
            with self._head.locked():
                self._head.move(anchor, tail.last, self._follow_now)

    def check_epoch(self) -> None:
        """Raise FencedError where another curator took over: before anything is sent."""
        if self.epoch is not None and self.read_epoch().number != self.epoch:
            raise epochs.FencedError

    def record_incident(self, reservation: Reservation, code: str) -> None:
        """Record a failure after `reservation`: the charge stays, a later commit of it is refused.

        `code` is one word from the kernel's fixed list, never an engine's message, which may quote
        a row.
        """
        if not re.fullmatch("[a-z][a-z_]{0,39}", code):
            raise ParameterError(
                "an incident's code is one word of small letters, from the kernel's list"
            )
        with self._appending() as (transaction, append):
            rows.check_reserve(transaction, reservation)
            if rows.has_incident(transaction, reservation):
                raise RefusedError(
                    f"reserve {reservation.seq} has its incident already",
                    rule=PrivacyRule.ONE_INCIDENT,
                )
            append("incident", {"reserve": reservation.seq, "code": code})
            rows.let_go(transaction, reservation.seq)

    # -- inside one transaction
    # --------------------------------------------------------------------------------

    @contextmanager
    def _appending(self, *, anchored: bool = True) -> Iterator[tuple[Transaction, Append]]:
        """Open a writing transaction; yield it, and the function that appends an entry in it."""
        with self._writing(anchored=anchored) as (transaction, writer):
            yield transaction, writer.append

    @contextmanager
    def _writing(self, *, anchored: bool = True) -> Iterator[tuple[Transaction, Writer]]:
        """Open a writing transaction on a ledger that agrees with its head; move the head after it.

        Raises RefusedError where they do not agree. The head is locked from the comparison to the
        move: else two copies of a ledger, each with a lock of its own, could both agree with one
        head and both send.
        """
        with self._head.locked() if anchored else nullcontext():
            with self._database.transaction(write=True) as transaction:
                anchor = self._head.read()
                if anchor is None:
                    raise RefusedError(
                        missing_head(self._head.path, rows.last(transaction)),
                        rule=PrivacyRule.ROLLBACK,
                    )
                writer = self._build_writer(transaction, self._follow(transaction, anchor))
                if self.epoch not in (None, writer.epoch):
                    raise epochs.FencedError
                yield transaction, writer
            if anchored:
                self._head.move(anchor, writer.last, self._follow_now)

    def _follow_now(self, anchor: Anchor) -> None:
        """Raise RefusedError where the ledger, as it is stored now, lacks this entry."""
        with self._database.transaction(write=False) as transaction:
            self._follow(transaction, anchor)

    def _build_writer(self, transaction: Transaction, tail: chain.Tail) -> Writer:
        """Make what appends entries in a transaction; a subclass that replays makes another."""
        return Writer(self._database, transaction, tail, self._seal)

    def _follow(self, transaction: Transaction, anchor: Anchor) -> chain.Tail:
        """Follow the chain from the head on; refuse a ledger without an entry that a file names."""
        try:
            tail = chain.follow(transaction, anchor)
            if any(
                0 < other.seq <= anchor.seq and rows.entry(transaction, other.seq)[2] != other.hash
                for other in self._head.read_anchors()
                if other != anchor
            ):
                raise chain.Broken(None, "the head was moved with another ledger too")
            return tail
        except chain.Broken as error:
            raise RefusedError(
                f"the ledger {self._database.label} was changed or rolled back: {error}. "
                "Steward: restore its newest copy, then run 'dither ledger verify CATALOG'",
                rule=PrivacyRule.ROLLBACK,
            ) from None


def _reservation(entry: Anchor, pot: str, settled: Payment) -> Reservation:
    """Make what whoever asked is told of a charge: settled figures alone."""
    charges, after = settled
    return Reservation(
        entry.seq, entry.hash, pot, charges[pot].amount, after[pot].spent, after[pot].cap, charges
    )


def check_hash(text: str, name: str) -> None:
    if not isinstance(text, str) or not re.fullmatch("[0-9a-f]{64}", text):
        raise ParameterError(f"{name} is a sha256 in hex, got {quote(text)}")


def _check_time(text: str) -> None:
    """Refuse a text that is not a time in ISO format."""
    try:
        datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise ParameterError(
            f"released_at is a time such as 2026-03-01T12:00:00+00:00, got {quote(text)}"
        ) from None
