"""Forms of wide layers: Gram forms with short products are upper bounds, wide sums have the error
that is paid for, equal tokens are added up in a fixed order. On a CUDA device they are the rule;
here they are switched on."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import nn

from dither.errors import ParameterError
from dither.learn.deep import contributions
from dither.learn.deep.clipping import clip_flat, find_weights
from dither.learn.deep.contributions import CANCELLATION, EmbeddingRows, OuterProducts
from dither.learn.deep.float_error import SLACK, SumShape, bound_sensitivity, bound_sum_error
from dither.learn.deep.precision import wide_sums
from tests.learn.deep.runs import find_distance, make_trainer, sum_slots
from tests.learn.deep.test_contributions import CLIP, EXTREMES, measure

pytestmark = pytest.mark.all


@pytest.fixture
def short(monkeypatch) -> None:
    monkeypatch.setattr(contributions, "has_short_products", lambda inputs, widths: True)


def make_outer(a: float, g: float, *, positions: int = 7, seed: int = 4) -> OuterProducts:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn((1, positions, 90), generator=generator) * a
    gradients = torch.randn((1, positions, 60), generator=generator) * g
    return OuterProducts(inputs, gradients, (60, 90))


def find_norm(outer: OuterProducts) -> float:
    """The norm of the vector in float64."""
    formed = torch.bmm(outer.gradients.double().mT, outer.inputs.double())
    return float(formed.square().sum().sqrt())


@pytest.mark.parametrize("a", EXTREMES)
@pytest.mark.parametrize("g", EXTREMES)
def test_short_products_never_measure_a_unit_as_too_short(short, a: float, g: float) -> None:
    outer = make_outer(a, g)
    lengths = outer.lengths()
    if bool(lengths.is_sane):
        assert float(lengths.squares) >= find_norm(outer) ** 2
    for widest in (None, CANCELLATION * CLIP):
        with wide_sums(widest):
            total = clip_flat({"w": outer}, CLIP, torch.ones(1), 1).sums
        assert measure(total) <= CLIP * (1 + (1 + CANCELLATION) * float(SLACK))


@pytest.mark.parametrize("a", [1e-25, 1e-22, 1e-15])
def test_products_that_vanish_in_float32_are_counted(short, a: float) -> None:
    """Planted: without the term for what vanishes, the norm would be 0."""
    outer = make_outer(a, 1e16)
    true_square = find_norm(outer) ** 2
    assert float(outer.lengths().squares) >= true_square > 0
    if a < 1e-23:
        short_gram = torch.bmm(outer.inputs, outer.inputs.mT)
        assert not bool(short_gram.any())


def test_products_that_cancel_need_the_error_term(short) -> None:
    """Rule P36: 64 positions that nearly cancel. The square itself is far off; the bound holds, and
    is close where nothing cancels."""
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn((1, 1, 300), generator=generator).expand(1, 64, 300).clone() * 1e3
    inputs += torch.randn((1, 64, 300), generator=generator) * 1e-4
    signs = torch.tensor([1.0, -1.0]).repeat(32)[None, :, None]
    gradients = (torch.randn((1, 1, 200), generator=generator) * signs * 1e3).contiguous()
    outer = OuterProducts(inputs, gradients, (200, 300))
    lengths = outer.lengths()
    assert float(lengths.squares) >= find_norm(outer) ** 2
    weight = find_weights(lengths, CLIP)
    assert float(weight) * float(lengths.spread_squares.sqrt()) <= CANCELLATION * CLIP * (1 + 1e-6)
    plain = make_outer(1.0, 1.0, positions=64)
    assert float(plain.lengths().squares.sqrt()) < 1.01 * find_norm(plain)


def test_wide_sums_have_the_error_that_is_paid_for() -> None:
    """600 slots with 49 positions: products in float64 against Python's exact sum of a column."""
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn((600, 49, 6), generator=generator)
    gradients = torch.randn((600, 49, 3), generator=generator)
    outer = OuterProducts(inputs, gradients, (3, 6))
    lengths = outer.lengths()
    weights = find_weights(lengths, 1.0)
    with wide_sums(CANCELLATION * 1.0):
        total = outer.add_weighted(weights, lengths.is_sane, 600)
    exact = [
        math.fsum((weights[:, None] * gradients[:, :, 0] * inputs[:, :, k].double()).flatten())
        for k in range(6)
    ]
    shape = SumShape(600, 1, 49, "float32", CANCELLATION, is_wide=True)
    distance = math.dist(exact, total[0].double().tolist())
    assert distance <= float(bound_sum_error([shape], 600))
    narrow = SumShape(600, 1, 49, "float32", CANCELLATION)
    assert bound_sensitivity([shape], 600) < 1.001 < 2 < bound_sensitivity([narrow], 600)
    assert SumShape(600, 1, 1, "float32", 1, is_wide=True) != shape


def test_models_with_many_positions_train_with_wide_sums() -> None:
    """A unit moves the sum by no more than is paid, and blocks would have been tiny."""
    torch.manual_seed(5)
    model = nn.Sequential(
        nn.Unflatten(1, (16, 4)), nn.Linear(4, 700), nn.Tanh(), nn.Linear(700, 700), nn.Flatten()
    )
    model = nn.Sequential(model, nn.Linear(16 * 700, 2))
    settings = {"n": 400, "batch": 200, "physical_batch": 200}
    rows = torch.randn(400, 64)
    data = (rows, torch.arange(400) % 2)
    trainer = make_trainer(model, **settings)
    units = list(range(8))
    whole = sum_slots(trainer, data, units)
    without = sum_slots(make_trainer(model, **settings), data, [-1, *units[1:]])
    assert 0 < find_distance(whole, without) <= whole["grid"].sensitivity
    run = make_trainer(model, **settings)._begin(data, None)
    assert run._stage.is_wide and run.moved < 1.05
    run.close()


def test_equal_tokens_are_added_up_the_same_way_by_products() -> None:
    generator = torch.Generator().manual_seed(6)
    places = torch.randint(0, 5, (4, 9), generator=generator)
    gradients = torch.randn((4, 9, 3), generator=generator)
    rows = EmbeddingRows(places, gradients, (5, 3))
    ours, theirs = rows._merge_by_products(), rows.merge()
    assert torch.allclose(ours.form().values, theirs.form().values, atol=1e-6)
    assert torch.allclose(ours.lengths().squares, theirs.lengths().squares, rtol=1e-5)
    for unit in range(4):  # a place at most once, but for rows of zeros
        used = ours.places[unit][ours.gradients[unit].abs().sum(1) > 0]
        assert len(set(used.tolist())) == len(used)


class Unordered(nn.Module):
    """A layer whose backward pass adds in an order of its own, as torch says by a warning."""

    def forward(self, x):
        warnings.warn(
            "pool_backward_cuda does not have a deterministic implementation, but you set it",
            stacklevel=2,
        )
        return x


def test_kernels_that_add_in_an_order_of_their_own_are_refused_where_proved() -> None:
    model = nn.Sequential(nn.Linear(6, 3), Unordered())
    data = (torch.randn(40, 6), torch.arange(40) % 3)
    with pytest.raises(ParameterError, match="order of its own"):
        make_trainer(model).fit(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = make_trainer(model, sums="float").fit(data)
    assert "not proved" in trainer.guarantee.public["sums"]
