"""Since when incidents suspend the budgets of a served dataset, as those who ask could see it.

The time of a failure would tell how long a question ran. What is kept here is the end of the slot
from which on a budget was refused: the time that all who ask from it could see. There is no number
of incidents and no cause, which the steward reads on the curator's machine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock

from dither.identity.principal import Principal
from dither.identity.private_file import open_database
from dither.privacy.ledger.reports import Reports
from dither.privacy.ledger.store import Ledger
from dither.protocol.page_messages import DatasetStatus

_TABLE = """CREATE TABLE IF NOT EXISTS suspension (
    dataset TEXT NOT NULL, pot TEXT NOT NULL, since TEXT NOT NULL, PRIMARY KEY (dataset, pot))"""


class SuspensionLog:
    """When budgets were seen to be suspended, in the curator's own file."""

    def __init__(self, home: Path) -> None:
        self._lock = Lock()
        self._database = open_database(home)
        self._database.execute(_TABLE)

    def read_times(self, dataset: str) -> dict[str, str]:
        """The time of each budget of a dataset that is suspended, as last noted."""
        with self._lock:
            rows = self._database.execute(
                "SELECT pot, since FROM suspension WHERE dataset = ?", (dataset,)
            )
            return dict(rows.fetchall())

    def note(self, dataset: str, pots: set[str], time: str) -> None:
        """Note that these budgets and no others are suspended; known times stay."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            known = self._database.execute(
                "SELECT pot FROM suspension WHERE dataset = ?", (dataset,)
            ).fetchall()
            cleared = [(dataset, pot) for (pot,) in known if pot not in pots]
            self._database.executemany(
                "DELETE FROM suspension WHERE dataset = ? AND pot = ?", cleared
            )
            self._database.executemany(
                "INSERT OR IGNORE INTO suspension VALUES (?, ?, ?)",
                [(dataset, pot, time) for pot in sorted(pots)],
            )
            self._database.execute("COMMIT")


class Suspensions:
    """The suspensions of one dataset. `find_ledger` gives the ledger that is open now."""

    def __init__(self, find_ledger: Callable[[], Ledger], log: SuspensionLog, dataset: str) -> None:
        self._find_ledger = find_ledger
        self._log = log
        self._dataset = dataset

    def note(self, time: str) -> None:
        """Give budgets that are suspended, and were not before, a time that all may know."""
        self._log.note(self._dataset, self._list_suspended(), time)

    def _list_suspended(self) -> set[str]:
        """The budgets that may not ask now."""
        ledger = self._find_ledger()
        reports = Reports.from_ledger(ledger)
        if not reports.incidents_open():
            return set()
        return {pot.name for pot in reports.pots() if ledger.is_suspended(pot.name)}

    def describe(self, principal: Principal, time: str) -> DatasetStatus:
        """What a principal may know: of own budgets, or, where the role sees all, of any."""
        self.note(time)
        times = self._log.read_times(self._dataset)
        own = [pot for pot in principal.pots if pot in times]
        visible = list(times) if principal.sees_all_pots else own
        return DatasetStatus(
            name=principal.name,
            role=principal.role,
            own_pots=list(principal.pots),
            since=min((times[pot] for pot in visible), default=None),
            pots=own,
            is_for_all=bool(visible) and self._find_ledger().is_suspended(None),
        )
