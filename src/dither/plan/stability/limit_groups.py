"""At most so many groups per unit. Proof: docs/proofs/stability.md#limit-groups."""

from __future__ import annotations

from dataclasses import replace

from dither.errors import RefusedError
from dither.plan.domain import Columns, is_stored
from dither.plan.stability.owned import Grouped, Node, Owned
from dither.rules import PrivacyRule


def limit_rows(source: Node, keys: tuple[str, ...], groups: int) -> Owned:
    """Bound the rows of one unit after a limit on its groups.

    Rows stay or go by the owner's own rows; what stays has at most `groups` values of the keys.

    >>> limit_rows(Owned(20), ("county",), 3).groups(("county",))
    3
    """
    if not isinstance(source, Owned):
        raise RefusedError("groups per unit of rows without an owner", rule=PrivacyRule.LOST_OWNER)
    if type(groups) is not int or groups < 1 or not keys:
        raise RefusedError("at least one group and one key", rule=PrivacyRule.PARAMETER_RANGES)
    bound = Grouped(frozenset(keys), min(groups, source.groups(keys)), source.rows_per_group(keys))
    return replace(source, grouped=(*source.grouped, bound))


def check_keys(keys: tuple[str, ...], columns: Columns, *, inside_unit: bool = False) -> None:
    """Raise RefusedError unless each key has an index: a stored integer, or an undeclared label
    with the index that registration stored.

    Inside a unit ids are keys too: no other unit's rows meet them, and none is shown.
    """
    for key in keys:
        if key not in columns:
            raise RefusedError(f"no column {key}", rule=PrivacyRule.DECLARED_NAMES)
        if not (
            is_stored(columns[key])
            or columns[key].undeclared
            or (inside_unit and columns[key].kind == "id")
        ):
            raise RefusedError(
                f"{key} cannot be a key: it is a {columns[key].kind}", rule=PrivacyRule.ALL_KEYS
            )
