"""The half that collects: a running tally of reports, and estimates from it.

It never sees a raw value. A tally is a vector of integers, additive over reports: reports can
arrive in any order and any number, aggregators of one protocol can be merged, stored and moved.
(Searches over huge domains have no such vector: their payloads are kept, a few bytes a report.)
Reports that no client could have sent are counted in `rejected` and change nothing.

>>> from dither import local
>>> protocol = local.Direct(3, domain=3)
>>> ours, theirs = local.Aggregator(protocol), local.Aggregator(protocol)
>>> ours.add(local.Client(protocol, lifetime_epsilon=3).report(1))
>>> theirs.merge(ours).reports
1
>>> local.Aggregator.from_bytes(theirs.to_bytes()).reports
1
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dither.canonical import dumps
from dither.errors import ParameterError
from dither.local import wire
from dither.local.estimate import Estimate
from dither.local.protocol import UNPROTECTED, Protocol, from_json
from dither.local.wire import Payloads
from dither.strict_json import read_json

_MAGIC = b"dLAG\x01"
_STEP = 1 << 16
# sums of two stored tallies, and of what a block adds, stay far inside int64
_MOST_REPORTS = 1 << 40
_MOST_TALLY = 1 << 61


class Aggregator:
    """The state of one collection: protocol, tally, number of reports."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.tally: NDArray[np.int64] = np.zeros(protocol.tally_size, np.int64)
        self.reports = 0
        self.rejected = 0
        self._kept: list[Payloads] = []

    # --- streaming
    # ---------------------------------------------------------------------------
    def add(self, report: bytes) -> None:
        """One sealed report; refuses another format, protocol or size, counts an impossible payload
        as rejected."""
        payload = wire.unseal(self.protocol, report)
        self.add_payloads(np.frombuffer(payload, np.uint8).reshape(1, -1))

    def add_many(self, reports: Iterable[bytes]) -> None:
        """Sealed reports, as they come; those that do not fit are counted in `rejected`."""
        block: list[bytes] = []
        for report in reports:
            try:
                block.append(wire.unseal(self.protocol, report))
            except ParameterError:
                self.rejected += 1
            if len(block) == _STEP:
                self._add_block(block)
                block = []
        self._add_block(block)

    def add_batch(self, batch: bytes) -> None:
        """A batch (one header, many payloads)."""
        self.add_payloads(wire.read_batch(self.protocol, batch))

    def add_payloads(self, payloads: Payloads) -> None:
        """Payloads as an array of bytes, one row a report."""
        if (
            payloads.ndim != 2
            or payloads.shape[1] != self.protocol.payload_bytes
            or payloads.dtype != np.uint8
        ):
            raise ParameterError(
                f"payloads of this protocol are rows of {self.protocol.payload_bytes} bytes"
            )
        for start in range(0, len(payloads), _STEP):
            block = payloads[start : start + _STEP]
            good = self.protocol.valid(block)
            if not good.all():
                self.rejected += int(len(block) - good.sum())
                block = block[good]
            if len(block):
                if self.protocol.keeps_reports:
                    self._kept.append(np.array(block))
                else:
                    self.protocol.accumulate(self.tally, block)
                self.reports += len(block)

    @property
    def payloads(self) -> Payloads:
        """The reports themselves, for protocols that search them (`protocol.keeps_reports`)."""
        return np.concatenate([*self._kept, np.empty((0, self.protocol.payload_bytes), np.uint8)])

    def _add_block(self, block: list[bytes]) -> None:
        if block:
            self.add_payloads(np.frombuffer(b"".join(block), np.uint8).reshape(len(block), -1))

    def merge(self, other: Aggregator) -> Aggregator:
        """Add what another aggregator of the same protocol has collected; returns self."""
        if other is self:
            raise ParameterError("an aggregator merged with itself would count every report twice")
        if other.protocol.digest != self.protocol.digest:
            raise ParameterError("aggregators of different protocols have no common tally")
        self.tally = self.tally + other.tally
        self._kept += other._kept
        self.reports += other.reports
        self.rejected += other.rejected
        return self

    # --- answers
    # ---------------------------------------------------------------------------
    def estimate(self, labels: Sequence[str] | None = None) -> Estimate:
        """Unbiased totals with variances and intervals."""
        estimate = self.protocol.estimate(self.tally, self.reports)
        return estimate if labels is None else estimate.named(labels)

    def statement(self) -> str:
        """What the collection promises to each user, and what it does not."""
        return (
            f"{self.reports} reports ({self.rejected} rejected) under protocol "
            f"{self.protocol.type} "
            f"{self.protocol.digest[:4].hex()}: each new answer loses at most epsilon = "
            f"{float(self.protocol.epsilon):g}, delta 0 (replace, unit: one {self.protocol.unit}). "
            f"Not protected: " + "; ".join(UNPROTECTED) + "."
        )

    # --- storage
    # ---------------------------------------------------------------------------
    def to_bytes(self) -> bytes:
        """Protocol, tally and counts; `from_bytes` reads it back."""
        head = dumps(
            {
                "protocol": self.protocol.to_json(),
                "reports": self.reports,
                "rejected": self.rejected,
            }
        ).encode()
        body = self.payloads if self.protocol.keeps_reports else self.tally.astype("<i8")
        return _MAGIC + len(head).to_bytes(4, "little") + head + body.tobytes()

    @classmethod
    def from_bytes(cls, stored: bytes) -> Aggregator:
        if stored[:5] != _MAGIC:
            raise ParameterError("not a stored aggregator in format 1")
        end = 9 + int.from_bytes(stored[5:9], "little")
        try:
            text = stored[9:end].decode("utf-8")
            head = read_json(text, max_characters=len(text))
            counts = head["reports"], head["rejected"]
            document = head["protocol"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ParameterError("the stored aggregator has no readable head") from None
        if not all(type(count) is int and 0 <= count < _MOST_REPORTS for count in counts):
            raise ParameterError("the stored aggregator counts an impossible number of reports")
        aggregator = cls(from_json(document))
        aggregator.reports, aggregator.rejected = counts
        kept = (
            aggregator.reports * aggregator.protocol.payload_bytes
            if aggregator.protocol.keeps_reports
            else 0
        )
        if len(stored) - end != 8 * len(aggregator.tally) + kept:
            raise ParameterError("the stored aggregator is cut short")
        if aggregator.protocol.keeps_reports:
            aggregator._kept = [
                np.frombuffer(stored[end:], np.uint8).reshape(aggregator.reports, -1)
            ]
        else:
            aggregator.tally = np.frombuffer(stored[end:], "<i8").astype(np.int64)
        if (
            aggregator.tally.max(initial=0) > _MOST_TALLY
            or aggregator.tally.min(initial=0) < -_MOST_TALLY
        ):
            raise ParameterError(
                "the stored aggregator has a tally that its reports cannot have made"
            )
        return aggregator
