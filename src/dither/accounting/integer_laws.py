"""Losses with countably many values: randomised response and integer noise, as atoms with exact
places.

Every place is rational: randomised response has losses -eps and +eps; integer Laplace noise of
scale t moved by D has losses D/t, (D-2)/t, ..., -D/t; integer Gaussian noise moved by D has losses
(D^2 - 2 D x)/(2 sigma^2) for integers x. So they compose on a common lattice without any rounding
of the loss (docs/proofs/composition.md, section 5).
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dither.accounting.sampled import OutOfReach, log_ratio
from dither.accounting.transforms import UNIT, AtomsFactor, Real

MOST_ATOMS = 1_000_000
_TAIL = 350.0  # integer Gaussians are cut where a tail has probability below e^-350


def _on_lattice(offset: Fraction, step: Fraction, indices: Real) -> Real:
    return float(offset) + float(step) * indices


def randomized_response(epsilon: Fraction, count: int) -> AtomsFactor:
    """Make the privacy loss of `count` randomised responses, composed.

    Each loses +eps with probability e^eps/(1+e^eps), else -eps. No epsilon-DP mechanism loses more,
    so that this also bounds a mechanism of which only epsilon is known.
    """
    eps = float(epsilon)
    masses = np.array(
        [max(math.exp(-eps), 1e-300) / (1 + math.exp(-eps)), 1 / (1 + math.exp(-eps))]
    )
    # How far each mass may be off, relative to itself. From eps = 690 on the small one may have
    # been raised to 1e-300, so that all of it may be error.
    mass_errors = np.array([UNIT * (8 + 4 * eps) if eps < 690 else 1.0, UNIT * 8])
    return AtomsFactor(
        np.array([-eps, eps]), masses, count, mass_errors, lattice=(Fraction(0), epsilon, (-1, 1))
    )


def discrete_laplace(scale: Fraction, sensitivity: int, count: int) -> AtomsFactor:
    """Make the law of P(z) ~ exp(-|z|/scale) on the integers against its shift by `sensitivity`."""
    if sensitivity > MOST_ATOMS:
        raise OutOfReach
    ratio = float(1 / scale)
    inside = np.arange(1, sensitivity)
    lost = np.exp(-ratio * inside) * (-math.expm1(-ratio) / (1 + math.exp(-ratio)))
    ends = 1 / (1 + math.exp(-ratio))
    masses = np.concatenate([[ends], lost, [ends * math.exp(-ratio * sensitivity)]])
    indices = np.concatenate([[sensitivity], sensitivity - 2 * inside, [-sensitivity]])
    exponents = np.concatenate([[0], inside, [sensitivity]]) * ratio
    step = 1 / scale
    return AtomsFactor(
        _on_lattice(Fraction(0), step, indices),
        masses,
        count,
        UNIT * (24 + 4 * exponents),
        lattice=(Fraction(0), step, tuple(int(i) for i in indices)),
    )


def count_atoms(sigma: Fraction, sensitivity: int) -> int:
    """How many integers carry a Gaussian of this width and its shift."""
    return 2 * (math.ceil(float(sigma) * math.sqrt(2 * _TAIL)) + 1) + sensitivity


def discrete_gaussian(sigma: Fraction, sensitivity: int, count: int) -> AtomsFactor:
    """Make the law of P(x) ~ exp(-x^2 / 2 sigma^2) on the integers against its shift.

    The shift is `sensitivity`.
    """
    spread = float(sigma)
    reach = math.ceil(spread * math.sqrt(2 * _TAIL)) + 1
    if count_atoms(sigma, sensitivity) > MOST_ATOMS:
        raise OutOfReach
    x = np.arange(-reach, reach + sensitivity + 1).astype(float)
    exponents = x * x / (2 * float(sigma * sigma))
    weights = np.exp(-exponents)
    kept = weights > 0
    x = x[kept]
    exponents = exponents[kept]
    weights = weights[kept]
    masses = weights / math.fsum(weights)
    step = sensitivity / (sigma * sigma)
    offset = Fraction(sensitivity**2) / (2 * sigma * sigma)
    indices = -x
    # sub-Gaussian tails of the integer Gaussian, P and shifted Q alike; zero weights lie further
    # out still
    tail = 4 * math.exp(-_TAIL)
    return AtomsFactor(
        _on_lattice(offset, step, indices),
        masses,
        count,
        UNIT * (32 + 8 * exponents),
        tail,
        tail,
        (offset, step, tuple(int(i) for i in indices)),
    )


def poisson_sampled(law: AtomsFactor, rate: Fraction, direction: str, count: int) -> AtomsFactor:
    """Make the law of `count` runs, each on a Poisson sample of rate q, in one direction.

    "remove" is (1-q)Q + qP against Q, "add" is Q against it. `law` is one run without sampling, P
    against Q, its own count unused: P has `masses`, Q has masses * exp(-losses).
    """
    q = float(rate)
    loss, loss_relative = log_ratio(q, law.losses)
    reference_masses = law.masses * np.exp(-law.losses)
    relative = law.relative + UNIT * (16 + 4 * np.abs(law.losses))
    if direction == "remove":
        masses = (1 - q) * reference_masses + q * law.masses
        missing = law.missing + law.missing_q
        missing_q = law.missing_q
    else:
        masses = reference_masses
        missing = law.missing_q
        missing_q = law.missing + law.missing_q
        loss = -loss
    return AtomsFactor(loss, masses, count, relative, missing, missing_q, None, loss_relative)


def drawn(law: AtomsFactor, rate: Fraction, count: int) -> AtomsFactor:
    """Make the law that is met with probability `rate`, with a loss of zero else.

    It is a Poisson sample under replace, seen with the draw.
    """
    number = len(law.losses)
    lattice = None
    if law.lattice is not None and law.lattice[0] == 0:
        lattice = (law.lattice[0], law.lattice[1], (*law.lattice[2], 0))
    return AtomsFactor(
        np.append(law.losses, 0.0),
        np.append(float(rate) * law.masses, float(1 - rate)),
        count,
        np.append(np.broadcast_to(law.relative, number) + 4 * UNIT, 4 * UNIT),
        law.missing,
        law.missing_q,
        lattice,
        np.append(np.broadcast_to(law.loss_relative, number), 0.0),
    )


def repeat(law: AtomsFactor, count: int) -> AtomsFactor:
    """The same law with another count."""
    return replace(law, count=count)
