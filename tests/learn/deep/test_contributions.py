"""What one unit can add to a sum, at its worst: never more than the clip norm and what is paid for
floats, whatever its operands are (rules P6, P15, P36 and P37 of the review)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from dither.learn.deep import clipping
from dither.learn.deep.clipping import clip_flat, clip_layers, find_weights
from dither.learn.deep.contributions import CANCELLATION, EmbeddingRows, Formed, OuterProducts
from dither.learn.deep.float_error import LARGEST_NORM, SLACK, bound_sensitivity
from dither.learn.deep.gradients import BookKeeper
from dither.learn.deep.losses import read_loss
from tests.learn.deep.models import CLOSED, OTHERS, TOKENS, VECTOR, make_rows
from tests.learn.deep.runs import find_distance, make_trainer, sum_slots

pytestmark = pytest.mark.all
CLIP = 0.5
EXTREMES = (0.0, 1.0, 1e3, 1e20, 1e38, 1e-20, 1e-40, math.inf, math.nan)


def measure(sums) -> float:
    return math.sqrt(sum(float(total.double().square().sum()) for total in sums.values()))


def make_contribution(kind: str, a: float, g: float, units: int = 1):
    generator = torch.Generator().manual_seed(4)
    inputs = torch.randn((units, 7, 5), generator=generator) * a
    gradients = torch.randn((units, 7, 4), generator=generator) * g
    if kind == "outer":
        return OuterProducts(inputs[:, :1], gradients[:, :1], (4, 5))
    if kind == "gram":
        return OuterProducts(inputs, gradients, (4, 5))
    if kind == "formed":
        return OuterProducts(inputs, gradients, (4, 5)).form()
    places = torch.randint(0, 3, (units, 7), generator=generator)
    return EmbeddingRows(places, gradients, (3, 4)).merge()


@pytest.mark.parametrize("kind", ["outer", "gram", "formed", "rows"])
@pytest.mark.parametrize("a", EXTREMES)
@pytest.mark.parametrize("g", EXTREMES)
def test_no_operands_add_more_than_the_clip_norm(kind: str, a: float, g: float) -> None:
    contributions = {"layer.weight": make_contribution(kind, a, g)}
    for clip in (clip_flat, clip_layers):
        total = clip(contributions, CLIP, torch.ones(1), 1).sums
        assert measure(total) <= CLIP * (1 + float(SLACK))


@pytest.mark.parametrize("kind", ["outer", "gram", "formed", "rows"])
@pytest.mark.parametrize("size", [1e15, 1e16, 1e17, 3e17, 1e18])
def test_long_operands_and_a_small_clip_norm_leave_weights_enough_bits(kind, size) -> None:
    """Weights below 2**-126 have few bits in float32, and could round up."""
    clip = 1e-6
    contributions = {"layer.weight": make_contribution(kind, size, size)}
    total = clip_flat(contributions, clip, torch.ones(1), 1).sums
    assert measure(total) <= clip * (1 + float(SLACK))


@pytest.mark.parametrize("kind", ["outer", "gram", "formed", "rows"])
@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan, 4 * LARGEST_NORM])
def test_what_is_no_number_adds_zeros_and_leaves_others_as_they_are(kind: str, bad: float) -> None:
    contribution = make_contribution(kind, 1.0, 1.0, units=3)
    operand = contribution.values if isinstance(contribution, Formed) else contribution.gradients
    without = operand.clone()
    without[1] = 0
    operand[1].view(-1)[2] = bad
    sums = clip_flat({"w": contribution}, CLIP, torch.ones(3), 3).sums["w"]
    operand.copy_(without)
    expected = clip_flat({"w": contribution}, CLIP, torch.ones(3), 3).sums["w"]
    assert torch.equal(sums, expected) and torch.all(torch.isfinite(sums))


@pytest.mark.parametrize("present", [0, 1, 13, 20])
def test_units_without_weight_are_left_out_of_a_sum(present: int) -> None:
    """Against the sum over present units in float64; rows of the others hold no numbers."""
    outer = make_contribution("outer", 1.0, 1.0, 20)
    is_present = torch.arange(20) % 20 < present
    expected = torch.einsum(
        "uo,ui->oi", outer.gradients[is_present, 0], outer.inputs[is_present, 0]
    )
    for operand in (outer.inputs, outer.gradients):
        operand[~is_present] = math.nan
    weights = torch.full((20,), 0.25, dtype=torch.float64)
    total = outer.add_weighted(weights, is_present, 8)
    assert torch.allclose(total.double(), expected.double() / 4, atol=1e-6)


def test_positions_that_cancel_are_not_measured_as_short() -> None:
    """64 positions whose products nearly cancel: a Gram form in float32 gives a negative square
    here (rule P6). Oracle: float64, formed."""
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn((1, 1, 300), generator=generator).expand(1, 64, 300).clone() * 1e3
    signs = torch.tensor([1.0, -1.0]).repeat(32)[None, :, None]
    gradients = torch.randn((1, 1, 200), generator=generator) * signs * 1e3
    inputs += torch.randn((1, 64, 300), generator=generator) * 1e-4
    gradients = gradients.contiguous()
    outer = OuterProducts(inputs, gradients, (200, 300))
    exact = torch.bmm(gradients.double().mT, inputs.double())
    true_norm = float(exact.square().sum().sqrt())
    lengths = outer.lengths()
    assert float(lengths.squares.sqrt()) >= true_norm
    weight = find_weights(lengths, CLIP)
    spread = float(lengths.spread_squares.sqrt())
    assert float(weight) * spread <= CANCELLATION * CLIP * (1 + 1e-6)
    total = outer.add_weighted(weight, lengths.is_sane, 1)
    moved = bound_sensitivity([outer.shape_of_sum(1, 1)], 1)
    assert float(total.double().square().sum().sqrt()) <= CLIP * float(moved)
    naive = (torch.bmm(inputs, inputs.mT) * torch.bmm(gradients, gradients.mT)).sum()
    assert not math.isclose(float(naive), true_norm**2, rel_tol=0.5)


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e6, 1e30, math.inf, math.nan])
def test_an_adversarial_example_of_every_layer_stays_within_the_clip_norm(name, size) -> None:
    torch.manual_seed(1)
    make_model, shape = CLOSED[name]
    if shape == TOKENS and size != 1.0:
        size = 1.0
    model = make_model()
    inputs, targets = make_rows(shape, 4, seed=9)
    inputs = inputs * size if shape != TOKENS else inputs
    keeper = BookKeeper(model, read_loss(lambda outputs, _: 1e4 * outputs.sum(1)))
    contributions = keeper.find(inputs, targets, torch.ones(4), 4)
    with torch.no_grad():
        for unit in range(4):
            only = torch.zeros(4)
            only[unit] = 1
            total = clip_flat(contributions, CLIP, only, 4).sums
            shapes = [c.shape_of_sum(4, 1) for c in contributions.values()]
            assert measure(total) <= CLIP * float(bound_sensitivity(shapes, 1))


MODES = {
    "flat": {},
    "per layer": {"clipping": "per_layer"},
    "adaptive": {"clipping": "adaptive"},
    "physical batches": {"physical_batch": 4},
    "half precision": {"precision": "bfloat16"},
    "augmented": {"augment": lambda rows: rows.flip(1), "augmentations": 3},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["several layers", "encoder", "lstm", "own parameter", "tied"])
def test_a_unit_moves_the_rounded_sum_by_no_more_than_is_paid(mode: str, name: str) -> None:
    """Neighbours with the same slots: the one with the unit, and the one without it."""
    torch.manual_seed(1)
    make_model, shape = (CLOSED | OTHERS)[name]
    model = make_model()
    inputs, targets = make_rows(shape, 40)
    inputs = inputs if shape == TOKENS else inputs * 1e3
    trainer = make_trainer(model, **MODES[mode])
    for last in (3, 11):
        units = list(range(last + 1))
        present = sum_slots(trainer, (inputs, targets), units)
        absent = sum_slots(trainer, (inputs, targets), units[:-1])
        assert find_distance(present, absent) <= present["grid"].sensitivity
        assert abs(int(present["balance"]) - int(absent["balance"])) <= 1


def test_a_slot_s_result_is_the_same_bits_whatever_other_slots_hold() -> None:
    torch.manual_seed(1)
    make_model, shape = CLOSED["several layers"]
    model = make_model()
    inputs, targets = make_rows(shape, 16)
    keeper = BookKeeper(model, read_loss(nn.CrossEntropyLoss()))
    first = keeper.find(inputs, targets, torch.ones(16), 16)
    changed = inputs.flip(0).clone()
    changed[5] = inputs[5]
    second = keeper.find(changed, targets, torch.ones(16), 16)
    for name, contribution in first.items():
        squares = contribution.lengths().squares, second[name].lengths().squares
        assert squares[0][5] == squares[1][5]


def test_planted_mistakes_of_clipping_are_caught(monkeypatch) -> None:
    """Weights of 1, norms of one layer alone, and norms of tied uses added up: each moves a sum by
    more than is paid."""
    torch.manual_seed(1)
    make_model, shape = CLOSED["tied"]
    model = make_model()
    inputs, targets = make_rows(VECTOR, 40)
    trainer = make_trainer(model, lambda outputs, _: 1e3 * outputs.sum(1))

    def distance() -> float:
        present = sum_slots(trainer, (inputs, targets), [39])
        absent = sum_slots(trainer, (inputs, targets), [])
        return find_distance(present, absent) / present["grid"].sensitivity

    assert distance() <= 1
    honest = clipping.find_weights
    with monkeypatch.context() as patch:
        patch.setattr(
            clipping, "find_weights", lambda lengths, clip: torch.ones_like(lengths.squares)
        )
        assert distance() > 2
    with monkeypatch.context() as patch:
        patch.setattr(clipping, "find_weights", lambda lengths, clip: 1.5 * honest(lengths, clip))
        assert distance() > 1
    with monkeypatch.context() as patch:
        first = lambda several: next(iter(several)).lengths()
        patch.setattr(clipping, "add_lengths", first)
        assert distance() > 1
    assert shape == VECTOR and np.isfinite(distance())
