"""Which requests open incidents forbid (rule incidents-capped).

A failure after a charge is one bit that no noise covers. It suspends the pot that asked, and all
pots inside it, at once; and it counts towards the total's `max_incidents`, whoever asked, past
which nobody is answered. So colluding analysts obtain no more bits than the dataset allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dither.privacy.ledger import pot_tree
from dither.privacy.ledger.pots import Pot


def is_full(pots: Mapping[str, Pot], incidents: int) -> bool:
    """Whether so many open incidents suspend the dataset for all."""
    limit = pot_tree.worst_case(pots).max_incidents if pots else None
    return incidents >= (limit or 1)


def is_path_suspended(
    pots: Mapping[str, Pot],
    failed: Sequence[tuple[str, ...]],
    leaves: tuple[str, ...],
) -> bool:
    """Whether a pot on the path of a request asked a question that failed.

    `failed` holds the pots of the reserve of each open incident, `leaves` those of the request.
    """
    if not failed:
        return False
    suspended = {name for group in failed for name in asking_pots(pots, group)}
    return any(
        name in suspended
        for leaf in asking_pots(pots, leaves)
        for name in pot_tree.path(pots, leaf)
    )


def asking_pots(pots: Mapping[str, Pot], leaves: tuple[str, ...]) -> tuple[str, ...]:
    """List the pots of a reserve that asked; the others are windows, which pay for all who ask."""
    windows = pot_tree.windows(pots)
    if windows is None:
        return leaves
    return tuple(leaf for leaf in leaves if pots[leaf].inside != windows[0].name)
