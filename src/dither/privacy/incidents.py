"""Failures after a charge: each is recorded in the ledger, now or before anything else is answered.

Why it failed is written to the steward's log alone: an engine's message may quote a row.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from dither.errors import RefusedError
from dither.privacy.ledger import Ledger, Reservation
from dither.privacy.ledger.store import ABANDONED, ONE_INCIDENT, SUSPENDED
from dither.privacy.steward_log import log_incident

FAILED = "failed_after_reserve"


class Incidents:
    """Those of one kernel. What the ledger could not record waits here."""

    def __init__(self, ledger: Ledger, log: Path) -> None:
        self._ledger = ledger
        self._log = log
        self._unrecorded: list[Reservation] = []
        ledger.on_abandoned = partial(log_incident, log, ABANDONED)

    def record(self, reservation: Reservation, error: BaseException | None = None) -> None:
        """Recorded now, or before this kernel answers again; the response is the same either way."""
        log_incident(self._log, FAILED, reservation.seq, reservation.pot, error)
        try:
            self._ledger.record_incident(reservation, FAILED)
        except Exception:
            self._unrecorded.append(reservation)

    def settle(self, pot: str, *, is_suspended: bool) -> None:
        """Everything is recorded and `pot` not suspended, or nothing is answered."""
        had_unrecorded = bool(self._unrecorded)
        while self._unrecorded:
            try:
                self._ledger.record_incident(self._unrecorded[0], FAILED)
            except RefusedError as error:
                if error.rule != ONE_INCIDENT:  # recorded after all, only its head was not
                    raise
            self._unrecorded.pop(0)
        if is_suspended or (had_unrecorded and self._ledger.is_suspended(pot)):
            raise RefusedError(SUSPENDED, rule="incidents are capped")
