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
        self._load()

    def _load(self) -> None:
        """The newest registered version and its catalog, which must be the one whose hash the ledger holds."""
        registered = self.ledger.registered()
        if registered is None:
            raise DitherError("nothing is registered: the data steward runs 'dither register CATALOG' first")
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
        measurer = Measurer(self._state.version(self.version) / "data.duckdb", self.catalog)
        for each in priced.steps:
            measurer.prepare(each.step.query)
        return measurer

    def reserve(self, priced: Priced) -> Reservation:
        """RESERVE: check and charge, durably."""
        public = {"version": self.version, "catalog_hash": self.catalog_hash, "request": priced.request.to_json()}
        return self.ledger.reserve(priced.request.pot, priced.loss, priced.request.hash, public)

    def measure(self, priced: Priced, measurer: Measurer) -> list[NDArray[Any]]:
        """MEASURE: exact integers, one array per step."""
        return [measurer.measure(each.step.query).ravel() for each in priced.steps]

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
        self._load()
        priced = self.price(request)
        measurer = self.prepare(priced)
        reservation = self.reserve(priced)
        try:
            values = self.randomise(priced, self._measured(priced, measurer))
            released_at = datetime.now(UTC).replace(microsecond=0).isoformat()
            self.commit(priced, reservation, values, released_at)
        except Exception:
            self._incident(reservation)
            raise UnavailableError from None
        finally:
            measurer.close()
        return self.send(priced, reservation, values, released_at)

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
