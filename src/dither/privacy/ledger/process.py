"""Which process holds a reserve, and whether it lives: a process that dies after a charge is a
failure like any other.

Whether a query kills the process (memory, a crash of the engine) may depend on one row, and no
noise covers it. So the next reserve counts what dead processes left behind as incidents. A holder
on another machine, or where there is no /proc, is taken for alive: there the steward watches what
`dither history --unreleased` shows.
"""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from pathlib import Path


def this_process() -> str:
    """host/namespace:pid:start time, which no later process of this machine shares.

    Numbers of processes mean something inside one namespace only: containers may share a host name.

    >>> is_dead(this_process())
    False
    """
    return _named(os.getpid())


@lru_cache(maxsize=1)
def _named(pid: int) -> str:
    return f"{_host()}:{pid}:{_started(pid) or '?'}"


def _host() -> str:
    """Return the host name, with the namespace of process numbers where the system tells it."""
    try:
        return f"{socket.gethostname()}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()


def is_dead(holder: str) -> bool:
    """Whether the process is known to be gone."""
    if holder == this_process():
        return False
    host, _, rest = holder.partition(":")
    pid, _, started = rest.partition(":")
    is_here = host in (_host(), socket.gethostname()) and Path("/proc/self/stat").exists()
    return is_here and pid.isdigit() and started.isdigit() and _started(int(pid)) != started


def _started(pid: int) -> str | None:
    """Read when a living process started, in clock ticks since boot.

    None where there is no such process, or only a zombie.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]
