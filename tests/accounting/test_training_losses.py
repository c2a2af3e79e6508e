"""Losses of training runs: laws against oracles of their own, curves against brute force."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from dither import accounting as acc
from dither.accounting.training_laws import mean_runs, overflow_probability
from dither.accounting.training_losses import TRAINING_LOSSES
from dither.errors import ParameterError, RefusedError
from dither.privacy.loss_documents import read_loss
from tests.accounting.loss_oracles import atoms, gaussian, removed

CLIPPED = acc.GaussianSum(2, 1)
SWAPPED = acc.GaussianSum(2, 1, neighbours="replace")
SAMPLES = [
    acc.KaryResponse(1, 5),
    acc.GaussianMixture(2, [(1, "0.1"), (0, "0.9")]),
    acc.TruncatedPoissonSampled("0.1", 20, 100, CLIPPED),
    acc.SampledWithReplacement(5, 100, SWAPPED),
    acc.BestOfNegativeBinomial(1, "0.1", acc.Gaussian(4)),
    acc.BestOfPoisson(10, acc.Gaussian(4)),
]


def test_every_training_loss_has_a_sample_and_survives_json():
    assert {type(loss) for loss in SAMPLES} == set(TRAINING_LOSSES)
    for loss in SAMPLES:
        assert read_loss(loss.to_json()) == loss


def test_stored_texts_of_training_losses():
    """What is stored is for ever: these texts must not change."""
    inner = (
        '{"clip_norm":"1/1","neighbours":"%s","sigma":"2/1","type":"gaussian_sum","unit":"unit",'
        '"v":1}'
    )
    run = (
        '{"neighbours":"add_remove","sensitivity":"1/1","sigma":"4/1","type":"gaussian","unit":"unit",'
        '"v":1}'
    )
    assert [loss.canonical for loss in SAMPLES] == [
        '{"buckets":5,"epsilon":"1/1","neighbours":"replace","type":"kary_response","unit":"unit",'
        '"v":1}',
        '{"components":"0/1:9/10 1/1:1/10","neighbours":"add_remove","sigma":"2/1",'
        '"type":"gaussian_mixture","unit":"unit","v":1}',
        '{"batch_limit":20,"loss":' + inner % "add_remove" + ',"neighbours":"add_remove",'
        '"population_size":100,"q":"1/10","type":"truncated_poisson_sampled","unit":"unit","v":1}',
        '{"loss":' + inner % "replace" + ',"neighbours":"replace","population_size":100,'
        '"sample_size":5,"type":"sampled_with_replacement","unit":"unit","v":1}',
        '{"halting":"1/10","loss":' + run + ',"neighbours":"add_remove","shape":"1/1",'
        '"type":"best_of_negative_binomial","unit":"unit","v":1}',
        '{"loss":' + run + ',"mean":"10/1","neighbours":"add_remove","type":"best_of_poisson",'
        '"unit":"unit","v":1}',
    ]


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (lambda: acc.KaryResponse(1, 1), "at least 2"),
        (lambda: acc.GaussianMixture(1, [(0, "0.5")]), "sum to 1 exactly"),
        (lambda: acc.GaussianMixture(1, [(0, 1)]), "must be positive"),
        (lambda: acc.GaussianMixture(1, [(-1, 1)]), "must not be negative"),
        (lambda: acc.GaussianMixture(1, []), "pairs"),
        (lambda: acc.GaussianMixture(1, [(1, 1)], neighbours="replace"), "add_remove"),
        (lambda: acc.TruncatedPoissonSampled("0.1", 5, 50, acc.Pure(1)), "GaussianSum"),
        (lambda: acc.TruncatedPoissonSampled("0.1", 5, 50, SWAPPED), "add_remove"),
        (lambda: acc.SampledWithReplacement(5, 50, CLIPPED), "replace"),
        (lambda: acc.BestOfNegativeBinomial(1, 1, acc.Pure(1)), "strictly between"),
    ],
)
def test_wrong_parameters_are_refused(work, why):
    with pytest.raises(ParameterError, match=why):
        work()


def test_kary_response_has_its_own_law():
    """Three atoms, by their definition, composed by enumeration."""
    epsilon, buckets = 1, 4
    whole = math.e + buckets - 1
    law = [(1, math.e / whole), (-1, 1 / whole), (0, (buckets - 2) / whole)]
    for count in (1, 3):
        pairs = [
            (mpmath.mpf(sum(z for z, _ in draw)), mpmath.fprod(mass for _, mass in draw))
            for draw in itertools.product(law, repeat=count)
        ]
        for point in (0.0, 0.5, 1.5):
            bounds = acc.delta(acc.KaryResponse(epsilon, buckets) * count, point)
            truth = float(atoms(pairs)(mpmath.mpf(point)))
            assert bounds.lower <= truth * (1 + 1e-13)
            assert truth <= bounds.upper * (1 + 1e-13) <= truth * (1 + 1e-9) + 1e-300
    pure = acc.epsilon(acc.Pure(1, neighbours="replace") * 50, 1e-6)
    assert acc.epsilon(acc.KaryResponse(1, 10) * 50, 1e-6).upper < 0.6 * pure.lower
    assert acc.epsilon(acc.KaryResponse(1, 10), 0) == (1.0, 1.0)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("count", [1, 30])
def test_a_mixture_of_two_gaussians_is_a_poisson_sample(direction, count):
    mixture = acc.GaussianMixture(1, [(0, "0.8"), (1, "0.2")]) * count
    sample = acc.PoissonSampled("0.2", acc.Gaussian(1)) * count
    ours = acc.epsilon(mixture, 1e-6, direction=direction)
    truth = acc.epsilon(sample, 1e-6, direction=direction)
    assert ours.lower <= truth.upper
    assert truth.lower <= ours.upper <= truth.upper * (1 + 1e-3)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_mixture_of_three_gaussians_against_its_half_lines(direction):
    """The ratio is monotone, so delta is the largest over half-lines, here on a fine mesh."""
    sigma, pairs = 2.0, [(0, 0.5), (1, 0.375), (3, 0.125)]
    loss = acc.GaussianMixture(2, [(shift, Fraction(weight)) for shift, weight in pairs])
    edges = np.linspace(-30, 30, 600_001)
    for epsilon in (0.0, 0.3, 1.0):
        if direction == "remove":
            with_unit = sum(w * ndtr((c - edges) / sigma) for c, w in pairs)
            truth = np.max(with_unit - math.exp(epsilon) * ndtr(-edges / sigma))
        else:
            with_unit = sum(w * ndtr((edges - c) / sigma) for c, w in pairs)
            truth = np.max(ndtr(edges / sigma) - math.exp(epsilon) * with_unit)
        bounds = acc.delta(loss, epsilon, direction=direction)
        assert bounds.lower <= truth + 1e-9
        assert truth <= bounds.upper <= truth + 1e-4
    added = acc.epsilon(loss, 0, direction="add")
    assert added.lower <= math.log(2) <= added.upper <= math.log(2) * (1 + 1e-14)


@pytest.mark.parametrize(
    ("trials", "q", "limit"), [(10, "1/2", 9), (40, "1/10", 12), (5, "1/3", 6)]
)
def test_the_chance_of_a_full_batch_is_rounded_up(trials, q, limit):
    rate = Fraction(q)
    truth = sum(
        math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k)
        for k in range(limit, trials + 1)
    )
    assert truth <= overflow_probability(trials, rate, limit) <= truth * (1 + Fraction(1, 10**15))


def cut_sum_density(values: list[int], q: float, limit: int, sigma: float, y: np.ndarray):
    """Density of the noisy sum over a Poisson sample cut to `limit`, by enumeration of samples."""
    total = np.zeros_like(y)
    for drawn in itertools.product((0, 1), repeat=len(values)):
        sample = [value for value, is_in in zip(values, drawn, strict=True) if is_in]
        chance = q ** sum(drawn) * (1 - q) ** (len(values) - sum(drawn))
        kept = list(itertools.combinations(sample, min(limit, len(sample))))
        for subset in kept:
            shifted = np.exp(-((y - sum(subset)) ** 2) / (2 * sigma**2))
            total += chance / len(kept) * shifted / (sigma * math.sqrt(2 * math.pi))
    return total


@pytest.mark.parametrize(
    ("rest", "limit"), [([-1, -1, -1], 1), ([-1, -1, -1], 2), ([0, 0, 0], 1), ([1, -1, -1], 2)]
)
def test_a_cut_poisson_sample_costs_no_more_than_its_bound(rest, limit):
    """Exact densities of every dataset of three and one more, integrated to 1e-9."""
    q, sigma = 0.3, 1.5
    y = np.linspace(-25, 25, 20_001)
    without = cut_sum_density(rest, q, limit, sigma, y)
    held = cut_sum_density([*rest, 1], q, limit, sigma, y)
    loss = acc.TruncatedPoissonSampled("0.3", limit, 3, acc.GaussianSum("1.5", 1))
    for epsilon in (0.0, 0.2, 0.6):
        for direction, p, other in (("remove", held, without), ("add", without, held)):
            excess = np.maximum(p - math.exp(epsilon) * other, 0.0)
            assert (
                np.trapezoid(excess, y)
                <= acc.delta(loss, epsilon, direction=direction).upper + 1e-8
            )


def test_a_limit_that_is_never_met_costs_what_poisson_sampling_costs():
    cut = acc.TruncatedPoissonSampled("1/250", 700, 60_000, CLIPPED) * 1000
    free = acc.PoissonSampled("1/250", CLIPPED) * 1000
    assert acc.epsilon(cut, 1e-6).upper == pytest.approx(acc.epsilon(free, 1e-6).upper, rel=1e-9)
    assert acc.epsilon(cut, 1e-6).upper >= acc.epsilon(free, 1e-6).lower


def test_sampling_with_replacement_is_the_theorem_for_one_step():
    """Balle, Barthe and Gaboardi 2018, theorem 10: sum over j of Bin(j) delta_j at the inner
    epsilon."""
    draws, units = 3, 100
    loss = acc.SampledWithReplacement(draws, units, SWAPPED)
    hit = mpmath.mpf(1) / units
    drawn = 1 - (1 - hit) ** draws
    for epsilon in (0.0, 0.25):
        truth = sum(
            mpmath.binomial(draws, j) * hit**j * (1 - hit) ** (draws - j) / drawn
            * removed(gaussian(mpmath.mpf(j)), drawn)(mpmath.mpf(epsilon))
            for j in range(1, draws + 1)
        )  # fmt: skip
        bounds = acc.delta(loss, epsilon)
        assert bounds.lower <= truth <= bounds.upper <= truth * 1.05


def best_law(runs: list[tuple[float, float]], weights: list[float]) -> list[float]:
    """The law of the best of K runs; outcomes ordered by score, K = k with weights[k]."""
    below = 0.0
    law = []
    for _, chance in runs:
        upto = below + chance
        law.append(sum(w * (upto**k - below**k) for k, w in enumerate(weights)))
        below = upto
    return law


def negative_binomial(shape: float, halting: float, most: int) -> list[float]:
    terms = [0.0]
    weight = 1.0
    for k in range(1, most):
        weight *= (1 - halting) * ((k - 1 + shape) / k if (k > 1 or shape > 0) else 1.0)
        terms.append(weight)
    total = sum(terms)
    return [term / total for term in terms]


def renyi(p: list[float], q: list[float], alpha: float) -> float:
    return math.log(sum(a**alpha * b ** (1 - alpha) for a, b in zip(p, q, strict=True))) / (
        alpha - 1
    )


RUNS = [
    ([0.9, 0.07, 0.03], [0.93, 0.06, 0.01]),
    ([0.5, 0.3, 0.2], [0.4, 0.35, 0.25]),
    ([0.99, 0.005, 0.005], [0.985, 0.01, 0.005]),
]


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize(("shape", "halting"), [(0, 0.1), (0.5, 0.05), (1, 0.1), (2, 0.3)])
def test_the_best_of_a_negative_binomial_number_of_runs(runs, shape, halting):
    """Exact laws of the selection against the bound from the exact Renyi curve of one run.

    The runs are rewritten as a zCDP loss: rho is the largest D_alpha / alpha in both directions.
    """
    p, q = runs
    orders = [1.01 + 0.25 * k for k in range(400)]
    rho = max(max(renyi(p, q, a), renyi(q, p, a)) / a for a in orders)
    law = negative_binomial(shape, halting, 2_000)
    best = [best_law([(0.0, chance) for chance in run], law) for run in (p, q)]
    loss = acc.BestOfNegativeBinomial(
        Fraction(shape), Fraction(str(halting)), acc.ZCDP(rho * 1.001)
    )
    for alpha in (1.5, 2.0, 8.0):
        truth = max(renyi(best[0], best[1], alpha), renyi(best[1], best[0], alpha))
        assert truth <= acc.rdp(loss, alpha).upper
    expected = sum(k * w for k, w in enumerate(law))
    assert mean_runs(Fraction(shape), Fraction(str(halting))) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("mean", [3, 20])
def test_the_best_of_a_poisson_number_of_runs(runs, mean):
    """The same with K ~ Poisson; an empty selection is an outcome of its own."""
    p, q = runs
    orders = [1.01 + 0.25 * k for k in range(400)]
    rho = max(max(renyi(p, q, a), renyi(q, p, a)) / a for a in orders)
    weights = [math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(150)]
    best = [[weights[0], *best_law([(0.0, chance) for chance in run], weights)] for run in (p, q)]
    loss = acc.BestOfPoisson(mean, acc.ZCDP(rho * 1.001))
    for alpha in (1.5, 2.0, 8.0):
        truth = max(renyi(best[0], best[1], alpha), renyi(best[1], best[0], alpha))
        assert truth <= acc.rdp(loss, alpha).upper


def test_tuning_of_pure_runs():
    """(2 + shape) epsilon (Papernot and Steinke 2022, corollary 3)."""
    assert acc.epsilon(acc.BestOfNegativeBinomial(1, "0.01", acc.Pure("0.5")), 0).upper == 1.5
    assert acc.epsilon(acc.BestOfNegativeBinomial(0, "0.01", acc.Pure("0.5")), 0).upper == 1.0
    with pytest.raises(RefusedError):
        acc.to_dp_event(acc.BestOfPoisson(3, acc.Pure(1)))


def test_training_losses_compose_with_all_others():
    run = acc.GaussianMixture(3, [(0, "0.9"), (1, "0.1")]) * 20
    both = acc.epsilon(run + acc.Laplace(10) + acc.Gaussian(20), 1e-5)
    assert acc.epsilon(run, 1e-5).lower <= both.lower <= both.upper < math.inf
    kary = acc.KaryResponse("0.5", 3) * 4 + acc.BoundedRange("0.5", neighbours="replace")
    assert acc.epsilon(kary, 1e-6).upper < 2.5


@pytest.mark.parametrize("loss", SAMPLES, ids=lambda loss: loss.type)
@pytest.mark.parametrize(
    "rule",
    [
        acc.PureRule(1),
        acc.ApproxRule(1, "1e-5", "1e-6"),
        acc.ZcdpRule(1, "1e-6"),
        acc.RenyiRule(8, 1, "1e-6"),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_no_pot_pays_for_a_training_loss(loss, rule):
    with pytest.raises(RefusedError):
        acc.charge(loss, rule)
    with pytest.raises(RefusedError):
        acc.charge(loss * 2 + loss, rule)


@pytest.mark.parametrize("wrap", [lambda loss: loss, lambda loss: acc.PoissonSampled("0.5", loss)])
def test_the_best_of_runs_with_a_delta_has_no_finite_epsilon(wrap):
    """Neither theorem covers them: the delta of one run must not get lost."""
    for best in (
        acc.BestOfNegativeBinomial(1, "0.1", acc.Approx(1, "1e-9")),
        acc.BestOfPoisson(3, acc.ZCDP(1, "1e-9")),
    ):
        assert acc.epsilon(wrap(best), "0.1").upper == math.inf
        assert acc.delta(wrap(best), 100).upper == 1.0
