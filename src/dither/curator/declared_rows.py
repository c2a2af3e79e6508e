"""How many rows the catalog lets each operator of a plan have."""

from __future__ import annotations

from collections.abc import Iterator

from dither.plan.analyse import Analysed


def count_declared_rows(analysed: Analysed) -> int:
    """Count the rows that a node may have by the catalog; 1 where they are public."""
    return max(1, getattr(analysed.node, "most", 0))


def list_nodes(analysed: Analysed) -> Iterator[Analysed]:
    """List an analysed node and all below it."""
    yield analysed
    for source in analysed.sources:
        yield from list_nodes(source)
