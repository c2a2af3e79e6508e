"""Leases that an interrupt leaves open: closed where a command of a connection ends with an error.

A lease is charged in a thread that no interrupt reaches. One that comes after that thread is done,
and before the caller is in the lease's `with` block, finds a lease that nobody holds: its outputs
would be stored when Python exits, and a kill before that would count as an incident.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
GUARDS = 6
_TRIES = 100


def close_left_leases(command: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A command that closes the leases it opened where it ends with an error, as on Ctrl-C.

    Leases of other threads, and those that were open before, stay open.
    """

    @wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return _run_guarded(lambda: command(*args, **kwargs), GUARDS)

    return run


def _run_guarded(command: Callable[[], Result], guards: int) -> Result:
    """Run a command, and close what it left open.

    An interrupt that comes while leases are being closed is caught by the next guard.
    """
    from dither.privacy.kernel.lease import list_open_leases  # with the engine's libraries

    before = list_open_leases()
    try:
        return command() if guards == 0 else _run_guarded(command, guards - 1)
    except BaseException:
        for lease in list_open_leases() - before:
            for _ in range(_TRIES):
                with suppress(BaseException):
                    lease.close()
                    break
        raise
