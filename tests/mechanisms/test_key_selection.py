"""Key selection: optimal chances, exact delta, the Gaussian threshold, groups per unit."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from dither.errors import ParameterError, PrivacyWarning
from dither.laws import find_error_law
from dither.mechanisms import calibrations
from dither.privacy.losses import ZCDP, Approx, Repeated
from dither.privacy.mechanisms import gaussian_keys, key_selection
from dither.privacy.mechanisms.delta import small_delta
from dither.privacy.mechanisms.gaussian_keys import GaussianKeys
from dither.privacy.mechanisms.key_selection import TruncatedGeometricKeys, chances
from tests.mechanisms.closeness import assert_close, assert_law
from tests.mechanisms.planted import Bug
from tests.mechanisms.seeded import Seeded

mpmath.mp.dps = 50


def laplace_rule(epsilon, delta, groups):
    """The threshold of Wilson et al. 2020."""
    return 1 - groups * math.log(2 - 2 * (1 - delta) ** (1 / groups)) / epsilon


def optimal(epsilon, delta, upto):
    """pi(0), pi(1), ... by the recursion, in 50 digits."""
    e, d = (
        mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator,
        mpmath.mpf(Fraction(delta).numerator) / Fraction(delta).denominator,
    )
    pi = [mpmath.mpf(0)]
    while len(pi) <= upto:
        pi.append(
            min(mpmath.exp(e) * pi[-1] + d, 1 - mpmath.exp(-e) * (1 - pi[-1] - d), mpmath.mpf(1))
        )
    return pi


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1, Fraction(1, 10**6)), (Fraction(1, 10), Fraction(1, 10**7)), (3, Fraction(1, 20))],
)
def test_exact_chances_keep_every_ratio(epsilon, delta):
    """Enclosures hold the recursion, and pi(n) <= e^eps pi(n+1) + delta for both outcomes, both
    ways."""
    bits = 160
    found = chances(Fraction(epsilon), delta, bits)
    pi = optimal(epsilon, delta, len(found) + 1)
    scale = mpmath.mpf(2) ** bits
    for (low, high), exact in zip(found, pi, strict=False):
        assert low / scale <= exact * (1 + mpmath.mpf(10) ** -45) and exact <= high / scale * (
            1 + mpmath.mpf(10) ** -45
        )
        assert high - low <= 2**40
    assert pi[len(found)] == 1
    e, d, tiny = (
        mpmath.exp(mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator),
        float(delta),
        mpmath.mpf(10) ** -15,
    )
    for p, q in itertools.pairwise(pi):
        for one, two in ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p)):
            assert one <= e * two + d * (1 + tiny) + tiny * d
    assert pi[1] == found[1].low / scale or abs(float(pi[1]) - d) < 1e-12


def test_released_chances_are_within_the_price():
    """White box: floor(2^64 pi(n)) of the code itself satisfies the (eps, delta) inequalities in
    integers."""
    keys = TruncatedGeometricKeys(1, Fraction(1, 100), 1)
    words = [*key_selection._words(Fraction(1), Fraction(1, 100)), 2**64]
    assert words[0] == 0
    e = Fraction(math.exp(1) * (1 + 1e-12))
    allowed = Fraction(2**64) * sum((Fraction(p.delta) for p in [keys.loss()]), Fraction(0)) + 8
    for a, b in itertools.pairwise(words):
        for one, two in ((a, b), (b, a), (2**64 - a, 2**64 - b), (2**64 - b, 2**64 - a)):
            assert one <= e * two + allowed


def test_key_selection_follows_its_law():
    keys = TruncatedGeometricKeys(1, Fraction(1, 20), 1)
    for owners in (1, 2, 3, 5):
        shown = keys.release(np.full(40_000, owners), source=Seeded(owners))
        chance = optimal(1, Fraction(1, 20), owners)[-1]
        assert_law(shown.astype(int), [1 - chance, chance])
        assert abs(find_error_law(keys).chance(owners) - float(chance)) < 1e-15


def test_thresholds_of_the_spec():
    """14.1 / 43.7 / 155 by the Laplace rule; ours at most that, for half the keys."""
    for groups, printed in ((1, 14.1), (3, 43.7), (10, 155)):
        assert abs(laplace_rule(1, 1e-6, groups) - printed) < 0.5
        ours = find_error_law(TruncatedGeometricKeys(1, 1e-6, groups)).size_shown(0.5)
        assert ours <= laplace_rule(1, 1e-6, groups)
    sizes = [
        find_error_law(TruncatedGeometricKeys(1, 1e-6, groups)).size_shown(0.5)
        for groups in (1, 3, 10)
    ]
    assert sizes == [14, 40, 132]
    assert find_error_law(calibrations.fit_gaussian_keys(1, 1e-6, groups=10)).size_shown(0.5) < 132


def shown_sets(keys, counts, runs, seed):
    """Each run's shown keys as a number, for mechanisms whose release is one mask or (mask,
    counts)."""
    drawn = keys.release(np.tile(counts, runs), source=Seeded(seed))
    mask = (drawn[0] if isinstance(drawn, tuple) else drawn).reshape(runs, len(counts))
    return mask @ (1 << np.arange(len(counts)))


def test_key_selection_closeness():
    """A unit that is alone in two keys and third in a third; then the same without it."""
    keys = TruncatedGeometricKeys(3, Fraction(3, 100), 3)
    loss = keys.loss()
    epsilon, delta = loss.count * loss.loss.epsilon, loss.count * loss.loss.delta
    with_unit, without = (
        shown_sets(keys, [1, 1, 3], 100_000, 1),
        shown_sets(keys, [0, 0, 2], 100_000, 2),
    )
    assert_close(with_unit, without, epsilon, delta)
    assert not (without & 3).any()  # keys that nobody owns are never shown


def test_gaussian_keys_delta_is_exact():
    """delta of the loss against the lattice law in 50 digits, and against opposite draws."""
    for keys in (
        GaussianKeys(Fraction(3), 12, 2),
        GaussianKeys(Fraction(1, 2), 3, 1, "replace"),
        GaussianKeys(10, 54, 10),
    ):
        s = mpmath.mpf(keys.sigma.numerator) / keys.sigma.denominator
        weight = lambda k, s=s: mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * s * s))
        reach = int(60 * float(s)) + 2
        tail = sum(weight(k) for k in range(keys.threshold - 1, keys.threshold + reach))
        p = tail / (1 + 2 * sum(weight(k) for k in range(1, reach)))
        moved = keys.groups * (2 if keys.neighbours == "replace" else 1)
        true = 1 - (1 - p) ** moved
        claimed = mpmath.mpf(keys.loss().delta.numerator) / keys.loss().delta.denominator
        assert true <= claimed <= true * (1 + mpmath.mpf(10) ** -15)
        assert keys.loss().rho == Fraction(moved) / (2 * keys.sigma**2)


def test_gaussian_keys_closeness():
    """A lone owner of three keys is shown within delta; common keys stay within the (eps, delta) of
    zCDP."""
    keys = GaussianKeys(Fraction(2), 5, 3)
    delta = keys.loss().delta
    draws = 60_000
    lone = shown_sets(keys, [1, 1, 1], draws, 1)
    hits = int((lone > 0).sum())
    assert (
        stats.binom.sf(hits - 1, draws, float(delta)) > 1e-9
    )  # the chance of a leak is at most delta
    assert not shown_sets(keys, [0, 0, 0], draws, 2).any()
    from dither.accounting.rho_conversion import delta_from_rho

    total = float(delta) + delta_from_rho(keys.loss().rho, 1)
    assert_close(
        shown_sets(keys, [6, 5, 5], draws, 3), shown_sets(keys, [5, 4, 4], draws, 4), 1, total
    )


def test_gaussian_keys_counts_and_calibration():
    keys = GaussianKeys.for_rho(Fraction(1, 2), 1e-9, groups=4)
    assert keys.sigma == 2 and keys.loss().delta <= Fraction(1, 10**9)
    assert GaussianKeys(keys.sigma, keys.threshold - 1, 4).loss().delta > Fraction(
        1, 10**9
    )  # the lowest that will do
    shown, noisy = keys.release([0, 1000, 1000])
    assert shown.tolist() == [False, True, True] and noisy[0] == 0 and abs(noisy[1] - 1000) < 60


def test_losses_and_groups():
    assert TruncatedGeometricKeys(1, 1e-6, 1).loss() == Approx(1, 1e-6)
    assert TruncatedGeometricKeys(1, 1e-6, 4).loss() == Repeated(
        Approx(Fraction(1, 4), Fraction(1, 4 * 10**6)), 4
    )
    replaced = TruncatedGeometricKeys(1, 1e-6, 2, "replace").loss()
    assert replaced.count == 4 and replaced.neighbours == "replace"
    assert isinstance(GaussianKeys(1, 9, 1).loss(), ZCDP)


def test_owner_counts_sensitivity_by_brute_force():
    """Distinct owners per key, at most m keys per unit: adding a unit moves m counts by 1,
    replacing it 2m."""
    keys, limit = range(3), 2
    subsets = [s for r in range(limit + 1) for s in itertools.combinations(keys, r)]
    count = lambda people: np.bincount(np.array([k for s in people for k in s], int), minlength=3)
    for people in itertools.product(subsets, repeat=2):
        for new in subsets:
            assert abs(count([*people, new]) - count(people)).sum() <= limit
            assert abs(count([new, people[1]]) - count(people)).sum() <= 2 * limit


def test_refusals_and_warning():
    for arguments in (
        (0, 1e-6, 1),
        (1, 0, 1),
        (1, 1, 1),
        (1, 1e-6, 0),
        (1, 1e-6, 1.5),
        (1e-9, 1e-6, 1),
        (1, 1e-6, 1, "x"),
    ):
        with pytest.raises(ParameterError):
            TruncatedGeometricKeys(*arguments)
    for arguments in ((0, 5, 1), (1, 1, 1), (1, 5.0, 1), (1, 5, 0), (10**6, 5, 1)):
        with pytest.raises(ParameterError):
            GaussianKeys(*arguments)
    for counts in ([-1], [0.5], [[1]]):
        with pytest.raises(ParameterError):
            TruncatedGeometricKeys(1, 1e-6, 1).release(counts)
    assert len(TruncatedGeometricKeys(1, 1e-6, 1).release(np.array([], int))) == 0
    with pytest.warns(PrivacyWarning, match="1 / 1000000"):
        TruncatedGeometricKeys(1, 1e-6, 1, public_size=10**6)
    with pytest.warns(PrivacyWarning):
        calibrations.fit_gaussian_keys(1, 1e-3, groups=1, public_size=2000)
    assert small_delta(1e-6, 999_999) == Fraction(1, 10**6)


BUGS = {
    "keys-one-group-price": Bug(
        "a unit of m keys priced as a unit of one key",
        test_key_selection_closeness,
        ((TruncatedGeometricKeys, "_rule", property(lambda self: (self.epsilon, self.delta))),),
    ),
    "keys-without-delta": Bug(
        "the loss forgets the delta of the threshold",
        test_released_chances_are_within_the_price,
        ((TruncatedGeometricKeys, "loss", lambda self: Approx(self.epsilon, 0)),),
    ),
    "gaussian-keys-threshold-off-by-one": Bug(
        "delta taken at P(Z >= tau), forgetting the owner's own 1",
        test_gaussian_keys_closeness,
        (
            (
                gaussian_keys,
                "_lone",
                lambda sigma, tau, moved, f=gaussian_keys._lone: f(sigma, tau + 1, moved),
            ),
        ),
    ),
}
