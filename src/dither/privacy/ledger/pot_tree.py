"""Pots inside pots: a charge goes to a pot and to everything it is inside of, all or nothing.

The dataset's total is the root. Ordinary pots (analyst, group, purpose) add up: each pays for every
release that it or a pot inside it asked for. The parts of a *partition* do not: one unit lies in
one part, so the partition stands at the largest running total of its parts (the two largest under
replace), per component, and those above it pay only what that grows by. Parts may be used at once
and in any order: docs/proofs/filters.md, theorem 5.

Under (person, window) units budgets may be kept per window: the windows are the parts of one
partition inside the total, whose column starts with `*.`. Then every charge names the windows that
it may touch; they pay beside the pot that was asked, and the total pays what the partition grows
by, for every question. So a window's cap bounds all that is ever learned about one person in it,
and no question goes past it: theorem 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dither.errors import BudgetError, ParameterError, RefusedError
from dither.privacy.charges.parallel import sum_largest
from dither.privacy.charges.rules import Charge, charge_from_amounts
from dither.privacy.ledger.pots import GRID, Pot, add_charge, charge_of, spend
from dither.privacy.losses import Loss
from dither.rules import PrivacyRule


def path(pots: Mapping[str, Pot], name: str) -> tuple[str, ...]:
    """List the names of a pot and of all pots that it is inside of, the dataset's total last.

    Raises BudgetError where the pot is not open.
    """
    if name not in pots:
        raise BudgetError(
            f"no budget {name!r} is open. Steward: dither budget open CATALOG {name} --epsilon 1 "
            "--ceiling 2 --question '...' --population '...' --recipient '...'"
        )
    names = [name]
    while (outer := pots[names[-1]].inside) is not None:
        names.append(outer)
    return tuple(names)


def windows(pots: Mapping[str, Pot]) -> tuple[Pot, tuple[Pot, ...]] | None:
    """Return the partition into windows and its windows; None without budgets per window."""
    partition = next((pot for pot in pots.values() if pot.is_windows), None)
    return (
        None
        if partition is None
        else (partition, tuple(pot for pot in pots.values() if pot.inside == partition.name))
    )


def needed(pots: Mapping[str, Pot], leaves: tuple[str, ...]) -> set[str]:
    """Collect the names of the pots whose totals a charge to `leaves` may read.

    These are the paths, every part of a partition on them, and the partition into windows. Without
    the last, a charge that names no window would not be seen to go past them.
    """
    names = {name for leaf in leaves for name in path(pots, leaf)}
    partitions = {name for name in names if pots[name].kind == "partition"}
    names |= {name for name, pot in pots.items() if pot.is_windows}
    return names | {name for name, pot in pots.items() if pot.inside in partitions}


def pay(
    pots: Mapping[str, Pot],
    leaves: tuple[str, ...],
    loss: Loss,
    *,
    reissue: bool = False,
    paid: frozenset[str] = frozenset(),
    limited: bool = True,
    before_recount: bool = False,
) -> tuple[dict[str, Charge], dict[str, Pot]]:
    """What each pot pays and its balance afterwards; BudgetError or RefusedError changes nothing.

    `leaves` is the pot that was asked (or several parts of one partition), then the windows that
    the question may touch. Pots in `paid` paid for this very release before, and do not pay its
    price again; if one has, all that it is inside of have. What a partition grows by is paid by the
    pots above it even so: theorem 5 needs it.

    Two switches for replaying old ledgers: `limited=False` compares with no cap, and
    `before_recount=True` is the unsound rule of the first version, by which pots in `paid` did not
    pay for growth either.
    """
    add = spend if limited else add_charge
    asking, touched = _split(pots, leaves, paid)
    now = dict(pots)
    charges = dict[str, Charge]()
    growth: Charge | None = None
    if touched:
        price = charge_of(pots[touched[0]], loss)  # windows share one rule and one unit
        for window in touched:
            charges[window] = price
            now[window] = add(now[window], price, reissue=reissue)
        partition = pots[touched[0]].inside or ""
        window_growth = _growth(now, partition, reissue)
        charges[partition] = window_growth
        now[partition] = add(now[partition], window_growth, reissue=reissue)
    for name in (*asking, *path(pots, asking[0])[1:]):
        is_root = now[name].inside is None
        if before_recount and name in paid:
            continue
        if now[name].kind == "partition":
            growth = _growth(now, name, reissue)
            charge = growth
        elif is_root and windows(pots) is not None:  # it stands at its dearest window: theorem 7
            if not touched:
                continue
            charge = window_growth
        elif growth is not None:
            charge = growth
        elif name in paid:
            continue
        else:
            charge = charge_of(now[name], loss)
        if name in paid and not any(charge):
            continue
        charges[name] = charge
        now[name] = add(now[name], charge, reissue=reissue)
    return charges, {name: now[name] for name in charges}


def check_names(pots: Mapping[str, Pot], leaves: tuple[str, ...]) -> None:
    """Refuse pots that are named twice or not open."""
    if not leaves or len(set(leaves)) != len(leaves):
        raise ParameterError(
            "a charge goes to one budget, or to several different parts of one partition"
        )
    for leaf in leaves:
        path(pots, leaf)


def _split(
    pots: Mapping[str, Pot], leaves: tuple[str, ...], paid: frozenset[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split the pots of a charge into (pots that asked, windows that pay beside them).

    `leaves` names the pots in the order of the charge; `paid` those that have paid for the answer
    already. Raises RefusedError or ParameterError where they are no sound charge.
    """
    check_names(pots, leaves)
    if any(pots[leaf].kind == "partition" for leaf in leaves):
        raise RefusedError(
            "a partition is spent through its parts: name one of them", rule=PrivacyRule.PARTS
        )
    timed = windows(pots)
    touched = tuple(
        leaf for leaf in leaves if timed is not None and pots[leaf].inside == timed[0].name
    )
    asking = leaves[: len(leaves) - len(touched)]
    if timed is not None and (
        not asking
        or asking + touched != leaves
        or not (touched or path(pots, asking[0])[-1] in paid)
    ):
        raise RefusedError(
            "budgets are kept per window here: ask from the total or a budget inside it, and every "
            "window that a question "
            "may touch pays beside it",
            rule=PrivacyRule.WINDOWS,
        )
    if len(asking) > 1 and (
        {pots[leaf].kind for leaf in asking} != {"part"}
        or len({pots[leaf].inside for leaf in asking}) > 1
    ):
        raise ParameterError("several budgets pay together only as parts of one partition")
    return asking, touched


def _growth(pots: Mapping[str, Pot], name: str, reissue: bool) -> Charge:
    """Compute by how much a partition must grow to reach its largest parts.

    It is asked after one of them paid.
    """
    partition = pots[name]
    inner_pots = [pot for pot in pots.values() if pot.inside == name]
    amount_before = partition.reissued if reissue else partition.spent
    amounts = [inner.reissued if reissue else inner.spent for inner in inner_pots]
    deltas = [inner.delta_spent for inner in inner_pots]
    return charge_from_amounts(
        _growth_to_largest(partition, amount_before, amounts),
        _growth_to_largest(partition, partition.delta_spent, deltas),
    )


def _growth_to_largest(partition: Pot, before: Fraction, totals: list[Fraction]) -> Fraction:
    """Compute how much a total grows from `before` to the sum of the largest totals.

    `before` may lie above that sum by the rounding of sums; RefusedError where it lies higher,
    since the totals were then tampered with.
    """
    after = sum_largest(totals, partition.neighbours)
    if after + Fraction(1, GRID) < before:
        raise RefusedError(
            f"the totals of budget {partition.name!r} are damaged", rule=PrivacyRule.ROLLBACK
        )
    return max(Fraction(0), after - before)


def worst_case(pots: Mapping[str, Pot]) -> Pot:
    """Return the dataset's total: what all groups together can spend, whatever the policy."""
    return next(pot for pot in pots.values() if pot.inside is None)
