"""Bugs that a property of the code shows, and no number of runs of one release."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from dither.audit.zoo.bug import Bug, structure
from dither.figures import write_bound


@dataclass
class Trusting:
    """A budget that adds whatever it is told, as Ektelo's `_request` does: no check of the sign."""

    total: float
    spent: float = 0.0
    granted: list[float] = field(default_factory=list)

    def request(self, epsilon: float) -> bool:
        """Grant the charge if the sum stays within the total."""
        if self.spent + epsilon > self.total:
            return False
        self.spent += epsilon
        self.granted.append(epsilon)
        return True


def refund_faults() -> Sequence[str]:
    """List what fails if a budget accepts negative charges; an empty list if nothing does.

    The positive charges that were granted may never exceed the total, whatever was asked in
    between.
    """
    budget = Trusting(total=1.0)
    requests = [1.0, -1.0, 1.0, -1.0, 1.0]
    answers = [budget.request(epsilon) for epsilon in requests]
    paid = sum(epsilon for epsilon in budget.granted if epsilon > 0)
    if paid > budget.total:
        return [
            f"asking {requests} was granted {answers}: {write_bound(paid)} spent from a budget of "
            f"{write_bound(budget.total)}"
        ]
    return []


def keep_rows_by_position(rows: Sequence[tuple[str, str]], limit: int = 1) -> set[tuple[str, str]]:
    """Keep `limit` rows of each owner: those with the smallest hash of owner and position.

    A row is (owner, content). The position in the file is the bug: it changes when another
    person's row is put before.
    """
    ranked: dict[str, list[tuple[bytes, tuple[str, str]]]] = {}
    for position, row in enumerate(rows):
        rank = hashlib.sha256(f"key|{row[0]}|{position}".encode()).digest()
        ranked.setdefault(row[0], []).append((rank, row))
    return {row for group in ranked.values() for _, row in sorted(group)[:limit]}


def find_position_faults() -> Sequence[str]:
    """List what fails if rows are kept by a hash of their position; an empty list if nothing does.

    Two versions of a file differ by one row of one person. The rows of all other people that are
    kept must be the same in both.
    """
    others = [(f"p{i}", f"visit {j}") for i in range(200) for j in range(4)]
    first = {
        row for row in keep_rows_by_position([("victim", "old"), *others]) if row[0] != "victim"
    }
    second = {
        row
        for row in keep_rows_by_position([("victim", "new"), ("victim", "old"), *others])
        if row[0] != "victim"
    }
    moved = len({row[0] for row in first ^ second})
    return (
        [f"a row of the victim changed the kept rows of {moved} of 200 other people"]
        if moved
        else []
    )


def bugs() -> list[Bug]:
    """List the planted bugs of this module, to be caught from what the code does without noise."""
    return [
        structure(
            "negative-epsilon-refund",
            "a budget that accepts a negative charge",
            "Ektelo `_request`",
            claim="1 in total",
            faults=refund_faults,
            needs="one look: no draw is involved",
        ),
        structure(
            "rank-by-rowid-over-two-versions",
            "rows kept by a hash of their position in the file",
            "rule rank-by-content",
            claim="one unit moves its own rows",
            faults=find_position_faults,
            needs="two versions compared: sums over others move by up to 69 rows",
        ),
    ]
