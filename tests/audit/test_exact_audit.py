"""Exact laws, one-run audits, and the audit of the accountant: known numbers, brute force, planted
mistakes."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dither import local
from dither.accounting.curves import delta as accounted
from dither.accounting.lattice import delta_discrete_laplace
from dither.audit import accountant
from dither.audit.accountant import audit_accountant, audit_loss, draw_loss
from dither.audit.canaries import chance_of, epsilon_lower, one_run
from dither.audit.exact import hockey_stick, judge, renyi, smallest_epsilon
from dither.errors import ParameterError
from dither.mechanisms import ExponentialMechanism
from dither.privacy.losses import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    RandomizedResponse,
)
from dither.privacy.noise import discrete_laplace


def lattice(scale, centre, reach=400):
    a = math.exp(-1 / scale)
    return {z: (1 - a) / (1 + a) * a ** abs(z - centre) for z in range(-reach, reach)}


def test_the_divergence_is_the_sum_over_all_events():
    """By brute force over every subset of a small space, exactly."""
    one = {0: Fraction(1, 2), 1: Fraction(1, 3), 2: Fraction(1, 6)}
    two = {0: Fraction(1, 5), 1: Fraction(2, 5), 3: Fraction(2, 5)}
    for epsilon in (0, Fraction(1, 2), 1):
        factor = math.exp(epsilon)
        best = max(
            max(
                float(sum(a.get(x, 0) for x in event))
                - factor * float(sum(b.get(x, 0) for x in event))
                for a, b in ((one, two), (two, one))
            )
            for r in range(5)
            for event in itertools.combinations(range(4), r)
        )
        found = hockey_stick(one, two, epsilon)
        assert found.lower - 1e-12 <= best <= found.upper + 1e-12
    assert smallest_epsilon(one, two).upper == math.inf


def test_it_agrees_with_the_accountant_on_integer_laplace():
    for epsilon in (0.0, 0.2, 0.4):
        found = hockey_stick(lattice(2, 0), lattice(2, 1), epsilon)
        known = delta_discrete_laplace(Fraction(2), 1, epsilon)
        assert found.lower <= known.upper + 1e-12 and known.lower <= found.upper + 1e-12
    assert smallest_epsilon(lattice(2, 0, 40), lattice(2, 1, 40)).upper == pytest.approx(
        0.5, abs=1e-9
    )


def test_verdicts_of_exact_laws_of_ours_and_of_local_randomisers():
    choice = ExponentialMechanism(Fraction(1), Fraction(1))
    one, two = (dict(enumerate(choice.law(scores))) for scores in ([0, 0, 0], [1, -1, -1]))
    assert judge(one, two, epsilon=1).outcome == "holds on this pair"
    assert judge(one, two, epsilon=0.5).outcome == "violated"
    protocol = local.Direct(1, 4)
    assert judge(protocol.law(0), protocol.law(3), epsilon=1).outcome == "holds on this pair"
    assert judge(protocol.law(0), protocol.law(3), epsilon=Fraction(99, 100)).outcome == "violated"
    assert renyi({0: 0.5, 1: 0.5}, {0: 0.184, 1: 0.816}, 1.0001) == pytest.approx(0.2551, abs=2e-3)
    assert renyi({0: 1.0}, {1: 1.0}, 2.0) == math.inf


def test_one_run_numbers_of_the_spec():
    assert epsilon_lower(1000, 1000, 600, alpha=0.05) == pytest.approx(0.297468, abs=1e-6)
    assert epsilon_lower(1000, 1000, 1000, alpha=0.05) == pytest.approx(5.80907, abs=1e-5)
    assert epsilon_lower(1000, 1000, 500, alpha=0.05) == 0


def test_one_run_with_delta_adds_the_steepest_part_of_the_tail():
    """Steinke, Nasr, Jagielski 2023, theorem 5.2, term by term."""
    m, r, v, epsilon, delta = 50, 20, 15, 0.7, 1e-3
    q = 1 / (1 + math.exp(-epsilon))
    law = [math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    steepest = max(sum(law[v - i : v]) / i for i in range(1, v + 1))
    assert chance_of(m, r, v, epsilon, delta) == pytest.approx(
        sum(law[v:]) + 2 * m * delta * steepest
    )
    assert epsilon_lower(m, r, r, delta=delta) < epsilon_lower(m, r, r)


def test_one_run_refutes_half_noise_and_spares_the_right_one():
    def histogram(scale):
        return lambda included: included.astype(np.int64) + discrete_laplace(scale, len(included))

    fine = one_run(histogram(1), 20_000, lambda noisy: noisy, alpha=1e-9)
    assert not fine.refutes(1) and 0.5 < fine.epsilon_lower <= 1 < fine.ceiling
    broken = one_run(
        histogram(Fraction(1, 2)), 20_000, lambda noisy: noisy, guesses=8_000, alpha=1e-9
    )
    assert broken.refutes(1) and broken.guesses == 8_000
    with pytest.raises(ParameterError):
        one_run(histogram(1), 10, lambda noisy: noisy[:3])


@pytest.mark.all
def test_the_accountant_is_not_refuted_on_random_compositions():
    claims = audit_accountant(6, runs=60_000, alpha=1e-9)
    assert len(claims) > 6 and not any(claim.refuted for claim in claims)
    assert (
        max(claim.shown / max(claim.claimed, 1e-12) for claim in claims) > 0.5
    )  # the audit has teeth


@pytest.mark.parametrize(
    "loss",
    [
        DiscreteLaplace(2, 3),
        DiscreteGaussian(Fraction(3, 2), 2),
        Gaussian(1),
        Laplace(1),
        RandomizedResponse(1),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_drawn_losses_have_the_profile_of_the_accountant(loss):
    """E[max(0, 1 - e^(eps - L))] under the first input is delta(eps)."""
    draws = draw_loss(loss, 400_000, first=True)
    for at in (0.0, 0.4):
        estimate = float(np.maximum(0, 1 - np.exp(at - draws)).mean())
        assert abs(estimate - accounted(loss, at).upper) < 7 / math.sqrt(400_000)


def test_an_accountant_that_forgets_a_part_is_refuted():
    loss = DiscreteLaplace(2, 1) * 4
    forgetful = lambda given, at: accounted(DiscreteLaplace(2, 1) * 2, at).upper
    assert any(
        claim.refuted for claim in audit_loss(loss, runs=200_000, alpha=1e-9, claimed=forgetful)
    )
    with pytest.raises(ParameterError):
        accountant.draw_loss(object(), 10, first=True)
