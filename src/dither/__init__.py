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

_MODULES = {
    "Catalog": "dither.catalog",
    "Connection": "dither.session",
    "Preview": "dither.answer.preview",
    "Result": "dither.answer.result",
    "connect": "dither.connecting",
    "connect_async": "dither.connecting",
}
"""Where the names come from that bring an engine along."""


def __getattr__(name: str) -> Any:
    """Import a name that brings an engine along, when it is asked for: the rest loads without
    one."""
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'dither' has no attribute {name!r}")
