"""Ledgers that can replay.

Where the kernel's ledger refuses, every entry is checked from the first.

Ledgers of the first version have entries without `totals`. They are replayed at opening, and
recounted where stored releases had been shared into parts of a partition: pots above it did not pay
then what the partition grew by. Entries that a crash left past the head are replayed too: nothing
anchored them, so somebody may have added them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from dither.privacy.ledger import rows
from dither.privacy.ledger.chain import Broken, Tail, digest_totals
from dither.privacy.ledger.database import Transaction
from dither.privacy.ledger.location import Location
from dither.privacy.ledger.replay import check_totals, replayed
from dither.privacy.ledger.store import Ledger
from dither.privacy.ledger.writer import ReplayNeededError, Seal, Writer


class ReplayingWriter(Writer):
    """A writer that replays all entries where the totals cannot be confirmed without that."""

    def _check_by_replay(self) -> None:
        """Derive the totals from all entries, for a ledger whose newest entries name no digest.

        Raises where the stored totals differ. Where the rule of the first version charged too
        little, the right totals are written, with a `recount` entry.
        """
        try:
            replay = replayed(self._transaction, self._database.errors)
            check_totals(self._transaction, replay)
        except Broken as error:
            raise self._damaged(str(error)) from None
        if replay.recounted is None:
            return
        changed = replay.changed_by_recount()
        for pot in changed:
            rows.write_totals(self._transaction, pot, is_new=False)
        self._digest = digest_totals(rows.all_texts(self._transaction))
        body = {
            "pots": {pot.name: list(rows.texts(pot)) for pot in changed},
            "totals": self._digest,
        }
        self.last = rows.append(self._transaction, self.last, "recount", body)


class ReplayingLedger(Ledger):
    """A ledger that replays its entries where a plain one refuses."""

    @classmethod
    def open(cls, location: Location, head_path: Path, seal: Seal | None = None) -> Self:
        """Open an existing ledger.

        Where the first version or a crash left it unchecked, it is replayed first, and recounted
        where the old rule charged too little.
        """
        try:
            return super().open(location, head_path, seal)
        except ReplayNeededError:
            replay_ledger(location, head_path)
            return cls(location, head_path)

    def _build_writer(self, transaction: Transaction, tail: Tail) -> Writer:
        return ReplayingWriter(self._database, transaction, tail, self._seal)


def replay_ledger(location: Location, head_path: Path) -> Seal:
    """Replay a ledger, and move its head to the newest entry.

    It is recounted where the old rule was short.

    Returns the digest of all totals after the newest entry: a plain `Ledger` needs it where that
    entry names none.
    """
    ledger = ReplayingLedger(location, head_path)
    try:
        with ledger._writing() as (_, writer):
            totals = writer.checked_totals()
        return Seal(writer.last.seq, digest_totals(totals))
    finally:
        ledger.close()
