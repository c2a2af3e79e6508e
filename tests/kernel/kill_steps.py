"""Runs in an interpreter of its own: for every fault point a forked child that dies there, and what
is left.

    python -m tests.kernel.kill_steps FOLDER [POSTGRES_URL]

Prints one JSON line per fault point. Faults are made by wrapping the kernel's step functions:
nothing in `src` knows.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ["XDG_STATE_HOME"] = str(Path(sys.argv[1]) / "xdg")

from dither import steward
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Request
from tests.datasets.regional_clinic import COUNT, PURPOSE, Clinic, write_sources

WHEN = ("after",)  # after one step is before the next
STEPS = ("price", "prepare", "reserve", "measure", "randomise", "commit", "send")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wrapped(step: Callable[..., Any], when: str) -> Callable[..., Any]:
    def run(*given: Any, **named: Any) -> Any:
        if when == "before":
            die()
        result = step(*given, **named)
        if when == "after":
            die()
        return result

    return run


def child(clinic: Clinic, request: Request, step: str, when: str, writer: int) -> None:
    setattr(Kernel, step, wrapped(getattr(Kernel, step), when))
    result = clinic.kernel().release(request)
    os.write(writer, b"sent" if result else b"")
    os._exit(0)


def forked(work: Callable[[], None]) -> int:
    """Forks before this process ever opens the engine, whose threads a fork would lose."""
    number = os.fork()
    if not number:
        try:
            work()
        finally:
            os._exit(1)
    return os.waitpid(number, 0)[1]


def main() -> None:
    folder, url = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    clinic = Clinic(folder / "clinic" / "clinic.yaml")

    def prepare() -> None:
        steward.register(write_sources(clinic.file.parent), ledger_url=url)
        catalog = steward.registered_catalog(clinic.place)
        steward.open_pot(
            clinic.place, catalog, "total", epsilon=5, ceiling=9, max_incidents=99, purpose=PURPOSE
        )
        os._exit(0)

    assert os.waitstatus_to_exitcode(forked(prepare)) == 0
    request = clinic.connect().request(COUNT, epsilon="0.1")
    for step in STEPS:
        for when in WHEN:
            ledger = clinic.ledger()
            before, stored, failed = (
                ledger.pot("total").spent,
                len(ledger.history()),
                len(ledger.incidents_open()),
            )
            ledger.close()
            reader, writer = os.pipe()
            status = forked(
                lambda step=step, when=when, writer=writer: child(
                    clinic, request, step, when, writer
                )
            )  # type: ignore[misc]
            os.close(writer)
            answer = os.read(reader, 10)
            os.close(reader)
            ledger = clinic.ledger()
            ledger._count_abandoned()  # as the next reserve would
            after = {
                "step": step,
                "when": when,
                "killed": os.WIFSIGNALED(status),
                "sent": answer == b"sent",
                "charged": str(ledger.pot("total").spent - before),
                "stored": len(ledger.history()) - stored,
                "ok": clinic.verify().ok,
                "incidents": len(ledger.incidents_open()) - failed,
            }
            if after["incidents"]:  # else the next question would be refused
                ledger.clear_incidents("the machine lost power during the night")
            ledger.close()
            print(json.dumps(after), flush=True)


if __name__ == "__main__":
    main()
