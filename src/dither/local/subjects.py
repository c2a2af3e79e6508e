"""Every local protocol as a subject for a tester that knows nothing of it: a mechanism, two
neighbours, a claim.

`mechanism(data, size)` gives `size` reports of independent devices, one row of bytes each (all that
a collector sees). The audit kit's tester takes them as they are: `test(s.mechanism, s.first,
s.second, epsilon=s.epsilon)`.

>>> subject = next(subjects())
>>> subject.name, subject.mechanism(subject.first, 3).shape
('direct', (3, 1))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dither.local.bitflip import BitFlip
from dither.local.bloom import bloom_rappor
from dither.local.client import Client
from dither.local.direct import Direct
from dither.local.graph import Degrees, EdgeResponse
from dither.local.haar import Haar
from dither.local.hadamard import Hadamard
from dither.local.heavy import PrefixSearch
from dither.local.localhash import LocalHash
from dither.local.marginals import Marginals
from dither.local.onebit import OneBit, RepeatedOneBit
from dither.local.piecewise import Hybrid, Piecewise
from dither.local.protocol import Protocol
from dither.local.puzzle import FragmentPuzzle
from dither.local.ranges import Hierarchy
from dither.local.rappor import basic_rappor
from dither.local.sketch import CountMeanSketch, HadamardSketch
from dither.local.sparse import SparseMean
from dither.local.spatial import PlanarLaplace
from dither.local.squarewave import SquareWave
from dither.local.subset import Subset
from dither.local.unary import OptimisedUnary, SymmetricUnary
from dither.local.values import repeat_value
from dither.local.vector import VectorMean
from dither.local.wire import Payloads
from dither.privacy.noise import SystemSource, Words


def _make_protocol(kind: Any, *positional: Any, **named: Any) -> Protocol:
    """A protocol from plain numbers."""
    protocol: Protocol = kind(*positional, **named)
    return protocol


EXAMPLES: tuple[Protocol, ...] = (
    _make_protocol(Direct, 1, 8),
    _make_protocol(SymmetricUnary, 1, 8),
    _make_protocol(OptimisedUnary, 1, 8),
    _make_protocol(Subset, 1, 8),
    _make_protocol(LocalHash, 1, 8, 2, 3),
    _make_protocol(Hadamard, 1, 8, 1),
    _make_protocol(Hadamard, 3, 9),
    _make_protocol(CountMeanSketch, 1, 8, 2, 4, "x"),
    _make_protocol(HadamardSketch, 1, 8, 2, 4, "x"),
    _make_protocol(BitFlip, 1, 4, 2),
    basic_rappor(4, f="1/2", p="1/4", q="3/4"),
    bloom_rappor(bits=8, hashes=2, cohorts=2, f="3/4", p="1/4", q="3/4"),
    _make_protocol(OneBit, 1),
    _make_protocol(RepeatedOneBit, 1, 0, 10, 5, "1/5"),
    _make_protocol(Piecewise, 1, cells=16),
    _make_protocol(Hybrid, 1, cells=16),
    _make_protocol(SquareWave, 1, 0, 1, 8),
    _make_protocol(VectorMean, 1, -1, 1, 3, 2),
    _make_protocol(SparseMean, 1, 1, 5, 3, 2),
    _make_protocol(Marginals, 1, 3, 2),
    _make_protocol(Hierarchy, 1, 16, 4),
    _make_protocol(Haar, 1, 8),
    _make_protocol(PrefixSearch, 1, 3, 1, 1, 3),
    _make_protocol(FragmentPuzzle, 1, 4, 2, 1, "d", 3),
    _make_protocol(PlanarLaplace, 2, 1, 8),
    _make_protocol(Degrees, 1),
    _make_protocol(EdgeResponse, 1, 4),
)


class ProtocolSubject(NamedTuple):
    """A mechanism and two inputs: `mechanism(first, size)` and `mechanism(second, size)` differ by
    at most e**epsilon.

    That is the claim; the tester tries to refute it.
    """

    name: str
    mechanism: Callable[..., Payloads]
    first: Any
    second: Any
    epsilon: float


def subjects(source: Words | None = None) -> Iterator[ProtocolSubject]:
    """Yield all protocols with their permanent answers, and a whole client, for the auditor.

    Protocols with a second randomisation come once more, with single reports.
    """
    words = source or SystemSource()
    for protocol in EXAMPLES:
        yield subject(protocol, source=words)
        if hasattr(protocol, "epsilon_one"):
            yield subject(protocol, single=True, source=words)
    yield ProtocolSubject("client", _report_from_clients, 0, 7, 1.0)


def subject(
    protocol: Protocol, *, single: bool = False, source: Words | None = None
) -> ProtocolSubject:
    """Make the audited subject of one protocol, between the first and the last of its neighbours.

    `single`: one report, seen alone.
    """
    group = protocol.neighbours()[0]

    def mechanism(data: Any, size: int) -> Payloads:
        words = source or SystemSource()
        batch = repeat_value(data, size)
        return protocol.randomise(batch, words) if single else protocol.permanent(batch, words)

    if single:
        return ProtocolSubject(
            f"{protocol.type}, one report",
            mechanism,
            group[0],
            group[-1],
            float(_loss_of_report(protocol)),
        )
    return ProtocolSubject(protocol.type, mechanism, group[0], group[-1], float(protocol.epsilon))


def _loss_of_report(protocol: Any) -> Any:
    return protocol.epsilon_one


def _report_from_clients(data: Any, size: int) -> Payloads:
    """First reports of new devices, header and all."""
    protocol = _make_protocol(Direct, 1, 8)
    reports = b"".join(Client(protocol, lifetime_epsilon=1).report(data) for _ in range(size))
    return np.frombuffer(reports, np.uint8).reshape(size, -1)
