"""The hazards that NIST SP 800-226 lists, looked for in a deployment's own facts.

Each is found from catalog and ledger, or asked about where only a person can know. A hazard is a
warning, never a verdict: nothing here says that a deployment is safe. (Read from the initial public
draft of December 2023; the wording is ours.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from dither.catalog import Category, Date, Decimal, Integer, Text, Timestamp, Undeclared
from dither.catalog.explain import ASSERTED
from dither.publish.certificate import format_rounded_up
from dither.publish.deployment import Deployment

LARGE = Fraction(3)
EMPTY = Fraction(10)
COMMON_DELTA = Fraction(1, 10**5)
_READ_OFF = re.compile(
    r"\b(observed|the data|dataset|max(imum)? of|min(imum)? of|quantile|percentile|sample|tuned)\b"
)


@dataclass(frozen=True)
class Hazard:
    """One warning: a name to look up, what was found, and what to do. `ask` marks what only a
    person can answer."""

    name: str
    message: str
    ask: bool = False

    def __str__(self) -> str:
        return f"{'to answer' if self.ask else 'warning'} [{self.name}]: {self.message}"


def find_hazards(deployment: Deployment) -> tuple[Hazard, ...]:
    """Find all hazards, in the order of the draft's layers.

    Parameters, unit, algorithms, trust, data.
    """
    return (
        *_check_parameters(deployment),
        *_check_unit(deployment),
        *_check_algorithms(deployment),
        *_check_trust(deployment),
        *_check_collection(deployment),
    )


def _check_parameters(deployment: Deployment) -> Iterator[Hazard]:
    """List hazards of the budget: none open, or a large epsilon or delta."""
    guarantee = deployment.guarantee()
    if guarantee is None:
        yield Hazard(
            "no-budget",
            "no budget is open, so nothing bounds what may be learned: dither budget open --help",
        )
        return
    epsilon, delta = guarantee
    stated = (
        f"epsilon {format_rounded_up(epsilon)} at delta {format_rounded_up(delta)} "
        f"for one {deployment.catalog.unit.label}"
    )
    if epsilon > EMPTY:
        yield Hazard(
            "large-epsilon",
            f"{stated}: odds may move by more than 20,000; attach evidence from attacks",
        )
    elif epsilon > LARGE:
        yield Hazard(
            "large-epsilon", f"{stated}: odds may move by more than 20; say why this much is needed"
        )
    total = deployment.total
    if total is not None and total.rule.name == "approx":
        yield Hazard(
            "catastrophic-delta",
            "an (epsilon, delta) budget allows that with probability delta anything leaves; zcdp "
            "budgets degrade gracefully",
        )
    if delta > COMMON_DELTA:
        yield Hazard(
            "large-delta", f"{stated}: a delta above 1e-5 makes epsilon look smaller than it is"
        )
    max_rows = max((table.max_rows or 0) for table in deployment.catalog.private_tables)
    if delta * max_rows >= 1:
        yield Hazard(
            "delta-and-size",
            f"delta times max_rows ({max_rows}) reaches 1: releasing one row would satisfy it",
        )
    yield Hazard(
        "comparing",
        f"compare {stated} only with guarantees at the same delta and for the same unit",
        ask=True,
    )


def _check_unit(deployment: Deployment) -> Iterator[Hazard]:
    """List hazards of the unit: who is protected less than a whole person, and who not at all."""
    unit = deployment.catalog.unit
    if unit.kind == "row":
        what = "a row"
        if unit.one_row_is is not None:
            what = f"a row, taken for a person ({ASSERTED})"
        yield Hazard(
            "event-level",
            f"the unit is {what}: a person with k rows is protected k times less (dither interpret "
            "CATALOG --rows 10)",
        )
    if unit.kind == "person_window":
        yield Hazard(
            "event-level",
            f"the unit is a person in one {unit.every}: a secret that lasts longer is protected "
            f"less, by as many {unit.every}s (dither interpret CATALOG --windows 12)",
        )
    for person in deployment.catalog.people:
        if not person.protected:
            yield Hazard(
                "unprotected-people",
                f"{person.key} names people who are not protected: {person.because}",
            )
    yield Hazard(
        "harm-outside-the-unit",
        "families, firms or regions may be harmed by what is true of many",
        ask=True,
    )
    for name, column in deployment.columns():
        if isinstance(column, Text):
            yield Hazard(
                "unstructured",
                f"{name} is free text: it may speak of people who own no row",
                ask=True,
            )


def _check_algorithms(deployment: Deployment) -> Iterator[Hazard]:
    """List hazards of the mechanisms: bounds read off the data, unlisted keys, bias."""
    yield Hazard(
        "implementation",
        "one implementation, not certified by others: run 'make test' and the audit",
        ask=True,
    )
    for name, column in deployment.columns():
        if isinstance(column, (Integer, Decimal, Date, Timestamp)) and _READ_OFF.search(
            column.provenance.lower()
        ):
            yield Hazard(
                "bounds-from-data",
                f"the bounds of {name} come from: {column.provenance}. Are they public?",
            )
        if isinstance(column, Category) and isinstance(column.values, Undeclared):
            yield Hazard(
                "keys-not-given", f"the keys of {name} are not listed: rare ones are never shown"
            )
    for table in deployment.catalog.private_tables:
        if table.rows_per_unit is not None and table.rows_per_unit > 10:
            yield Hazard(
                "contribution-bound",
                f"{table.name} keeps up to {table.rows_per_unit} rows per "
                f"{deployment.catalog.unit.label}: noise grows with it; a lower limit trades noise "
                "for bias",
            )
    yield Hazard(
        "statistical-bias",
        "limits and clamps pull sums towards the bounds; intervals do not cover that",
    )
    yield Hazard(
        "small-groups",
        "noise is the same for every group, so small groups have the largest relative error",
    )


def _check_trust(deployment: Deployment) -> Iterator[Hazard]:
    """List hazards of who is trusted with what: curator, time, failures, access, dev data."""
    yield Hazard(
        "interactive", "questions are chosen after seeing answers: the budget is a filter, and ends"
    )
    yield Hazard(
        "trust", "the curator sees the rows: who runs it, and who could read its disk?", ask=True
    )
    yield Hazard(
        "side-channels",
        "embedded mode makes no promise about time; answers should not be timed by outsiders",
    )
    if deployment.incidents:
        codes = ", ".join(sorted({incident.code for incident in deployment.incidents}))
        yield Hazard(
            "incidents",
            f"{len(deployment.incidents)} failures after a charge are on record ({codes}): "
            "unprotected",
        )
    yield Hazard(
        "security",
        "access control, encryption at rest and backups are outside of differential privacy",
        ask=True,
    )
    if deployment.context == "dev":
        yield Hazard(
            "dev", "this is a dev lineage: exact answers can be shown, so no real data may be in it"
        )


def _check_collection(deployment: Deployment) -> Iterator[Hazard]:
    """List hazards of the collection: other releases, the same people, columns without use."""
    yield Hazard(
        "other-releases",
        "what else was published from the same data without noise adds to the risk",
        ask=True,
    )
    for note in deployment.population_notes:
        yield Hazard("same-people", note)
    if deployment.releases and (unused := deployment.unused_columns()):
        yield Hazard(
            "over-collection",
            f"no release used {', '.join(unused)}: does the dataset need to hold them?",
        )
    yield Hazard(
        "human-bias", "who is missing from the data, and who acts on the answers?", ask=True
    )
