"""An epsilon above 10 promises next to nothing: commands go on with `--yes` alone."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated

import typer

from dither.canonical import exact
from dither.errors import ParameterError

LARGEST_UNASKED = 10
Yes = Annotated[
    bool, typer.Option("--yes", help="Go on with an epsilon above 10, which promises little.")
]


def check_epsilon(epsilon: str | Fraction | None, *, yes: bool) -> None:
    """Refuse an epsilon above 10 unless `--yes` was said, with what it means.

    The odds of any guess about one person can grow by a factor of e^epsilon (for delta 0).
    """
    if epsilon is None or yes:
        return
    value = exact(epsilon, "epsilon")
    if value > LARGEST_UNASKED:
        raise ParameterError(
            f"{float(value):g} is a large epsilon: answers could make a guess about one person "
            f"{describe_factor(value)} times as likely as before, so that next to nothing is "
            f"promised. Choose e.g. 1, or say --yes to go on"
        )


def describe_factor(epsilon: Fraction) -> str:
    """Write e^epsilon as people read it.

    >>> describe_factor(Fraction(11)), describe_factor(Fraction(200))
    ('59,874', 'more than 10^86')
    """
    if epsilon <= 20:
        return f"{math.exp(epsilon):,.0f}"
    return f"more than 10^{math.floor(epsilon / Fraction(math.log(10)))}"
