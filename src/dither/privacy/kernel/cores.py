"""No core dumps: a crash must not write exact values or keys to a disk (rule exact-values-stay).

A soft limit of one byte, not zero: zero stops a dump into a file, but Linux still pipes the whole
process to a crash handler; one byte stops both (core(5)). What a handler could still ask for is
emptied by the dump filter. Debuggers, profilers and notebooks work as before.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path


def no_core_dumps() -> None:
    """Keep this process and its children from writing their memory to disk when they crash.

    A second call is harmless.
    """
    _, hard_limit = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0 if hard_limit == 0 else 1, hard_limit))
    with suppress(OSError):  # Linux only
        Path("/proc/self/coredump_filter").write_text("0")
