"""What the tests of interrupts and incidents share: a clinic of fifty patients, and an engine that
does anything."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dither.data.measure import Measurer
from tests.datasets import clinic
from tests.datasets.regional_clinic import Clinic

COUNT = "SELECT COUNT(*) AS n FROM visits"


def open_inside(site: Clinic, name: str, **terms: Any) -> None:
    """Opens an analyst's pot inside the total, unless the terms say otherwise."""
    site.open(name, **({"inside": "total", "kind": "analyst", "ceiling": 5} | terms))


def make_clinic(folder: Path, text: str = clinic.CATALOG, **terms: Any) -> Clinic:
    file, place = clinic.register(folder, [clinic.row(f"v{i}", f"p{i}") for i in range(50)], text)
    clinic.open_total(place, **terms)
    return Clinic(file)


@contextmanager
def engine_that(act: Callable[[], None]) -> Iterator[None]:
    """Before it measures, the engine does `act`."""
    honest = Measurer.measure

    def measure(self: Measurer, *given: Any) -> Any:
        act()
        return honest(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Measurer, "measure", measure)
        yield


def interrupt_main_thread() -> None:
    """Ctrl-C, and time for it to arrive."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    time.sleep(0.02)


def raise_in_thread(number: int, error: type[BaseException]) -> None:
    """What cancels a thread: an exception at its next instruction."""
    assert (
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(number), ctypes.py_object(error))
        == 1
    )
