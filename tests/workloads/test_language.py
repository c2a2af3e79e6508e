"""The language of workloads: unions, products, weights, and what is no workload."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from dither.errors import ParameterError
from dither.workloads import cube, identity, marginals, prefixes, ranges, total


def test_products_distribute_over_unions_and_weights_multiply() -> None:
    workload = (2 * ranges("age") + total()) * (identity("sex") * 3)
    assert [(str(product), product.weight) for product in workload.products] == [
        ("ranges(age) x identity(sex)", Fraction(6)),
        ("identity(sex)", Fraction(3)),
    ]
    assert workload.columns == ("age", "sex")


def test_marginals_are_all_of_exactly_k_columns_and_a_cube_all_up_to_k() -> None:
    names = [product.columns for product in marginals(2, of=["a", "b", "c"]).products]
    assert names == [("a", "b"), ("a", "c"), ("b", "c")]
    sizes = [len(product.columns) for product in cube(["a", "b", "c"], 2).products]
    assert sizes == [0, 1, 1, 1, 2, 2, 2]


REFUSED: dict[str, Callable[[], object]] = {
    "a column in both factors": lambda: ranges("age") * identity("age"),
    "a column twice": lambda: identity("age", "age"),
    "no column": lambda: identity(),
    "a text for columns": lambda: marginals(1, of="age"),
    "more columns than there are": lambda: marginals(3, of=["a", "b"]),
    "a weight of 0": lambda: 0 * total(),
    "a negative weight": lambda: total() * -1,
    "too many marginals": lambda: marginals(20, of=[f"c{number}" for number in range(40)]),
    "a cube of less than nothing": lambda: cube(["a"], -1),
    "too many products": lambda: (
        marginals(2, of=[f"a{number}" for number in range(20)])
        * (marginals(2, of=[f"b{number}" for number in range(20)]) + prefixes("c"))
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_workload_is_refused(name: str) -> None:
    with pytest.raises(ParameterError):
        REFUSED[name]()
