"""The kernel: the one door between data and the world.

PRICE -> PREPARE -> RESERVE -> MEASURE -> RANDOMISE -> COMMIT -> RELEASE. Everything before RESERVE may fail freely: no
data was read. From RESERVE on the charge stays whatever happens, the one response to any failure is the constant
`UnavailableError`, and the failure is recorded as an incident. The kernel believes nothing: plan and price come in,
sensitivity, noise and loss are derived here from the catalog *stored at registration*; randomness is drawn here.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias

import pyarrow as pa
from numpy.typing import NDArray

from dither.catalog import Catalog, catalog_hash, from_json
from dither.data.measure import Measurer
from dither.errors import DitherError, ParameterError, RefusedError, UnavailableError
from dither.plan.algebra import Aggregate, Cells, Plan
from dither.plan.domains import shape
from dither.privacy.calibrate import Calibrated, calibrate, loss_of
from dither.privacy.ledger import Ledger, Reservation, default_head_path
from dither.privacy.losses import Loss
from dither.privacy.noise import SystemSource
from dither.privacy.request import Request
from dither.state import State

Values: TypeAlias = tuple[tuple[int, ...], ...]
MAX_INCIDENTS = 1
MEASURE_TRIES = 3


class KernelStep(Enum):
    """The steps of a release, in order; a process can die between any two of them."""

    PRICE = "price"
    PREPARE = "prepare"
    RESERVE = "reserve"
    MEASURE = "measure"
    RANDOMISE = "randomise"
    COMMIT = "commit"
    RELEASE = "release"


@dataclass(frozen=True)
class Priced:
    """A request with everything that follows from it and the catalog: public, and known before any data is read."""

    request: Request
    steps: tuple[Calibrated, ...]
    loss: Loss


@dataclass(frozen=True)
class Release:
    """What leaves: noisy integers (one list per step), their noise, their price, and where they stand."""

    release_id: str
    priced: Priced
    values: Values
    charged: Fraction
    spent_after: Fraction
    cap: Fraction
    released_at: str
    version: int
    catalog_hash: str
    context: str


class Kernel:
    """One dataset's kernel, over its state folder."""

    def __init__(self, state: State) -> None:
        self.ledger = Ledger.open(state.ledger, default_head_path(state.installation_id()))
        self._state = state
        self._measurer: Measurer | None = None
        self.version = 0
        self.refresh()

    def refresh(self) -> None:
        """Take the newest registered version and its catalog, which must be the one whose hash the ledger holds.

        Everything between two refreshes speaks of one version: what is bound, priced, measured and released.
        """
        registered = self.ledger.registered()
        if registered is None:
            raise DitherError("nothing is registered: the data steward runs 'dither register CATALOG' first")
        if registered.version == self.version:
            return
        self._measurer = None
        self.version, self.context = registered.version, str(registered.public["context"])
        text = (self._state.version(registered.version) / "catalog.json").read_text(encoding="utf-8")
        self.catalog: Catalog = from_json(json.loads(text))
        self.catalog_hash = catalog_hash(self.catalog)
        if self.catalog_hash != registered.catalog_hash:
            raise RefusedError("the stored catalog is not the registered one", rule="the ledger holds its hash")

    def price(self, request: Request) -> Priced:
        """PRICE: mechanisms and loss. Reads no data and spends nothing."""
        if request.context != "asked":
            raise ParameterError("a dry run is not supported yet: use preview(), which reads no data")
        steps = calibrate(request, self.catalog)
        if len({shape(each.step.query, self.catalog)[0] for each in steps}) != 1:
            raise RefusedError("the steps of a request have different keys", rule="one release has one shape")
        return Priced(request, steps, loss_of(steps))

    def prepare(self, priced: Priced) -> Measurer:
        """PREPARE: connect and compile; the last step that may fail freely."""
        if len(self.ledger.incidents_open()) >= MAX_INCIDENTS:
            raise RefusedError("suspended until the data steward clears an incident", rule="incidents are capped")
        if self._measurer is None:
            self._measurer = Measurer(self._state.version(self.version) / "data.duckdb", self.catalog)
        for each in priced.steps:
            self._measurer.prepare(each.step.query)
        return self._measurer

    def reserve(self, priced: Priced) -> Reservation:
        """RESERVE: check and charge, durably."""
        public = {"version": self.version, "catalog_hash": self.catalog_hash, "request": priced.request.to_json()}
        return self.ledger.reserve(priced.request.pot, priced.loss, priced.request.hash, public)

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
        self.ledger.commit(reservation, _arrow_bytes(priced, values), {"v": 1}, released_at=released_at)

    def send(self, priced: Priced, reservation: Reservation, values: Values, at: str) -> Release:
        """RELEASE: hand out what is stored and paid for."""
        spent, cap = reservation.spent_after, reservation.cap
        place = (self.version, self.catalog_hash, self.context)
        return Release(str(reservation.seq), priced, values, reservation.charge, spent, cap, at, *place)

    def release(self, request: Request) -> Release:
        """All seven steps. The only caller of `measure`."""
        priced = self.price(request)
        measurer = self.prepare(priced)
        reservation = self.reserve(priced)
        released_at = datetime.now(UTC).replace(microsecond=0).isoformat()
        values = self._answered(priced, measurer, reservation, released_at)
        if values is None:  # raised out here, so that neither cause nor frames travel with the constant response
            self._incident(reservation)
            raise UnavailableError
        return self.send(priced, reservation, values, released_at)

    def _answered(self, priced: Priced, measurer: Measurer, reservation: Reservation, at: str) -> Values | None:
        """MEASURE, RANDOMISE, COMMIT; None for any failure, whatever its cause."""
        with suppress(Exception):
            values = self.randomise(priced, self._measured(priced, measurer))
            self.commit(priced, reservation, values, at)
            return values
        return None

    def _measured(self, priced: Priced, measurer: Measurer) -> list[NDArray[Any]]:
        """The statement may be run again, at most twice; never is another question's answer put in its place."""
        for _ in range(MEASURE_TRIES - 1):
            try:
                return self.measure(priced, measurer)
            except Exception:
                continue
        return self.measure(priced, measurer)

    def _incident(self, reservation: Reservation) -> None:
        """Recorded if it can be; the response is the same constant either way."""
        with suppress(Exception):
            self.ledger.record_incident(reservation, "failed_after_reserve")


def _arrow_bytes(priced: Priced, values: Values) -> bytes:
    """The noisy integers as an Arrow stream, one column per step, its type from the public width."""
    columns = [
        pa.array(cells, pa.int64()) if each.width < 2**63 else pa.array(map(Decimal, cells), pa.decimal128(38, 0))
        for each, cells in zip(priced.steps, values, strict=True)
    ]
    table = pa.table(columns, names=[f"step_{i}" for i in range(len(columns))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
