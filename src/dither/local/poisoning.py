"""What lying reports can do, and what of it can be seen. (Cao, Jia, Gong 2021; Cheu, Smith, Ullman
2021.)

The collector cannot tell a lie from noise, so one made-up report moves a count by `gain`, many
times its share. `attack` makes the worst reports for chosen targets; `hints` lists what an honest
population would almost never send. Against direct encoding and Hadamard response nothing can be
seen in single reports: authenticate and limit reporters instead.

>>> from dither import local
>>> [round(gain(p), 3) for p in (local.Direct(1, 2), local.OptimisedUnary(1, 8), local.Hadamard(1,
...     8, 1))]
[1.582, 3.164, 2.164]
>>> round(gain(local.Direct(1, 1024)))
596
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.bits import write_bit
from dither.local.direct import Direct
from dither.local.localhash import LocalHash
from dither.local.protocol import Protocol
from dither.local.subset import Subset
from dither.local.support import Oracle, SupportOracle
from dither.local.unary import OptimisedUnary, SymmetricUnary
from dither.local.wire import Payloads, put_int
from dither.privacy.noise import SystemSource, Words


def gain(protocol: Oracle) -> float:
    """How far one made-up report moves the count of one target upwards: (1 - q) / (p - q), or the
    Hadamard step."""
    if isinstance(protocol, SupportOracle):
        return float((1 - protocol.q) / (protocol.p - protocol.q))
    return float(protocol.largest_move)


def attack(
    protocol: Oracle, fakes: int, targets: list[int], *, source: Words | None = None
) -> Payloads:
    """Make `fakes` reports that raise the counts of `targets` as far as each report can."""
    words = source or SystemSource()
    wanted = np.array(targets, np.int64)
    if not len(wanted) or wanted.min() < 0 or wanted.max() >= protocol.domain:
        raise ParameterError("targets must be values of the domain")
    if isinstance(protocol, OptimisedUnary | SymmetricUnary):
        return _attack_unary(protocol, fakes, wanted, words)
    if isinstance(protocol, LocalHash):
        return _attack_hash(protocol, fakes, wanted, words)
    # the best of the outputs that honest holders of the targets send most often
    outputs = _list_likely_reports(protocol, wanted, words)
    score = [
        protocol.debias(protocol.tally(row[None]).astype(np.float64), 1)[wanted].sum()
        for row in outputs
    ]
    best = outputs[np.isclose(score, max(score))]
    reports: Payloads = best[np.arange(fakes) % len(best)]
    return reports


def _list_likely_reports(protocol: Oracle, wanted: NDArray[np.int64], words: Words) -> Payloads:
    """List payloads among which an attacker finds the one that helps the `wanted` values most.

    For direct encoding they are the values themselves, for subset selection the one set of all
    wanted values; other oracles are sampled.
    """
    if isinstance(protocol, Direct):
        return put_int(wanted, protocol.payload_bytes)
    draws = np.repeat(wanted, max(1, 256 // len(wanted)))
    if isinstance(protocol, Subset):
        rows = np.zeros((1, protocol.domain), np.uint8)
        rows[0, : protocol.size] = 1
        order = np.concatenate([wanted, np.setdiff1d(np.arange(protocol.domain), wanted)])
        full = np.zeros_like(rows)
        full[0, order] = rows[0]
        return np.packbits(full, axis=1, bitorder="little")
    return protocol.permanent(draws, words)


def _attack_unary(
    protocol: SupportOracle, fakes: int, wanted: NDArray[np.int64], words: Words
) -> Payloads:
    """All target bits set, the others as an honest user's, so that the number of ones does not give
    it away."""
    rows = protocol.permanent(np.full(fakes, int(wanted[0])), words).copy()
    for target in wanted:
        write_bit(rows, np.full(fakes, int(target)), np.ones(fakes, np.bool_))
    return rows


def _attack_hash(
    protocol: LocalHash, fakes: int, wanted: NDArray[np.int64], words: Words
) -> Payloads:
    """Make reports with, of 1,000 seeds, the one that sends most targets to one value."""
    seeds = protocol.hashes.draw(1000, words)
    hashes = protocol.hashes.hash(seeds, wanted)
    counts = np.stack([(hashes == y).sum(axis=1) for y in range(protocol.size)], axis=1)
    best, answer = np.unravel_index(int(counts.argmax()), counts.shape)
    columns = [put_int(np.full(fakes, seed_number), 4) for seed_number in seeds[best]]
    width = protocol.payload_bytes - protocol.hashes.seed_bytes
    return np.hstack([*columns, put_int(np.full(fakes, int(answer)), width)])


@dataclass(frozen=True)
class Damage:
    """Estimates of the targets with and without the lies."""

    honest: NDArray[np.float64]
    poisoned: NDArray[np.float64]
    fakes: int

    @property
    def gain_per_fake(self) -> NDArray[np.float64]:
        """How far each made-up report moved each target, on the average."""
        return (self.poisoned - self.honest) / max(1, self.fakes)


def simulate(
    protocol: Oracle,
    values: NDArray[np.int64],
    fakes: int,
    targets: list[int],
    *,
    source: Words | None = None,
) -> Damage:
    """Estimate the targets from honest users alone, and with made-up reports added to the same
    ones."""
    words = source or SystemSource()
    tally = protocol.tally(protocol.randomise(values, words))
    bad = protocol.tally(attack(protocol, fakes, targets, source=words))
    before = protocol.debias(tally, len(values))[targets].astype(np.float64)
    after = protocol.debias(tally + bad, len(values) + fakes)[targets].astype(np.float64)
    return Damage(before, after, fakes)


def hints(protocol: Protocol, payloads: Payloads, false_alarm: float = 1e-6) -> tuple[str, ...]:
    """List what honest reports would show with probability below `false_alarm`.

    An empty list is no proof of honesty.
    """
    messages = []
    limit = NormalDist().inv_cdf(1 - false_alarm / 2)
    n = len(payloads)
    if isinstance(protocol, OptimisedUnary | SymmetricUnary):
        ones = np.bitwise_count(payloads).sum(axis=1, dtype=np.int64)
        p = float(protocol.p)
        q = float(protocol.q)
        d = protocol.domain
        mean = p + (d - 1) * q
        variance = p * (1 - p) + (d - 1) * q * (1 - q)
        score = float((ones.mean() - mean) / (variance / n) ** 0.5)
        if abs(score) > limit:
            messages.append(
                f"reports have {ones.mean():.2f} ones each instead of {mean:.2f} ({score:+.0f} "
                f"standard errors)"
            )
    if isinstance(protocol, LocalHash):
        seeds = np.ascontiguousarray(payloads[:, : protocol.hashes.seed_bytes])
        _, counts = np.unique(seeds, axis=0, return_counts=True)
        expected = n * n / 2 / protocol.hashes.prime ** (protocol.hashes.limbs + 1)
        repeated = int((counts * (counts - 1) // 2).sum())
        if repeated > expected + limit * max(1.0, expected**0.5) + 1:
            messages.append(
                f"{repeated} pairs of reports share a hash seed, {expected:.2g} expected"
            )
    if isinstance(protocol, Oracle) and not isinstance(protocol, LocalHash) and n:
        values = protocol.debias(protocol.tally(payloads), n)
        excess = float(np.max(values)) - n
        spread = (n * float(protocol.noise_variance)) ** 0.5
        if excess > limit * spread:
            messages.append("a count exceeds the number of reports")
    return tuple(messages)
