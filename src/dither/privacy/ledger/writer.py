"""Writing to the ledger: entries at the end of the chain.

Each is sealed with the digest of all totals after it.

`pot_state` can be derived from the entries again, but that takes the whole chain; a total lowered
by hand would be answered from until somebody ran `verify`. So every entry holds `totals`, the
digest of the table after it, and the table is compared with the newest entry whenever the ledger is
opened and before any total moves.

Two kinds of ledgers need a replay of all entries instead: those of the first version, whose entries
have no `totals`, and those where a crash left an act of the steward past the head. The kernel's
ledger refuses both with a `ReplayNeededError`; whoever opens it for people replays first
(`replaying.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

from dither.canonical import fraction_text
from dither.errors import RefusedError
from dither.privacy.ledger import rows
from dither.privacy.ledger.chain import Tail, digest_totals
from dither.privacy.ledger.database import Database, Transaction
from dither.privacy.ledger.head import Anchor
from dither.privacy.ledger.pots import Pot
from dither.rules import PrivacyRule

_WITHOUT_CHARGES = ("commit", "incident", "miss", "takeover")


class ReplayNeededError(RefusedError):
    """The totals cannot be confirmed without a replay of all entries; nothing was spent."""


class Seal(NamedTuple):
    """The digest of all totals after an entry that names none.

    A replay up to that entry found it.
    """

    seq: int
    totals: str


class Writer:
    """One writing transaction. `last` is the newest entry, after everything appended so far."""

    def __init__(
        self, database: Database, transaction: Transaction, tail: Tail, seal: Seal | None = None
    ) -> None:
        """Prepare to append after `tail`, the newest entries, inside `transaction`."""
        self.last = tail.last
        self._tail = tail
        self._seal = seal
        self._database = database
        self._transaction = transaction
        self._digest = self._digest_after(tail.last.seq, tail.newest_body)
        self.epoch = _epoch_in(tail.newest_body)
        self._totals: dict[str, tuple[str, ...]] | None = None

    def append(self, kind: str, body: dict[str, Any], changed: Iterable[Pot] = ()) -> Anchor:
        """Append one entry to the chain, and write the new totals of the pots in `changed`.

        The entry names the digest of all totals after it. Where a pot changed, or no digest is
        known yet, the stored totals are checked first (RefusedError). They are kept by this Writer,
        so that the changes stay for the next entry. Returns the new end of the chain.
        """
        moved = list(changed)
        totals = self.checked_totals() if moved or self._digest is None else {}
        for pot in moved:
            rows.write_totals(self._transaction, pot, is_new=pot.name not in totals)
            totals[pot.name] = rows.texts(pot)
        if moved or self._digest is None:
            self._digest = digest_totals(totals)
        sealed = body | {"totals": self._digest}
        if self.epoch:
            sealed["epoch"] = self.epoch
        self.last = rows.append(self._transaction, self.last, kind, sealed)
        return self.last

    def checked_totals(self) -> dict[str, tuple[str, ...]]:
        """Read the texts of all totals, by pot name.

        Raises RefusedError unless the newest entry confirms them. They are read once and kept.
        """
        if self._totals is None:
            if self._digest is None and self.last.seq:
                self._check_by_replay()
            self._totals = rows.all_texts(self._transaction)
            is_text = all(
                isinstance(text, str) for texts in self._totals.values() for text in texts
            )
            if not is_text or self._digest not in (None, digest_totals(self._totals)):
                raise self._damaged("they are not those that the newest entry names")
            if self._digest is not None and not self._is_tail_sound(self._totals):
                self._check_by_replay()
        return self._totals

    def _is_tail_sound(self, totals: dict[str, tuple[str, ...]]) -> bool:
        """Whether the reserves past the head explain the totals of the table.

        Their charges must lead from the anchored totals to those.

        What was never anchored may have been appended by hand, with good hashes and totals of its
        own. Commits, incidents and misses move no total. Any other entry there (after a crash
        between an act and its head) is left to a replay.
        """
        if not self._tail.entries:
            return True
        before = {pot: list(map(Fraction, texts)) for pot, texts in totals.items()}
        for kind, body_json in self._tail.entries:
            if kind in _WITHOUT_CHARGES:
                continue
            body = json.loads(body_json)
            if kind != "reserve" or not set(body["charges"]) <= set(before):
                return False
            for pot, charge in rows.charges_from(body).items():
                if min(charge) < 0:
                    return False
                before[pot][2 if body["reissue"] else 0] -= charge.amount
                before[pot][1] -= charge.delta
        texts = {
            pot: [fraction_text(number) for number in numbers] for pot, numbers in before.items()
        }
        anchored_seq = self._tail.last.seq - len(self._tail.entries)
        return digest_totals(texts) == self._digest_after(anchored_seq, self._tail.anchored_body)

    def _check_by_replay(self) -> None:
        """Refuse what the checks here cannot confirm.

        Only `ReplayingWriter` can replay.
        """
        raise ReplayNeededError(
            f"the ledger {self._database.label} has entries that must be replayed first: a crash "
            f"left them past the "
            "head, or the first version of dither wrote them. Nothing was spent: connect again, "
            "which replays them",
            rule=PrivacyRule.ROLLBACK,
        )

    def _digest_after(self, seq: int, body_json: str | None) -> str | None:
        """Return the digest of all totals after an entry; None where nobody stated it.

        The entry names it, or a replay computed it.
        """
        digest = _digest_in(body_json)
        if digest is None and self._seal is not None and self._seal.seq == seq:
            return self._seal.totals
        return digest

    def _damaged(self, problem: str) -> RefusedError:
        """Make the refusal for totals that do not match the chain."""
        return RefusedError(
            f"the running totals of the ledger {self._database.label} are damaged: {problem}. "
            f"Steward: run "
            "'dither ledger verify CATALOG', and restore the ledger's newest copy",
            rule=PrivacyRule.ROLLBACK,
        )


def _epoch_in(body_json: str | None) -> int:
    """The epoch that an entry names; 0 before the first takeover."""
    return 0 if body_json is None else int(json.loads(body_json).get("epoch", 0))


def _digest_in(body_json: str | None) -> str | None:
    """The digest of all totals that an entry names.

    None where it names none, or where there is no entry.
    """
    digest = None if body_json is None else json.loads(body_json).get("totals")
    return None if digest is None else str(digest)
