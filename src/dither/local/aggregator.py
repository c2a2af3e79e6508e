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

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

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
_MOST_SQUARES = 1 << 90


class Aggregator:
    """The state of one collection: protocol, tally, number of reports."""

    def __init__(self, protocol: Protocol) -> None:
        """Start with an empty tally for the reports of `protocol`."""
        self.protocol = protocol
        self.tally: NDArray[np.int64] = np.zeros(protocol.tally_size, np.int64)
        self.reports = 0
        self.rejected = 0
        self.squares: int | None = 0 if protocol.keeps_squares else None
        self._kept: list[Payloads] = []
        self._has_checksum = True

    # --- streaming
    # ---------------------------------------------------------------------------
    def add(self, report: bytes) -> None:
        """One sealed report; refuses another format, protocol or size, counts an impossible payload
        as rejected."""
        payload = wire.unseal(self.protocol, report)
        self.add_payloads(np.frombuffer(payload, np.uint8).reshape(1, -1))

    def add_many(self, reports: Iterable[bytes]) -> None:
        """Count sealed reports as they come; those that do not fit are counted in `rejected`.

        If the source of reports fails midway, what it gave before is counted, and its error goes on
        to the caller.
        """
        block: list[bytes] = []
        try:
            for report in reports:
                try:
                    block.append(wire.unseal(self.protocol, report))
                except ParameterError:
                    self._reject(1)
                if len(block) == _STEP:
                    full_block = block
                    block = []
                    self._add_block(full_block)
        finally:
            self._add_block(block)

    def add_batch(self, batch: bytes) -> None:
        """A batch (one header, many payloads)."""
        self.add_payloads(wire.read_batch(self.protocol, batch))

    def add_payloads(self, payloads: Payloads) -> None:
        """Count payloads, an array of bytes with one row a report; bad ones are counted in
        `rejected`.

        Raises ParameterError for rows of another length.
        """
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
                self._reject(int(len(block) - good.sum()))
                block = block[good]
            if len(block):
                self._has_checksum = True
                if self.squares is not None:
                    self.squares += self.protocol.sum_squares(block)
                if self.protocol.keeps_reports:
                    self._kept.append(np.array(block))
                else:
                    self.protocol.accumulate(self.tally, block)
                self.reports += len(block)

    def _reject(self, count: int) -> None:
        self.rejected += count
        self._has_checksum = True

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
        self.squares = (
            None if self.squares is None or other.squares is None else self.squares + other.squares
        )
        self._has_checksum = True
        self.reports += other.reports
        self.rejected += other.rejected
        return self

    # --- answers
    # ---------------------------------------------------------------------------
    def estimate(self, labels: Sequence[str] | None = None) -> Estimate:
        """Unbiased totals with variances and intervals."""
        estimate = self.protocol.estimate_from(self.tally, self.reports, self.squares)
        return estimate if labels is None else estimate.named(labels)

    def statement(self) -> str:
        """Write what the collection promises to each user, and what it does not."""
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
        """Write protocol, tally, counts and a checksum of them; `from_bytes` reads it back.

        A tally that was read without a checksum (as 0.1 wrote them) and has not changed since is
        written as it was.
        """
        head: dict[str, Any] = {
            "protocol": self.protocol.to_json(),
            "reports": self.reports,
            "rejected": self.rejected,
        }
        if self.squares is not None:
            head["squares"] = self.squares
        kept = self.protocol.keeps_reports
        body = (self.payloads if kept else self.tally.astype("<i8")).tobytes()
        if self._has_checksum:
            head["checksum"] = _compute_checksum(head, body)
        text = dumps(head).encode()
        return _MAGIC + len(text).to_bytes(4, "little") + text + body

    @classmethod
    def from_bytes(cls, stored: bytes) -> Aggregator:
        """Read the collection that `to_bytes` wrote; refuses one that was cut, damaged or made up.

        It raises ParameterError.
        """
        if stored[:5] != _MAGIC:
            raise ParameterError("not a stored aggregator in format 1")
        end = 9 + int.from_bytes(stored[5:9], "little")
        head = _read_head(stored[9:end])
        body = stored[end:]
        aggregator = cls(from_json(head["protocol"]))
        aggregator._has_checksum = "checksum" in head
        if aggregator._has_checksum:
            _compare_checksum(head, body)
        aggregator.reports = head["reports"]
        aggregator.rejected = head["rejected"]
        aggregator._read_squares(head)
        aggregator._read_body(body)
        return aggregator

    def _read_squares(self, head: dict[str, Any]) -> None:
        """Read the sum of squared answers from a stored header; refuse an impossible one.

        None means that the sum is not kept, so that the variance comes from the formula.
        """
        squares = head.get("squares")
        is_sum = type(squares) is int and 0 <= squares < _MOST_SQUARES
        if squares is not None and (self.squares is None or not is_sum):
            raise ParameterError("the stored aggregator has squares that its reports cannot make")
        self.squares = squares

    def _read_body(self, body: bytes) -> None:
        """Read the tally, or the kept payloads, from the bytes after a stored header.

        Refuse bytes of the wrong length and counts that no number of reports can reach.
        """
        protocol = self.protocol
        kept_bytes = self.reports * protocol.payload_bytes if protocol.keeps_reports else 0
        if len(body) != 8 * len(self.tally) + kept_bytes:
            raise ParameterError("the stored aggregator is cut short")
        if protocol.keeps_reports:
            self._kept = [np.frombuffer(body, np.uint8).reshape(self.reports, -1)]
            return
        tally = np.frombuffer(body, "<i8").astype(np.int64)
        if tally.max(initial=0) > _MOST_TALLY or tally.min(initial=0) < -_MOST_TALLY:
            raise ParameterError(
                "the stored aggregator has a tally that its reports cannot have made"
            )
        self.tally = tally


def _compute_checksum(head: dict[str, Any], body: bytes) -> str:
    """sha256 of the canonical head without its checksum, then the body."""
    plain = {key: value for key, value in head.items() if key != "checksum"}
    return hashlib.sha256(dumps(plain).encode() + body).hexdigest()


def _compare_checksum(head: dict[str, Any], body: bytes) -> None:
    """Refuse a stored aggregator whose header and body do not match its checksum."""
    if head["checksum"] != _compute_checksum(head, body):
        raise ParameterError(
            "the stored aggregator does not match its checksum: it was damaged or changed; take "
            "another copy"
        )


def _read_head(head_bytes: bytes) -> dict[str, Any]:
    """Read the head of a stored aggregator: these keys and no others, counts that are possible."""
    try:
        text = head_bytes.decode("utf-8")
        head = read_json(text, max_characters=len(text))
        counts = (head["reports"], head["rejected"])
        keys = set(head) - {"checksum", "squares"}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ParameterError("the stored aggregator has no readable head") from None
    if keys != {"protocol", "reports", "rejected"}:
        raise ParameterError("the head of the stored aggregator has keys that are not its own")
    if not all(type(count) is int and 0 <= count < _MOST_REPORTS for count in counts):
        raise ParameterError("the stored aggregator counts an impossible number of reports")
    result: dict[str, Any] = head
    return result
