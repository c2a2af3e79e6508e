"""Close leases that an interrupt leaves open, where a command of a connection ends with an error.

A lease is charged in a thread that no interrupt reaches. An interrupt after that thread is done,
and before the caller is in the lease's `with` block, leaves a lease that nobody holds: its outputs
would be stored only when Python exits, and a kill before that would count as an incident.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from threading import get_ident
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from dither.privacy.kernel.lease import Lease

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_GUARDS = 6
"""How often an interrupt may come while leases are being closed: each one ends a guard."""
_TRIES = 100
"""How often the closing of one lease is tried again after an interrupt."""


def close_left_leases(command: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make a command close the leases that it opened where it ends with an error, as on Ctrl-C.

    Leases of other threads, and those that were open before, stay open.
    """

    @wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return _run_guarded(lambda: command(*args, **kwargs), _GUARDS)

    return run


def _run_guarded(command: Callable[[], Result], guards: int) -> Result:
    """Run a command, and close the leases that it left open where it ends with an error.

    An interrupt that comes while leases are being closed is caught by the next guard.
    """
    before = _list_open_leases()
    try:
        return command() if guards == 0 else _run_guarded(command, guards - 1)
    except BaseException:
        for lease in _list_open_leases() - before:
            for _ in range(_TRIES):
                with suppress(BaseException):
                    lease.close()
                    break
        raise


def _list_open_leases() -> set[Lease]:
    """List the open leases that this thread opened."""
    from dither.privacy.kernel.lease import open_leases  # it loads the engine's libraries

    return {lease for lease in tuple(open_leases) if lease.thread == get_ident()}
