"""Failures after a charge: each is taken down in the ledger, now or before anything else is answered."""

from __future__ import annotations

from dither.errors import RefusedError
from dither.privacy.ledger import Ledger, Reservation
from dither.privacy.ledger.store import ONE_INCIDENT

FAILED = "failed_after_reserve"


class Incidents:
    """Those of one kernel; what the ledger could not take down waits here."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._unrecorded = ledger, list[Reservation]()

    def record(self, reservation: Reservation) -> None:
        """Recorded now, or before this kernel answers again; the response is the same constant either way."""
        try:
            self._ledger.record_incident(reservation, FAILED)
        except Exception:
            self._unrecorded.append(reservation)

    def settle(self) -> None:
        """Everything is recorded and the dataset not suspended, or nothing is answered."""
        while self._unrecorded:
            try:
                self._ledger.record_incident(self._unrecorded[0], FAILED)
            except RefusedError as error:
                if error.rule != ONE_INCIDENT:  # recorded after all, only its head was not
                    raise
            self._unrecorded.pop(0)
        if self._ledger.is_suspended():
            raise RefusedError("suspended until the data steward clears an incident", rule="incidents are capped")
