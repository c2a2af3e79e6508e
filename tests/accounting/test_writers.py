"""Losses out to dp-accounting: the event read back is the loss, or bounds it; nothing is
understated."""

from __future__ import annotations

import pytest
from dp_accounting import dp_event, pld, rdp

from dither import accounting as acc
from dither.errors import RefusedError

EXACT = [
    acc.Gaussian(10),
    acc.Gaussian("0.7", sensitivity=3),
    acc.Laplace(2) * 7,
    acc.DiscreteLaplace(8, 2) + acc.Gaussian(4),
    acc.PoissonSampled(0.01, acc.Gaussian("1.1")) * 1000,
    acc.GaussianSum(11, 10) * 3,
    acc.Pure(0),
]
BOUNDED = [
    acc.DiscreteGaussian(5, 1) * 4,
    acc.Pure("0.5"),
    acc.BoundedRange(1) * 3,
    acc.ZCDP("0.1"),
]


@pytest.mark.parametrize("loss", EXACT, ids=str)
def test_what_is_written_is_read_back_as_no_less(loss):
    text = acc.to_dp_event(loss)
    back = acc.parse_dp_event(text)
    assert acc.epsilon(back, 1e-6).upper >= acc.epsilon(loss, 1e-6).lower
    assert acc.epsilon(back, 1e-6).upper == pytest.approx(
        acc.epsilon(loss, 1e-6).upper, rel=1e-9, abs=1e-12
    )
    assert acc.from_dp_event(acc.to_dp_event(loss, dp_event)) == back


@pytest.mark.parametrize("loss", [*EXACT[:-1], *BOUNDED], ids=str)
def test_their_accountant_never_reports_less_than_the_truth(loss):
    """By their Renyi accountant where it knows the event, else by their privacy-loss
    distributions."""
    event = acc.to_dp_event(loss, dp_event)
    theirs = None
    for accountant in (rdp.RdpAccountant(), pld.PLDAccountant()):
        if accountant.supports(event):
            theirs = accountant.compose(event).get_epsilon(1e-6)
            break
    assert theirs is not None and theirs >= acc.epsilon(loss, 1e-6).lower * (1 - 1e-9)


def test_integer_gaussian_noise_is_not_passed_off_as_continuous():
    assert acc.to_dp_event(acc.DiscreteGaussian(5, 1)).startswith("ZCDpEvent(rho=0.02")


@pytest.mark.parametrize(
    "loss",
    [acc.Approx(1, 1e-6), acc.RDP(2, 1), acc.ZCDP(1, 1e-9),
     acc.PoissonSampled(0.1, acc.GaussianSum(1, 1, neighbours="replace"))],
)  # fmt: skip
def test_what_has_no_event_is_refused(loss):
    with pytest.raises(RefusedError, match="DpEvent"):
        acc.to_dp_event(loss)
