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
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from dither.catalog import Catalog, catalog_hash, from_json
from dither.data.generated import write_generated
from dither.data.measure import Measurer
from dither.errors import BudgetError, DitherError, RefusedError, UnavailableError
from dither.plan.algebra import Cells, Query
from dither.plan.facts import load_facts
from dither.privacy.calibrate import calibrate, loss_of
from dither.privacy.cores import no_core_dumps
from dither.privacy.ledger import Ledger, Pot, Reservation, default_head_path
from dither.privacy.ledger.store import ONE_INCIDENT
from dither.privacy.noise import SystemSource
from dither.privacy.noise.source import fresh_bytes
from dither.privacy.parts import check_parts
from dither.privacy.randomise import Exact, randomise
from dither.privacy.release import Priced, Release, Values, Version, from_bytes, repeat_key, to_bytes
from dither.privacy.request import Request
from dither.privacy.windows import paying
from dither.state import State

__all__ = ["Kernel", "KernelStep", "Priced", "Release", "Values"]
MEASURE_TRIES = 3
DRY_RUN: Literal["dry_run"] = "dry_run"
SELECTIONS = 100
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
        self._generated: tuple[str, TemporaryDirectory[str]] | None = None
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
        folder = self._state.version(registered.version)
        catalog = from_json(json.loads((folder / "catalog.json").read_text(encoding="utf-8")))
        facts = load_facts(folder)
        if (catalog_hash(catalog), facts.hash) != (registered.catalog_hash, registered.public["facts_hash"]):
            raise RefusedError("the stored catalog is not the registered one", rule="the ledger holds its hash")
        context = str(registered.public["context"])
        return Version(registered.version, catalog, registered.catalog_hash, context, facts)

    @property
    def catalog(self) -> Catalog:
        """The registered catalog."""
        return self.at.catalog

    def price(self, request: Request) -> Priced:
        """PRICE: mechanisms and loss. Reads no data and spends nothing."""
        at, way = self.at, self._way(request.pot)
        if request.context != "asked":
            at = replace(at, context=DRY_RUN)
        if len(way) == 1 and way[0].policy == "separate":
            raise RefusedError(
                f"groups are kept apart here: ask from a group's own pot, not from {request.pot!r}, which sees all",
                rule="privacy-rules 12",
            )
        delta = delta_of(way[0]) if way else Fraction(0)
        steps = calibrate(request, at.catalog, delta, at.facts)
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
        for query in statements(priced):
            measurer.prepare(query)
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
            self._warm = (at.number, Measurer(copy, at.catalog, at.facts))
        return Measurer(copy, at.catalog, at.facts)

    def reserve(self, priced: Priced, **how: Any) -> Reservation:
        """RESERVE: check and charge, durably; the pot, all that it is inside of, and the windows it may touch."""
        at, asked = priced.at, priced.request.to_json()
        public = {"version": at.number, "catalog_hash": at.catalog_hash, "request": asked}
        pots = paying(self.ledger, at.catalog, priced.request.pot, priced.request)
        return self.ledger.reserve(pots, priced.loss, priced.key, public, **how)

    def measure(self, priced: Priced, measurer: Measurer, key: bytes | None = None) -> list[Exact]:
        """MEASURE: exact integers for each step; counts and sums over the same rows and keys share one statement.

        Samples of units are drawn by the key of this release.
        """
        found = {_rows_of(query): measurer.measure(query, key) for query in statements(priced)}
        taken = dict.fromkeys(found, 0)
        exact: list[Exact] = []
        for query in (each.step.query for each in priced.steps):
            where = _rows_of(query)
            if not isinstance(query, Cells):
                exact.append(found[where])
                continue
            mine = slice(taken[where], taken[where] + len(query.columns))
            taken[where] = mine.stop
            by_key = found[where] if isinstance(found[where], dict) else {(): found[where]}
            exact.append({unlisted: numbers[:, mine] for unlisted, numbers in by_key.items()})
        return exact

    def randomise(self, priced: Priced, exact: list[Exact]) -> Values:
        """RANDOMISE: noise from a source of this release alone; the noisy sum saturates at its public width."""
        return randomise(priced.steps, exact, SystemSource())

    def commit(self, priced: Priced, reservation: Reservation, values: Values, released_at: str) -> None:
        """COMMIT: the release into the ledger, in the transaction that says so."""
        self.ledger.commit(reservation, to_bytes(priced, values), {"v": 1}, released_at=released_at)

    def send(self, priced: Priced, reservation: Reservation, values: Values, at: str) -> Release:
        """RELEASE: hand out what is stored and paid for."""
        standing = (reservation.charge, reservation.spent_after, reservation.cap)
        return Release(str(reservation.seq), priced, values, *standing, at, reservation.charges)

    def rehearse(self, request: Request) -> Release:
        """The request on a table generated from the catalog alone: free, stored nowhere, about nobody.

        The registered copy is not opened and no pot is charged; what it shows has the same law whatever the data is,
        and is as noisy as the real answer would be.
        """
        priced = self.price(replace(request, context=DRY_RUN))
        at, known = priced.at, f"{priced.at.catalog_hash}{priced.at.facts.hash}"
        if self._generated is None or self._generated[0] != known:
            folder = TemporaryDirectory(prefix="dither-dry-run-")
            write_generated(at.catalog, at.facts, Path(folder.name) / "data.duckdb")
            self._generated = (known, folder)
        measurer = Measurer(Path(self._generated[1].name) / "data.duckdb", at.catalog, at.facts)
        try:
            values = self.randomise(priced, self.measured(priced, measurer))
        finally:
            measurer.close()
        return Release(DRY_RUN, priced, values, Fraction(0), Fraction(0), Fraction(0), now())

    def release(self, request: Request, **how: Any) -> Release:
        """All seven steps. With a lease's, the only caller of `measure` on registered data."""
        priced = self.price(request)
        _refuse_rehearsal(priced)
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

    def measured(self, priced: Priced, measurer: Measurer) -> list[Exact]:
        """The statement may be run again, at most twice, with the same sample; never is another put in its place."""
        key = fresh_bytes(32)
        for _ in range(MEASURE_TRIES - 1):
            with suppress(Exception):
                return self.measure(priced, measurer, key)
        return self.measure(priced, measurer, key)

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
        _refuse_rehearsal(priced)
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


def _refuse_rehearsal(priced: Priced) -> None:
    if priced.at.context == DRY_RUN:
        raise RefusedError("a dry run is rehearsed, never released", rule="a rehearsal touches no registered data")


def statements(priced: Priced) -> list[Query]:
    """What is measured: counts and sums over the same rows and keys together, everything else by itself."""
    together: dict[Any, Query] = {}
    for query in (each.step.query for each in priced.steps):
        known = together.get(_rows_of(query))
        if isinstance(query, Cells) and isinstance(known, Cells):
            query = Cells(query.plan, query.keys, known.columns + query.columns)
        together[_rows_of(query)] = query
    return list(together.values())


def _rows_of(query: Query) -> Any:
    """What queries share that are measured in one statement."""
    return (query.plan, query.keys) if isinstance(query, Cells) else query


def now() -> str:
    """The time of a release, to the second: the one time that anyone sees."""
    return datetime.now(UTC).replace(microsecond=0).isoformat()


def delta_of(pot: Pot) -> Fraction:
    """The delta of one question: what the pot states, or a hundredth of what it keeps for selections of keys."""
    return pot.filter.delta_per_question or pot.filter.delta_selection / SELECTIONS
