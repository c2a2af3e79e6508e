"""A lease: the whole charge of a planned sequence first, then its steps one by one, with no disk sync between them.

The plan fixes every step's *loss* in advance; the *queries* may be chosen after seeing earlier answers (training,
sparse vector, MWEM). Each step is checked against the plan: its loss, derived by the kernel from query and catalog,
must be the next planned one. A lease lives and dies with its process: the charge stays, nothing resumes, and it can be
neither copied nor used on the far side of a fork, so no planned loss is spent twice. Its outputs are stored when it
closes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import Any, NoReturn

import pyarrow as pa

from dither.canonical import digest
from dither.errors import RefusedError, UnavailableError
from dither.privacy.kernel import Kernel, now
from dither.privacy.losses import Composed, Loss, Repeated
from dither.privacy.release import Priced, Values, table_bytes
from dither.privacy.request import Request
from dither.privacy.windows import paying

_RULE = "a lease serves its plan, in order, in one process"


def events(planned: Loss) -> Iterator[Loss]:
    """The losses of a plan in order; a composition inside a repetition is one step."""
    if isinstance(planned, Composed):
        for part in planned.losses:
            yield from events(part)
    elif isinstance(planned, Repeated):
        for _ in range(planned.count):
            yield planned.loss
    else:
        yield planned


class Lease:
    """`with Lease(kernel, loss * 100, "total") as lease: values = lease.release(request)`."""

    def __init__(self, kernel: Kernel, planned: Loss, pot: str) -> None:
        self._kernel, self._pot, self._process, self._lock = kernel, pot, os.getpid(), Lock()
        self._plan, self._outputs = events(planned), list[Values]()
        self._expected: Loss | None = next(self._plan)
        self._at = kernel.at
        self._measurer = kernel.connect(self._at)
        public = {"version": self._at.number, "catalog_hash": self._at.catalog_hash, "lease": True}
        key = digest({"lease": planned.to_json(), **public})
        pots = paying(kernel.ledger, self._at.catalog, pot, None)
        self.reservation = kernel.ledger.reserve(pots, planned, key, public, leaves_early=True)
        self._open = True

    def release(self, request: Request) -> Values:
        """The next planned step. What does not fit the plan is refused, and the step can be asked again."""
        with self._lock:
            priced = self._next(request)
            self._expected = next(self._plan, None)  # spent from here on, whatever happens
            values = self._answered(priced)
            if values is not None and not self._kernel.ledger.is_suspended():
                self._outputs.append(values)
                return values
            self._open = False
            self._kernel.record_incident(self.reservation)
        raise UnavailableError

    def _next(self, request: Request) -> Priced:
        """The request priced, if it is the next step of this plan."""
        self._check_alive()
        if request.pot != self._pot:
            raise RefusedError(f"this lease was paid by {self._pot!r}, not {request.pot!r}", rule=_RULE)
        if self._kernel.ledger.is_suspended():
            raise RefusedError("suspended until the data steward clears an incident", rule="incidents are capped")
        priced = self._kernel.price(request)
        if priced.at != self._at:
            raise RefusedError("another version was registered since: this lease is over", rule=_RULE)
        if priced.loss != self._expected:
            raise RefusedError(f"the plan has {self._expected!r} next, this step is {priced.loss!r}", rule=_RULE)
        for each in priced.steps:
            self._measurer.prepare(each.step.query)
        return priced

    def _answered(self, priced: Priced) -> Values | None:
        """Measured and randomised; None on any failure, whose exception and frames (exact values) end here."""
        with suppress(BaseException):  # an interrupt is a failure like any other
            return self._kernel.randomise(priced, self._kernel.measured(priced, self._measurer))
        return None

    def _check_alive(self) -> None:
        if os.getpid() != self._process:
            raise RefusedError("a lease is not inherited by a forked process", rule=_RULE)
        if not self._open:
            raise RefusedError("this lease is over", rule=_RULE)

    def close(self) -> None:
        """Stores the outputs in the ledger, whatever part of the plan was served."""
        with self._lock:
            if os.getpid() != self._process or not self._open:
                return
            self._open = False
            self._measurer.close()
            texts = [[[str(cell) for cell in cells] for cells in step] for step in self._outputs]
            table = pa.table({"steps": pa.array(texts, pa.list_(pa.list_(pa.string())))})
            self._kernel.ledger.commit(self.reservation, table_bytes(table), {"v": 1}, released_at=now())

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a lease cannot be pickled or copied: a planned loss would be spent twice")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__reduce__()
