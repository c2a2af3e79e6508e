"""The language of workloads: families of counting queries over the columns of one table.

A workload is a union of products. A product names columns and asks, along each of them, for every
value (`identity`), every prefix or every range; columns that it does not name are summed over.

>>> both = ranges("age") * identity("sex") + 2 * total()
>>> [str(product) for product in both.products]
['ranges(age) x identity(sex)', 'total']
>>> len(marginals(2, of=["a", "b", "c"]).products)
3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Literal

from dither.canonical import Number, exact
from dither.errors import ParameterError

LineKind = Literal["identity", "prefixes", "ranges", "total"]
"""What is asked along one column; `total` is the sum over it."""
MOST_PRODUCTS = 10_000
MOST_MARGINALS = 1_000_000
"""Combinations that are counted before any list of them is made."""


@dataclass(frozen=True)
class Product:
    """All combinations of one query of each factor, and how much their errors weigh.

    `factors` are (column, what is asked along it), each column once.
    """

    factors: tuple[tuple[str, LineKind], ...]
    weight: Fraction = Fraction(1)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are not summed over."""
        return tuple(column for column, _ in self.factors)

    def find_kind(self, column: str) -> LineKind:
        """What is asked along a column."""
        return dict(self.factors).get(column, "total")

    def __str__(self) -> str:
        """The product in the words of the language, without its weight."""
        return " x ".join(f"{kind}({column})" for column, kind in self.factors) or "total"


@dataclass(frozen=True)
class CountingWorkload:
    """A union of products: `+` is the union, `*` the Kronecker product, a number is a weight."""

    products: tuple[Product, ...]

    def __post_init__(self) -> None:
        """Refuse an empty workload and one of too many products."""
        if not self.products:
            raise ParameterError('a workload asks for something: e.g. marginals(2, of=["a", "b"])')
        _check_count(len(self.products))

    def __add__(self, second: CountingWorkload) -> CountingWorkload:
        """The queries of both."""
        return CountingWorkload(self.products + second.products)

    def __mul__(self, second: CountingWorkload | Number) -> CountingWorkload:
        """The Kronecker product with a workload over other columns, or another weight."""
        if not isinstance(second, CountingWorkload):
            return self.weigh(second)
        _check_count(len(self.products) * len(second.products))
        return CountingWorkload(
            tuple(
                _multiply(product, factor)
                for product in self.products
                for factor in second.products
            )
        )

    def __rmul__(self, weight: Number) -> CountingWorkload:
        """The same queries, whose squared errors weigh so much."""
        return self.weigh(weight)

    def weigh(self, weight: Number) -> CountingWorkload:
        """The same queries, whose squared errors weigh so many times as much."""
        factor = exact(weight, "weight")
        if factor <= 0:
            raise ParameterError(f"the weight of a workload must be positive, got {weight}")
        return CountingWorkload(
            tuple(replace(product, weight=product.weight * factor) for product in self.products)
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of all products, in the order in which they are first named."""
        return tuple(dict.fromkeys(name for product in self.products for name in product.columns))


def identity(*columns: str) -> CountingWorkload:
    """One count for each combination of values of the columns: a histogram, a marginal."""
    return _make_workload(columns, "identity")


def prefixes(column: str) -> CountingWorkload:
    """For every value of a column, the count of all values up to it."""
    return _make_workload((column,), "prefixes")


def ranges(column: str) -> CountingWorkload:
    """For every two values of a column, the count between them, both included."""
    return _make_workload((column,), "ranges")


def total() -> CountingWorkload:
    """The count of all rows."""
    return CountingWorkload((Product(()),))


def marginals(k: int, of: Sequence[str]) -> CountingWorkload:
    """All marginals of exactly k of these columns."""
    _check_columns(of)
    if type(k) is not int or not 0 <= k <= len(of):
        raise ParameterError(f"marginals of {k} of {len(of)} columns: choose 0 to {len(of)}")
    _check_count(_count_combinations(len(of), k))
    return CountingWorkload(
        tuple(
            Product(tuple((column, "identity") for column in chosen))
            for chosen in combinations(of, k)
        )
    )


def cube(of: Sequence[str], up_to: int) -> CountingWorkload:
    """All marginals of at most `up_to` of these columns, the total included."""
    if type(up_to) is not int or up_to < 0:
        raise ParameterError(f"up_to must be a whole number from 0, got {up_to}")
    workload = marginals(0, of)
    for k in range(1, min(up_to, len(of)) + 1):
        workload = workload + marginals(k, of)
    return workload


def choose_words(
    workload: CountingWorkload | Sequence[str] | None, k: int | None, of: Sequence[str]
) -> CountingWorkload | Sequence[str]:
    """The workload that was given, or the marginals of k columns that were; not both."""
    if (workload is None) == (k is None) or (k is None and of):
        raise ParameterError(
            "ask for a workload in words, as a list of SQL, or by marginals= and of=: e.g. "
            'con.workload(marginals=2, of=["ward", "sex"], table="visits", epsilon=1)'
        )
    return marginals(k, of) if k is not None else workload or ()


def _make_workload(columns: Sequence[str], kind: LineKind) -> CountingWorkload:
    _check_columns(columns)
    if not columns:
        raise ParameterError("name a column, or ask for total()")
    return CountingWorkload((Product(tuple((column, kind) for column in columns)),))


def _multiply(first: Product, second: Product) -> Product:
    """The product of two products over different columns."""
    shared = set(first.columns) & set(second.columns)
    if shared:
        raise ParameterError(
            f"{', '.join(sorted(shared))} is in both factors: a product is over different columns; "
            "for the queries of both use +"
        )
    return Product(first.factors + second.factors, first.weight * second.weight)


def _check_columns(columns: Sequence[str]) -> None:
    if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
        raise ParameterError('columns are a list of names: e.g. of=["ward", "sex"]')
    if len(set(columns)) != len(columns):
        raise ParameterError("a column twice: name each once")


def _count_combinations(columns: int, chosen: int) -> int:
    """The binomial coefficient; growth is stopped at MOST_MARGINALS."""
    count = 1
    for step in range(min(chosen, columns - chosen)):
        count = count * (columns - step) // (step + 1)
        if count > MOST_MARGINALS:
            break
    return count


def _check_count(products: int) -> None:
    if products > MOST_PRODUCTS:
        raise ParameterError(
            f"{products:,} products or marginals in one workload: at most {MOST_PRODUCTS:,}. Ask "
            "for fewer columns, or for a smaller k"
        )
