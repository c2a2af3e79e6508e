"""Which protocol for ranges and quantiles? The one with the least predicted error.

Flat (one oracle over all values), Haar wavelets, or hierarchies of several branchings. The error of
a range is exact for given users (`dither.local.linear`); what is compared is its root mean square
over ranges spread evenly over the domain, for users spread evenly over the values. Reading a tally:
`order_counts`, whichever was chosen.

>>> choose_ranges(4, 256).protocol.type
'hierarchy'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number
from dither.local.choose import choose
from dither.local.haar import Haar
from dither.local.linear import Contributions, contribute_flat
from dither.local.odds import read_epsilon
from dither.local.ordered import Ordered
from dither.local.protocol import read_domain
from dither.local.ranges import Hierarchy
from dither.local.support import Oracle
from dither.local.wire import HEADER_BYTES
from dither.privacy.numbers import refuse_beyond_floats

Floats = NDArray[np.float64]
_LARGEST = 1 << 16
_BRANCHINGS = (2, 3, 4, 5, 8, 16)
_RANGES = 48
_GOLDEN = 0.6180339887498949
_SILVER = 0.4142135623730950


@dataclass(frozen=True)
class RangeCandidate:
    """A protocol for ranges; `error` is that of a share from one user: divide by sqrt(users)."""

    name: str
    protocol: Oracle
    error: float
    report_bytes: int


@dataclass(frozen=True)
class RangeChoice:
    """The protocol chosen and the table it was chosen from."""

    protocol: Oracle
    table: tuple[RangeCandidate, ...]

    def explain(self, users: int = 10_000) -> str:
        """Write the table of protocols for people: the error of a range's share with so many
        users."""
        lines = [f"{'protocol':<16}{f'error at {users:,} users':>24}{'bytes':>8}"]
        for row in self.table:
            mark = " <- chosen" if row.protocol == self.protocol else ""
            error = row.error / users**0.5
            lines.append(f"{row.name:<16}{error:>24.4g}{row.report_bytes:>8}{mark}")
        return "\n".join(lines)


def _pad_domain(domain: int, branching: int) -> int:
    size = branching
    while size < domain:
        size *= branching
    return size


def _list_candidates(epsilon: Number, domain: int) -> Iterator[tuple[str, Oracle]]:
    """List the protocols to compare, by name, each on the domain padded as it needs."""
    yield "flat", choose(epsilon, domain, server_steps=1).oracle
    make: Any = Haar
    yield "haar", make(epsilon, _pad_domain(domain, 2))
    make = Hierarchy
    for branching in _BRANCHINGS:
        if branching < domain:
            name = f"hierarchy of {branching}"
            yield name, make(epsilon, _pad_domain(domain, branching), branching)


def _spread_ranges(domain: int) -> list[tuple[int, int]]:
    """List ranges whose two ends are spread evenly: all of a small domain, else a fixed
    sequence."""
    if domain * (domain + 1) // 2 <= _RANGES:
        return [(start, end) for start in range(domain) for end in range(start + 1, domain + 1)]
    ranges = []
    for number in range(1, _RANGES + 1):
        ends = sorted(int(number * step % 1 * (domain + 1)) for step in (_GOLDEN, _SILVER))
        ranges.append((ends[0], max(ends[1], ends[0] + 1) if ends[0] < domain else domain))
    return ranges


def _contribute(protocol: Oracle, weights: Floats) -> tuple[Contributions, Floats]:
    if isinstance(protocol, (Haar, Hierarchy)):
        return protocol.contribute(weights)
    return contribute_flat(protocol, weights), weights


def predict_error(protocol: Oracle, domain: int) -> float:
    """Compute the root mean square error of the share of a range, from one user."""
    total = 0.0
    ranges = _spread_ranges(domain)
    for start, end in ranges:
        weights = np.zeros((1, protocol.domain))
        weights[0, start:end] = 1.0
        contributions, means = _contribute(protocol, weights)
        spread = contributions.second_moments - means**2
        total += float(spread[0, :domain].mean())
    return float((total / len(ranges)) ** 0.5)


@refuse_beyond_floats
def choose_ranges(epsilon: Number, domain: int) -> RangeChoice:
    """Choose the protocol with the least predicted error of ranges over 0..domain-1.

    Haar and hierarchies are padded to a power of two or of their branching: values stay as they
    are, and nobody holds the added ones.
    """
    read_epsilon(epsilon)
    size = read_domain(domain, _LARGEST)
    table = tuple(
        RangeCandidate(
            name, protocol, predict_error(protocol, size), HEADER_BYTES + protocol.payload_bytes
        )
        for name, protocol in _list_candidates(epsilon, size)
    )
    return RangeChoice(min(table, key=lambda row: row.error).protocol, table)


def order_counts(protocol: Oracle, tally: NDArray[np.int64], reports: int) -> Ordered:
    """Ranges and quantiles from the tally of any protocol that `choose_ranges` offers.

    >>> from dither import local
    >>> protocol = choose_ranges(1, 100).protocol
    >>> collector = local.Aggregator(protocol)
    >>> order_counts(protocol, collector.tally, collector.reports).quantile_interval(0.5)[0]
    0
    """
    if isinstance(protocol, (Haar, Hierarchy)):
        return protocol.ordered(tally, reports)
    counts = protocol.debias(tally, reports).astype(np.float64)
    return Ordered(counts, reports, partial(_contribute, protocol))
