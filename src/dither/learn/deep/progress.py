"""Progress of a run for people: figures of its plan, as text or for TensorBoard.

Only what follows from the plan is shown: steps, the epsilon of the steps so far, learning rates.
Losses, norms and batch sizes are private, and there is no way to hand them in (rule P29 of the
review). Event files are written here, without TensorBoard.
"""

from __future__ import annotations

import struct
import sys
import time
from pathlib import Path
from typing import IO, Protocol

from dither.errors import ParameterError

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8


class Figures(Protocol):
    """What a trainer tells of its plan."""

    steps_done: int

    def find_spent(self) -> float:
        """Epsilon of the steps so far."""


class PlanProgress:
    """A function of steps for `PrivateTrainer.fit(progress=...)`.

    Every `every` steps it writes a line to `stream`, and to the event file of `folder` where one is
    given: `epsilon so far`, by the plan.
    """

    def __init__(
        self,
        trainer: Figures,
        *,
        steps: int,
        every: int = 100,
        folder: str | Path | None = None,
        stream: IO[str] | None = None,
    ) -> None:
        if every < 1 or steps < 1:
            raise ParameterError("steps and every are positive numbers")
        self._trainer = trainer
        self._steps = steps
        self._every = every
        self._stream = sys.stderr if stream is None else stream
        self._events = None if folder is None else EventFile(folder)

    def __call__(self, steps: int) -> None:
        if steps % self._every and steps != self._steps:
            return
        spent = self._trainer.find_spent()
        share = steps / self._steps
        bar = "#" * round(20 * share)
        print(
            f"[{bar:<20}] {steps:,} of {self._steps:,} steps, epsilon so far {spent:.3f}",
            file=self._stream,
        )
        if self._events is not None:
            self._events.add("epsilon so far", spent, steps)
            self._events.add("share of planned steps", share, steps)


class EventFile:
    """Numbers by step in a file that TensorBoard reads: records of `Event` messages, each with its
    length and masked checksums (CRC-32C)."""

    def __init__(self, folder: str | Path) -> None:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        self.path = path / f"events.out.tfevents.{time.time_ns()}.dither"
        self._append(_double(1, time.time()) + _text(3, b"brain.Event:2"))

    def add(self, name: str, value: float, step: int) -> None:
        """One number."""
        entry = _text(1, name.encode()) + b"\x15" + struct.pack("<f", value)
        summary = _text(1, entry)
        self._append(_double(1, time.time()) + b"\x10" + _whole(step) + _text(5, summary))

    def _append(self, event: bytes) -> None:
        length = struct.pack("<Q", len(event))
        with open(self.path, "ab") as file:
            file.write(length + _checksum(length) + event + _checksum(event))


def _double(field: int, value: float) -> bytes:
    return bytes([field << 3 | 1]) + struct.pack("<d", value)


def _text(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _whole(len(value)) + value


def _whole(number: int) -> bytes:
    """A varint."""
    digits = []
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def _checksum(data: bytes) -> bytes:
    """The masked CRC-32C of a record."""
    crc = find_crc(data)
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + _MASK_DELTA) & 0xFFFFFFFF)


def find_crc(data: bytes) -> int:
    """CRC-32C (Castagnoli).

    >>> hex(find_crc(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
