"""Clipped sums against loops over single examples, to 1e-5, for every layer and combination."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dither.learn.deep.clipping import add_lengths, clip_flat, clip_layers
from dither.learn.deep.contributions import EmbeddingRows, OuterProducts
from dither.learn.deep.ghost import clip_ghost
from dither.learn.deep.gradients import BookKeeper, Vmapper, has_closed_forms
from dither.learn.deep.losses import read_loss
from dither.learn.deep.rehearsal import rehearse
from dither.learn.deep.stage import StepShapes
from tests.learn.deep.models import CLOSED, OTHERS, make_rows
from tests.learn.deep.naive import clip_one_by_one

pytestmark = pytest.mark.all
UNITS = 12
ALL = CLOSED | OTHERS


def make_stage(shape, rows_per_unit: int = 1) -> StepShapes:
    inputs, targets = make_rows(shape, 1)
    return StepShapes(
        inputs=torch.zeros_like(inputs),
        targets=torch.zeros_like(targets),
        slots=UNITS,
        runs=1,
        sum_block=UNITS,
        rows_per_unit=rows_per_unit,
        augmentations=1,
        augment=None,
        precision=None,
    )


def find_middle_norm(model, shape, units, rows) -> float:
    inputs, targets = make_rows(shape, units * rows)
    ones = torch.ones(units * rows)
    _, norms = clip_one_by_one(model, nn.CrossEntropyLoss(), inputs, targets, ones, units, 1.0)
    return float(norms.median()) * 1.0001


def assert_close(sums, expected) -> None:
    size = max(float(values.abs().max()) for values in expected.values())
    for name, values in expected.items():
        computed = sums.get(name, torch.zeros_like(values)).double()
        assert (computed - values).abs().max() <= 1e-5 * size, name


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms_clip_as_a_loop_over_units_does(name: str, rows: int) -> None:
    torch.manual_seed(1)
    make_model, shape = CLOSED[name]
    model = make_model()
    assert has_closed_forms(model)
    clip = find_middle_norm(model, shape, UNITS, rows)
    inputs, targets = make_rows(shape, UNITS * rows)
    weights = torch.rand(UNITS * rows) + 0.5
    expected, norms = clip_one_by_one(
        model, nn.CrossEntropyLoss(), inputs, targets, weights, UNITS, clip
    )
    keeper = BookKeeper(model, read_loss(nn.CrossEntropyLoss()))
    contributions = keeper.find(inputs, targets, weights, UNITS)
    with torch.no_grad():
        lengths = add_lengths(contributions.values())
        assert torch.all(lengths.squares.sqrt() >= norms * (1 - 1e-6))
        assert torch.all(lengths.squares.sqrt() <= norms * (1 + 1e-3) + 1e-12)
        clipped = clip_flat(contributions, clip, torch.ones(UNITS), 5)
    assert_close(clipped.sums, expected)
    assert int(clipped.balance) == int((norms <= clip).sum()) * 2 - UNITS


@pytest.mark.parametrize("name", ALL)
def test_vmap_clips_as_a_loop_over_units_does(name: str) -> None:
    torch.manual_seed(1)
    make_model, shape = ALL[name]
    model = make_model()
    clip = find_middle_norm(model, shape, UNITS, 2)
    inputs, targets = make_rows(shape, UNITS * 2)
    weights = torch.rand(UNITS * 2) + 0.5
    expected, _ = clip_one_by_one(
        model, nn.CrossEntropyLoss(), inputs, targets, weights, UNITS, clip
    )
    vmapper = Vmapper(model, read_loss(nn.CrossEntropyLoss()))
    contributions = vmapper.find(inputs, targets, weights, UNITS)
    with torch.no_grad():
        assert_close(clip_flat(contributions, clip, torch.ones(UNITS), 5).sums, expected)


@pytest.mark.parametrize("name", CLOSED)
def test_ghost_clipping_gives_the_same_sum(name: str) -> None:
    torch.manual_seed(1)
    make_model, shape = CLOSED[name]
    model = make_model()
    clip = find_middle_norm(model, shape, UNITS, 1)
    inputs, targets = make_rows(shape, UNITS)
    weights = torch.ones(UNITS)
    expected, _ = clip_one_by_one(
        model, nn.CrossEntropyLoss(), inputs, targets, weights, UNITS, clip
    )
    keeper = BookKeeper(model, read_loss(nn.CrossEntropyLoss()))
    assert_close(
        clip_ghost(keeper, (inputs, targets, weights), clip, torch.ones(UNITS)).sums, expected
    )


@pytest.mark.parametrize("name", ["several layers", "encoder", "tied"])
def test_per_layer_clipping_bounds_every_layer_and_the_whole(name: str) -> None:
    torch.manual_seed(1)
    make_model, shape = CLOSED[name]
    model = make_model()
    inputs, targets = make_rows(shape, UNITS)
    keeper = BookKeeper(model, read_loss(nn.CrossEntropyLoss()))
    for unit in range(UNITS):
        one = slice(unit, unit + 1)
        contributions = keeper.find(inputs[one] * 1, targets[one], torch.ones(1), 1)
        with torch.no_grad():
            sums = clip_layers(contributions, 0.01, torch.ones(1), 1).sums
        layers = {key.rpartition(".")[0] for key in sums}
        for layer in layers:
            own = [v for key, v in sums.items() if key.rpartition(".")[0] == layer]
            norm = float(torch.sqrt(sum(v.double().square().sum() for v in own)))
            assert norm <= 0.01 / len(layers) ** 0.5 * (1 + 1e-6)


@pytest.mark.parametrize("name", ALL)
def test_the_rehearsal_chooses_closed_forms_exactly_where_they_are_right(name: str) -> None:
    torch.manual_seed(1)
    make_model, shape = ALL[name]
    rehearsed = rehearse(make_model(), read_loss(nn.CrossEntropyLoss()), make_stage(shape))
    assert isinstance(rehearsed.method, BookKeeper if name in CLOSED else Vmapper)


def test_both_forms_of_sequences_are_tried_by_these_models() -> None:
    """A wide layer on few positions keeps its products, a narrow one forms vectors."""
    kinds = set()
    for name in ("wide linear on a sequence", "linear on a sequence", "embedding"):
        make_model, shape = CLOSED[name]
        model = make_model()
        keeper = BookKeeper(model, read_loss(nn.CrossEntropyLoss()))
        inputs, targets = make_rows(shape, UNITS)
        found = keeper.find(inputs, targets, torch.ones(UNITS), UNITS)
        kinds |= {(type(c), getattr(c, "positions", None)) for c in found.values()}
    assert (OuterProducts, 5) in kinds and any(kind is EmbeddingRows for kind, _ in kinds)
