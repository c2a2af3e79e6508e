"""Writing to the ledger: entries at the end of the chain, each sealed with the digest of all totals after it.

`pot_state` can be derived from the entries again, but that takes the whole chain; a total lowered by hand would be
answered from until somebody ran `verify`. So every entry holds `totals`, the digest of the table after it, and the
table is compared with the newest entry whenever the ledger is opened and before any total moves.

Ledgers of the first version have entries without `totals`. They are replayed once instead, and recounted where stored
releases had been shared into parts of a partition: pots above it did not pay then what the partition grew by.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from dither.canonical import fraction_text
from dither.errors import RefusedError
from dither.privacy.ledger import rows
from dither.privacy.ledger.chain import Broken, Tail, digest_totals
from dither.privacy.ledger.database import Database, Transaction
from dither.privacy.ledger.head import Anchor
from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.replay import check_totals, replayed
from dither.rules import PrivacyRule


class Writer:
    """One writing transaction. `last` is the newest entry, after everything appended so far."""

    def __init__(self, database: Database, transaction: Transaction, tail: Tail) -> None:
        self.last = tail.last
        self._tail = tail
        self._database = database
        self._transaction = transaction
        self._digest = _digest_in(tail.newest_body)
        self._totals: dict[str, tuple[str, ...]] | None = None

    def append(self, kind: str, body: dict[str, Any], changed: Iterable[Pot] = ()) -> Anchor:
        """One more entry; the pots in `changed` get their new totals with it."""
        moved = list(changed)
        totals = self.checked_totals() if moved or self._digest is None else {}
        for pot in moved:
            rows.write_totals(self._transaction, pot, is_new=pot.name not in totals)
            totals[pot.name] = rows.texts(pot)
        if moved or self._digest is None:
            self._digest = digest_totals(totals)
        self.last = rows.append(self._transaction, self.last, kind, body | {"totals": self._digest})
        return self.last

    def checked_totals(self) -> dict[str, tuple[str, ...]]:
        """The texts of all totals, compared with the newest entry; RefusedError where they differ."""
        if self._totals is None:
            if self._digest is None and self.last.seq:
                self._check_by_replay()
            self._totals = rows.all_texts(self._transaction)
            is_text = all(isinstance(text, str) for texts in self._totals.values() for text in texts)
            if not is_text or self._digest not in (None, digest_totals(self._totals)):
                raise self._damaged("they are not those that the newest entry names")
            if self._digest is not None and not self._is_tail_sound(self._totals):
                self._check_by_replay()
        return self._totals

    def _is_tail_sound(self, totals: dict[str, tuple[str, ...]]) -> bool:
        """Whether the charges of reserves past the head lead from the anchored totals to those of the table.

        What was never anchored may have been appended by hand, with good hashes and totals of its own. Any other entry
        there (after a crash between an act and its head) is left to a replay.
        """
        if not self._tail.entries:
            return True
        before = {pot: list(map(Fraction, texts)) for pot, texts in totals.items()}
        for kind, body_json in self._tail.entries:
            body = json.loads(body_json)
            if kind != "reserve" or not set(body["charges"]) <= set(before):
                return False
            for pot, charge in rows.charges_from(body).items():
                if min(charge) < 0:
                    return False
                before[pot][2 if body["reissue"] else 0] -= charge.amount
                before[pot][1] -= charge.delta
        texts = {pot: [fraction_text(number) for number in numbers] for pot, numbers in before.items()}
        return digest_totals(texts) == _digest_in(self._tail.anchored_body)

    def _check_by_replay(self) -> None:
        """For entries without digests: derive the totals from all of them; recount where the old rule was short."""
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
        body = {"pots": {pot.name: list(rows.texts(pot)) for pot in changed}, "totals": self._digest}
        self.last = rows.append(self._transaction, self.last, "recount", body)

    @property
    def is_sealed(self) -> bool:
        """Whether the newest entry names the digest of all totals; ledgers of the first version have none that do."""
        return self._digest is not None

    def _damaged(self, problem: str) -> RefusedError:
        return RefusedError(
            f"the running totals of the ledger {self._database.shown} are damaged: {problem}. Steward: run "
            "'dither ledger verify', and restore the ledger's newest copy",
            rule=PrivacyRule.ROLLBACK,
        )


def _digest_in(body_json: str | None) -> str | None:
    """The digest of all totals that an entry names; None where it names none, or where there is no entry."""
    digest = None if body_json is None else json.loads(body_json).get("totals")
    return None if digest is None else str(digest)
