"""The steward's acts on pots: which may be opened beside others, and how far a cap may be raised.

The kernel's ledger opens no pot and raises no cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dither.canonical import Number, decimal_text
from dither.errors import ParameterError, RefusedError
from dither.privacy.ledger import pot_tree, pots
from dither.privacy.ledger.pots import Pot
from dither.rules import PrivacyRule


def check_opening(open_pots: Mapping[str, Pot], new: Pot) -> None:
    """Refuse a pot that may not be opened beside those that are open.

    There is one total, and no fresh budget for the same people.
    """
    if new.name in open_pots:
        raise RefusedError(
            f"budget {new.name!r} is open already; its terms never change",
            rule=PrivacyRule.OPENED_ONCE,
        )
    root = next((pot for pot in open_pots.values() if pot.inside is None), None)
    if new.inside is None:
        if root is not None:
            raise RefusedError(
                f"this dataset has its total, {root.name!r}: a second one would give the same "
                f"people a fresh budget. "
                f"Open {new.name!r} inside it (--inside {root.name} --kind analyst|group|purpose)",
                rule=PrivacyRule.FOLLOW_DATA,
            )
        return
    if new.inside not in open_pots:
        raise ParameterError(
            f"budget {new.name!r} is to lie inside {new.inside!r}, which is not open"
        )
    outer = open_pots[new.inside]
    if (new.neighbours, new.unit) != (outer.neighbours, outer.unit):
        raise RefusedError(
            f"budget {new.name!r} protects others than {outer.name!r}",
            rule=PrivacyRule.ONE_GUARANTEE,
        )
    if (outer.kind == "partition") != (new.kind == "part"):
        raise ParameterError(
            "inside a partition lie its parts and nothing else; a part lies inside a partition"
        )
    siblings = [pot for pot in open_pots.values() if pot.inside == new.inside]
    if new.kind == "part" and any(pot.value == new.value for pot in siblings):
        raise ParameterError(f"the part {new.value!r} of {new.inside!r} has its budget already")
    if new.is_windows and (outer.inside is not None or pot_tree.windows(open_pots) is not None):
        raise ParameterError("one partition into windows lies directly inside the dataset's total")
    if outer.kind == "part" and open_pots[outer.inside or ""].is_windows:
        raise ParameterError(
            f"{outer.name!r} is a window, which pays for all who ask: open {new.name!r} elsewhere"
        )
    if new.kind in ("partition", "part"):
        for name in pot_tree.path(open_pots, new.inside):
            if open_pots[name].rule != new.rule:
                raise RefusedError(
                    f"budget {name!r} counts by another rule: a partition, its parts and all that "
                    f"they are inside of "
                    "share one rule, since the largest of unlike numbers means nothing",
                    rule=PrivacyRule.PARTS,
                )


def raise_pot_cap(pot: Pot, cap: Number, reason: str) -> Pot:
    """Return the pot with a higher cap.

    Raises an error where the cap is not higher, or lies above the ceiling less the reserve for
    reissues. The ceiling, for which the guarantee is stated, never moves.
    """
    pots.sentence(
        reason,
        f"the reason to raise budget {pot.name!r}",
        "the yearly report needs the table by district",
    )
    higher = pots.limit(cap, pot.rule.measure)
    if higher <= pot.cap:
        raise ParameterError(
            f"budget {pot.name!r} has the cap {decimal_text(pot.cap)} already; "
            "a raise must exceed it"
        )
    if higher > pot.ceiling - pot.reissue:
        raise RefusedError(
            f"budget {pot.name!r} was opened with the ceiling {decimal_text(pot.ceiling)}, "
            f"of which {decimal_text(pot.reissue)} is kept for reissues; "
            f"{decimal_text(higher)} lies above the rest. "
            "Both were "
            "fixed before any answer was seen",
            rule=PrivacyRule.CEILING,
        )
    return replace(pot, cap=higher)


def write_pot(pot: Pot) -> dict[str, Any]:
    """Write the body of the ledger entry that opens a pot."""
    numbers = {"cap": pot.cap, "ceiling": pot.ceiling, "reissue": pot.reissue}
    return {"pot": pot.name, "rule": pot.rule.to_body(), **numbers} | {
        key: getattr(pot, key) for key in pots.TERMS
    }


def close_pot(pot: Pot) -> Pot:
    """Return the pot with everything spent that it could ever spend, up to its ceiling.

    No act raises it again: its cap is the highest that there is.
    """
    cap = pot.ceiling - pot.reissue
    return replace(
        pot,
        cap=cap,
        spent=max(pot.spent, cap),
        delta_spent=max(pot.delta_spent, pot.rule.delta_cap),
        reissued=max(pot.reissued, pot.reissue),
    )
