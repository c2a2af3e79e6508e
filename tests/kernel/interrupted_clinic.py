"""What the tests of interrupts and incidents share: a small clinic whose engine can be made to do anything."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dither import connect, steward
from dither.data.measure import Measurer
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.ledger import Ledger
from dither.session import Connection
from dither.state import State
from tests.datasets import clinic

COUNT = "SELECT COUNT(*) AS n FROM visits"


@dataclass
class Clinic:
    """A registered clinic of fifty patients."""

    file: Path
    place: State

    def connect(self, pot: str = "total") -> Connection:
        return connect(self.file, pot=pot)

    def kernel(self) -> Kernel:
        return Kernel(self.place)

    def ledger(self) -> Ledger:
        return steward.open_ledger(self.place)

    def open(self, name: str, inside: str = "total", kind: str = "analyst", **terms: Any) -> None:
        named: dict[str, Any] = {"epsilon": 5, "ceiling": 5, "purpose": clinic.PURPOSE} | terms
        catalog = steward.registered_catalog(self.place)
        steward.open_pot(self.place, catalog, name, inside=inside, kind=kind, **named)


def make_clinic(folder: Path, text: str = clinic.CATALOG, **terms: Any) -> Clinic:
    file, place = clinic.register(folder, [clinic.row(f"v{i}", f"p{i}") for i in range(50)], text)
    clinic.open_total(place, **terms)
    return Clinic(file, place)


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
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(number), ctypes.py_object(error)) == 1
