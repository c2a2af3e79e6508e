"""Liu-Talwar: the exact law of the best of a geometric number of runs, closeness, the fixed number
of runs."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.mechanisms.private_selection import PrivateSelection
from dither.privacy.losses import Pure
from dither.privacy.noise import bernoulli, uniform_below
from tests.case_lists import mark_rest
from tests.mechanisms.closeness import assert_close, assert_law
from tests.mechanisms.planted import Bug
from tests.mechanisms.seeded import Seeded


def best_law(run, gamma):
    """P(best = i) for outputs in order of score: f(P(<= i)) - f(P(< i)), f(x) = gamma x / (1 - (1 -
    gamma) x)."""
    upto = [sum(run[: i + 1], Fraction(0)) for i in range(len(run))]
    f = lambda x: gamma * x / (1 - (1 - gamma) * x)
    return [f(b) - f(a) for a, b in itertools.pairwise([Fraction(0), *upto])]


def runs_within(ratio):
    """All laws on three outputs with denominators of 12, in pairs whose ratios are at most
    `ratio`."""
    laws = [
        (Fraction(a, 12), Fraction(b, 12), Fraction(12 - a - b, 12))
        for a in range(1, 11)
        for b in range(1, 12 - a)
    ]
    for p, q in itertools.product(laws, repeat=2):
        if all(x <= ratio * y and y <= ratio * x for x, y in zip(p, q, strict=True)):
            yield p, q


@pytest.mark.parametrize(
    "gamma", mark_rest([Fraction(1, 2), Fraction(1, 10), Fraction(1, 1000)], quick=1)
)
def test_exact_law_costs_at_most_three_times(gamma):
    """In fractions: whatever two runs within ratio r, the best of them is within r^3, and r^2 is
    not enough."""
    ratio, worst = Fraction(2), Fraction(0)
    for p, q in runs_within(ratio):
        for a, b in zip(best_law(p, gamma), best_law(q, gamma), strict=True):
            worst = max(worst, a / b, b / a)
    assert worst <= ratio**3
    assert gamma > Fraction(1, 100) or worst > ratio**2


def sampler(law):
    """A run that draws an output with exactly these probabilities (twelfths)."""
    bars = np.cumsum([int(12 * p) for p in law])

    def run(source):
        output = int(np.searchsorted(bars, uniform_below(12, source=source), "right"))
        return output, output

    return run


def draws(mechanism, law, count, seed):
    source, run = Seeded(seed), sampler(law)
    return np.array([mechanism.release(run, source=source)[1] for _ in range(count)])


LAW, OTHER = (
    (Fraction(6, 12), Fraction(3, 12), Fraction(3, 12)),
    (Fraction(9, 12), Fraction(2, 12), Fraction(1, 12)),
)


@pytest.mark.all
def test_private_selection_closeness():
    """Runs within ratio 3: the best of a geometric number stays within 27; of a fixed number it
    does not."""
    mechanism = PrivateSelection(Fraction(math.log(3)).limit_denominator(10**6), Fraction(1, 12))
    first, second = draws(mechanism, LAW, 1_200, 1), draws(mechanism, OTHER, 1_200, 2)
    assert_close(first, second, mechanism.loss().epsilon)
    assert_law(first, best_law(LAW, mechanism.gamma))
    assert_law(second, best_law(OTHER, mechanism.gamma))


def test_stopping_law_is_exact():
    """The number of runs is geometric: P(K > k) = (1 - gamma)^k."""
    mechanism, source = PrivateSelection(1, Fraction(1, 3)), Seeded(4)
    counts = []
    for _ in range(3_000):
        seen = []
        mechanism.release(lambda words, seen=seen: (seen.append(1) or 0, None), source=source)
        counts.append(min(len(seen), 6) - 1)
    gamma = Fraction(1, 3)
    assert_law(counts, [gamma * (1 - gamma) ** k for k in range(5)] + [(1 - gamma) ** 5])
    assert mechanism.error().expected_runs == 3
    assert (
        abs(PrivateSelection(1, Fraction(1, 100)).error().miss(Fraction(1, 10)) - 0.0825688) < 1e-6
    )


def test_losses_and_refusals():
    assert PrivateSelection(1, Fraction(1, 2)).loss() == Pure(3) and PrivateSelection(
        1, 1
    ).loss() == Pure(1)
    for arguments in ((0, 0.5), (1, 0), (1, 1.5), (1, -1)):
        with pytest.raises(ParameterError):
            PrivateSelection(*arguments)


def fixed_number(self, run, *, source=None):
    return max((run(source) for _ in range(int(1 / self.gamma))), key=lambda found: found[0])


def stops_early(self, run, *, source=None):
    """Stops as soon as a good output is seen: the stopping looks at the data."""
    best = run(source)
    while best[0] < 2 and not bernoulli(self.gamma / 40, source=source):
        best = max(best, run(source))
    return best


BUGS = {
    "private-selection-fixed-runs": Bug(
        "the best of a fixed number of runs at the price of a geometric number",
        test_private_selection_closeness,
        ((PrivateSelection, "release", fixed_number),),
    ),
    "private-selection-stops-at-good": Bug(
        "stops at the first good output",
        test_private_selection_closeness,
        ((PrivateSelection, "release", stops_early),),
    ),
}
