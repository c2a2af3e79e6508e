"""Keys that nobody listed: how many people a group needs to be shown, and why none may be."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dither.laws import KeyErrorLaw, find_error_law

SURVIVES = Fraction(95, 100)
"""The chance to be shown that previews state a size for."""


def find_size_shown(mechanisms: Sequence[Any]) -> int | None:
    """Find how many units a group must have to be shown with 95%, where keys are selected."""
    laws = [find_error_law(mechanism) for mechanism in mechanisms]
    sizes = [law.size_shown(SURVIVES) for law in laws if isinstance(law, KeyErrorLaw)]
    return max(sizes, default=None)


def explain_empty_answer(mechanisms: Sequence[Any], unit: str, *, has_groups: bool) -> str:
    """Say why an answer has no row.

    `has_groups`: whether any group was released, so that a condition has left it out.
    """
    size = find_size_shown(mechanisms)
    if has_groups or size is None:
        return "no row is left: no released group meets HAVING, OFFSET and LIMIT"
    noun = unit.partition(" ")[0]
    return (
        f"no group is shown: a group of {size:,} {noun}s is shown with 95%, smaller ones less "
        "often. A higher price, a lower max_groups, or keys that the catalog lists show smaller "
        "groups; asking the same again is free and shows the same"
    )
