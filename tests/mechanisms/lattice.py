"""The law of box noise as sums over the integers, at as many digits as mpmath is told to keep."""

import math
from fractions import Fraction

from mpmath import mp, mpf

from tests.evidence import to_real


def norm(z, sides):
    return max(Fraction(abs(value), side) for value, side in zip(z, sides, strict=True))


class Lattice:
    """P(z) ~ exp(-norm(z) / scale), summed over integers: shell by shell between the norms that
    occur.

    Up to norm r there are prod(2 floor(r side) + 1) integers, of which a share of 2 (n - t + 1) /
    (2 n + 1) has a number of at least t in size, n = floor(r side). `far` is in units of the scale.
    """

    def __init__(self, sides, scale, far=120):
        self.sides, self.scale = sides, scale
        last = int(far * scale * max(sides)) + max(sides)
        norms = sorted(
            {
                Fraction(k, side)
                for side in sides
                for k in range(last)
                if Fraction(k, side) <= far * scale + 1
            }
        )
        weights = [mp.exp(-to_real(at / scale)) for at in norms]
        self.shells = []
        for at, weight, after in zip(norms, weights, [*weights[1:], mpf(0)], strict=True):
            reach = [at.numerator * side // at.denominator for side in sides]
            self.shells.append((reach, (weight - after) * math.prod(2 * n + 1 for n in reach)))
        self.whole = sum(mass for _, mass in self.shells)
        self.above = [self._above(column) for column in range(len(sides))]

    def _above(self, column):
        """By t: the sums over all n >= t of 2 mass / (2 n + 1) and of (n + 1) times that."""
        last = self.shells[-1][0][column]
        found = [mpf(0)] * (last + 2)
        for reach, mass in self.shells:
            found[reach[column]] += 2 * mass / (2 * reach[column] + 1)
        sums = [(mpf(0), mpf(0))]
        for n in range(last + 1, -1, -1):
            sums.append((sums[-1][0] + found[n], sums[-1][1] + (n + 1) * found[n]))
        return sums[:0:-1]

    def pmf(self, z):
        return mp.exp(-to_real(norm(z, self.sides) / self.scale)) / self.whole

    def tail(self, column, t):
        plain, times = self.above[column][t] if t < len(self.above[column]) else (mpf(0), mpf(0))
        return (times - t * plain) / self.whole if t > 0 else mpf(1)

    def variance(self, column):
        return sum(mass * n[column] * (n[column] + 1) / 3 for n, mass in self.shells) / self.whole
