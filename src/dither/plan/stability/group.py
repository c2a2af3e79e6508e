"""GROUP BY without the owner, inside a plan. Proof: docs/proofs/stability.md#group."""

from __future__ import annotations

from dither.errors import RefusedError
from dither.plan.stability.owned import Loose, Node, Owned, Public
from dither.rules import PrivacyRule


def group_rows(source: Node, keys: tuple[str, ...]) -> Loose:
    """Bound the rows that one unit changes after GROUP BY; nobody owns them.

    Each group that a unit touches may lose its old row and gain a new one: twice the groups. Raises
    RefusedError without keys, and for a public table.

    >>> group_rows(Owned(3, most=50), ("county",))
    Loose(rows=6, most=50)
    """
    if isinstance(source, Public):
        raise RefusedError("GROUP BY of a public table alone", rule=PrivacyRule.NO_RULE)
    if not keys:
        raise RefusedError("a grand total inside a plan", rule=PrivacyRule.TOTALS)
    touched = source.groups(keys) if isinstance(source, Owned) else source.rows
    return Loose(2 * touched, source.most)
