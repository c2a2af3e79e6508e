"""Who is suspended after incidents, since when, and what ends it. For the steward's eyes: the time
of a failure is in the steward's log alone, since it would tell how long a question ran."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from dither.privacy.ledger.reports import Reports
from dither.state import State
from dither.steward.budgets import open_ledger

UNKNOWN_TIME = "a time that the steward's log does not tell"


@dataclass(frozen=True)
class Suspension:
    """Open incidents. `pots` are those that may not ask, or none if nobody may."""

    since: str
    codes: tuple[str, ...]
    pots: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What is suspended and since when; what clears it is the command line's to say."""
        who = f"budget {', '.join(self.pots)} is" if self.pots else "everybody is"
        return f"{who} suspended since {self.since} ({', '.join(self.codes)})"


def read_suspension(state: State) -> Suspension | None:
    """Read the suspension of a dataset; None where no incident is open."""
    ledger = open_ledger(state)
    try:
        reports = Reports.from_ledger(ledger)
        incidents = reports.incidents_open()
        if not incidents:
            return None
        pots = tuple(pot.name for pot in reports.pots() if ledger.is_suspended(pot.name))
        is_for_all = ledger.is_suspended(None)
    finally:
        ledger.close()
    times = _read_times(state.log)
    since = min((times[i.reserve] for i in incidents if i.reserve in times), default=UNKNOWN_TIME)
    codes = tuple(dict.fromkeys(incident.code for incident in incidents))
    return Suspension(since, codes, () if is_for_all else pots)


def _read_times(log: Path) -> dict[int, str]:
    """Read the time of each incident in the steward's log, by its reserve.

    Lines that are no incident are passed over.
    """
    times: dict[int, str] = {}
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return times
    for line in lines:
        try:
            document = json.loads(line)
            times.setdefault(int(document["reserve"]), str(document["time"])[:40])
        except (KeyError, TypeError, ValueError):
            continue
    return times
