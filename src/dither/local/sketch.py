"""Count-mean sketches (Apple 2017): a frequency oracle on a hashed value, for domains too large to
list.

`rows` public hash functions map a value to one of `width` columns. A user draws a row and answers
for its column there: all columns by symmetric unary encoding (`CountMeanSketch`), or one random
Hadamard coefficient of them (`HadamardSketch`, eight bytes). With kappa the exact probability of a
collision, the count of x is (sum of unbiased answers at x's column - n kappa) / (1 - kappa).
Unbiased over the hash functions; for given ones the answer of y leaks into x by (C_xy - kappa) / (1
- kappa), C_xy the share of rows in which they collide. docs/proofs/local.md, theorem 6. Row hashes:
`HashFamily.public(rows, name)`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.bits import count_ones, random_rows, write_bit
from dither.local.estimate import Estimate
from dither.local.hadamard import sign_bits, transform
from dither.local.hashing import PRIME_BITS, HashFamily, check_prime_bits, hash_family
from dither.local.odds import odds
from dither.local.protocol import is_exact
from dither.local.support import Oracle
from dither.local.unary import spare_bits_clear, unary_law
from dither.local.values import read_values
from dither.local.wire import Payloads, get_int, put_int
from dither.privacy.noise import Words, bernoulli, uniform_below
from dither.stored import stored


@stored(rows="rows", width="width", name="name", prime_bits="prime_bits")
@dataclass(frozen=True)
class _Sketch(Oracle):
    largest_domain = 1 << 60
    rows: int = 1024
    width: int = 1024
    name: str = "dither"
    prime_bits: int = PRIME_BITS

    def __post_init__(self) -> None:
        """Check rows, width and prime: a collector keeps a count for each cell of the sketch."""
        super().__post_init__()
        if (
            not 1 <= self.rows <= 1 << 20
            or self.width < 2
            or self.width & (self.width - 1)
            or self.width > 1 << 20
        ):
            raise ParameterError(
                "rows must lie in 1..2**20 and width be a power of two from 2 to 2**20"
            )
        check_prime_bits(self.prime_bits, self.width)
        if self.rows * self.width > 1 << 28:
            raise ParameterError(
                "rows * width must not exceed 2**28: the collector keeps a count for each"
            )

    @property
    def hashes(self) -> HashFamily:
        return hash_family(self.domain, self.width, self.prime_bits)

    @cached_property
    def seeds(self) -> NDArray[np.int64]:
        return self.hashes.public(self.rows, self.name)

    def derived(self) -> dict[str, Any]:
        return {"p": self.p, "limbs": self.hashes.limbs}

    @property
    @abstractmethod
    def p(self) -> Fraction:
        """Probability that a transmitted sign is the true one."""

    def draw_rows(
        self, held: NDArray[np.int64], source: Words
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """A row for each user, and the user's column in it."""
        row = uniform_below(self.rows, len(held), source=source)
        return row, self.hashes.hash_each(self.seeds[row], held)

    def collisions(self, value: int) -> NDArray[Any]:
        """C_xy for this value and every x of the domain, exactly."""
        columns = self.hashes.hash(self.seeds, np.arange(self.domain, dtype=np.int64))
        hits = np.count_nonzero(columns == columns[:, [value]], axis=0)
        return np.array([Fraction(int(h), self.rows) for h in hits], object)

    def target(self, value: int) -> NDArray[Any]:
        kappa = self.hashes.collision
        target: NDArray[Any] = (self.collisions(value) - kappa) / (1 - kappa)
        return target

    @abstractmethod
    def sum_answers_at(self, tally: NDArray[Any], candidates: NDArray[np.int64]) -> NDArray[Any]:
        """Sum over the rows of the unbiased answers at the candidates' columns."""

    def counts(
        self, tally: NDArray[Any], reports: int, candidates: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Estimate counts of any candidates, unbiased."""
        kappa = self.hashes.collision if is_exact(tally) else float(self.hashes.collision)
        counts: NDArray[Any] = (self.sum_answers_at(tally, candidates) - reports * kappa) / (
            1 - kappa
        )
        return counts

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        """Compute unbiased counts of all values; refuse a domain that is too large to list."""
        if self.domain > 1 << 22:
            raise ParameterError(
                "the domain is too large to list: use counts(tally, reports, candidates)"
            )
        return self.counts(tally, reports, np.arange(self.domain, dtype=np.int64))

    def estimate(self, tally: NDArray[np.int64], reports: int) -> Estimate:
        """Estimate the counts of all values; refuse a domain that is too large to list."""
        if self.domain > 1 << 22:
            raise ParameterError(
                "the domain is too large to list: use estimate_for(tally, reports, candidates)"
            )
        return self.estimate_for(tally, reports, np.arange(self.domain, dtype=np.int64))

    def estimate_for(
        self, tally: NDArray[np.int64], reports: int, candidates: NDArray[np.int64]
    ) -> Estimate:
        """Estimate counts of `candidates`.

        The variance holds the noise and the expected effect of collisions.
        """
        values = self.counts(tally, reports, candidates).astype(np.float64)
        variances = self.variances(np.clip(values, 0, reports), reports)
        kappa = float(self.hashes.collision)
        squares = float(np.maximum(values**2 - variances, 0).sum())
        variances = variances + squares * kappa / (self.rows * (1 - kappa))
        return Estimate(
            values,
            variances,
            reports,
            float(self.largest_move),
            notes=("includes hash collisions",),
        )


@stored()
@dataclass(frozen=True)
class CountMeanSketch(_Sketch):
    """CMS. Payload: the row (4 bytes), then the `width` bits of symmetric unary encoding of the
    column."""

    type = "count_mean_sketch"

    @property
    def payload_bytes(self) -> int:
        return 4 + -(-self.width // 8)

    @property
    def p(self) -> Fraction:
        half = odds(self.epsilon / 2)
        return half / (half + 1)

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Draw a row of the sketch for each value, and send it with the noisy bits of that row.

        The truth has one set bit, in the value's column. Every bit is kept with probability
        p.
        """
        row, column = self.draw_rows(read_values(values, self.domain), source)
        bits = random_rows(1 - self.p, len(row), self.width, source)
        write_bit(bits, column, bernoulli(self.p, len(row), source=source))
        return np.hstack([put_int(row, 4), bits])

    def law(self, value: int) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        Rows are equally likely; each bit of the row is truthful with probability p.
        """
        law = {}
        columns = self.hashes.hash(self.seeds, np.array([value], np.int64))[:, 0]
        for row, column in enumerate(columns):
            one_chances = [self.p if v == column else 1 - self.p for v in range(self.width)]
            for bits, weight in unary_law(one_chances).items():
                law[row.to_bytes(4, "little") + bits] = weight / self.rows
        return law

    @property
    def tally_size(self) -> int:
        return self.rows * (self.width + 1)

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        return (get_int(payloads[:, :4]) < self.rows) & spare_bits_clear(
            payloads[:, 4:], self.width
        )

    def accumulate(self, tally: NDArray[np.int64], payloads: Payloads) -> None:
        """Add the bits of each payload to the counts of its row, and count the row's reports."""
        row = get_int(payloads[:, :4])
        table = tally.reshape(self.rows, self.width + 1)
        table[:, -1] += np.bincount(row, minlength=self.rows)
        order = np.argsort(row, kind="stable")
        present, starts = np.unique(row[order], return_index=True)
        for row_number, members in zip(present, np.split(order, starts[1:]), strict=True):
            table[row_number, :-1] += count_ones(payloads[members, 4:], self.width)

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        tally = np.zeros(self.tally_size, np.int64)
        if len(payloads):
            self.accumulate(tally, payloads)
        return tally

    def sum_answers_at(self, tally: NDArray[Any], candidates: NDArray[np.int64]) -> NDArray[Any]:
        """Sum the unbiased answers of all rows at each candidate's column."""
        table = tally.reshape(self.rows, self.width + 1)
        p = self.p if is_exact(tally) else float(self.p)
        total = np.zeros(len(candidates), table.dtype if is_exact(tally) else np.float64)
        for row in np.flatnonzero(table[:, -1]):
            column = self.hashes.hash(self.seeds[[row]], candidates)[0]
            total = total + (table[row, column] - table[row, -1] * (1 - p)) / (2 * p - 1)
        return total

    def _of_share(self, share: Any, p: Any, kappa: Any) -> Any:
        """Variance of one report for a value whose column it names in `share` of the rows."""
        one_chance = 1 - p + (2 * p - 1) * share
        return one_chance * (1 - one_chance) / ((2 * p - 1) * (1 - kappa)) ** 2

    def user_variance(self, value: int) -> NDArray[Any]:
        kappa = self.hashes.collision
        return np.array([self._of_share(c, self.p, kappa) for c in self.collisions(value)], object)

    @property
    def noise_variance(self) -> Fraction:
        kappa = self.hashes.collision
        return Fraction(self._of_share(kappa, self.p, kappa))

    def variances(self, counts: NDArray[np.float64], reports: int) -> NDArray[np.float64]:
        own = float(self._of_share(1, self.p, self.hashes.collision))
        return np.maximum(reports - counts, 0) * float(self.noise_variance) + counts * own

    @property
    def largest_move(self) -> Fraction:
        return self.p / ((2 * self.p - 1) * (1 - self.hashes.collision))


@stored()
@dataclass(frozen=True)
class HadamardSketch(_Sketch):
    """HCMS. Payload: the row (4 bytes), then 2 * coordinate + (1 if the sign is minus) in 4
    bytes."""

    type = "hadamard_sketch"

    @property
    def payload_bytes(self) -> int:
        return 8

    @property
    def p(self) -> Fraction:
        return self.odds / (self.odds + 1)

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Draw a row for each value and one coordinate, and send that coordinate's noisy sign.

        The sign is that of the Hadamard matrix at (coordinate, the value's column).
        """
        row, column = self.draw_rows(read_values(values, self.domain), source)
        coordinate = uniform_below(self.width, len(row), source=source)
        minus = sign_bits(coordinate, column) ^ ~bernoulli(self.p, len(row), source=source)
        return np.hstack([put_int(row, 4), put_int(2 * coordinate + minus, 4)])

    def law(self, value: int) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        Rows and coordinates are equally likely; the sign is truthful with probability p.
        """
        law = {}
        columns = self.hashes.hash(self.seeds, np.array([value], np.int64))[:, 0]
        for row, column in enumerate(columns):
            for coordinate in range(self.width):
                true = (coordinate & int(column)).bit_count() % 2
                for minus in (0, 1):
                    payload = row.to_bytes(4, "little") + (2 * coordinate + minus).to_bytes(
                        4, "little"
                    )
                    law[payload] = (self.p if minus == true else 1 - self.p) / (
                        self.rows * self.width
                    )
        return law

    @property
    def tally_size(self) -> int:
        return self.rows * self.width

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        is_valid: NDArray[np.bool_] = (get_int(payloads[:, :4]) < self.rows) & (
            get_int(payloads[:, 4:]) < 2 * self.width
        )
        return is_valid

    def accumulate(self, tally: NDArray[np.int64], payloads: Payloads) -> None:
        answer = get_int(payloads[:, 4:])
        cell = get_int(payloads[:, :4]) * self.width + (answer >> 1)
        np.add.at(tally, cell, 1 - 2 * (answer & 1))

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        tally = np.zeros(self.tally_size, np.int64)
        self.accumulate(tally, payloads)
        return tally

    def sum_answers_at(self, tally: NDArray[Any], candidates: NDArray[np.int64]) -> NDArray[Any]:
        """Sum the unbiased answers of all rows at each candidate's column.

        The tally has sums of signs by coordinate; the Hadamard transform turns them into
        columns.
        """
        gain = 1 / (2 * self.p - 1)
        table = transform(tally.reshape(self.rows, self.width))
        total = np.zeros(len(candidates), table.dtype)
        for row in range(self.rows):
            total = total + table[row, self.hashes.hash(self.seeds[[row]], candidates)[0]]
        return total * (gain if is_exact(tally) else float(gain))

    def _of_share(self, share: Any) -> Any:
        return (1 / (2 * self.p - 1) ** 2 - share**2) / (1 - self.hashes.collision) ** 2

    def user_variance(self, value: int) -> NDArray[Any]:
        return np.array([self._of_share(c) for c in self.collisions(value)], object)

    @property
    def noise_variance(self) -> Fraction:
        return Fraction(self._of_share(self.hashes.collision))

    def variances(self, counts: NDArray[np.float64], reports: int) -> NDArray[np.float64]:
        own = float(self._of_share(Fraction(1)))
        return np.maximum(reports - counts, 0) * float(self.noise_variance) + counts * own

    @property
    def largest_move(self) -> Fraction:
        return (1 / (2 * self.p - 1)) / (1 - self.hashes.collision)
