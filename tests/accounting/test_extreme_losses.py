"""Losses with parameters of any size: the accountant answers or refuses with an error of dither,
and returns."""

from __future__ import annotations

import random
import warnings
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from dither import DitherError, ParameterError, QueryError, RefusedError
from dither import accounting as acc
from dither.privacy.loss_documents import read_loss
from tests.time_guard import time_guard

NUMBERS: tuple[Any, ...] = ("1e-1000", "1e-400", "1e-300", "1e-9", "1/3", "1", "2", "7", "1e9",
    "1e30", "1e300",
                            "1e400", "1e1000", "0", Fraction(1, 10**3900), 10**5000,
                            "1e-99999999")  # fmt: skip
KINDS = ("Gaussian", "Laplace", "DiscreteLaplace", "DiscreteGaussian", "Pure", "Approx", "ZCDP",
    "RDP", "BoundedRange",
         "RandomizedResponse", "GaussianSum", "DiscreteGaussianVector")  # fmt: skip

ONE_NUMBER = (acc.Pure, acc.BoundedRange, acc.RandomizedResponse)


def refuses(work: Any) -> bool:
    """Whether the work refuses; anything but an answer or an error of dither fails the test."""
    with time_guard(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            work()
        except DitherError as error:
            assert str(error)
            return True
    return False


def account_for_extremes(seed: int, tries: int) -> int:
    """Losses drawn from the edge, at every door of the accountant; how many doors answered."""
    draw = random.Random(seed)
    answered = 0
    for _ in range(tries):
        kind = getattr(acc, draw.choice(KINDS))
        first, second, third = (draw.choice(NUMBERS) for _ in range(3))
        arguments = (first,) if kind in ONE_NUMBER else (first, second)
        if refuses(partial(kind, *arguments)):
            continue
        doors = draw.sample(DOORS, 3)
        answered += sum(not refuses(partial(door, kind(*arguments), third)) for door in doors)
    return answered


DOORS = [
    acc.epsilon,
    acc.delta,
    acc.rdp,
    acc.explain,
    acc.cautions,
    lambda loss, _: acc.zcdp(loss),
    lambda loss, _: acc.profile(loss),
    lambda loss, _: acc.group(loss, 3),
    lambda loss, _: acc.to_dp_event(loss),
    lambda loss, _: acc.from_json(loss.to_json()),
    lambda loss, delta: acc.epsilon(acc.PoissonSampled("1/3", loss) * 3, delta),
]


def test_losses_of_any_size_are_accounted_for_or_refused():
    assert account_for_extremes(44, 30) > 5


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_many_losses_of_any_size_are_accounted_for_or_refused(seed):
    assert account_for_extremes(100 + seed, 1_000) > 100


@pytest.mark.parametrize(
    "work",
    [
        lambda: acc.epsilon(acc.Gaussian("1e-400", "1e400"), 1e-6),
        lambda: acc.delta(acc.DiscreteLaplace(2, "1e400"), 1),
        lambda: acc.zcdp(acc.Laplace("1e-300", "1e30")),
        lambda: acc.to_dp_event(acc.BoundedRange("1e1000")),
        lambda: acc.unamplify("1e400", "0.1"),
        lambda: acc.split(1, ["1e-400", 1], [1, 1]),
        lambda: acc.calibrate(epsilon="1e-400", delta="1e-400", sensitivity="1e400"),
    ],
    ids=["epsilon", "delta", "zcdp", "event", "unamplify", "split", "calibrate"],
)
def test_what_floats_cannot_hold_is_refused_with_the_remedy(work):
    with time_guard(), pytest.raises(ParameterError, match="choose"):
        work()


@pytest.mark.parametrize(
    "text",
    [
        "1e-99999999 * laplace(1)",
        "laplace(1e99999999)",
        "9" * 5_000 + " * laplace(1)",
        "*".join(["1e900"] * 50) + " * laplace(1)",
        "(" * 400 + "laplace(1)" + ")" * 400,
        "poisson(0.1, " * 400 + "laplace(1)" + ")" * 400,
        "laplace(1) + " * 2_000 + "laplace(1)",
    ],
    ids=["exponent", "argument", "digits", "product", "parentheses", "calls", "length"],
)
def test_an_expression_is_bounded_in_numbers_nesting_and_length(text):
    with time_guard(), pytest.raises(QueryError, match="too many digits|at most 10,000 characters"):
        acc.parse(text)


def test_a_loss_nested_without_end_is_refused():
    tree = acc.Pure(1).to_json()
    for _ in range(2_000):
        tree = {**(acc.Pure(1) * 2).to_json(), "loss": tree}
    with pytest.raises(ParameterError, match="nested too deeply"):
        read_loss(tree)


@pytest.mark.parametrize(
    "text", ["[" * 5_000, "GaussianDpEvent(noise_multiplier=" + "9" * 5_000 + ")", "x" * 200_000]
)
def test_a_printed_event_is_bounded(text):
    with pytest.raises(RefusedError, match="DpEvent"):
        acc.parse_dp_event(text)


@pytest.mark.parametrize(
    ("epsilon", "users"), [("1", 10**10), ("5", 10**12), ("1e-9", 10**30), ("20", 10**6)]
)
def test_shuffles_of_many_users_are_accounted_for(epsilon, users):
    with time_guard():
        bounds = acc.epsilon(
            acc.Shuffled(epsilon, users, theorem="FMT21", neighbours="replace"), 1e-9
        )
    assert 0 <= bounds.lower <= bounds.upper <= float(epsilon) * (1 + 1e-9)
