"""Cores of their own for curator and gateway, so that the load of one does not slow the other.

How long a preview takes in the gateway would else tell how busy the curator is with a question of
somebody else. The first core is the gateway's, all others are the curator's.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def choose_cores(cores: set[int], *, is_gateway: bool) -> set[int]:
    """The cores of one of the two processes; all of them where there is but one.

    >>> choose_cores({0, 1, 2}, is_gateway=True), choose_cores({0, 1, 2}, is_gateway=False)
    ({0}, {1, 2})
    """
    first = min(cores)
    if len(cores) < 2:
        return cores
    return {first} if is_gateway else cores - {first}


def take_cores(*, is_gateway: bool) -> None:
    """Run all threads of this process on its own cores, where the system lets it choose.

    Under systemd `CPUAffinity=` of the units does this.
    """
    cores = choose_cores(os.sched_getaffinity(0), is_gateway=is_gateway)
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            os.sched_setaffinity(int(task.name), cores)
