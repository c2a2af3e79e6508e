"""Few sampled steps, and many of a small rate: brackets against mpmath, the grid and the contour.

Oracles: the closed form of one step and the integral of it over a second step, in twenty digits;
the grid engine and the contour, which share no inversion and no law with the faded contour.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from dither import accounting as acc
from dither.accounting import few_steps, routes
from dither.accounting.contour import build_contour
from dither.accounting.faded import FadedStep, LineBound
from dither.accounting.faded_bounds import FarLosses, bound_bulk, log_faded_share
from dither.accounting.faded_transform import evaluate
from dither.accounting.few_steps import is_certainly_zero
from dither.accounting.one_step import bound_one_step, guess_one_step
from dither.accounting.planning import find_smallest_below
from dither.accounting.rough_law import Far, SampledSteps, Split, Tilts
from dither.accounting.sampled import SampledGaussianFactor
from dither.accounting.trapezoid import OutOfReach
from tests.case_lists import mark_rest
from tests.scripts import import_script

DIGITS = 20
build_grid = import_script("bench/sampled_grid.py").build_grid


def sampled(q, sigma, steps=1):
    loss = acc.PoissonSampled(q, acc.Gaussian(sigma))
    return loss if steps == 1 else loss * steps


def exact_number(value):
    value = Fraction(value)
    return mpmath.mpf(value.numerator) / value.denominator


def one_step_delta(direction, q, sigma, epsilon):
    """delta of one step at an epsilon of any sign: the better event is a half-line."""
    sign = 1 if direction == "remove" else -1
    grow = mpmath.exp(sign * epsilon)
    if grow <= 1 - q:
        return 1 - mpmath.exp(epsilon) if direction == "remove" else mpmath.mpf(0)
    edge = mpmath.mpf(1) / 2 + sigma**2 * mpmath.log((grow - 1 + q) / q)
    if direction == "remove":
        rest = mpmath.ncdf(-edge / sigma)
        return (1 - q - grow) * rest + q * mpmath.ncdf((1 - edge) / sigma)
    rest = mpmath.ncdf(edge / sigma)
    return rest - ((1 - q) * rest + q * mpmath.ncdf((edge - 1) / sigma)) / grow


def two_steps_delta(direction, q, sigma, epsilon):
    """delta of two steps: the first one's loss shifts the epsilon that is left to the second."""

    def integrand(y):
        ratio = 1 - q + q * mpmath.exp((2 * y - 1) / (2 * sigma**2))
        density = mpmath.npdf(y, 0, sigma)
        if direction == "remove":
            return density * ratio * one_step_delta("remove", q, sigma, epsilon - mpmath.log(ratio))
        return density * one_step_delta("add", q, sigma, epsilon + mpmath.log(ratio))

    # the second step's delta bends where the first has used up the epsilon: cuts crowd there
    sign = 1 if direction == "remove" else -1
    bend = mpmath.mpf(1) / 2
    if mpmath.exp(sign * epsilon) > 1 - q:
        bend += sigma**2 * mpmath.log((mpmath.exp(sign * epsilon) - 1 + q) / q)
    cuts = {sigma * k for k in range(-13, 14)} | {1 + sigma * k for k in range(-3, 14)}
    cuts |= {bend + sign * sigma**2 * mpmath.mpf(2) ** -k for k in range(14) for sign in (-1, 1)}
    return mpmath.quad(integrand, sorted(cuts), maxdegree=4)


TWO_STEPS = [
    ("remove", 9e-7, 1.5, 6e-6),
    ("remove", 4e-9, 8.5, 1.7e-9),
    ("remove", 1e-5, 0.5, 9e-5),
    ("remove", 0.0007, 1.65, 0.0032),
    ("remove", 0.61, 1.38, 3.7),
    ("remove", 2e-7, 0.32, 0.01),
    ("add", 0.3, 0.9, 0.4),
    ("add", 1e-6, 1.5, 1.2e-6),
]


def gauss_legendre(cuts):
    """Nodes and weights of the rule of 24 points on every interval between the cuts."""
    points, weights = np.polynomial.legendre.leggauss(24)
    half = np.diff(cuts)[:, None] / 2
    middle = (cuts[1:] + cuts[:-1])[:, None] / 2
    return (middle + half * points).ravel(), (half * weights).ravel()


def one_step_deltas(direction, q, sigma, epsilons):
    """The closed form of one step in floats, at many epsilons of any sign."""
    sign = 1 if direction == "remove" else -1
    odds = 1 + np.expm1(sign * epsilons) / q
    edge = 0.5 + sigma**2 * np.log(np.maximum(odds, 1e-320))
    if direction == "remove":
        inside = q * (ndtr((1 - edge) / sigma) - odds * ndtr(-edge / sigma))
        return np.where(odds <= 0, -np.expm1(np.minimum(epsilons, 0.0)), inside)
    inside = q * np.exp(epsilons) * (odds * ndtr(edge / sigma) - ndtr((edge - 1) / sigma))
    return np.where(odds <= 0, 0.0, inside)


def two_steps_in_floats(direction, q, sigma, epsilon):
    """delta of two steps from the definition: a mean of the second step's closed form, to about
    1e-12 (two rules of other meshes agree to 5e-10 over the whole range of q and sigma)."""
    sign = 1 if direction == "remove" else -1
    cuts = [np.arange(-56, 57) * sigma / 4, 1 + np.arange(-12, 57) * sigma / 4]
    for loss in (epsilon, epsilon - sign * np.log1p(-q)):
        odds = 1 + np.expm1(sign * loss) / q
        if odds > 0:
            bend = 0.5 + sigma**2 * np.log(odds)
            near = max(sigma, sigma**2) * 2.0 ** -np.arange(40.0)
            cuts += [bend - near, bend + near]
    cuts = np.unique(np.concatenate(cuts))
    y, weights = gauss_legendre(cuts[(cuts >= -14 * sigma) & (cuts <= 1 + 14 * sigma)])
    losses = np.log1p(q * np.expm1((2 * y - 1) / (2 * sigma**2)))
    density = np.exp(-y * y / (2 * sigma**2)) / (sigma * np.sqrt(2 * np.pi))
    if direction == "remove":
        density = density * np.exp(losses)
    rest = one_step_deltas(direction, q, sigma, epsilon - sign * losses)
    return float(weights @ (density * rest))


@pytest.mark.parametrize(("direction", "q", "sigma", "epsilon"), TWO_STEPS)
def test_two_steps_bracket_the_definition(direction, q, sigma, epsilon):
    """Small rates, light and heavy tails, both directions; all but two were out of reach before
    the weight had an end, and its factors a bound near one."""
    truth = two_steps_in_floats(direction, q, sigma, epsilon)
    loss = sampled(Fraction(q), Fraction(sigma), 2)
    bracket = acc.delta(loss, Fraction(epsilon), direction=direction, engine="faded")
    assert bracket.lower * (1 - 1e-9) <= truth <= bracket.upper * (1 + 1e-9)
    assert bracket.upper - bracket.lower <= 1e-3 * bracket.upper


@pytest.mark.parametrize("q", ["1e-9", "1e-8"])
@pytest.mark.parametrize("steps", [2, 7])
def test_a_tiny_rate_has_a_lower_end(q, steps):
    """The lower end of several steps is at least that of one: losses of more steps dominate."""
    one = acc.epsilon(sampled(q, 2), "1e-12")
    several = acc.epsilon(sampled(q, 2, steps), "1e-12")
    assert several.lower >= one.lower > 0
    assert several.upper - several.lower <= 1e-6 * several.upper


def test_the_lesser_direction_needs_no_second_engine(monkeypatch):
    """What is seen not to exceed the floor is an answer, however wide it looks."""
    monkeypatch.setattr(routes, "_solve_by_grid", lambda *_: pytest.fail("the grid was asked"))
    monkeypatch.setattr(routes, "_solve_by_contour", lambda *_: pytest.fail("asked again"))
    bounds = acc.epsilon(sampled("0.61", "1.38", 4), "8e-7")
    assert bounds.upper - bounds.lower <= 1e-6 * bounds.upper


@pytest.mark.parametrize(
    ("kind", "q", "sigma", "epsilon"),
    [("remove", "0.2", "1.4", 0.7), ("add", "0.2", "1.4", 0.1), ("swap", "0.2", "1.4", 0.7)],
)
def test_one_step_in_closed_form_agrees_with_an_integral(kind, q, sigma, epsilon):
    """mpmath integrates the positive part of P - e^epsilon Q over the noise."""
    law = SampledGaussianFactor(kind, Fraction(q), Fraction(sigma), 1)
    with mpmath.workdps(DIGITS):
        rate = exact_number(q)
        noise = exact_number(sigma)

        def mix(y, mean):
            return (1 - rate) * mpmath.npdf(y, 0, noise) + rate * mpmath.npdf(y, mean, noise)

        pairs = {
            "remove": lambda y: (mix(y, 1), mpmath.npdf(y, 0, noise)),
            "add": lambda y: (mpmath.npdf(y, 0, noise), mix(y, 1)),
            "swap": lambda y: (mix(y, 1), mix(y, -1)),
        }

        def gap(y):
            p, other = pairs[kind](y)
            return p - mpmath.exp(epsilon) * other

        edge = mpmath.findroot(gap, (-1, 2), solver="illinois")
        cuts = [edge + k for k in range(0, 21, 2)]
        if kind == "add":
            cuts = [edge - k for k in range(20, -1, -2)]
        truth = mpmath.quad(gap, cuts)
    bounds = bound_one_step(law, epsilon)
    assert bounds.lower * (1 - 1e-12) <= truth <= bounds.upper * (1 + 1e-12)
    assert bounds.upper - bounds.lower <= 1e-13 * bounds.upper


@pytest.mark.parametrize(("q", "sigma"), [("1e-9", "1.55"), ("0.1", "230"), ("0.5", "1")])
def test_the_guess_of_one_step_is_close(q, sigma):
    law = SampledGaussianFactor("remove", Fraction(q), Fraction(sigma), 1)
    guess, slope = guess_one_step(law, math.log(1e-10))
    assert slope < 0
    assert abs(math.log(bound_one_step(law, guess).upper / 1e-10)) < 1e-3


def read_far_part(direction="remove", q=1e-5, sigma=0.5, epsilon=4e-4):
    """(truth, bracket) of two steps whose delta comes largely from losses that are faded out."""
    truth = two_steps_in_floats(direction, q, sigma, epsilon)
    loss = sampled(Fraction(q), Fraction(sigma), 2)
    return truth, acc.delta(loss, Fraction(epsilon), direction=direction, engine="faded")


def test_planted_far_losses_that_forget_the_other_law_are_caught(monkeypatch):
    """A closed form of the far part without e^epsilon Q(A) excludes the truth."""
    truth, bracket = read_far_part()
    assert bracket.lower * (1 - 1e-9) <= truth <= bracket.upper * (1 + 1e-9)

    def forget_other_law(self, epsilon):
        total = -math.expm1(self.count * math.log1p(-self.mass))
        return acc.Bounds(total * (1 - 1e-12), total * (1 + 1e-12))

    monkeypatch.setattr(FarLosses, "delta", forget_other_law)
    truth, bracket = read_far_part()
    assert bracket.lower > truth


def test_bulk_and_far_losses_must_not_overlap():
    """The weights of bulk and jumps add up to more than the weight that is faded out: a lower end
    may count nothing twice (S1)."""
    steps = SampledSteps("remove", 0.01, 1.0, 4)
    split = Split(2.0, 10.0, Tilts(3.0, 5.0))
    with pytest.raises(OutOfReach):
        few_steps._build_split(steps, split, Far(2.1, 3.0), 1.0, math.log(1e-6))


ONE_STEP = [
    ("0.2", "1.4", "0.7"),
    ("0.001", "0.5", "0.4"),
    ("1e-6", "3", "1e-6"),
    ("0.5", "200", "0.01"),
]


@pytest.mark.parametrize(("q", "sigma", "epsilon"), ONE_STEP)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_one_step_by_fading_brackets_the_closed_form(q, sigma, epsilon, direction):
    with mpmath.workdps(DIGITS):
        truth = one_step_delta(direction, *(exact_number(x) for x in (q, sigma, epsilon)))
    bracket = acc.delta(sampled(q, sigma), epsilon, direction=direction, engine="faded")
    assert bracket.lower <= truth <= bracket.upper


@pytest.mark.parametrize(
    ("q", "sigma"), [("0.002", "6.9"), ("0.3", "1.2"), ("0.0009", "1.43"), ("1e-4", "0.4")]
)
def test_two_steps_bracket_the_integral(q, sigma):
    loss = sampled(q, sigma, 2)
    place = acc.epsilon(loss, "1e-6", direction="remove").upper
    with mpmath.workdps(DIGITS):
        numbers = [exact_number(x) for x in (q, sigma, place)]
        truth = two_steps_delta("remove", *numbers)
    bracket = acc.delta(loss, place, direction="remove", engine="faded")
    assert bracket.lower <= truth <= bracket.upper
    assert bracket.upper - bracket.lower <= 1e-5 * bracket.upper
    assert abs(float(truth) / 1e-6 - 1) < 1e-4


def test_two_steps_of_an_added_unit_bracket_the_integral():
    loss = sampled("0.3", "1.2", 2)
    with mpmath.workdps(DIGITS):
        truth = two_steps_delta("add", *(exact_number(x) for x in ("0.3", "1.2", "0.5")))
    bracket = acc.delta(loss, "0.5", direction="add", engine="faded")
    assert bracket.lower <= truth <= bracket.upper


@pytest.mark.parametrize(
    ("q", "sigma", "steps", "delta"),
    [("0.01", "1.1", 30, "1e-6"), ("0.6", "1.4", 4, "1e-6"), ("0.04", "178", 4, "1e-4")],
)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_few_steps_agree_with_the_grid(q, sigma, steps, delta, direction):
    loss = sampled(q, sigma, steps)
    grid = acc.epsilon(loss, delta, direction=direction, engine="grid")
    faded = acc.epsilon(loss, delta, direction=direction, engine="faded")
    assert grid.lower <= faded.upper
    assert faded.lower <= grid.upper
    assert faded.upper - faded.lower < grid.upper - grid.lower


@pytest.mark.parametrize(
    ("q", "sigma", "steps", "delta"),
    [("0.02", "3", 2000, "1e-8"), ("0.1", "50", 500, "1e-6"), ("1e-4", "5", 10**6, "1e-5")],
)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_many_steps_agree_with_the_contour(q, sigma, steps, delta, direction):
    loss = sampled(q, sigma, steps)
    contour = acc.epsilon(loss, delta, direction=direction, engine="contour")
    faded = acc.epsilon(loss, delta, direction=direction, engine="faded")
    assert contour.lower <= faded.upper
    assert faded.lower <= contour.upper


SAMPLE = [1, 4, 14, 29, 78, 86, 93, 101, 260, 323, 337, 372, 393, 414]


@pytest.mark.parametrize("index", SAMPLE)
def test_a_sample_of_the_grid_is_sharp(index):
    workload = build_grid()[index]
    loss = sampled(workload.q, workload.sigma, workload.steps)
    bounds = acc.epsilon(loss, workload.delta)
    assert bounds.upper - bounds.lower <= max(1e-6 * bounds.upper, 1e-9)


def test_the_grid_covers_its_range():
    grid = build_grid()
    assert len(set(grid)) == 500
    assert min(w.steps for w in grid) == 1
    assert max(w.steps for w in grid) > 9 * 10**8
    assert all(Fraction(1, 10**9) <= w.q < 1 for w in grid)
    assert all(Fraction(3, 10) <= w.sigma <= 1000 for w in grid)
    assert all(Fraction(1, 10**12) <= w.delta <= Fraction(1, 1000) for w in grid)


def transform(step, y):
    """The transform of a faded step at c + iy, by mpmath."""
    q, sigma, fade = (mpmath.mpf(x) for x in (step.q, step.sigma, step.fade))

    def integrand(x):
        ratio = 1 - q + q * mpmath.exp((2 * x - 1) / (2 * sigma**2))
        weight = mpmath.mpf(1)
        for top in step.tops:
            weight *= mpmath.ncdf((top - x) / fade)
        for bottom in step.bottoms:
            weight *= mpmath.ncdf((x - bottom) / fade)
        s = mpmath.mpc(step.c, y)
        power = s + 1 if step.direction == "remove" else -s
        return mpmath.npdf(x, 0, sigma) * weight * ratio**power

    cuts = {sigma * k / 2 for k in range(-30, 41)}
    return mpmath.quad(
        integrand, sorted({min(cut, step.end) for cut in cuts} | {min(step.end, 40)})
    )


FADED = [
    FadedStep("remove", 0.02, 1.3, 9.0, 8.0, 0.2, end=12.5),
    FadedStep("remove", 0.02, 1.3, 9.0, 8.0, 0.2, end=12.5, more_tops=(2.5,)),
    FadedStep("remove", 0.01, 0.6, 3.0, 4.0, 0.04, 2.0, 4.8),
    FadedStep("add", 0.3, 2.0, 7.0, math.inf, 0.5),
    FadedStep("add", 0.9, 3.0, 4.0, math.inf, 0.7),
    FadedStep("add", 0.3, 2.0, 7.0, math.inf, 0.5, 1.0),
]


@pytest.mark.parametrize("step", mark_rest(FADED, quick=2))
def test_transform_of_a_faded_step_is_within_its_error(step):
    y = np.arange(3) * 6.0
    less_one = step.bottom == -math.inf
    panel = evaluate(step, LineBound(step, float(y[-1])), y, 1, less_one=less_one)
    with mpmath.workdps(20):
        for value, error, place in zip(panel.values, panel.error, y, strict=True):
            truth = complex(transform(step, place) - less_one)
            assert abs(truth - value) <= error
            assert error < 1e-11


@pytest.mark.parametrize("step", mark_rest(FADED, quick=2))
@pytest.mark.parametrize("y", mark_rest([2.0, 30.0], quick=1))
def test_lines_bound_the_transform_from_there_on(step, y):
    bound = math.exp(float(np.min(LineBound(step, 0.0).read(y, rising=False))))
    with mpmath.workdps(20):
        for place in (y, 1.5 * y):
            assert abs(complex(transform(step, place))) <= bound


def test_lines_show_the_fall_of_a_gaussian():
    """Of a wide noise the transform is Gaussian: on the best line the bound is so, too."""
    step = FadedStep("add", 0.5, 100.0, 1.0, math.inf, 25.0)
    deviation = 0.5 / 100
    bound = float(np.min(LineBound(step, 0.0).read(6 / deviation, rising=False)))
    assert -18.5 < bound < -16.0


def test_what_is_faded_out_is_bounded():
    step = FadedStep("remove", 0.01, 0.8, 1.0, 3.0, 0.1)
    with mpmath.workdps(20):
        truth = mpmath.quad(
            lambda x: (
                mpmath.npdf(x, 0, 0.8)
                * mpmath.ncdf((x - 3) / mpmath.mpf("0.1"))
                * (0.99 + 0.01 * mpmath.exp((2 * x - 1) / 1.28)) ** -20
            ),
            [mpmath.mpf(k) / 4 for k in range(-40, 60)],
        )
    bound = math.exp(log_faded_share(step, 20.0))
    assert truth <= bound <= 1.5 * float(truth)


def test_small_losses_are_bounded():
    step = FadedStep("remove", 0.01, 0.8, 1.0, 2.0, 0.05)
    with mpmath.workdps(20):
        truth = mpmath.quad(
            lambda x: (
                mpmath.npdf(x, 0, 0.8)
                * mpmath.ncdf((2 - x) / mpmath.mpf("0.05"))
                * (0.99 + 0.01 * mpmath.exp((2 * x - 1) / 1.28)) ** 31
            ),
            [mpmath.mpf(k) / 8 for k in range(-80, 21)],
        )
    bound = math.exp(bound_bulk(step, 30.0, 2.5))
    assert float(truth) <= bound
    assert bound - 1 <= 1.1 * (float(truth) - 1)


def test_the_weight_is_as_exact_as_assumed():
    """Assumption (A3): log_ndtr errs by less than 64 units of roundoff of 1 + |value|."""
    places = np.concatenate([np.linspace(-60.0, 9.0, 700), -np.geomspace(1e-9, 60, 100)])
    with mpmath.workdps(40):
        for place, value in zip(places, log_ndtr(places), strict=True):
            truth = mpmath.log(mpmath.ncdf(mpmath.mpf(float(place))))
            assert abs(truth - mpmath.mpf(float(value))) <= 64 * 2.0**-53 * (1 + abs(truth))


def test_total_variation_decides_an_epsilon_of_zero():
    steps = SampledSteps("remove", 1e-6, 2.0, 10)
    variation = 10 * 1e-6 * math.erf(1 / (4 * math.sqrt(2)))
    assert is_certainly_zero(steps, math.log(variation * 1.001))
    assert not is_certainly_zero(steps, math.log(variation * 0.999))
    loss = sampled("1e-6", 2, 10)
    assert acc.epsilon(loss, variation * 1.001) == (0.0, 0.0)
    assert acc.delta(loss, 0).upper <= variation


def test_a_node_without_digits_counts_with_its_whole_error():
    """A value that vanished but may be off by e^5 of the value at c: the bracket must say so."""
    nodes = np.array([0.0, 1.0])
    payoff = 1 / ((1 + 1j * nodes) * (2 + 1j * nodes))
    logs = np.array([0.0, -60.0], complex)
    errors = np.array([1e-15, 59.0])
    contour = build_contour(1.0, 1.0, 1.0, nodes, payoff, logs, errors, 0.0, 0.0, ())
    assert contour.noise > 0.02


def test_calibration_of_few_steps():
    plan = acc.calibrate(epsilon=1, delta=1e-5, steps=25, sensitivity=6, q="0.001")
    assert plan.epsilon.upper <= 1
    less = acc.PoissonSampled("0.001", acc.Gaussian(plan.sigma * (1 - Fraction(1, 10**8)), 6)) * 25
    assert acc.epsilon(less, 1e-5).lower > 1


@pytest.mark.parametrize("power", [1, 3])
def test_the_secant_finds_the_smallest(power):
    calls = []

    def measure(x):
        calls.append(x)
        return 5.0 / float(x) ** power

    goal = Fraction(1, 10)
    smallest = find_smallest_below(goal, measure, Fraction(1))
    assert 5.0 / float(smallest) ** power <= float(goal)
    assert 5.0 / (float(smallest) * (1 - 2e-9)) ** power > float(goal)
    assert len(calls) < 20
