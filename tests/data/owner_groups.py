"""Plans that join rows of an owner with groups of the same owner."""

from __future__ import annotations

from fractions import Fraction as F

from dither.plan.algebra import (
    Column,
    Compare,
    Count,
    CountValues,
    Filter,
    Join,
    Maximum,
    Minimum,
    Named,
    PerUnit,
    Plan,
    Project,
    Scan,
)

PATIENTS = Scan("patients")
VISITS = Scan("visits")
ITEMS = Scan("items")
LATE = Filter(VISITS, Compare("score", ">", F(1)))
MANY = Filter(ITEMS, Compare("qty", ">", F(1)))


def group(source: Plan, *keys: str, suffix: str = "") -> Plan:
    """Rows of each owner and key, under other names: how many, and their ends."""
    value = "qty" if source in (ITEMS, MANY) else "score"
    columns = [Named(f"in_{key}{suffix}", Column(key)) for key in keys]
    rows = Project(source, (*columns, Named("compared", Column(value))))
    return PerUnit(
        rows,
        tuple(f"in_{key}{suffix}" for key in keys),
        (
            Named(f"rows{suffix}", Count()),
            Named(f"values{suffix}", CountValues("compared")),
            Named(f"least{suffix}", Minimum("compared")),
            Named(f"largest{suffix}", Maximum("compared")),
        ),
    )


def meet(left: Plan, groups: Plan, *keys: str, kind: str = "inner", suffix: str = "") -> Plan:
    return Join(left, groups, tuple((key, f"in_{key}{suffix}") for key in keys), kind)  # type: ignore[arg-type]
