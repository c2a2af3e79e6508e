"""A lease of fixed steps: one charge for a planned sequence, then its steps one by one.

No disk sync comes between the steps. `budget_lease.py` has the lease whose steps are priced as they
come.

The plan fixes every step's *loss* in advance; the *queries* may be chosen after seeing earlier
answers (training, sparse vector, MWEM). Each step is checked against the plan: its loss, derived by
the kernel from query and catalog, must be the next planned one. A lease lives and dies with its
process: the charge stays, nothing resumes, and it can be neither copied nor used on the far side of
a fork, so no planned loss is spent twice. Its outputs are stored when it closes: at the end of its
`with` block, after the step at which a person interrupts it, or when Python exits.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import NoReturn

import pyarrow as pa

from dither.canonical import digest
from dither.errors import RefusedError, UnavailableError
from dither.privacy.charges.measures import leaf_events, pair
from dither.privacy.kernel.kernel import Kernel, check_asking_pot
from dither.privacy.kernel.release import Priced, Values, Version, table_bytes
from dither.privacy.kernel.request import Request
from dither.privacy.kernel.statements import statements
from dither.privacy.kernel.windows import paying
from dither.privacy.ledger.pots import charge_of
from dither.privacy.losses import (
    Composed,
    FixedPlan,
    Loss,
    PoissonSampled,
    Repeated,
    SampledWithoutReplacement,
)
from dither.rules import PrivacyRule


def events(planned: Loss) -> Iterator[Loss]:
    """Yield the losses of a plan in order. A composition inside a repetition is one step."""
    if isinstance(planned, Composed):
        for loss in planned.losses:
            yield from events(loss)
    elif isinstance(planned, Repeated):
        for _ in range(planned.count):
            yield planned.loss
    else:
        yield planned


def has_gaussian_samples(loss: Loss) -> bool:
    """Whether a loss holds samples of Gaussian noise, whose amplification zCDP does not know."""
    return any(
        isinstance(event, (PoissonSampled, SampledWithoutReplacement)) and pair(event) is None
        for event in leaf_events(loss)
    )


def refuse_useless_price(kernel: Kernel, planned: Loss, pot: str) -> None:
    """Refuse samples of Gaussian noise in a pot that counts rho, and name a pot that fits.

    zCDP knows no amplification by sampling: such a pot would take what the whole data costs.
    """
    counts_rho = any(payer.rule.name == "zcdp" for payer in kernel.ledger.view(pot).path)
    if counts_rho and has_gaussian_samples(planned):
        raise RefusedError(
            "a zCDP budget would pay for samples as if all data were read at every step: train "
            "from a budget opened with rule approx or rdp, inside budgets of these rules",
            rule=PrivacyRule.POT_RULE,
        )


def state_plan(kernel: Kernel, planned: Loss, pot: str) -> Loss:
    """The loss to charge: where some pot pays by rule approx, a plan fixed in advance, which may
    pay its exact curve there.

    It is priced once here, before the ledger is locked: a first pricing takes seconds.
    """
    refuse_useless_price(kernel, planned, pot)
    payers = kernel.ledger.view(pot).path
    if not any(payer.rule.name == "approx" for payer in payers):
        return planned
    plan = FixedPlan((planned,))
    for payer in payers:
        charge_of(payer, plan)
    return plan


class Lease:
    """`with Lease(kernel, loss * 100, "total") as lease: values = lease.release(request)`."""

    def __init__(
        self, kernel: Kernel, planned: Loss, pot: str, version: Version | None = None
    ) -> None:
        """Charge `pot` for the whole planned loss.

        The version is the one by which the loss was priced, else that of now, and stays so to the
        end. Refused where another one was registered since.
        """
        self._kernel = kernel
        self._pot = pot
        self._process = os.getpid()
        self.thread = threading.get_ident()
        self._lock = Lock()
        self._plan = events(planned)
        self._outputs: list[Values] = []
        self._expected: Loss | None = next(self._plan)
        self._version = version or kernel.version
        if self._version != kernel.version:
            raise RefusedError(
                "another version was registered meanwhile: ask again", rule=PrivacyRule.LEASE
            )
        self._open = False
        charged = self._state_plan(planned)
        check_asking_pot(kernel.ledger.view(pot))
        kernel.check_incidents(pot)
        self._measurer = kernel.connect(self._version)
        self._measurer.keeps_rows = True
        kernel.uninterrupted.run(lambda: self._charge(charged), on_interrupt=self.close)

    def _state_plan(self, planned: Loss) -> Loss:
        """The loss to charge."""
        return state_plan(self._kernel, planned, self._pot)

    def _charge(self, planned: Loss) -> None:
        """RESERVE: charge the loss of the whole plan, durably, before its first step.

        Opens the lease.
        """
        kernel = self._kernel
        public = {
            "version": self._version.number,
            "catalog_hash": self._version.catalog_hash,
            "lease": True,
        }
        key = digest({"lease": planned.to_json(), **public})
        pots = paying(kernel.ledger.windows(), self._version.catalog, self._pot, None)
        try:
            self.reservation = kernel.ledger.reserve(pots, planned, key, public, leaves_early=True)
        except BaseException:
            self._measurer.close()
            raise
        self._open = True
        open_leases.add(self)

    def release(self, request: Request) -> Values:
        """Answer the next planned step; refuse what does not fit the plan.

        A refused step can be asked again. An interrupt is raised after the step; the lease is over
        then, its outputs are stored.
        """
        self._check_alive()
        values = self._kernel.uninterrupted.run(
            lambda: self._serve(request), on_interrupt=self.close
        )
        if values is None:
            # raised out here, so that neither cause nor frames travel with the constant response
            raise UnavailableError
        return values

    def _serve(self, request: Request) -> Values | None:
        """Measure one step and add its noise; None after a failure.

        A failure is recorded and ends the lease.
        """
        with self._lock:
            self._check_alive()
            priced = self._next(request)
            self._spend(priced)  # from here on, whatever happens
            try:
                values = self._kernel.randomise(
                    priced, self._kernel.measure_with_retries(priced, self._measurer)
                )
                # where another request failed meanwhile, this one fails alike
                self._kernel.check_incidents(self._pot)
            except BaseException as error:
                self._end()
                self._kernel.record_incident(self.reservation, error)
                return None
            self._outputs.append(values)
            return values

    def _next(self, request: Request) -> Priced:
        """Price a request, after a check that this lease can serve it next.

        Raises RefusedError where pot, version or loss differ from those that were paid for.
        """
        priced = self._price_next(request)
        self._check_step(priced)
        self._prepare(priced)
        return priced

    def _price_next(self, request: Request) -> Priced:
        """Price a request of the pot and version that were paid for."""
        if request.pot != self._pot:
            raise RefusedError(
                f"this lease was paid by {self._pot!r}, not {request.pot!r}", rule=PrivacyRule.LEASE
            )
        self._kernel.check_incidents(self._pot)
        priced = self._kernel.price(request)
        if priced.version != self._version:
            raise RefusedError(
                "another version was registered since: this lease is over", rule=PrivacyRule.LEASE
            )
        return priced

    def _prepare(self, priced: Priced) -> None:
        """Compile the statements of a request, unless its cells are kept."""
        for query in statements(priced):
            if query.hash not in (self._measurer.kept_cells or ()):
                self._measurer.prepare(query)

    def _check_step(self, priced: Priced) -> None:
        """Refuse a step that is not the next one of the plan."""
        if priced.loss != self._expected:
            raise RefusedError(
                f"the plan has {self._expected!r} next, this step is {priced.loss!r}",
                rule=PrivacyRule.LEASE,
            )

    def _spend(self, priced: Priced) -> None:
        """Go on to the step after this one."""
        self._expected = next(self._plan, None)

    def _check_alive(self) -> None:
        """Refuse to use a lease that is over, or that a forked process inherited."""
        if not self.is_of_this_process:
            raise RefusedError(
                "a lease is not inherited by a forked process", rule=PrivacyRule.LEASE
            )
        if not self._open:
            raise RefusedError("this lease is over", rule=PrivacyRule.LEASE)

    @property
    def is_of_this_process(self) -> bool:
        """Whether it was opened here, not inherited through a fork."""
        return os.getpid() == self._process

    def fail(self, error: BaseException) -> None:
        """End the lease and record an incident: the charge stays, and nothing is stored."""
        with self._lock:
            if self._open:
                self._end()
                self._kernel.record_incident(self.reservation, error)

    def close(self) -> None:
        """Stores the outputs in the ledger, whatever part of the plan was served."""
        if not self.is_of_this_process or not self._open:
            return
        if not self._kernel.uninterrupted.run(self.store_outputs):
            raise UnavailableError

    def store_outputs(self) -> bool:
        """COMMIT: store what the steps gave, and end the lease.

        Returns True when it is stored or was ended before, False where the store failed, which is
        then recorded as an incident.
        """
        with self._lock:
            if not self._open:
                return True
            self._end()
            try:
                texts = [
                    [[str(cell) for cell in cells] for cells in step] for step in self._outputs
                ]
                table = pa.table({"steps": pa.array(texts, pa.list_(pa.list_(pa.string())))})
                self._kernel.ledger.commit(
                    self.reservation, table_bytes(table), {"v": 1}, released_at=self._kernel.clock()
                )
            except BaseException as error:
                self._kernel.record_incident(self.reservation, error)
                return False
            return True

    def _end(self) -> None:
        """End the lease: no step is served any more."""
        self._open = False
        open_leases.discard(self)
        with suppress(Exception):
            self._measurer.close()

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        """Close the lease, whatever happened in the block."""
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuses: `pickle` and `copy` both come here."""
        raise TypeError("a lease cannot be pickled or copied: a planned loss would be spent twice")


open_leases: set[Lease] = set()
"""The leases of this process that are open."""


@atexit.register
def _store_open_leases() -> None:
    """Store the outputs of open leases when the program ends, so that they are no incidents."""
    is_main = threading.current_thread() is threading.main_thread()
    # a second Ctrl-C is no incident either
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    try:
        for lease in tuple(open_leases):
            if lease.is_of_this_process:
                lease.store_outputs()
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
