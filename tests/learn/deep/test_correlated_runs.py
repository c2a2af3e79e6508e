"""Whole runs with correlated noise: who moves what, what is released, and what is refused."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn

from dither.errors import ParameterError
from dither.learn.deep import compose_trials, release
from dither.learn.deep.factors import BandedFactor, StepFactor
from dither.learn.deep.noise import NoiseDrawer
from dither.learn.deep.run import TrainingRun
from tests.learn.deep.runs import make_trainer

pytestmark = pytest.mark.all
ROWS = torch.eye(40)
DATA = (ROWS, torch.zeros(40))


def make_linear() -> nn.Module:
    layer = nn.Linear(40, 1, bias=False)
    nn.init.zeros_(layer.weight)
    return layer


def push(outputs, _):
    return -outputs[:, 0]


def record_rows(monkeypatch, *, factor: type[StepFactor] = BandedFactor) -> list[torch.Tensor]:
    """The exact rows before noise, of which none is ever released."""
    rows: list[torch.Tensor] = []
    honest = release.release_row

    def record(factor, sums, noise, exponent, scale):
        before = factor.add

        def add(values):
            rows.append(before(values))
            return rows[-1].clone()

        factor.add = add
        try:
            return honest(factor, sums, noise, exponent, scale)
        finally:
            del factor.add

    monkeypatch.setattr(release, "release_row", record)
    return rows


@pytest.mark.parametrize("noise", ["tree", "banded"])
def test_a_unit_moves_all_rows_together_by_no_more_than_is_paid(noise, monkeypatch) -> None:
    """With gradients that no weight changes, a canary's own coordinate shows all that it moves."""
    rows = record_rows(monkeypatch)
    model = make_linear()
    trainer = make_trainer(model, push, noise=noise, epochs=3)
    trainer.fit((ROWS * 100, DATA[1]))
    assert len(rows) == trainer.plan.steps == 12
    moved = torch.stack(rows).double().square().sum(0).sqrt()
    sigma = trainer.facts.grid.sigma
    paid = sigma / trainer.plan.noise_multiplier
    assert float(moved.max()) <= float(paid)
    assert float(moved.min()) >= 0.5 * float(paid) / (1 + 0.2 * (noise == "tree"))
    assert trainer.guarantee.epsilon <= 2 and "correlated noise" in trainer.guarantee.public


@pytest.mark.parametrize("noise", ["tree", "banded"])
def test_without_noise_estimates_are_the_sums_of_the_steps(noise, monkeypatch) -> None:
    monkeypatch.setattr(
        NoiseDrawer, "draw", lambda this, sigma: np.zeros(this._count, dtype=np.int64)
    )
    model = make_linear()
    trainer = make_trainer(
        model,
        push,
        noise=noise,
        epochs=2,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
    )
    trainer.fit(DATA)
    # every unit takes part twice, once in each epoch, and pushes its own weight by 1 / batch
    assert torch.allclose(model.weight, torch.full((1, 40), 2 / 10), atol=1e-4)


def test_owners_take_part_with_all_their_rows() -> None:
    owners = np.repeat(np.arange(20), 2)
    model = make_linear()
    trainer = make_trainer(model, push, noise="tree", n=20, batch=5, rows_per_unit=2, unit="person")
    trainer.fit(DATA, owners=owners)
    assert trainer.guarantee.unit == "person" and trainer.steps_done == trainer.plan.steps


def test_a_run_with_correlated_noise_is_one_loop_without_checkpoints(tmp_path) -> None:
    trainer = make_trainer(make_linear(), push, noise="banded")
    tokens = trainer.batches(DATA)
    trainer.step(next(tokens))
    tokens.close()
    with pytest.raises(ParameterError, match="one loop"):
        trainer.fit(DATA)
    with pytest.raises(ParameterError, match="cannot be resumed"):
        trainer.write_checkpoint(tmp_path / "file")
    assert trainer.guarantee.epsilon > 1.9  # the whole plan, though one step was made
    for wrong in ({"clipping": "adaptive"}, {"bands": 5}, {"noise": "integer", "bands": 2}):
        with pytest.raises(ParameterError):
            make_trainer(make_linear(), push, **{"noise": "banded"} | wrong)


def test_no_row_follows_a_step_that_failed(monkeypatch) -> None:
    """Else who skips the steps of all other groups has one unit in every row: 1.66 times the
    sensitivity that is paid for."""
    rows = record_rows(monkeypatch)
    trainer = make_trainer(make_linear(), push, noise="banded", epochs=8)
    honest = TrainingRun._sum_slots

    def fail(this, slots):
        if trainer.steps_done % trainer.plan.separation != 1:
            raise OSError("a row cannot be read")
        return honest(this, slots)

    monkeypatch.setattr(TrainingRun, "_sum_slots", fail)
    for token in trainer.batches((ROWS * 100, DATA[1])):
        with suppress(OSError, ParameterError):
            trainer.step(token)
    moved = torch.stack(rows).double().square().sum(0).sqrt()
    assert float(moved.max()) <= trainer.facts.grid.sigma / trainer.plan.noise_multiplier
    assert len(rows) == 1


def test_trials_compose_with_what_groups_need_of_delta() -> None:
    trainers = [make_trainer(make_linear(), push, noise=noise) for noise in ("tree", "integer")]
    for trainer in trainers:
        trainer.fit(DATA)
    both = compose_trials(trainers, "1e-5")
    assert both.epsilon > max(trainer.guarantee.epsilon for trainer in trainers)
    with pytest.raises(ParameterError, match="full groups"):
        compose_trials(trainers, "1e-9")
