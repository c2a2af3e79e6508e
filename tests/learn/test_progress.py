"""Progress of training: figures of the plan alone, and event files that TensorBoard reads."""

from __future__ import annotations

import io
import struct
from importlib.util import find_spec
from pathlib import Path

import pytest

from dither.errors import ParameterError
from dither.learn.deep.progress import EventFile, PlanProgress, find_crc


class Plan:
    steps_done = 0

    def find_spent(self) -> float:
        return 0.25 + self.steps_done


def read_events(path: Path) -> list[bytes]:
    """The messages of an event file, with their checksums checked."""
    data = path.read_bytes()
    events = []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        for start, piece in ((8, data[:8]), (12 + length, data[12 : 12 + length])):
            (masked,) = struct.unpack("<I", data[start : start + 4])
            crc = find_crc(piece)
            assert masked == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
        events.append(data[12 : 12 + length])
        data = data[16 + length :]
    return events


def test_lines_and_events_hold_figures_of_the_plan(tmp_path: Path) -> None:
    stream = io.StringIO()
    plan = Plan()
    progress = PlanProgress(plan, steps=300, every=100, folder=tmp_path, stream=stream)
    for step in range(1, 301):
        plan.steps_done = step
        progress(step)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3 and "300 of 300 steps, epsilon so far 300.250" in lines[-1]
    (path,) = tmp_path.iterdir()
    events = read_events(path)
    assert len(events) == 7 and b"brain.Event:2" in events[0]
    assert b"epsilon so far" in events[1] and struct.pack("<f", 100.25) in events[1]
    assert b"\x10\xac\x02" in events[5]  # step 300 as a varint
    with pytest.raises(ParameterError):
        PlanProgress(plan, steps=3, every=0)
    assert not hasattr(progress, "add_scalar")


def test_checksums_are_those_of_the_standard() -> None:
    """RFC 3720, B.4: 32 bytes of zeros and of ones."""
    assert find_crc(bytes(32)) == 0x8A9136AA and find_crc(b"\xff" * 32) == 0x62A8AB43


if find_spec("tensorboard") is not None:

    def test_tensorboard_reads_the_file(tmp_path: Path) -> None:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventFile(tmp_path)
        events.add("epsilon so far", 1.5, 7)
        read = EventAccumulator(str(events.path))
        read.Reload()
        (event,) = read.Scalars("epsilon so far")
        assert event.step == 7 and event.value == 1.5
