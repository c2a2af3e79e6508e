"""dither: a differential-privacy curator.

It holds data about people, answers questions about the population, and bounds, with a proof, what
anyone can learn about one person.
"""

from typing import TYPE_CHECKING, Any

from dither.errors import (
    BudgetError,
    CatalogError,
    DitherError,
    ParameterError,
    PrivacyWarning,
    QueryError,
    RefusedError,
    UnavailableError,
)
from dither.version import __version__

if TYPE_CHECKING:
    from dither.answer.preview import Preview
    from dither.answer.result import Result
    from dither.catalog import Catalog
    from dither.connecting import connect, connect_async
    from dither.session import Connection

__all__ = [
    "BudgetError",
    "Catalog",
    "CatalogError",
    "Connection",
    "DitherError",
    "ParameterError",
    "Preview",
    "PrivacyWarning",
    "QueryError",
    "RefusedError",
    "Result",
    "UnavailableError",
    "__version__",
    "connect",
    "connect_async",
]


def __getattr__(name: str) -> Any:
    """Import a name that brings an engine along, when it is asked for: the rest loads without
    one."""
    if name in ("Catalog", "Connection", "connect", "connect_async"):
        from dither import connecting

        return getattr(connecting, name)
    if name == "Preview":
        from dither.answer.preview import Preview

        return Preview
    if name == "Result":
        from dither.answer.result import Result

        return Result
    raise AttributeError(f"module 'dither' has no attribute {name!r}")
