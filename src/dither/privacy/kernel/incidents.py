"""Failures after a charge: each is recorded in the ledger, now or before anything else is answered.

Why it failed is written to the steward's log alone: an engine's message may quote a row.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Lock

from dither.errors import RefusedError
from dither.privacy.kernel.steward_log import log_incident
from dither.privacy.ledger import Ledger, Reservation
from dither.privacy.ledger.rows import ABANDONED, REFUSED_MEANWHILE
from dither.privacy.ledger.store import SUSPENDED
from dither.rules import PrivacyRule

FAILED = "failed_after_reserve"


class Incidents:
    """Those of one kernel. What the ledger could not record waits here."""

    def __init__(self, ledger: Ledger, log: Path) -> None:
        """Record incidents in `ledger` and in the log, also those of processes that died."""
        self._ledger = ledger
        self._log = log
        self._unrecorded: list[tuple[Reservation, str]] = []
        self._guard = Lock()
        ledger.on_abandoned = partial(log_incident, log, ABANDONED)

    def record(self, reservation: Reservation, error: BaseException | None = None) -> None:
        """Record an incident now, or before this kernel answers again.

        The response is the same either way.
        """
        code = REFUSED_MEANWHILE if _is_suspension(error) else FAILED
        log_incident(self._log, code, reservation.seq, reservation.pot, error)
        try:
            self._ledger.record_incident(reservation, code)
        except Exception:
            with self._guard:
                self._unrecorded.append((reservation, code))

    def settle(self, pot: str, *, is_suspended: bool) -> None:
        """Record what is unrecorded, then refuse to answer if `pot` is suspended."""
        with self._guard:  # two threads at once would each take the other's away
            had_unrecorded = bool(self._unrecorded)
            while self._unrecorded:
                try:
                    self._ledger.record_incident(*self._unrecorded[0])
                except RefusedError as error:
                    # of one incident: recorded after all, only its head was not moved
                    if error.rule != PrivacyRule.ONE_INCIDENT:
                        raise
                self._unrecorded.pop(0)
        if is_suspended or (had_unrecorded and self._ledger.is_suspended(pot)):
            raise RefusedError(SUSPENDED, rule=PrivacyRule.INCIDENTS_CAPPED)


def _is_suspension(error: BaseException | None) -> bool:
    """Say whether an answer was refused because of an earlier failure, not one of its own."""
    return isinstance(error, RefusedError) and error.rule == PrivacyRule.INCIDENTS_CAPPED
