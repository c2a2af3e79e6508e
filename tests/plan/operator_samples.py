"""Public operators for tests: one of each class, and random ones of any nesting."""

from __future__ import annotations

import random

from dither.plan.operators import (
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
)

CONTRAST = Dense(((1, -1),))
ROUNDED = Dense(((4, 3), (1, -5), (-2, 2)))
"""A real strategy times 4, rounded."""
OF_FOUR: dict[str, LinearOperator] = {
    "identity": Identity(4),
    "total": Total(4),
    "prefix": Prefix(4),
    "ranges": Ranges(4, ((0, 3), (1, 2), (2, 2))),
    "tree": Tree(4, 2),
    "ternary tree": Tree(4, 3),
    "haar": HaarWavelet(4),
    "dense": Dense(((1, -2, 3, 0), (0, 1, -1, 5))),
    "toeplitz and hankel": ToeplitzHankel((5, -2, 1, 0), (1, 0, -3, 2, 0, 1, 4), (1, -2, 3, 0)),
    "kronecker": Kronecker((Prefix(2), HaarWavelet(2))),
    "rounded factors": Kronecker((ROUNDED, CONTRAST)),
    "stack": Stack((HaarWavelet(4), Kronecker((CONTRAST, Identity(2))))),
    "marginal": Marginal((2, 2), (1,)),
    "boxes": Boxes((2, 2), (0, 1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 1)),
}
"""One operator of each class over four cells."""


def draw_operator(draws: random.Random, size: int, depth: int = 0) -> LinearOperator:
    """A random operator over so many cells."""
    factor = draws.choice([number for number in range(1, size + 1) if size % number == 0])
    match draws.choice([*range(7), 10, *([7, 8, 9] if depth < 2 else [])]):
        case 0:
            return Identity(size)
        case 1:
            return Total(size)
        case 2:
            return Prefix(size)
        case 3:
            ends = [sorted(draws.choices(range(size), k=2)) for _ in range(3)]
            return Ranges(size, tuple((first, last) for first, last in ends))
        case 4:
            return Tree(size, draws.choice([2, 3]))
        case 5 if size & (size - 1) == 0:
            return HaarWavelet(size)
        case 7:
            return Stack(tuple(draw_operator(draws, size, depth + 1) for _ in range(2)))
        case 8:
            first = draw_operator(draws, factor, depth + 1)
            return Kronecker((first, draw_operator(draws, size // factor, depth + 1)))
        case 9:
            return Marginal((factor, size // factor), draws.choice([(), (0,), (1,), (0, 1)]))
        case 10:
            sizes = draws.choice([(size,), (factor, size // factor), (1, factor, size // factor)])
            spans = [sorted(draws.choices(range(side), k=2)) for _ in range(3) for side in sizes]
            return Boxes(sizes, tuple(end for span in spans for end in span))
    if draws.random() < 0.5:
        lengths = (size, 2 * size - 1, size)
        lists = [tuple(draws.randint(-3, 3) for _ in range(length)) for length in lengths]
        return ToeplitzHankel(*lists)
    rows = [[draws.randint(-3, 3) for _ in range(size)] for _ in range(2)]
    return Dense(tuple(map(tuple, rows)))
