"""dither: a differential-privacy curator.

It holds data about people, answers questions about the population, and bounds, with a proof, what anyone can learn
about one person.
"""

from typing import TYPE_CHECKING, Any

from dither.errors import (
    BudgetError,
    CatalogError,
    DitherError,
    ParameterError,
    QueryError,
    RefusedError,
    UnavailableError,
)
from dither.version import __version__

if TYPE_CHECKING:
    from dither.session import Connection, connect

__all__ = [
    "BudgetError",
    "CatalogError",
    "Connection",
    "DitherError",
    "ParameterError",
    "QueryError",
    "RefusedError",
    "UnavailableError",
    "__version__",
    "connect",
]


def __getattr__(name: str) -> Any:
    """`connect` and `Connection` bring the engine along; parts of dither that need none load without it."""
    if name in ("connect", "Connection"):
        from dither import session

        return getattr(session, name)
    raise AttributeError(f"module 'dither' has no attribute {name!r}")
