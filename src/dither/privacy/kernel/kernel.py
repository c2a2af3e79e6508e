"""The kernel: the one door between data and the world.

PRICE -> PREPARE -> RESERVE -> MEASURE -> RANDOMISE -> COMMIT -> RELEASE. Everything before RESERVE
may fail freely: no data was read. From RESERVE on the charge stays whatever happens, the one
response to any failure is the constant `UnavailableError`, and the failure is recorded as an
incident. RESERVE to COMMIT run in a thread that no interrupt reaches, so a person's interrupt is no
failure. The kernel believes nothing: plan and price come in, sensitivity, noise and loss are
derived here from the catalog *stored at registration*; randomness is drawn here.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from dither.catalog import Catalog
from dither.data.engines.scratch import remove_spilled
from dither.errors import RefusedError, UnavailableError
from dither.plan.analyse import NEWEST_RULES
from dither.privacy.kernel.calibrate import calibrate_request, loss_of
from dither.privacy.kernel.copying import copy_request
from dither.privacy.kernel.cores import no_core_dumps
from dither.privacy.kernel.incidents import Incidents
from dither.privacy.kernel.parts import check_parts
from dither.privacy.kernel.randomise import Exact, randomise
from dither.privacy.kernel.release import (
    Priced,
    Release,
    Values,
    Version,
    load_libraries,
    repeat_key,
    to_bytes,
)
from dither.privacy.kernel.repeats import repeated
from dither.privacy.kernel.request import Request
from dither.privacy.kernel.statements import statements, take_apart
from dither.privacy.kernel.time_limit import limit_time
from dither.privacy.kernel.uninterrupted import Uninterrupted
from dither.privacy.kernel.versions import newest
from dither.privacy.kernel.windows import paying
from dither.privacy.ledger import Ledger, LedgerView, Pot, Reservation, default_head_path
from dither.privacy.ledger.records import public_id
from dither.privacy.ledger.writer import Seal
from dither.privacy.noise import SystemSource
from dither.privacy.noise.source import fresh_bytes
from dither.rules import PrivacyRule
from dither.state import State

if TYPE_CHECKING:
    from dither.data.measure import Measurer

__all__ = ["Kernel", "KernelStep", "Priced", "Release", "Values"]
MEASURE_TRIES = 3
DRY_RUN: Literal["dry_run"] = "dry_run"
SELECTIONS = 100
MOST_IDLE = 4


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

    def __init__(self, state: State, seal: Seal | None = None) -> None:
        """Open the ledger and the newest version. Use `open_kernel`, which replays where it must.

        `seal` is what such a replay found. `clock` tells the time of a release; a curator with a
        schedule of response times puts its own in the place of `now`.
        """
        no_core_dumps()
        remove_spilled(state)
        self.ledger = Ledger.open(
            state.ledger_location(), default_head_path(state.installation_id()), seal
        )
        self._state = state
        self._incidents = Incidents(self.ledger, state.log)
        self.uninterrupted = Uninterrupted()
        self._process = os.getpid()
        self._idle: list[tuple[int, Measurer]] = []
        self.clock = now
        self.engine_limit_s: float | None = None
        self.version = newest(self.ledger, self._state)

    def view(self, pot: str) -> LedgerView:
        """Read what the ledger says now about a pot, and take the newest registered version.

        Everything between two views speaks of one version: what is bound, priced, measured and
        released.
        """
        view = self.ledger.view(pot)
        if view.registered is None or view.registered.version != self.version.number:
            self.version = newest(self.ledger, self._state)
        return view

    @property
    def catalog(self) -> Catalog:
        """The registered catalog."""
        return self.version.catalog

    def price(self, request: Request, rules: int = NEWEST_RULES) -> Priced:
        """PRICE: mechanisms and loss. Reads no data and spends nothing."""
        return self.price_at(request, rules=rules)

    def price_at(
        self, request: Request, view: LedgerView | None = None, rules: int = NEWEST_RULES
    ) -> Priced:
        """Price a request by a view that was read before."""
        request = copy_request(request)
        return price_request(request, self.version, view or self.ledger.view(request.pot), rules)

    def prepare(self, priced: Priced) -> Measurer:
        """PREPARE: connect to the registered copy and compile the statements.

        It is the last step that may fail without a charge.
        """
        self._incidents.settle(priced.request.pot, is_suspended=priced.view.is_suspended)
        measurer = self.connect(priced.version)
        try:
            for query in statements(priced):
                measurer.prepare(query)
        except BaseException:
            measurer.close()
            raise
        return measurer

    def reserve(self, priced: Priced, **how: Any) -> Reservation:
        """RESERVE: check and charge, durably.

        The pot pays, all pots around it, and the windows that the question may touch.
        """
        version = priced.version
        public = {
            "version": version.number,
            "catalog_hash": version.catalog_hash,
            "request": priced.request.to_json(),
        }
        pots = paying(priced.view.windows, version.catalog, priced.request.pot, priced.request)
        return self.ledger.reserve(pots, priced.loss, priced.key, public, **how)

    def measure(self, priced: Priced, measurer: Measurer, key: bytes | None = None) -> list[Exact]:
        """MEASURE: exact integers for each step.

        Counts and sums over the same rows and keys share one statement. Samples of units are drawn
        by the key of this release.
        """
        return take_apart(priced, [measurer.measure(query, key) for query in statements(priced)])

    def randomise(self, priced: Priced, exact: list[Exact]) -> Values:
        """RANDOMISE: add noise from a source of this release alone.

        A noisy sum is cut off at its public width.
        """
        return randomise(priced.steps, exact, SystemSource())

    def commit(
        self, priced: Priced, reservation: Reservation, values: Values, released_at: str
    ) -> None:
        """COMMIT: the release into the ledger, in the transaction that says so."""
        self.ledger.commit(reservation, to_bytes(priced, values), {"v": 1}, released_at=released_at)

    def send(
        self, priced: Priced, reservation: Reservation, values: Values, released_at: str
    ) -> Release:
        """RELEASE: hand out what is stored and paid for."""
        return Release(
            public_id(reservation.hash),
            priced,
            values,
            reservation.charge,
            reservation.spent_after,
            reservation.cap,
            released_at,
            reservation.charges,
        )

    def release(self, request: Request, **how: Any) -> Release:
        """All seven steps. With a lease's, the only caller of `measure` on registered data.

        An interrupt that comes after PREPARE is raised after COMMIT: the answer is stored, and
        asking again is free.
        """
        return self._release_priced(self.price(request), how)

    def _release_priced(self, priced: Priced, how: dict[str, Any]) -> Release:
        """Charge for a priced request, measure it, store the answer and return it.

        This runs where no interrupt reaches. After the charge every failure is the same
        UnavailableError.
        """
        _refuse_rehearsal(priced)
        measurer = self.prepare(priced)
        stored = self.uninterrupted.run(lambda: self._charge_and_store(priced, measurer, how))
        if stored is None:
            # raised out here, so that neither cause nor frames travel with the constant response
            raise UnavailableError
        return self.send(priced, *stored)

    def _charge_and_store(
        self, priced: Priced, measurer: Measurer, how: dict[str, Any]
    ) -> tuple[Reservation, Values, str] | None:
        """Do RESERVE to COMMIT: charge, measure, add noise and store.

        Returns the reservation, the released values and the time of release; None after a failure,
        which is then on record. The charge stays in both cases.
        """
        answer = None
        try:
            reservation = self.reserve(priced, **how)
            answer = self._measure_and_store(priced, measurer, reservation)
        finally:
            with suppress(Exception):
                self.put_back(priced.version, measurer, sound=answer is not None)
        return None if answer is None else (reservation, *answer)

    def _measure_and_store(
        self, priced: Priced, measurer: Measurer, reservation: Reservation
    ) -> tuple[Values, str] | None:
        """Do MEASURE to COMMIT: return the stored values and the time of release.

        Returns None on any failure. The exception and its frames, which hold exact values, end
        here. No interrupt reaches this thread, so whatever is raised is a failure of engine or
        store. The time is taken when all is ready to leave: that of the charge, seen beside the
        moment the answer appears, would tell how long it took.
        """
        try:
            values = self.randomise(priced, self.measure_with_retries(priced, measurer))
            released_at = self.clock()
            self.commit(priced, reservation, values, released_at)
        except BaseException as error:
            self.record_incident(reservation, error)
            return None
        return values, released_at

    def measure_with_retries(self, priced: Priced, measurer: Measurer) -> list[Exact]:
        """MEASURE: run the statements, at most three times, always over the same sample.

        One limit of time holds for all tries together. Raises what the last try raised.
        """
        key = fresh_bytes(32)
        with limit_time(self.engine_limit_s, measurer.interrupt) as has_struck:
            for _ in range(MEASURE_TRIES - 1):
                try:
                    return self.measure(priced, measurer, key)
                except Exception:
                    if has_struck():
                        raise
            return self.measure(priced, measurer, key)

    def record_incident(self, reservation: Reservation, error: BaseException | None = None) -> None:
        """Count a failure now, or before this kernel answers again.

        The reason goes to the steward's log alone.
        """
        self._incidents.record(reservation, error)

    def check_incidents(self, pot: str) -> None:
        """Refuse while incidents suspend the pot, all that it is inside of, or the dataset.

        Refused too where another curator took over (rule one-curator).
        """
        self.ledger.check_epoch()
        self._incidents.settle(pot, is_suspended=self.ledger.is_suspended(pot))

    def answer(self, request: Request, rules: int = NEWEST_RULES) -> Release:
        """Release a request, or hand out the stored answer to it.

        A stored answer is free to those who paid for it. Under earlier rules only what is stored is
        handed out.
        """
        priced = self.price(request, rules)
        _refuse_rehearsal(priced)
        return self.uninterrupted.run(
            lambda: repeated(self.ledger, priced, self.clock())
        ) or self._release_priced(priced, {})

    def connect(self, version: Version) -> Measurer:
        """Open the copy of one registered version read-only.

        One that an earlier question left is taken where there is one.
        """
        if os.getpid() != self._process:
            raise RefusedError(
                "a connection is not inherited by a forked process: connect again",
                rule=PrivacyRule.NO_FORK,
            )
        # A measurer of other bounds must never serve this price.
        if version.rules != NEWEST_RULES:
            raise RefusedError(
                "no answer is stored under the earlier rules: ask again", rule=PrivacyRule.NO_RULE
            )
        from dither.data.measure import Measurer  # with the engine: a price needs neither

        load_libraries()
        while True:
            try:
                number, measurer = self._idle.pop()
            except IndexError:
                copy = self._state.version(version.number) / "data.duckdb"
                return Measurer(
                    copy,
                    version.catalog,
                    version.facts,
                    analyses=version.kernel_analyses,
                    scratch=self._state.scratch,
                )
            if number == version.number:
                return measurer
            measurer.close()

    def put_back(self, version: Version, measurer: Measurer, sound: bool) -> None:
        """Keep a measurer and its compiled statements for the next question.

        One that failed is closed.
        """
        if sound and len(self._idle) < MOST_IDLE:
            self._idle.append((version.number, measurer))
        else:
            measurer.close()


def price_request(request: Request, version: Version, view: LedgerView, rules: int) -> Priced:
    """Mechanisms, loss and key of a request.

    The result depends on request, version, view and rules of stability alone, so that whoever has
    these public facts can compute it.
    """
    if request.context != "asked":
        version = replace(version, context=DRY_RUN)
    version = version if version.rules == rules else replace(version, rules=rules)
    check_asking_pot(view)
    check_parts(request, view.path, version.catalog, version.number)
    delta = delta_of_path(view.path)
    steps = calibrate_request(request, version.kernel_analyses, delta)
    loss = loss_of(steps)
    key = repeat_key(request, steps, loss, delta, version)
    return Priced(request, steps, loss, version, key, view)


def _refuse_rehearsal(priced: Priced) -> None:
    if priced.version.context == DRY_RUN:
        raise RefusedError("a dry run is rehearsed, never released", rule=PrivacyRule.REHEARSAL)


def now() -> str:
    """The time of a release, to the second: the one time that anyone sees."""
    return datetime.now(UTC).replace(microsecond=0).isoformat()


def check_asking_pot(view: LedgerView) -> None:
    """Refuse a pot from which nobody asks: one that sees all groups, or that pays for others."""
    if len(view.path) == 1 and view.path[0].policy == "separate":
        raise RefusedError(
            f"groups are kept apart here: ask from a group's own budget, not from "
            f"{view.path[0].name!r}, which sees all",
            rule=PrivacyRule.PAID_VALUES,
        )
    refuse_shared_pots(view)


def refuse_shared_pots(view: LedgerView) -> None:
    """Refuse a question that is asked from a partition or a window.

    Both pay for what others ask, so their answers would be free.
    """
    if not view.path:
        return
    pot = view.path[0]
    is_window = view.windows is not None and pot.inside == view.windows[0].name
    if pot.kind == "partition" or is_window:
        raise RefusedError(
            f"budget {pot.name!r} pays for what others ask: ask from one of its parts, or from a "
            f"budget of your own",
            rule=PrivacyRule.PAID_VALUES,
        )


def delta_of_path(path: tuple[Pot, ...]) -> Fraction:
    """Compute the delta that one question may use; `path` is its pot and all pots around it.

    Its pot states it; else it is a hundredth of what the pot keeps for selections of keys.
    """
    if not path:
        return Fraction(0)
    return path[0].rule.delta_per_question or path[0].rule.delta_selection / SELECTIONS
