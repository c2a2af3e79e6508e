"""Public operators: the structured product and norms against full matrices, and what is refused
before anything is computed."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest

from dither.audit.naive_linear import multiply, write_matrix
from dither.errors import RefusedError
from dither.plan.apply_operator import apply_operator
from dither.plan.operator_norms import Norms, column_norms, largest_norms, memory_bytes
from dither.plan.operators import (
    MOST_COEFFICIENT,
    MOST_ENTRIES,
    MOST_ENTRY,
    Boxes,
    Dense,
    HaarWavelet,
    Identity,
    Kronecker,
    LinearOperator,
    Marginal,
    Prefix,
    Ranges,
    Stack,
    ToeplitzHankel,
    Total,
    Tree,
    check_operator,
    count_columns,
    count_rows,
)
from tests.plan.operator_samples import OF_FOUR, draw_operator

SIZES = (1, 2, 3, 4, 6, 8, 9, 12)


def norms_of(matrix: list[list[int]]) -> Norms:
    """The largest column norms of a full matrix, by their definitions."""
    columns = [[abs(entry) for entry in column] for column in zip(*matrix, strict=True)]
    return Norms(
        max(sum(entry > 0 for entry in column) for column in columns),
        max(sum(column) for column in columns),
        max(sum(entry**2 for entry in column) for column in columns),
        max(max(column) for column in columns),
    )


def draw_operators(seed: int, count: int) -> list[LinearOperator]:
    draws = random.Random(seed)
    return [draw_operator(draws, draws.choice(SIZES)) for _ in range(count)]


def check_against_matrix(operator: LinearOperator, draws: random.Random) -> None:
    """Sizes, norms and products are those of the full matrix; narrow and wide integers alike."""
    matrix = write_matrix(check_operator(operator))
    assert (count_rows(operator), count_columns(operator)) == (len(matrix), len(matrix[0]))
    assert largest_norms(operator) == norms_of(matrix)
    cells = [draws.randint(-9, 9) for _ in matrix[0]]
    for times, largest in ((1, 200), (2**80, 2**90)):
        numbers = [times * cell for cell in cells]
        product = apply_operator(operator, np.array(numbers, object), largest)
        assert product.tolist() == multiply(matrix, numbers)


@pytest.mark.parametrize("name", OF_FOUR)
def test_an_operator_of_each_class_is_its_matrix(name: str) -> None:
    check_against_matrix(OF_FOUR[name], random.Random(1))


def test_random_nested_operators_are_their_matrices() -> None:
    draws = random.Random(2)
    for operator in draw_operators(3, 800):
        check_against_matrix(operator, draws)


def test_products_and_norms_beyond_int64_stay_exact() -> None:
    """Entries of 2^40 in three factors: 2^120, which int64 would wrap."""
    wide = Dense(((MOST_ENTRY, 1),))
    operator = Kronecker((wide, wide, wide))
    assert largest_norms(operator) == Norms(1, 2**120, 2**240, 2**120)
    cells = np.array([3, *[0] * 7], object)
    assert apply_operator(operator, cells, 3).tolist() == [3 * 2**120]
    both = Stack((operator, operator))
    assert largest_norms(both).l2_squared == 2**241


def test_norms_of_the_largest_coefficients_stay_exact() -> None:
    """4,096 rows of 2^24 in a column, weighted by 2^40: squares sum to 2^60 2^80."""
    size = 4096
    most = MOST_COEFFICIENT
    wide = ToeplitzHankel((most,) * size, (most,) * (2 * size - 1), (1,) * (size - 1) + (2**40,))
    assert largest_norms(check_operator(wide)) == Norms(size, 2**76, 2**140, 2**64)


def test_a_column_is_found_wherever_it_is_largest() -> None:
    """The largest norm of a stack is no sum of the largest norms of what is stacked."""
    stacked = Stack((Dense(((5, 0),)), Dense(((0, 3),))))
    assert largest_norms(stacked) == Norms(1, 5, 25, 5)
    assert column_norms(stacked).l1.tolist() == [5, 3]


@pytest.mark.parametrize(
    "operator",
    [
        Kronecker((Tree(64, 2), HaarWavelet(64), Prefix(16))),
        Kronecker((Dense(((1,) * 64,) * 64), Ranges(1024, tuple((i, 1023) for i in range(900))))),
        Stack((Identity(65536), Tree(65536, 4), Marginal((256, 256), (1,)))),
        Kronecker((Stack((Identity(256), Total(256))), Stack((Identity(256), Total(256))))),
        Kronecker((Identity(128), ToeplitzHankel((1,) * 256, (2,) * 511, (3,) * 256))),
        Boxes((1, 256, 256), (0, 0, 3, 200, 5, 255) * 9000),
    ],
    ids=["tree x haar x prefix", "dense x ranges", "stack", "all marginals", "toeplitz", "boxes"],
)
@pytest.mark.parametrize("largest", [10**6, 2**70])
def test_the_stated_memory_is_enough(operator: LinearOperator, largest: int) -> None:
    if largest > 10**6:  # products of Python integers are slow
        operator = Stack((Kronecker((Tree(16, 2), HaarWavelet(16), Prefix(8))), Identity(2048)))
    cells = np.arange(count_columns(operator)).astype(object) * (largest // 2**40 + 1)
    tracemalloc.start()
    apply_operator(operator, cells, largest)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= memory_bytes(operator, largest) + 10_000


WRONG: dict[str, object] = {
    "no operator": (1, 2),
    "another class": object(),
    "no cells": Identity(0),
    "a boolean size": Total(True),
    "a float size": Prefix(4.0),  # type: ignore[arg-type]
    "too many cells": Identity(1_000_001),
    "too many numbers": Kronecker((Tree(1000, 2), Tree(1000, 2), Total(1), Prefix(1))),
    "half a Haar": HaarWavelet(6),
    "a tree of one branch": Tree(8, 1),
    "a range past the end": Ranges(4, ((2, 4),)),
    "a range backwards": Ranges(4, ((2, 1),)),
    "no ranges": Ranges(4, ()),
    "a box past the end": Boxes((2, 2), (0, 1, 0, 2)),
    "a box backwards": Boxes((2, 2), (1, 0, 0, 1)),
    "half a box": Boxes((2, 2), (0, 1, 0)),
    "no boxes": Boxes((2, 2), ()),
    "boxes of four keys": Boxes((1, 2, 2, 1), (0, 0, 0, 1, 0, 1, 0, 0)),
    "boxes without keys": Boxes((), (0, 1)),
    "a box of floats": Boxes((4,), (0.0, 1.0)),  # type: ignore[arg-type]
    "a box of booleans": Boxes((4,), (False, True)),
    "an empty matrix": Dense(()),
    "a ragged matrix": Dense(((1, 2), (3,))),
    "floats": Dense(((0.5, 1),)),  # type: ignore[arg-type]
    "booleans": Dense(((True, 1),)),
    "a large entry": Dense(((MOST_ENTRY + 1,),)),
    "many entries": Dense(((1,) * (MOST_ENTRIES + 1),)),
    "a Hankel list too short": ToeplitzHankel((1, 2), (1, 2), (1, 1)),
    "a Hankel list too long": ToeplitzHankel((1, 2), (1, 2, 3, 4), (1, 1)),
    "weights for other columns": ToeplitzHankel((1, 2), (1, 2, 3), (1,)),
    "a Toeplitz list that is none": ToeplitzHankel([1], (1,), (1,)),  # type: ignore[arg-type]
    "floats in a Hankel list": ToeplitzHankel((1,), (0.5,), (1,)),  # type: ignore[arg-type]
    "a large coefficient": ToeplitzHankel((MOST_COEFFICIENT + 1,), (1,), (1,)),
    "a wide matrix over many cells": Kronecker(
        (ToeplitzHankel((1,) * 512, (0,) * 1023, (1,) * 512), Identity(1_100))
    ),
    "no factors": Kronecker(()),
    "factors in a list": Kronecker([Identity(2)]),  # type: ignore[arg-type]
    "a stack of two sizes": Stack((Identity(2), Identity(3))),
    "a key twice": Marginal((2, 2), (1, 1)),
    "keys out of order": Marginal((2, 2), (1, 0)),
    "a key too many": Marginal((2, 2), (2,)),
    "a wrong operator inside": Stack((Kronecker((HaarWavelet(3),)), Total(3))),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_operator_is_refused(name: str) -> None:
    with pytest.raises(RefusedError):
        check_operator(WRONG[name])


def test_an_operator_that_doubles_at_every_level_is_refused_at_once() -> None:
    """2^64 nodes of 64 objects: walked with a limit, before it is hashed or written."""
    operator: LinearOperator = Identity(1)
    for _ in range(64):
        operator = Stack((operator, operator))
    with pytest.raises(RefusedError, match="parts"):
        check_operator(operator)


def test_a_large_factor_beside_one_of_zeros_has_the_norms_zero() -> None:
    """2^80 is the squared norm of the first factor: int64 does not hold it, though it holds 0."""
    large = Dense(((2**40,),))
    zeros = Dense(((0, 0),))
    for factors in ((large, zeros), (zeros, large)):
        assert largest_norms(check_operator(Kronecker(factors))) == (0, 0, 0, 0)
