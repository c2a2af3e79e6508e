"""Families of mechanisms that are offered for a query; the kernel itself takes any that serves."""

from __future__ import annotations

from dither.errors import RefusedError
from dither.plan.algebra import Cells, Query
from dither.privacy.kernel.families import FAMILIES, NEWEST_LAWS, Measure, MechanismFamily
from dither.rules import PrivacyRule


def choose_family(query: Query, measure: Measure, allow_epsilon_only: bool) -> MechanismFamily:
    """Return the first family that can answer a query in this measure.

    `allow_epsilon_only` admits families that only pots counted in epsilon can pay. Raises
    RefusedError where no family fits.
    """
    for family in FAMILIES.values():
        is_allowed = allow_epsilon_only or not family.needs_epsilon_pots
        if is_allowed and measure in family.measures and family.serves(query):
            return family
    raise RefusedError(f"no rule for {type(query).__name__} in {measure}", rule=PrivacyRule.NO_RULE)


def list_noise_families(measures: set[Measure], allow_epsilon_only: bool) -> list[MechanismFamily]:
    """List the families of noise on single counts and sums that prices in these measures can buy.

    `allow_epsilon_only` admits families that only pots counted in epsilon can pay.
    """
    return [
        family
        for family in FAMILIES.values()
        if family.answers is Cells
        and family.is_offered
        and family.numbers[0] == 1
        and measures & {*family.measures}
        and (allow_epsilon_only or not family.needs_epsilon_pots)
    ]


def list_joint_families(
    measure: Measure, allow_epsilon_only: bool, laws: int = NEWEST_LAWS
) -> list[MechanismFamily]:
    """List the families that draw one noise for several numbers of a cell.

    `allow_epsilon_only` admits families that only pots counted in epsilon can pay.
    """
    return [
        family
        for family in FAMILIES.values()
        if family.joint_demand is not None
        and family.laws <= laws
        and measure in family.measures
        and (allow_epsilon_only or not family.needs_epsilon_pots)
    ]
