"""Arguments of the accountant's doors, checked before anything is computed."""

from __future__ import annotations

from typing import get_args

from dither.accounting.workload import Direction
from dither.canonical import quote
from dither.errors import ParameterError
from dither.privacy import losses as ls

ENGINES = ("exact", "contour", "faded", "grid")


def check_loss(loss: object) -> None:
    """Refuse what is not a loss."""
    if not isinstance(loss, ls.Loss):
        raise ParameterError(
            f"the accountant takes a loss, such as Gaussian(1) * 10, got {type(loss).__name__}: "
            f"state which mechanism ran, or Pure(epsilon) if nothing else is known"
        )


def check_door(loss: object, direction: object, engine: object) -> None:
    """Refuse what is not a loss, a direction or an engine."""
    check_loss(loss)
    if direction is not None and direction not in get_args(Direction):
        raise ParameterError(
            f"direction is 'remove', 'add' or None for the worse of the two, got {quote(direction)}"
        )
    if engine is not None and engine not in ENGINES:
        raise ParameterError(
            f"engine is one of {', '.join(ENGINES)}, or None for the tightest, got {quote(engine)}"
        )
