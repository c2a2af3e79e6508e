"""The search for a mutant of a signed document that verifies and says something else.

Choices come from a seeded generator: the verdict is the same in every run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.publish.certificate_mutations import (
    MUTATIONS,
    Members,
    Mutation,
    describe,
    read_members,
    write_styled,
)


@dataclass
class Search:
    """Forgeries verify and say something else; lost copies say the same and do not verify."""

    forgeries: list[tuple[str, str]] = field(default_factory=list)
    lost_copies: list[str] = field(default_factory=list)
    copies: int = 0
    tried: int = 0


def search_forgeries(text: str, verifies: Callable[[str], bool], count: int, seed: int) -> Search:
    """Try `count` mutants of one to three mutations each."""
    choose = random.Random(seed)
    meaning = describe(read_members(text))
    search = Search()
    for number in range(count):
        mutant = read_members(text)
        names = []
        for mutate in [
            MUTATIONS[number % len(MUTATIONS)],
            *choose.choices(MUTATIONS, k=choose.choice([0, 0, 1, 2])),
        ]:
            names.append(mutate.__name__)
            try_mutation(mutate, mutant, choose)
        written = write_styled(mutant, choose)
        is_copy = describe(mutant) == meaning
        accepted = verifies(written)
        search.tried += 1
        search.copies += is_copy
        if accepted and not is_copy:
            search.forgeries.append((", ".join(names), written))
        if is_copy and not accepted:
            search.lost_copies.append(written)
    return search


def try_mutation(mutate: Mutation, mutant: Members, choose: random.Random) -> None:
    """A mutation may find nothing left to change where an earlier one has emptied the document."""
    try:
        mutate(mutant, choose)
    except (IndexError, TypeError, ValueError):
        return
