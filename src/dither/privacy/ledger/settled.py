"""Totals of pots without the charges under way: all that anyone but the steward may see.

A figure with a charge under way in it would tell when somebody asked and for how long the engine
ran (rules release-times-only and settled-figures-only). Ordinary pots are sums, from which such a
charge is taken off. A partition stands at the largest of its parts, so its settled total is
computed from its parts, and what it falls by is taken off the pots above it, which were charged by
what it grew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import takewhile

from dither.privacy.charges.parallel import sum_largest
from dither.privacy.charges.rules import Charge
from dither.privacy.ledger import pot_tree
from dither.privacy.ledger.pots import Pot

_NOTHING = Fraction(0)


@dataclass(frozen=True)
class UnderWay:
    """A charge whose answer has not left yet.

    `leaves` are the pots that it names, `charges` what each of them paid.
    """

    leaves: tuple[str, ...]
    charges: dict[str, Charge]
    is_reissue: bool


def settle(
    terms: Mapping[str, Pot],
    totals: Mapping[str, Pot],
    under_way: Iterable[UnderWay],
) -> dict[str, Pot]:
    """Take the charges under way out of the pots of `totals`, and return those pots by name.

    `terms` holds every pot of the ledger. With a partition, `totals` holds its parts and all that
    lies inside them: see `names_inside`.
    """
    settled = dict(totals)
    for charge in under_way:
        for name in _direct_payers(terms, charge.leaves):
            if name in settled:
                settled[name] = _without(settled[name], charge.charges[name], charge.is_reissue)
    for name in _partitions(terms, totals):
        inner_pots = [settled[pot.name] for pot in terms.values() if pot.inside == name]
        settled[name] = _at_largest(totals[name], inner_pots)
        for outer in _growth_payers(terms, name):
            if outer in settled:
                settled[outer] = _lowered(settled[outer], totals[name], settled[name])
    return settled


def names_inside(terms: Mapping[str, Pot], names: Iterable[str]) -> tuple[str, ...]:
    """Name the pots whose totals `settle` needs for these names.

    Where there are partitions, all pots inside them are needed too.
    """
    requested = tuple(names)
    if not any(pot.kind == "partition" for pot in terms.values()):
        return requested
    inside = [name for name in terms if not set(requested).isdisjoint(pot_tree.path(terms, name))]
    return tuple(dict.fromkeys((*requested, *inside)))


def _direct_payers(terms: Mapping[str, Pot], leaves: tuple[str, ...]) -> set[str]:
    """Name the pots that paid for the question itself, not for what a partition grew by."""
    payers = {name for leaf in leaves for name in (leaf, *_up_to_partition(terms, leaf))}
    if pot_tree.windows(terms) is None:
        return payers
    return {name for name in payers if terms[name].inside is not None}


def _growth_payers(terms: Mapping[str, Pot], partition: str) -> tuple[str, ...]:
    """Name the pots that paid what a partition grew by.

    With windows the total pays for theirs alone.
    """
    outer = _up_to_partition(terms, partition)
    if pot_tree.windows(terms) is None or terms[partition].is_windows:
        return outer
    return tuple(name for name in outer if terms[name].inside is not None)


def _up_to_partition(terms: Mapping[str, Pot], name: str) -> tuple[str, ...]:
    """List all that a pot is inside of, up to the next partition, which is left out."""
    outer = pot_tree.path(terms, name)[1:]
    return tuple(takewhile(lambda name: terms[name].kind != "partition", outer))


def _partitions(terms: Mapping[str, Pot], totals: Mapping[str, Pot]) -> list[str]:
    """List the partitions, innermost first."""
    names = [name for name, pot in totals.items() if pot.kind == "partition"]
    return sorted(names, key=lambda name: len(pot_tree.path(terms, name)), reverse=True)


def _at_largest(partition: Pot, inner_pots: list[Pot]) -> Pot:
    """Set a partition to the largest total of its parts, the two largest under replace."""
    return replace(
        partition,
        spent=sum_largest((inner.spent for inner in inner_pots), partition.neighbours),
        delta_spent=sum_largest((inner.delta_spent for inner in inner_pots), partition.neighbours),
        reissued=sum_largest((inner.reissued for inner in inner_pots), partition.neighbours),
    )


def _without(pot: Pot, taken: Charge, is_reissue: bool) -> Pot:
    """Take a charge off a pot's totals, which never fall below 0."""
    before = replace(pot, delta_spent=max(_NOTHING, pot.delta_spent - taken.delta))
    if is_reissue:
        return replace(before, reissued=max(_NOTHING, pot.reissued - taken.amount))
    return replace(before, spent=max(_NOTHING, pot.spent - taken.amount))


def _lowered(pot: Pot, before: Pot, after: Pot) -> Pot:
    """Take off a pot what a partition inside it fell by; totals never fall below 0."""
    return replace(
        pot,
        spent=max(_NOTHING, pot.spent - (before.spent - after.spent)),
        delta_spent=max(_NOTHING, pot.delta_spent - (before.delta_spent - after.delta_spent)),
        reissued=max(_NOTHING, pot.reissued - (before.reissued - after.reissued)),
    )
