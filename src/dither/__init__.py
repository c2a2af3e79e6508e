"""dither: a differential-privacy curator.

It holds data about people, answers questions about the population, and bounds, with a proof, what anyone can learn
about one person.
"""

from dither.errors import (
    BudgetError,
    CatalogError,
    DitherError,
    ParameterError,
    QueryError,
    RefusedError,
    UnavailableError,
)

__version__ = "0.1.0"
__all__ = [
    "BudgetError",
    "CatalogError",
    "DitherError",
    "ParameterError",
    "QueryError",
    "RefusedError",
    "UnavailableError",
    "__version__",
]
