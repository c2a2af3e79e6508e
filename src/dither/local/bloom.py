"""RAPPOR on a Bloom filter, for texts without a list: cohorts, candidates and their decoding.

The device draws a cohort once; the cohort decides which bits a text sets. Both steps of
`dither.local.rappor` follow.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number, exact
from dither.errors import ParameterError
from dither.local.bits import count_ones
from dither.local.estimate import Estimate
from dither.local.protocol import Protocol, is_exact, read_domain
from dither.local.rappor import Steps, read_steps
from dither.local.unary import spare_bits_clear, unary_law
from dither.local.wire import Payloads, get_int, put_int
from dither.privacy.noise import Words, uniform_below
from dither.stored import stored


@stored(bits="bits", hashes="hashes", cohorts="cohorts", f="f", irr_p="irr_p", irr_q="irr_q")
@dataclass(frozen=True)
class BloomRappor(Protocol):
    """RAPPOR on a Bloom filter of text. Payload: the cohort (2 bytes), then the `bits` bits of the
    filter."""

    type = "bloom_rappor"
    bits: int = 16
    hashes: int = 2
    cohorts: int = 64
    f: Fraction = Fraction(1, 2)
    irr_p: Fraction = Fraction(1, 2)
    irr_q: Fraction = Fraction(3, 4)

    def __post_init__(self) -> None:
        """Check the sizes, and derive `f`, `irr_p` and `irr_q` from the fields."""
        super().__post_init__()
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon"))
        read_domain(self.bits, 1 << 16)
        if not 1 <= self.hashes <= 16 or not 1 <= self.cohorts <= 1 << 16:
            raise ParameterError("hashes must lie in 1..16 and cohorts in 1..65536")
        for name, value in zip(("f", "irr_p", "irr_q"), read_steps(self, self.hashes), strict=True):
            object.__setattr__(self, name, value)

    @property
    def steps(self) -> Steps:
        return Steps(self.f, self.irr_p, self.irr_q)

    @property
    def epsilon_one(self) -> Fraction:
        """Loss of one report seen alone."""
        return self.steps.one_report(self.hashes)

    @property
    def payload_bytes(self) -> int:
        return 2 + -(-self.bits // 8)

    def hash_bits(self, text: str, cohort: int) -> set[int]:
        """Compute the bits that a text sets in a cohort.

        They are 16-bit pieces of sha256(cohort as 4 bytes big-endian, text) mod bits.
        """
        digest = hashlib.sha256(cohort.to_bytes(4, "big") + text.encode()).digest()
        return {
            int.from_bytes(digest[2 * i : 2 * i + 2], "little") % self.bits
            for i in range(self.hashes)
        }

    def filters(self, text: str) -> NDArray[np.bool_]:
        """The filter of a text in every cohort: cohorts x bits."""
        filters = np.zeros((self.cohorts, self.bits), np.bool_)
        for cohort in range(self.cohorts):
            filters[cohort, list(self.hash_bits(text, cohort))] = True
        return filters

    def enrol(self, source: Words) -> int:
        return int(uniform_below(self.cohorts, source=source))

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Set the bits of each text in a Bloom filter and randomise every bit once.

        A payload is the device's cohort (two bytes) and the filter. A cohort has hash
        functions of its own; without `devices` it is drawn here.
        """
        texts = list(values)
        if not all(isinstance(text, str) for text in texts):
            raise ParameterError("values of Bloom RAPPOR are texts")
        cohorts = (
            uniform_below(self.cohorts, len(texts), source=source) if devices is None else devices
        )
        row_numbers = {
            (t, c): i
            for i, (t, c) in enumerate(dict.fromkeys(zip(texts, cohorts.tolist(), strict=True)))
        }
        table = np.zeros((len(row_numbers), self.bits), np.uint8)
        for (text, cohort), i in row_numbers.items():
            table[i, list(self.hash_bits(text, cohort))] = 1
        packed = np.packbits(table, axis=1, bitorder="little")
        truth = packed[[row_numbers[t, c] for t, c in zip(texts, cohorts.tolist(), strict=True)]]
        return np.hstack([put_int(cohorts, 2), self.steps.remember(truth, self.bits, source)])

    def instant(self, memos: Payloads, source: Words) -> Payloads:
        return np.hstack([memos[:, :2], self.steps.speak(memos[:, 2:], self.bits, source)])

    def inputs(self) -> list[str]:
        return ["a", "b", "c", "d", "e"]

    def _law(
        self, value: str, one_chance: Fraction, zero_chance: Fraction
    ) -> dict[bytes, Fraction]:
        """Compute the exact law of cohort and bits, if a set bit is sent as 1 with `one_chance`.

        A bit that the text does not set is sent as 1 with `zero_chance`; all cohorts are
        equally likely.
        """
        law = {}
        for cohort in range(self.cohorts):
            set_bits = self.hash_bits(value, cohort)
            chances = [one_chance if v in set_bits else zero_chance for v in range(self.bits)]
            for bits, weight in unary_law(chances).items():
                law[cohort.to_bytes(2, "little") + bits] = weight / self.cohorts
        return law

    def law(self, value: str) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        A payload is a cohort and the filter's bits after the permanent randomisation.
        """
        return self._law(value, 1 - self.f / 2, self.f / 2)

    def report_law(self, value: str) -> dict[bytes, Fraction]:
        """The law of one report, both steps together."""
        return self._law(value, self.steps.reported_one, self.steps.reported_zero)

    @property
    def tally_size(self) -> int:
        return self.cohorts * (self.bits + 1)

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        return (get_int(payloads[:, :2]) < self.cohorts) & spare_bits_clear(
            payloads[:, 2:], self.bits
        )

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        """Count the ones of every bit, by cohort; the last column counts the cohort's reports."""
        cohort = get_int(payloads[:, :2])
        table = np.zeros((self.cohorts, self.bits + 1), np.int64)
        for cohort_number in np.unique(cohort):
            members = payloads[cohort == cohort_number, 2:]
            table[cohort_number, :-1] = count_ones(members, self.bits)
            table[cohort_number, -1] = len(members)
        return table.ravel()

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        """Estimate how many members of each cohort have each bit: cohorts * bits entries."""
        one_chance = self.steps.reported_one
        zero_chance = self.steps.reported_zero
        if not is_exact(tally):
            table = tally.reshape(self.cohorts, self.bits + 1).astype(np.float64)
            return (
                (table[:, :-1] - table[:, -1:] * float(zero_chance))
                / float(one_chance - zero_chance)
            ).ravel()
        counts: NDArray[Any] = tally.reshape(self.cohorts, self.bits + 1)
        bit_counts: NDArray[Any] = (
            (counts[:, :-1] - counts[:, -1:] * zero_chance) / (one_chance - zero_chance)
        ).ravel()
        return bit_counts

    def target(self, value: str) -> NDArray[Any]:
        return np.array(
            [Fraction(int(bit), self.cohorts) for bit in self.filters(value).ravel()], object
        )

    def _second_moments(self) -> tuple[Fraction, Fraction]:
        """Compute E of the squared contribution of a report, for a set bit and for a clear one.

        The report is of the entry's cohort.
        """
        one_chance = self.steps.reported_one
        zero_chance = self.steps.reported_zero
        gap = (one_chance - zero_chance) ** 2
        for_set_bit = (
            one_chance * (1 - zero_chance) ** 2 + (1 - one_chance) * zero_chance**2
        ) / gap
        return for_set_bit, zero_chance * (1 - zero_chance) / gap

    def user_variance(self, value: str) -> NDArray[Any]:
        """Compute the exact variance of each estimated bit count from one report of `value`."""
        high, low = self._second_moments()
        share = Fraction(1, self.cohorts)
        bits = self.filters(value).ravel()
        return np.array(
            [share * (high if bit else low) - (share * int(bit)) ** 2 for bit in bits], object
        )

    def estimate(self, tally: NDArray[np.int64], reports: int) -> Estimate:
        """Estimate how many users of each cohort have each bit set, with variances."""
        values = self.debias(tally, reports)
        _, low = self._second_moments()
        members = np.repeat(tally.reshape(self.cohorts, self.bits + 1)[:, -1], self.bits)
        one_chance = float(self.steps.reported_one)
        zero_chance = float(self.steps.reported_zero)
        set_counts = np.clip(values, 0, members)
        variances = members * float(low) + set_counts * (1 - one_chance - zero_chance) / (
            one_chance - zero_chance
        )
        return Estimate(values, variances, reports, self._largest_move, what="bits")

    def decode(self, tally: NDArray[np.int64], reports: int, candidates: list[str]) -> Estimate:
        """Estimate counts of candidate texts by non-negative least squares over all bits.

        Errors are by ordinary least squares.
        """
        from scipy.optimize import nnls

        design, wanted = self._weigh_equations(tally, reports, candidates)
        counts, _ = nnls(design, wanted)
        spread = np.diag(np.linalg.pinv(design.T @ design))
        notes = (
            "counts are kept non-negative, so small ones are biased upwards",
            "texts that share bits are confused",
        )
        return Estimate(counts, spread, reports, self._largest_move, tuple(candidates), notes=notes)

    def find(
        self, tally: NDArray[np.int64], reports: int, candidates: list[str], *, level: float = 0.95
    ) -> Estimate:
        """Find which of many candidate texts are there, with their counts.

        Lasso to choose, least squares to count, Bonferroni to decide, as in Erlingsson et al. 2014:
        a penalised fit (in units of the noise, sqrt(2 ln m) for m candidates) keeps few candidates;
        an unpenalised fit of those gives unbiased counts with their errors; kept are counts above
        zero at `level` over all m candidates. Texts that are no candidate act as noise on the bits
        that they set.
        """
        design, wanted = self._weigh_equations(tally, reports, candidates)
        scale = np.sqrt((design**2).sum(axis=0))
        chosen = np.flatnonzero(
            _fit_lasso(design / scale, wanted, sqrt(2 * log(max(2, len(candidates)))))
        )
        inverse = np.linalg.pinv(design[:, chosen].T @ design[:, chosen])
        counts = inverse @ (design[:, chosen].T @ wanted)
        errors = np.sqrt(np.diag(inverse))
        quantile = NormalDist().inv_cdf(1 - (1 - level) / max(1, len(candidates)))
        order = [i for i in np.argsort(counts)[::-1] if counts[i] > quantile * errors[i]]
        names = tuple(candidates[chosen[i]] for i in order)
        notes = (f"{len(candidates)} candidates, {len(chosen)} kept by the lasso",)
        return Estimate(
            counts[order], errors[order] ** 2, reports, self._largest_move, names, notes=notes
        )

    @property
    def _largest_move(self) -> float:
        return float(1 / (self.steps.reported_one - self.steps.reported_zero))

    def _weigh_equations(
        self, tally: NDArray[np.int64], reports: int, candidates: list[str]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Write the equations bits = filters x counts, every row in units of its noise.

        Bits of cohorts without members are left out.
        """
        if not candidates or len(set(candidates)) != len(candidates):
            raise ParameterError("candidates must be different texts, at least one")
        bits = self.estimate(tally, reports)
        members = np.repeat(tally.reshape(self.cohorts, self.bits + 1)[:, -1], self.bits)
        occupied = members > 0
        shares = members[occupied] / max(1, reports)
        design = (
            np.stack([self.filters(text).ravel()[occupied] for text in candidates], axis=1)
            * shares[:, None]
        )
        # the noise of the answers, and that of which members happen to be in the cohort
        set_counts = np.clip(bits.values[occupied], 0, members[occupied])
        weight = 1 / np.sqrt(
            np.maximum(
                bits.variances[occupied] + set_counts * (1 - set_counts / members[occupied]), 1e-12
            )
        )
        return design * weight[:, None], bits.values[occupied] * weight


def _fit_lasso(
    design: NDArray[np.float64], wanted: NDArray[np.float64], penalty: float
) -> NDArray[np.float64]:
    """Fit non-negative least squares with a penalty on the sum.

    It is by coordinate descent on the normal equations.
    """
    gram = design.T @ design
    pull = design.T @ wanted - penalty
    counts = np.zeros(design.shape[1])
    for _ in range(500):
        moved = 0.0
        for j in np.flatnonzero((counts > 0) | (pull - gram @ counts > 0)):
            new = max(0.0, (pull[j] - gram[j] @ counts + gram[j, j] * counts[j]) / gram[j, j])
            moved = max(moved, abs(new - counts[j]))
            counts[j] = new
        if moved <= 1e-6 * max(1.0, counts.max()):
            break
    return counts


def bloom_rappor(
    *, bits: int, hashes: int, cohorts: int, f: Number, p: Number, q: Number
) -> BloomRappor:
    """Bloom RAPPOR with the loss that its parameters imply."""
    steps = Steps.read(f, p, q)
    return BloomRappor(steps.lifetime(hashes), bits, hashes, cohorts, steps.f, steps.p, steps.q)
