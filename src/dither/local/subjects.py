"""Every local protocol as a subject for a tester that knows nothing of it: a mechanism, two neighbours, a claim.

`mechanism(data, size)` gives `size` reports of independent devices, one row of bytes each (all that a collector sees).
The audit kit's tester takes them as they are: `test(s.mechanism, s.first, s.second, epsilon=s.epsilon)`.

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
from dither.local.protocol import Protocol, repeated
from dither.local.puzzle import FragmentPuzzle
from dither.local.ranges import Hierarchy
from dither.local.rappor import basic_rappor
from dither.local.sketch import CountMeanSketch, HadamardSketch
from dither.local.sparse import SparseMean
from dither.local.spatial import PlanarLaplace
from dither.local.squarewave import SquareWave
from dither.local.subset import Subset
from dither.local.unary import OptimisedUnary, SymmetricUnary
from dither.local.vector import VectorMean
from dither.local.wire import Payloads
from dither.privacy.noise import SystemSource, Words


def _of(kind: Any, *positional: Any, **named: Any) -> Protocol:
    """A protocol from plain numbers."""
    protocol: Protocol = kind(*positional, **named)
    return protocol


EXAMPLES: tuple[Protocol, ...] = (
    _of(Direct, 1, 8),
    _of(SymmetricUnary, 1, 8),
    _of(OptimisedUnary, 1, 8),
    _of(Subset, 1, 8),
    _of(LocalHash, 1, 8, 2, 3),
    _of(Hadamard, 1, 8, 1),
    _of(Hadamard, 3, 9),
    _of(CountMeanSketch, 1, 8, 2, 4, "x"),
    _of(HadamardSketch, 1, 8, 2, 4, "x"),
    _of(BitFlip, 1, 4, 2),
    basic_rappor(4, f="1/2", p="1/4", q="3/4"),
    bloom_rappor(bits=8, hashes=2, cohorts=2, f="3/4", p="1/4", q="3/4"),
    _of(OneBit, 1),
    _of(RepeatedOneBit, 1, 0, 10, 5, "1/5"),
    _of(Piecewise, 1, cells=16),
    _of(Hybrid, 1, cells=16),
    _of(SquareWave, 1, 0, 1, 8),
    _of(VectorMean, 1, -1, 1, 3, 2),
    _of(SparseMean, 1, 1, 5, 3, 2),
    _of(Marginals, 1, 3, 2),
    _of(Hierarchy, 1, 16, 4),
    _of(Haar, 1, 8),
    _of(PrefixSearch, 1, 3, 1, 1, 3),
    _of(FragmentPuzzle, 1, 4, 2, 1, "d", 3),
    _of(PlanarLaplace, 2, 1, 8),
    _of(Degrees, 1),
    _of(EdgeResponse, 1, 4),
)


class ProtocolSubject(NamedTuple):
    """A protocol and two inputs: `mechanism(first, size)` and `mechanism(second, size)` differ by at most e**epsilon."""

    name: str
    mechanism: Callable[..., Payloads]
    first: Any
    second: Any
    epsilon: float


def subjects(source: Words | None = None) -> Iterator[ProtocolSubject]:
    """All protocols, permanent answers; those that speak twice once more with single reports; and a whole client."""
    words = source or SystemSource()
    for protocol in EXAMPLES:
        yield subject(protocol, source=words)
        if hasattr(protocol, "epsilon_one"):
            yield subject(protocol, single=True, source=words)
    yield ProtocolSubject("client", _from_clients, 0, 7, 1.0)


def subject(protocol: Protocol, *, single: bool = False, source: Words | None = None) -> ProtocolSubject:
    """One protocol between the first and the last of its first neighbours; `single`: one report, seen alone."""
    group = protocol.neighbours()[0]

    def mechanism(data: Any, size: int) -> Payloads:
        words = source or SystemSource()
        batch = repeated(data, size)
        return protocol.randomise(batch, words) if single else protocol.permanent(batch, words)

    if single:
        return ProtocolSubject(
            f"{protocol.type}, one report", mechanism, group[0], group[-1], float(_one_report(protocol))
        )
    return ProtocolSubject(protocol.type, mechanism, group[0], group[-1], float(protocol.epsilon))


def _one_report(protocol: Any) -> Any:
    return protocol.epsilon_one


def _from_clients(data: Any, size: int) -> Payloads:
    """First reports of new devices, header and all."""
    protocol = _of(Direct, 1, 8)
    reports = b"".join(Client(protocol, lifetime_epsilon=1).report(data) for _ in range(size))
    return np.frombuffer(reports, np.uint8).reshape(size, -1)
