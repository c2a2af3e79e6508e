"""The kernel: the one door between data and the world.

PRICE -> PREPARE -> RESERVE -> MEASURE -> RANDOMISE -> COMMIT -> RELEASE. Everything before RESERVE may fail freely: no
data was read. From RESERVE on the charge stays whatever happens, the one response to any failure is the constant
`UnavailableError`, and the failure is recorded as an incident. The kernel believes nothing: plan and price come in,
sensitivity, noise and loss are derived here from the catalog *stored at registration*; randomness is drawn here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dither.catalog import Catalog, catalog_hash, from_json
from dither.data.measure import Measurer
from dither.errors import DitherError, ParameterError, RefusedError, UnavailableError
from dither.privacy.calibrate import Calibrated, calibrate, loss_of
from dither.privacy.ledger import Ledger, Reservation, default_head_path
from dither.privacy.losses import Loss
from dither.privacy.noise import SystemSource
from dither.privacy.request import Request
from dither.state import State

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
    values: tuple[tuple[int, ...], ...]
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
            raise RefusedError("the stored catalog is not the registered one", rule="the ledger holds the catalog's hash")

    def price(self, request: Request) -> Priced:
        """PRICE: mechanisms and loss. Reads no data and spends nothing."""
        if request.context != "asked":
            raise ParameterError("a dry run is not supported yet: use preview(), which reads no data")
        steps = calibrate(request, self.catalog)
        return Priced(request, steps, loss_of(steps))

    def prepare(self, priced: Priced) -> Measurer:
        """PREPARE: connect and compile; the last step that may fail freely."""
        if len(self.ledger.incidents_open()) >= MAX_INCIDENTS:
            raise RefusedError("the dataset is suspended until the steward clears an incident", rule="incidents are capped")
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

    def randomise(self, priced: Priced, exact: list[NDArray[Any]]) -> tuple[tuple[int, ...], ...]:
        """RANDOMISE: noise from a source of this release alone; the noisy sum saturates at its public width."""
        source = SystemSource()
        noisy = (each.mechanism.release(cells, source=source) for each, cells in zip(priced.steps, exact, strict=True))
        return tuple(
            tuple(max(-each.width, min(each.width, int(value))) for value in cells)
            for each, cells in zip(priced.steps, noisy, strict=True)
        )

    def commit(self, reservation: Reservation, values: tuple[tuple[int, ...], ...], released_at: str) -> None:
        """COMMIT: the release into the ledger, in the transaction that says so."""
        self.ledger.commit(reservation, _arrow_bytes(values), {"v": 1}, released_at=released_at)

    def send(self, priced: Priced, reservation: Reservation, values: tuple[tuple[int, ...], ...], at: str) -> Release:
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
            self.commit(reservation, values, released_at)
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
            except Exception:  # noqa: S112, PERF203 - the engine's message may quote a row, so it is dropped
                continue
        return self.measure(priced, measurer)

    def _incident(self, reservation: Reservation) -> None:
        try:
            self.ledger.record_incident(reservation, "failed_after_reserve")
        except Exception:  # noqa: S110 - the same constant response, whatever failed
            pass


def _arrow_bytes(values: tuple[tuple[int, ...], ...]) -> bytes:
    """The noisy integers as an Arrow stream, one decimal128(38, 0) column per step."""
    kind = pa.decimal128(38, 0)
    columns = [pa.array([int(value) for value in cells], pa.int64()) if _small(cells) else _wide(cells, kind) for cells in values]
    table = pa.table({f"step_{i}": column for i, column in enumerate(columns)}) if len({len(c) for c in values}) == 1 else None
    assert table is not None and np.all([len(cells) for cells in values])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
