"""The steward's acts on a ledger: make it, open and raise pots, record versions, clear incidents.

The kernel opens a plain `Ledger`, which can do none of these.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from dither.canonical import Number, exact, quote
from dither.errors import ParameterError, RefusedError
from dither.privacy.ledger import pot_acts, pot_tree, pots, rows
from dither.privacy.ledger.create import create_schema
from dither.privacy.ledger.database import Transaction
from dither.privacy.ledger.head import Anchor
from dither.privacy.ledger.location import Location
from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.replaying import ReplayingLedger
from dither.privacy.ledger.reports import Reports
from dither.privacy.ledger.store import Append, check_hash
from dither.rules import PrivacyRule

IN_ADVANCE = "windows are opened in advance: what was spent before was spent on every window"


class StewardLedger(ReplayingLedger, Reports):
    """A ledger in the hands of the data steward."""

    @classmethod
    def create(cls, location: Location, head_path: Path) -> Self:
        """Make an empty ledger (a file has mode 0600).

        Refused where a ledger lies, or a head remembers one.
        """
        ledger = cls(location, head_path)
        anchor = ledger._head.read()
        if anchor is not None and anchor.seq:
            raise RefusedError(
                f"the head {head_path} remembers a ledger of {anchor.seq} entries: restore that "
                f"ledger to "
                f"{ledger._database.label}. A lost ledger does not give back what was spent",
                rule=PrivacyRule.ROLLBACK,
            )
        create_schema(ledger._database)
        return cls.open(location, head_path)

    def open_pot(self, name: str, cap: Number, ceiling: Number, **terms: Any) -> Pot:
        """Open a pot.

        Cap, ceiling, rule, purpose and place (see `pots.opened`) are fixed before any answer.
        """
        with self._appending() as (transaction, append):
            return self._open_one(
                transaction, append, rows.openings(transaction), name, cap, ceiling, terms
            )

    def open_windows(
        self,
        name: str,
        cap: Number,
        ceiling: Number,
        column: str,
        labels: tuple[str, ...],
        **terms: Any,
    ) -> Pot:
        """Open a pot for each window, all at once (rule every-window-pays).

        Nothing may have been spent before.

        `cap` and `ceiling` are each window's; under *replace* a unit may move to another window, so
        both together are the partition's.
        """
        copies = 2 if terms["neighbours"] == "replace" else 1
        kept = (
            {}
            if terms.get("reissue") is None
            else {"reissue": copies * exact(terms.pop("reissue"), "reissue")}
        )
        both = [copies * exact(number, "a cap") for number in (cap, ceiling)]
        with self._appending() as (transaction, append):
            before = rows.openings(transaction)
            partition = terms | kept | {"kind": "partition", "column": column}
            pot = self._open_one(transaction, append, before, name, both[0], both[1], partition)
            for label in labels:
                window = terms | {"kind": "part", "value": label, "inside": name}
                window["reissue"] = pot.reissue / copies
                self._open_one(transaction, append, before, f"{name}-{label}", cap, ceiling, window)
        return pot

    def _open_one(
        self,
        transaction: Transaction,
        append: Append,
        before: dict[str, Pot],
        name: str,
        cap: Number,
        ceiling: Number,
        terms: dict[str, Any],
    ) -> Pot:
        """Check and append the opening of one pot, and add it to `before`, the pots so far."""
        if terms.get("kind") == "partition":
            now = rows.registered(transaction)
            terms["version"] = 0 if now is None else now.version
        pot = pots.opened(name, cap, ceiling, **terms)
        pot_acts.check_opening(before, pot)
        if (pot.is_windows or before.get(pot.inside or "", pot).is_windows) and rows.newest(
            transaction, "reserve"
        ):
            raise RefusedError(IN_ADVANCE, rule=PrivacyRule.WINDOWS)
        append("open", pot_acts.write_pot(pot), [pot])
        before[name] = pot
        return pot

    def raise_cap(self, pot: str, cap: Number, reason: str) -> Pot:
        """Raises a pot's cap, at most to its ceiling less the reserve for reissues."""
        with self._appending() as (transaction, append):
            terms = self._terms_of(transaction)
            pot_tree.path(terms, pot)
            after = pot_acts.raise_pot_cap(rows.totals(transaction, terms, [pot])[pot], cap, reason)
            append("raise", {"pot": pot, "cap": after.cap, "reason": reason}, [after])
        return after

    def record_register(
        self, version: int, catalog_hash: str, public: dict[str, Any] | None = None
    ) -> None:
        """Record a new version of the data, by its catalog's hash and public facts.

        Versions count 1, 2, 3, ...
        """
        check_hash(catalog_hash, "catalog_hash")
        with self._appending() as (transaction, append):
            before = rows.registered(transaction)
            expected = 1 if before is None else before.version + 1
            if version != expected or type(version) is not int:
                raise ParameterError(f"the next version is {expected}, got {quote(version)}")
            facts = public or {}
            if before is not None and before.public.get("lineage") != facts.get("lineage"):
                raise RefusedError(
                    f"this ledger follows {before.public.get('lineage')!r}, not "
                    f"{facts.get('lineage')!r}: "
                    "a renamed catalog keeps what its lineage: says, other data gets a state "
                    "folder of its own",
                    rule=PrivacyRule.FOLLOW_DATA,
                )
            append("register", {"version": version, "catalog_hash": catalog_hash, "public": facts})

    def clear_incidents(self, reason: str) -> None:
        """Record that the steward cleared all open incidents: answers may leave again.

        The incidents stay on record. Raises ParameterError where none is open.
        """
        pots.sentence(
            reason, "the reason to clear incidents", "the engine ran out of memory, now doubled"
        )
        with self._appending() as (transaction, append):
            if not rows.incidents_open(transaction):
                raise ParameterError("no incident is open")
            append("clear", {"reason": reason})

    def newest_entry(self) -> Anchor:
        """The newest entry by number and hash: what an anchor names."""
        with self._database.transaction(write=False) as transaction:
            return rows.last(transaction)
