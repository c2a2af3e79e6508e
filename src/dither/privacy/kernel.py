"""The kernel: the one door between data and the world.

PRICE -> PREPARE -> RESERVE -> MEASURE -> RANDOMISE -> COMMIT -> RELEASE. Everything before RESERVE may fail freely: no
data was read. From RESERVE on the charge stays whatever happens, the one response to any failure is the constant
`UnavailableError`, and the failure is recorded as an incident. The kernel believes nothing: plan and price come in,
sensitivity, noise and loss are derived here from the catalog *stored at registration*; randomness is drawn here.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from dither.catalog import Catalog, catalog_hash, from_json
from dither.data.measure import Measurer
from dither.errors import BudgetError, DitherError, ParameterError, RefusedError, UnavailableError
from dither.plan.algebra import Aggregate, Cells, Plan
from dither.plan.domains import shape
from dither.privacy.calibrate import calibrate, loss_of
from dither.privacy.cores import no_core_dumps
from dither.privacy.ledger import Ledger, Pot, Reservation, default_head_path
from dither.privacy.ledger.store import ONE_INCIDENT
from dither.privacy.noise import SystemSource
from dither.privacy.parts import check_parts
from dither.privacy.release import Priced, Release, Values, Version, from_bytes, repeat_key, to_bytes
from dither.privacy.request import Request
from dither.privacy.windows import paying
from dither.state import State

__all__ = ["Kernel", "KernelStep", "Priced", "Release", "Values"]
MEASURE_TRIES = 3
FAILED = "failed_after_reserve"


class KernelStep(Enum):
    """The steps of a release, in order; a process can die between any two of them."""

    PRICE = "price"
    PREPARE = "prepare"
    RESERVE = "reserve"
    MEASURE = "measure"
    RANDOMISE = "randomise"
    COMMIT = "commit"
    RELEASE = "release"


class Kernel:
    """One dataset's kernel, over its state folder."""

    def __init__(self, state: State) -> None:
        no_core_dumps()
        self.ledger = Ledger.open(state.ledger_location(), default_head_path(state.installation_id()))
        self._state, self._unrecorded = state, list[Reservation]()
        self._warm: tuple[int, Measurer] | None = None
        self._process = os.getpid()
        self.at = self._newest()

    def refresh(self) -> None:
        """Take the newest registered version and its catalog, which must be the one whose hash the ledger holds.

        Everything between two refreshes speaks of one version: what is bound, priced, measured and released.
        """
        registered = self.ledger.registered()
        if registered is None or registered.version != self.at.number:
            self.at = self._newest()

    def _newest(self) -> Version:
        registered = self.ledger.registered()
        if registered is None:
            raise DitherError("nothing is registered: the data steward runs 'dither register CATALOG' first")
        text = (self._state.version(registered.version) / "catalog.json").read_text(encoding="utf-8")
        catalog = from_json(json.loads(text))
        if catalog_hash(catalog) != registered.catalog_hash:
            raise RefusedError("the stored catalog is not the registered one", rule="the ledger holds its hash")
        context = str(registered.public["context"])
        return Version(registered.version, catalog, registered.catalog_hash, context)

    @property
    def catalog(self) -> Catalog:
        """The registered catalog."""
        return self.at.catalog

    def price(self, request: Request) -> Priced:
        """PRICE: mechanisms and loss. Reads no data and spends nothing."""
        if request.context != "asked":
            raise ParameterError("a dry run is not supported yet: use preview(), which reads no data")
        at, way = self.at, self._way(request.pot)
        if len(way) == 1 and way[0].policy == "separate":
            raise RefusedError(
                f"groups are kept apart here: ask from a group's own pot, not from {request.pot!r}, which sees all",
                rule="privacy-rules 12",
            )
        delta = way[0].filter.delta_per_question if way else Fraction(0)
        steps = calibrate(request, at.catalog, delta)
        if len({shape(each.step.query, at.catalog)[0] for each in steps}) != 1:
            raise RefusedError("the steps of a request have different keys", rule="one release has one shape")
        check_parts(request, way, at.catalog, at.number)
        loss = loss_of(steps)
        return Priced(request, steps, loss, at, repeat_key(request, steps, loss, delta, at))

    def _way(self, pot: str) -> tuple[Pot, ...]:
        """The pot and all it is inside of; nothing where it is not open, which `reserve` refuses."""
        try:
            return self.ledger.path(pot)
        except BudgetError:
            return ()

    def prepare(self, priced: Priced) -> Measurer:
        """PREPARE: connect and compile; the last step that may fail freely."""
        while self._unrecorded:  # failures that the ledger could not take down then: now, or no answer
            try:
                self.ledger.record_incident(self._unrecorded[0], FAILED)
            except RefusedError as error:
                if error.rule != ONE_INCIDENT:  # recorded after all, only its head was not
                    raise
            self._unrecorded.pop(0)
        if self.ledger.is_suspended():
            raise RefusedError("suspended until the data steward clears an incident", rule="incidents are capped")
        measurer = self.connect(priced.at)
        for each in priced.steps:
            measurer.prepare(each.step.query)
        return measurer

    def connect(self, at: Version) -> Measurer:
        """The copy of one registered version with its own catalog, opened read-only.

        One connection to the newest version stays open: while it does, opening another is quick.
        """
        if os.getpid() != self._process:
            raise RefusedError(
                "a connection is not inherited by a forked process: connect again", rule="engines do not fork"
            )
        copy = self._state.version(at.number) / "data.duckdb"
        if self._warm is None or self._warm[0] != at.number:
            self._warm = (at.number, Measurer(copy, at.catalog))
        return Measurer(copy, at.catalog)

    def reserve(self, priced: Priced, **how: Any) -> Reservation:
        """RESERVE: check and charge, durably; the pot, all that it is inside of, and the windows it may touch."""
        at, asked = priced.at, priced.request.to_json()
        public = {"version": at.number, "catalog_hash": at.catalog_hash, "request": asked}
        pots = paying(self.ledger, at.catalog, priced.request.pot, priced.request)
        return self.ledger.reserve(pots, priced.loss, priced.key, public, **how)

    def measure(self, priced: Priced, measurer: Measurer) -> list[NDArray[Any]]:
        """MEASURE: exact integers, one array per step; steps over the same rows and keys share one statement."""
        asked: dict[tuple[Plan, tuple[str, ...]], list[Aggregate]] = {}
        for query in (each.step.query for each in priced.steps):
            asked.setdefault((query.plan, query.keys), []).extend(query.columns)
        found = {where: measurer.measure(Cells(*where, tuple(columns))) for where, columns in asked.items()}
        taken = dict.fromkeys(found, 0)
        exact = []
        for query in (each.step.query for each in priced.steps):
            where = (query.plan, query.keys)
            exact.append(found[where][:, taken[where] : taken[where] + len(query.columns)].ravel())
            taken[where] += len(query.columns)
        return exact

    def randomise(self, priced: Priced, exact: list[NDArray[Any]]) -> Values:
        """RANDOMISE: noise from a source of this release alone; the noisy sum saturates at its public width."""
        source = SystemSource()
        noisy = (each.mechanism.release(cells, source=source) for each, cells in zip(priced.steps, exact, strict=True))
        return tuple(
            tuple(max(-each.width, min(each.width, int(value))) for value in cells)
            for each, cells in zip(priced.steps, noisy, strict=True)
        )

    def commit(self, priced: Priced, reservation: Reservation, values: Values, released_at: str) -> None:
        """COMMIT: the release into the ledger, in the transaction that says so."""
        self.ledger.commit(reservation, to_bytes(priced, values), {"v": 1}, released_at=released_at)

    def send(self, priced: Priced, reservation: Reservation, values: Values, at: str) -> Release:
        """RELEASE: hand out what is stored and paid for."""
        standing = (reservation.charge, reservation.spent_after, reservation.cap)
        return Release(str(reservation.seq), priced, values, *standing, at, reservation.charges)

    def release(self, request: Request, **how: Any) -> Release:
        """All seven steps. With a lease's, the only caller of `measure`."""
        priced = self.price(request)
        measurer = self.prepare(priced)
        try:
            reservation = self.reserve(priced, **how)
            answered = self._answered(priced, measurer, reservation)
        finally:
            with suppress(Exception):
                measurer.close()
        if answered is None:  # raised out here, so that neither cause nor frames travel with the constant response
            self.record_incident(reservation)
            raise UnavailableError
        return self.send(priced, reservation, *answered)

    def _answered(self, priced: Priced, measurer: Measurer, reservation: Reservation) -> tuple[Values, str] | None:
        """MEASURE to COMMIT; None on any failure, whose exception and frames (exact values) end here.

        An interrupt is a failure too: whether someone lost patience may depend on the data. The time is taken when all
        is ready to leave: that of the charge, seen beside the moment the answer appears, would tell how long it took.
        """
        with suppress(BaseException):
            values = self.randomise(priced, self.measured(priced, measurer))
            at = now()
            self.commit(priced, reservation, values, at)
            return values, at
        return None

    def measured(self, priced: Priced, measurer: Measurer) -> list[NDArray[Any]]:
        """The statement may be run again, at most twice; never is another question's answer put in its place."""
        for _ in range(MEASURE_TRIES - 1):
            with suppress(Exception):
                return self.measure(priced, measurer)
        return self.measure(priced, measurer)

    def record_incident(self, reservation: Reservation) -> None:
        """Recorded now, or before this kernel answers again; the response is the same constant either way."""
        try:
            self.ledger.record_incident(reservation, FAILED)
        except Exception:
            self._unrecorded.append(reservation)

    def answer(self, request: Request) -> Release:
        """The stored release where one answers the request, free to those who paid for it; else a new one.

        Global: the dataset's total has paid, and it alone is promised, so the answer is free to all. Separate: pots on
        the way up that have not paid do so now, and receive the same answer (privacy-rules 12). No data is read.
        """
        priced = self.price(request)
        way = self._way(request.pot)
        found = self.ledger.find(priced.key, request.pot) if way else None
        if found is None:
            return self.release(request)
        seq, at, values = str(found.seq), found.released_at, from_bytes(found.stored.arrow_bytes)
        if way[-1].policy == "separate" and found.owing:
            paid = self.ledger.share(found.seq, request.pot, released_at=now())
            return Release(
                seq, priced, values, paid.charge, paid.spent_after, paid.cap, at, paid.charges, repeated=True
            )
        pot = self.ledger.pot(request.pot, under_way=False)
        return Release(seq, priced, values, Fraction(0), pot.spent, pot.cap, at, repeated=True)


def now() -> str:
    """The time of a release, to the second: the one time that anyone sees."""
    return datetime.now(UTC).replace(microsecond=0).isoformat()
