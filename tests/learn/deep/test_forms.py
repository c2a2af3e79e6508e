"""Choices by measured time: public, the faster form where it is clearly faster, the same gradients
whatever is chosen."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dither.learn.deep import forms, rehearsal
from dither.learn.deep.contributions import Formed, OuterProducts
from dither.learn.deep.forms import Forms, decode_forms, measure_forms
from dither.learn.deep.gradients import BookKeeper, list_trained
from dither.learn.deep.losses import read_loss
from dither.learn.deep.rehearsal import choose_forms, rehearse
from tests.learn.deep.models import CLOSED, make_rows
from tests.learn.deep.runs import make_trainer
from tests.learn.deep.test_exactness import make_stage

pytestmark = pytest.mark.all
LOSS = read_loss(nn.CrossEntropyLoss())
TIME_WORK = forms.time_work


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("chosen", ["formed", "gram", "last"])
def test_all_forms_give_the_same_gradients_and_norms(name: str, chosen: str) -> None:
    torch.manual_seed(1)
    make_model, shape = CLOSED[name]
    model = make_model()
    rows = make_rows(shape, 6)
    ones = torch.ones(6)
    said = dict.fromkeys(list_trained(model), chosen == "formed")
    keepers = (
        BookKeeper(model, LOSS),
        BookKeeper(model, LOSS, Forms(chosen == "last", {} if chosen == "last" else said)),
    )
    usual, other = (keeper.find(*rows, ones, 6) for keeper in keepers)
    assert usual.keys() == other.keys()
    for key, contribution in usual.items():
        expected = contribution.add_weighted(ones, ones.bool(), 6)
        total = other[key].add_weighted(ones, ones.bool(), 6)
        assert total.shape == expected.shape
        assert torch.allclose(total, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))
        norms = contribution.lengths().squares, other[key].lengths().squares
        assert torch.allclose(*norms, rtol=1e-2, atol=1e-12)


@pytest.mark.parametrize("faster", ["formed", "gram"])
@pytest.mark.parametrize("gain", [0.5, 0.9])
def test_the_clearly_faster_form_is_chosen(monkeypatch, faster: str, gain: float) -> None:
    def pretend(outer, *, is_wide, is_formed=False) -> float:
        return gain if is_formed == (faster == "formed") else 1.0

    monkeypatch.setattr(forms, "time_form", pretend)
    outers = {
        "usually formed": OuterProducts(torch.randn(4, 30, 5), torch.randn(4, 30, 5), (5, 5)),
        "usually gram": OuterProducts(torch.randn(4, 2, 50), torch.randn(4, 2, 50), (50, 50)),
        "one position": OuterProducts(torch.randn(4, 1, 50), torch.randn(4, 1, 50), (50, 50)),
    }
    assert isinstance(outers["usually formed"].choose(), Formed)
    assert isinstance(outers["usually gram"].choose(), OuterProducts)
    chosen = measure_forms(outers, is_wide=False)
    if gain == 0.5:
        assert chosen == dict.fromkeys(["usually formed", "usually gram"], faster == "formed")
    else:
        assert chosen == {"usually formed": True, "usually gram": False}


def test_choices_follow_from_invented_rows_alone(monkeypatch) -> None:
    """The caller's rows are never timed: they may hold anything."""
    seen = []
    honest = rehearsal.choose_forms

    def watch(model, loss, stage):
        seen.append(stage.inputs.abs().sum())
        return honest(model, loss, stage)

    monkeypatch.setattr(rehearsal, "choose_forms", watch)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(3 * 36, 3))
    rows = torch.full((40, 1, 8, 8), float("nan"))
    make_trainer(model).fit((rows, torch.arange(40) % 3))
    assert [float(total) for total in seen] == [0.0]


def test_all_ranks_take_the_forms_of_the_first() -> None:
    make_model, shape = CLOSED["several layers"]
    model = make_model()
    names = list(list_trained(model))
    first = Forms(True, dict.fromkeys(names, True))
    asked = []

    def share(own: Forms) -> Forms:
        asked.append(own)
        return decode_forms(first.encode(names), names)

    rehearsed = rehearse(model, LOSS, make_stage(shape), share)
    assert rehearsed.method._forms == first
    assert len(asked) == 1


def test_timing_is_real(monkeypatch) -> None:
    for module in (forms, rehearsal):
        monkeypatch.setattr(module, "time_work", TIME_WORK)
    make_model, shape = CLOSED["several layers"]
    torch.manual_seed(1)
    chosen = choose_forms(make_model(), LOSS, make_stage(shape))
    assert all(isinstance(value, bool) for value in chosen.is_formed.values())


def test_large_batches_have_a_bound_in_float32() -> None:
    """8,192 slots: blocks of any size would be off by more than 5%, sums in float64 are not."""
    trainer = make_trainer(nn.Linear(4, 2), n=20_000, batch=8192, epochs=1, physical_batch=512)
    run = trainer._begin((torch.randn(20_000, 4), torch.arange(20_000) % 2), None)
    assert run._stage.is_wide and run.moved < 1.0001
    run.close()
