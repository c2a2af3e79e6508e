"""How many nodes of a graph have 1, 2, ... edges, private for whole nodes.

One unit is a node with all its edges. Edges are taken up one after the other, in an order that
depends on the names of their two nodes alone, and an edge is left out where one of its nodes has
`cap` already (Day, Li, Lyu 2016). Degrees are counted in what was taken up: all edges, where no
node has more than `cap`. A node more, with its edges, moves these counts by at most 2 cap + 1 in L1
on *every* graph. Nodes without edges are in no list of edges and are not counted. Proof:
docs/proofs/graph-counts.md#degrees.

>>> star = [(0, leaf) for leaf in range(1, 4)]
>>> DegreeHistogram.for_epsilon(10**4, cap=3).release(star)
[3, 0, 1]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256

from dither.canonical import Number, positive, quote
from dither.errors import ParameterError
from dither.laws import LaplaceErrorLaw
from dither.privacy.losses import Pure
from dither.privacy.mechanisms.additive import round_up
from dither.privacy.noise import Words, discrete_laplace
from dither.privacy.noise.samplers import LARGEST, SMALLEST
from dither.privacy.noise.source import check_source

MOST_CAP = 1 << 20
Node = int | str


@dataclass(frozen=True)
class DegreeHistogram:
    """Noisy numbers of nodes with 1 to `cap` edges."""

    scale: Fraction
    cap: int

    def __post_init__(self) -> None:
        """Make the scale exact; refuse a cap that is no positive integer."""
        object.__setattr__(self, "scale", positive(self.scale, "scale"))
        if not SMALLEST <= self.scale <= LARGEST:
            raise ParameterError("scale must lie between 1/1000 and 2**60")
        if type(self.cap) is not int or not 1 <= self.cap <= MOST_CAP:
            raise ParameterError(
                f"cap must be an integer from 1 to {MOST_CAP:,}, got {quote(self.cap)}"
            )
        self.loss()

    @classmethod
    def for_epsilon(cls, epsilon: Number, cap: int) -> DegreeHistogram:
        """The least noise that meets epsilon for one node."""
        price = positive(epsilon, "epsilon", "choose e.g. epsilon=0.5")
        probe = cls(Fraction(1), cap)
        return cls(max(SMALLEST, round_up(probe.sensitivity / price)), cap)

    @property
    def sensitivity(self) -> int:
        """How far one node moves all counts together."""
        return 2 * self.cap + 1

    def loss(self) -> Pure:
        """What one release costs one node."""
        return Pure(self.sensitivity / self.scale, neighbours="add_remove", unit="node")

    def error(self) -> LaplaceErrorLaw:
        """The law of the noise on every count."""
        return LaplaceErrorLaw(self.scale)

    def release(
        self, edges: Iterable[tuple[Node, Node]], *, source: Words | None = None
    ) -> list[int]:
        """The noisy number of nodes with 1, 2, ..., `cap` edges. Loops and repeated edges are left
        out; nodes are named by integers or texts."""
        words = check_source(source)
        exact = count_degrees(edges, self.cap)
        noise = discrete_laplace(self.scale, (self.cap,), source=words)
        return [count + int(drawn) for count, drawn in zip(exact, noise.tolist(), strict=True)]


def count_degrees(edges: Iterable[tuple[Node, Node]], cap: int) -> list[int]:
    """The number of nodes with 1 to `cap` edges, after edges beyond the cap were left out."""
    degrees: dict[str, int] = {}
    for first, second in order_edges(edges):
        if degrees.get(first, 0) < cap and degrees.get(second, 0) < cap:
            degrees[first] = degrees.get(first, 0) + 1
            degrees[second] = degrees.get(second, 0) + 1
    counts = [0] * cap
    for degree in degrees.values():
        counts[degree - 1] += 1
    return counts


def order_edges(edges: Iterable[tuple[Node, Node]]) -> list[tuple[str, str]]:
    """Every edge once, in an order that no other edge has a part in: by a hash of its own names."""
    pairs = set()
    for first, second in edges:
        ends = sorted((_name_node(first), _name_node(second)))
        if ends[0] != ends[1]:
            pairs.add((ends[0], ends[1]))
    return sorted(pairs, key=_hash_edge)


def _name_node(node: Node) -> str:
    """A text by which 1 and "1" differ."""
    if type(node) not in (int, str):
        raise ParameterError("nodes of a graph are named by integers or texts")
    return f"{type(node).__name__} {node}"


def _hash_edge(edge: tuple[str, str]) -> tuple[bytes, tuple[str, str]]:
    text = f"{len(edge[0])} {edge[0]}{edge[1]}"
    return sha256(text.encode("utf-8", "surrogatepass")).digest(), edge
