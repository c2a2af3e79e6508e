"""What a ledger tells people: pots, history, incidents and stored releases.

The kernel asks none of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from dither.canonical import quote
from dither.errors import ParameterError
from dither.privacy.charges.rules import Charge
from dither.privacy.ledger import pot_tree, rows
from dither.privacy.ledger.database import Transaction
from dither.privacy.ledger.head import START, Anchor
from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.queries import Readings
from dither.privacy.ledger.records import Incident, Stored, public_id

_HASHES = "SELECT seq, hash FROM entry WHERE kind = :kind ORDER BY seq"


@dataclass(frozen=True)
class Record:
    """One line of history: parameters, never values.

    `shared_by` are pots that paid later for the same answer.
    """

    seq: int
    hash: str
    pots: tuple[str, ...]
    charges: dict[str, Charge]
    loss: dict[str, Any]
    request_hash: str
    public: dict[str, Any]
    released_at: str | None
    supersedes: int | None = None
    superseded_by: int | None = None
    note: str | None = None
    shared_by: tuple[str, ...] = ()

    @property
    def release_id(self) -> str:
        """What anyone but the steward calls it."""
        return public_id(self.hash)

    @property
    def pot(self) -> str:
        """The pot that was asked (the first, where several parts paid together)."""
        return self.pots[0]

    @property
    def charge(self) -> Fraction:
        """What that pot paid."""
        return self.charges[self.pot].amount


class Reports(Readings):
    """The readings of a ledger that are for people."""

    @classmethod
    def from_ledger(cls, ledger: Readings) -> Self:
        """Make the reports of a ledger that is open already; they share its connection."""
        return cls(ledger._database)

    def pots(self, *, under_way: bool = True) -> tuple[Pot, ...]:
        """All pots, in the order of their opening.

        `under_way=False` leaves out charges whose answer has not left yet, and is all that anyone
        but the steward may see: who polls a total would else learn when a query was charged, and so
        how long it ran (rule release-times-only).
        """
        with self._database.transaction(write=False) as transaction:
            terms = self._terms_of(transaction)
            return self._stand(transaction, terms, terms, under_way)

    def path(self, name: str) -> tuple[Pot, ...]:
        """Read the terms of a pot and of all pots that it is inside of.

        Raises BudgetError where it is not open.
        """
        with self._database.transaction(write=False) as transaction:
            terms = self._terms_of(transaction)
        return tuple(terms[outer] for outer in pot_tree.path(terms, name))

    def incidents_open(self) -> tuple[Incident, ...]:
        """List the incidents since the steward last cleared them."""
        with self._database.transaction(write=False) as transaction:
            return rows.incidents_open(transaction)

    def incidents(self) -> tuple[Incident, ...]:
        """List every incident ever, cleared or not: certificates list them as unprotected."""
        with self._database.transaction(write=False) as transaction:
            bodies = rows.bodies(transaction, "incident")
            incidents = [Incident(seq, body["reserve"], body["code"]) for seq, body in bodies]
            return tuple(
                incident for incident in incidents if incident.code != rows.REFUSED_MEANWHILE
            )

    def losses(self) -> tuple[tuple[int, int | None], ...]:
        """List the entries that were lost: the first, and the last where the head told it."""
        with self._database.transaction(write=False) as transaction:
            bodies = [body for _, body in rows.bodies(transaction, "lost")]
        return tuple((body["first"], body["last"]) for body in bodies)

    def release(self, reservation_seq: int) -> Stored | None:
        """A stored release, for those whose pot paid for it."""
        with self._database.transaction(write=False) as transaction:
            return rows.release(transaction, reservation_seq)

    def has_answer(self, request_hash: str, payer: str | None = None) -> bool:
        """Whether a stored release answers a request; its values stay where they are.

        With a `payer`, a release counts only where that pot paid for it.
        """
        with self._database.transaction(write=False) as transaction:
            path = () if payer is None else (payer,)
            answer = rows.newest_answer(transaction, request_hash, path)
            if answer is None or payer is None:
                return answer is not None
            return payer in rows.payers(
                transaction, answer[0], rows.entry(transaction, answer[0])[1]
            )

    def payers(self, reservation_seq: int) -> frozenset[str]:
        """The names of all pots that paid for a release, at once or later."""
        with self._database.transaction(write=False) as transaction:
            reserve = rows.entry(transaction, reservation_seq)[1]
            return rows.payers(transaction, reservation_seq, reserve)

    def number_of(self, release_id: str) -> int:
        """Find the entry number of a release's reserve.

        `release_id` is what the release is called outside, or that number itself. Raises
        ParameterError where there is no such release.
        """
        with self._database.transaction(write=False) as transaction:
            hashes = _read_hashes(transaction, "reserve")
        numbers = [
            seq for seq, hashed in hashes.items() if release_id in (public_id(hashed), str(seq))
        ]
        if len(numbers) != 1:
            raise ParameterError(
                f"there is no release {quote(release_id)}: 'dither history CATALOG' lists them"
            )
        return numbers[0]

    def history(self, *, unreleased: bool = False) -> tuple[Record, ...]:
        """List the parameters of what was released, in the order of the charges.

        `unreleased=True` adds charges without a release, which only the steward's local command may
        show: the moment between charge and release tells how long a query runs.
        """
        with self._database.transaction(write=False) as transaction:
            times = {
                body["reserve"]: body["released_at"]
                for _, body in rows.bodies(transaction, "commit")
            }
            reserves = list(rows.bodies(transaction, "reserve"))
            hashes = _read_hashes(transaction, "reserve")
            shared: dict[int, list[str]] = {}
            for _, body in rows.bodies(transaction, "share"):
                # who asked; others paid for growth
                shared.setdefault(body["release"], []).extend(body["pots"])
        links = {
            body["reissue"]["supersedes"]: seq
            for seq, body in reserves
            if body["reissue"] and seq in times
        }
        return tuple(
            Record(
                seq,
                hashes[seq],
                tuple(body["pots"]),
                rows.charges_from(body),
                body["loss"],
                body["request_hash"],
                body["public"],
                times.get(seq),
                (body["reissue"] or {}).get("supersedes"),
                links.get(seq),
                (body["reissue"] or {}).get("note"),
                tuple(shared.get(seq, ())),
            )
            for seq, body in reserves
            if unreleased or seq in times
        )

    def newest_limit_entry(self) -> Anchor:
        """The newest entry that moved a limit: a registration, an opening, a raise or a clearing.

        Questions do not change it, so it tells nothing of charges under way.
        """
        hashes: dict[int, str] = {}
        with self._database.transaction(write=False) as transaction:
            for kind in ("register", "open", "raise", "clear"):
                hashes |= _read_hashes(transaction, kind)
        return Anchor(*max(hashes.items())) if hashes else START


def _read_hashes(transaction: Transaction, kind: str) -> dict[int, str]:
    """Map the numbers of the entries of one kind to their hashes."""
    return {int(row[0]): str(row[1]) for row in transaction.rows(_HASHES, {"kind": kind})}
