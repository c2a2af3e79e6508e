"""Statistics of a graph whose users each know their own links: edge-local privacy.

The unit is *one entry of one user's list*. An undirected link stands in two lists: where both ends
report on it, it is protected at 2 epsilon (`Degrees`); `EdgeResponse` lets only the user with the
larger number answer for a pair, which keeps it at epsilon. Nothing here protects a user's whole
list (node privacy). A whole synthetic graph: `dither.local.graphgen`. docs/proofs/local.md, theorem
15.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.estimate import Estimate
from dither.local.kept import KeptReports
from dither.local.odds import odds, read_epsilon
from dither.local.values import saturate_integers
from dither.local.wire import Payloads, get_int, put_int
from dither.privacy.noise import Words, bernoulli, discrete_laplace
from dither.stored import stored

EDGE_UNIT = "entry of a user's link list"
_EDGE = 1 << 31
Floats = NDArray[np.float64]


@stored(groups="groups")
@dataclass(frozen=True)
class Degrees(KeptReports):
    """Each user's number of links to each of `groups` public groups of users, plus integer Laplace
    noise.

    One entry of a list changes one of the numbers by one: scale 1/epsilon for each. A value is a
    number (one group) or a row of them. Payload: each sum plus 2**31, 4 bytes.

    >>> Degrees(1, groups=3).payload_bytes, Degrees(1).unit
    (12, "entry of a user's link list")
    """

    type = "degrees"
    ask = "degrees"
    groups: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epsilon", read_epsilon(self.epsilon))
        if not 1 <= self.groups <= 1 << 12:
            raise ParameterError("groups must be an integer between 1 and 4096")

    @property
    def unit(self) -> str:
        return EDGE_UNIT

    @property
    def payload_bytes(self) -> int:
        return 4 * self.groups

    def inputs(self) -> list[Any]:
        return [3, 4] if self.groups == 1 else [(3,) * self.groups, (4,) + (3,) * (self.groups - 1)]

    def memo_key(self, value: Any, device: int) -> str:
        return repr(self._read([value])[0].tolist())

    def _read(self, values: Any) -> NDArray[np.int64]:
        """Read each user's link counts, one column for each group.

        They are clamped to what a payload can hold.
        """
        held = saturate_integers(values)
        if held.ndim == 1 and self.groups == 1:
            held = held[:, None]
        if held.ndim != 2 or held.shape[1] != self.groups:
            raise ParameterError(
                f"a value is {self.groups} integers: the links to each group of users"
            )
        counts: NDArray[np.int64] = np.clip(held, 0, _EDGE - 1).astype(np.int64)
        return counts

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Add integer Laplace noise of scale 1 / epsilon to every count, and clamp the result."""
        held = self._read(values)
        noisy = (
            np.clip(
                held + discrete_laplace(1 / self.epsilon, held.shape, source=source),
                -_EDGE,
                _EDGE - 1,
            )
            + _EDGE
        )
        return put_int(noisy.ravel(), 4).reshape(len(held), self.payload_bytes)

    def law(self, value: Any) -> dict[bytes, Fraction]:
        """Refuse: the probabilities are powers of e, so they are no fractions."""
        raise ParameterError(
            "the weights of integer Laplace noise are powers of e: e**(-epsilon * distance), "
            "exactly"
        )

    @property
    def variance(self) -> float:
        """Compute the variance of one noisy number: 2a / (1 - a)**2, a = e**-epsilon."""
        a = exp(-float(self.epsilon))
        return 2 * a / (1 - a) ** 2

    def degrees(self, payloads: Payloads) -> NDArray[np.int64]:
        """The noisy numbers, each unbiased: a row a report."""
        return get_int(payloads.reshape(-1, 4)).reshape(len(payloads), self.groups) - _EDGE

    def total(self, payloads: Payloads) -> Estimate:
        """Estimate the sums over all users; with one group, twice the number of links."""
        n = len(payloads)
        sums = self.degrees(payloads).sum(axis=0).astype(np.float64)
        return Estimate(
            sums, np.full(self.groups, n * self.variance), n, float("inf"), what="degrees"
        )


@stored(users="users")
@dataclass(frozen=True)
class EdgeResponse(KeptReports):
    """Randomised response on the lower triangle of the adjacency matrix: edges and triangles,
    unbiased.

    A value is (u, links): the user's public number, and its links to the users 0..u-1. Payload: u
    in 4 bytes, then `users` - 1 packed bits, those from u on zero: as long for every user.

    >>> EdgeResponse(1, users=4).payload_bytes
    5
    """

    type = "edge_response"
    ask = "edges"
    users: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epsilon", read_epsilon(self.epsilon))
        if not 2 <= self.users <= 1 << 14:
            raise ParameterError("users must lie between 2 and 16384: the reports are a matrix")

    @property
    def unit(self) -> str:
        return EDGE_UNIT

    @property
    def p(self) -> Fraction:
        """Probability that an entry is told truthfully."""
        ratio = odds(self.epsilon)
        return ratio / (ratio + 1)

    @property
    def payload_bytes(self) -> int:
        return 4 + -(-(self.users - 1) // 8)

    def derived(self) -> dict[str, Any]:
        return {"p": self.p}

    def _read(self, value: Any) -> tuple[int, NDArray[np.bool_]]:
        """Read a value as (user number, links to the users before it); refuse anything else."""
        try:
            user, links = value
            entries = np.asarray(links)
        except (TypeError, ValueError):
            raise ParameterError("a value is (user number, links to the users before it)") from None
        if (
            not isinstance(user, (int, np.integer))
            or isinstance(user, bool)
            or not 0 <= user < self.users
            or entries.shape != (user,)
        ):
            raise ParameterError("user number u reports its links to the users 0..u-1")
        is_link = entries.dtype.kind in "biu" or user == 0
        if not is_link or not np.isin(entries, (0, 1)).all():
            raise ParameterError("a link is True or False: whether the two users are linked")
        return int(user), entries.astype(np.bool_)

    def memo_key(self, value: Any, device: int) -> str:
        user, links = self._read(value)
        return f"{user}:{np.packbits(links).tobytes().hex()}"

    def _write(self, user: int, answers: NDArray[np.bool_]) -> bytes:
        row = np.zeros(8 * (self.payload_bytes - 4), np.bool_)
        row[:user] = answers
        return user.to_bytes(4, "little") + np.packbits(row, bitorder="little").tobytes()

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Flip each link of a user to an earlier user with probability 1 - p, independently."""
        rows = []
        for value in values:
            user, links = self._read(value)
            rows.append(self._write(user, links ^ ~bernoulli(self.p, user, source=source)))
        return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), self.payload_bytes)

    def inputs(self) -> list[Any]:
        few = min(self.users, 4)
        return [
            (user, links) for user in range(few) for links in product((False, True), repeat=user)
        ]

    def neighbours(self) -> list[list[Any]]:
        """List pairs of lists of one user that differ in one entry."""
        pairs: list[list[Any]] = []
        for user, links in self.inputs():
            flipped = [
                (*links[:j], not links[j], *links[j + 1 :]) for j in range(user) if not links[j]
            ]
            pairs += [[(user, links), (user, changed)] for changed in flipped]
        return pairs

    def law(self, value: Any) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        `value` is (user number, links). The user number is public; every link is truthful
        with probability p.
        """
        user, links = self._read(value)
        law = {}
        for answers in product((False, True), repeat=user):
            weight = Fraction(1)
            for answer, truth in zip(answers, links, strict=True):
                weight *= self.p if answer == truth else 1 - self.p
            law[self._write(user, np.array(answers, np.bool_))] = weight
        return law

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        """Mark the payloads of an existing user that have no bit set beyond that user's links."""
        user = get_int(payloads[:, :4])
        bits = np.unpackbits(payloads[:, 4:], axis=1, bitorder="little")
        last = np.where(bits.any(axis=1), bits.shape[1] - 1 - bits[:, ::-1].argmax(axis=1), -1)
        is_valid: NDArray[np.bool_] = (user < self.users) & (last < user)
        return is_valid

    def _unbiased(self, payloads: Payloads) -> tuple[Floats, Floats]:
        """Return the unbiased lower triangle, and 1 for every entry that was answered.

        Of several reports of one user the first counts.
        """
        p = float(self.p)
        matrix = np.zeros((self.users, self.users))
        answered = np.zeros((self.users, self.users))
        good = payloads[self.valid(payloads)]
        users, first = np.unique(get_int(good[:, :4]), return_index=True)
        bits = np.unpackbits(good[first, 4:], axis=1, bitorder="little").astype(np.float64)
        for user, row in zip(users, bits, strict=True):
            matrix[user, :user] = (row[:user] - (1 - p)) / (2 * p - 1)
            answered[user, :user] = 1.0
        return matrix, answered

    @property
    def entry_variance(self) -> float:
        """Variance of the unbiased value of one entry: p (1 - p) / (2p - 1)**2."""
        p = float(self.p)
        return p * (1 - p) / (2 * p - 1) ** 2

    def edges(self, payloads: Payloads) -> Estimate:
        """Estimate the number of links among the pairs that were answered for.

        Every pair has the variance `entry_variance`.
        """
        matrix, answered = self._unbiased(payloads)
        p = float(self.p)
        variance = np.array([float(answered.sum()) * self.entry_variance])
        return Estimate(
            np.array([matrix.sum()]),
            variance,
            len(payloads),
            p / (2 * p - 1),
            what="edges",
            variance_bounds=variance,
        )

    def triangles(self, payloads: Payloads) -> Estimate:
        """Estimate the number of triangles: the sum of products of three independent unbiased
        entries.

        Its variance has an unbiased estimate too (docs/proofs/local-intervals.md, theorem 7).
        """
        lower, answered = self._unbiased(payloads)
        count = float((lower * (lower @ lower)).sum())
        triples, links, wedges = count_for_triangles(lower + lower.T, answered + answered.T)
        spread = self.entry_variance
        variance = spread**3 * triples + spread**2 * max(links, 0.0) + spread * max(wedges, 0.0)
        return Estimate(
            np.array([count]), np.array([variance]), len(payloads), float("inf"), what="triangles"
        )


def count_for_triangles(entries: Floats, answered: Floats) -> tuple[float, float, float]:
    """Compute what the variance of the number of triangles is made of, from symmetric matrices.

    These are triples of answered pairs, links in them, and the squares of the numbers of common
    neighbours of answered pairs. The last two are unbiased estimates.
    """
    two_steps = answered @ answered
    triples = float((answered * two_steps).sum()) / 6
    links = float((entries * two_steps).sum()) / 2
    common = entries @ entries
    squares = entries**2
    paired = common**2 - squares @ squares + common
    return triples, links, float((answered * paired).sum()) / 2
