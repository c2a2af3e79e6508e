"""The SQL of every function of the plan's table, by the function's name.

A test holds the two tables against each other: no function without SQL, no SQL without a function.
"""

from dither.data.lower.dialect import dialect
from dither.data.lower.functions import conditions, dates, numbers, text
from dither.data.lower.functions.numbers import UNDEFINED
from dither.data.lower.functions.sql import FunctionSql, SqlArguments
from dither.plan.domain import Domain

__all__ = ["SQL", "UNDEFINED", "write_function"]

SQL: dict[str, FunctionSql] = (
    numbers.FUNCTIONS | text.FUNCTIONS | dates.FUNCTIONS | conditions.FUNCTIONS
)


def write_function(function: str, arguments: SqlArguments, result: Domain) -> str:
    """Write the SQL of one call, in the words of the dialect where it has its own."""
    write = dialect().functions.get(function) or SQL[function]
    return write(arguments, result)
