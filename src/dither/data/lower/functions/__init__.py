"""The SQL of every function of the plan's table, by the function's name.

A test holds the two tables against each other: no function without SQL, no SQL without a function.
"""

from dither.data.lower.functions import conditions, dates, numbers, text
from dither.data.lower.functions.numbers import UNDEFINED
from dither.data.lower.functions.sql import FunctionSql

__all__ = ["SQL", "UNDEFINED"]

SQL: dict[str, FunctionSql] = (
    numbers.FUNCTIONS | text.FUNCTIONS | dates.FUNCTIONS | conditions.FUNCTIONS
)
