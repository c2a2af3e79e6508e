"""The one-run audit of whole trainings: every mode stays below its claim, planted mistakes do not.

400 canaries, each with a feature of its own, are in or out by fair coins; the trained weight of a
canary's feature is its score. An honest run fails with probability at most 1e-9.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.distributed as distributed
from torch import nn

from dither.audit import one_run
from dither.learn.deep import PrivateTrainer, clipping, trainer
from dither.learn.deep.noise import NoiseDrawer

pytestmark = pytest.mark.all
CANARIES = 400
GUESSES = 300
ALPHA = 1e-9
DELTA = 1e-12
PLAN = {"n": CANARIES, "epsilon": 2, "delta": "1e-12", "epochs": 4, "batch": 200, "clip": 1}


class OwnLinear(nn.Module):
    """A linear layer that the book-keeper does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, CANARIES))

    def forward(self, x):
        return x @ self.weight.t()


def make_linear() -> nn.Module:
    layer = nn.Linear(CANARIES, 1, bias=False)
    nn.init.zeros_(layer.weight)
    return layer


def push(outputs, _):
    """The gradient of a canary is its own feature."""
    return -outputs[:, 0]


def train_canaries(
    included, make_model=make_linear, *, size=1.0, copies=1, checkpoint=None, **settings
):
    """Train once on the canaries that the coins include, from a checkpoint after the first steps
    where one is named; the weights."""
    rows = torch.eye(CANARIES)[torch.from_numpy(included)] * size
    rows = rows.repeat_interleave(copies, 0)
    owners = None
    if copies > 1:
        owners = np.repeat(np.flatnonzero(included), copies)
        settings.setdefault("rows_per_unit", copies)
    data = (rows, torch.zeros(len(rows)))

    def make_trainer():
        model = make_model()
        given = PLAN | {"optimizer": torch.optim.SGD(model.parameters(), lr=1.0)} | settings
        return model, PrivateTrainer(model, push, **given)

    model, private = make_trainer()
    if checkpoint is not None:
        tokens = private.batches(data)
        for _ in range(private.plan.steps // 2):
            private.step(next(tokens))
        private.write_checkpoint(checkpoint, ends_run=True)
        tokens.close()
        model, private = make_trainer()
        private.resume(checkpoint)
    private.fit(data, owners=owners)
    assert private.guarantee.epsilon <= 2
    return model.weight.detach().cpu().numpy()[0]


def audit(train=train_canaries, **settings):
    """Train once, and guess the coins from the weights."""
    return one_run(
        lambda included: train(included, **settings),
        CANARIES,
        lambda weights: weights,
        guesses=GUESSES,
        delta=DELTA,
        alpha=ALPHA,
    )


def train_rank(rank: int, store: str, included, results, silence_noise: bool) -> None:
    """One of two processes that train together."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    if silence_noise:
        NoiseDrawer.draw = lambda this, sigma: np.zeros(this._count, np.int64)
    weights = train_canaries(included, process_group=distributed.group.WORLD)
    if rank == 0:
        results.put(weights)
    distributed.barrier()
    distributed.destroy_process_group()


def train_on_ranks(included, *, store, silence_noise=False):
    """The weights that two processes trained."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    started = [
        context.Process(target=train_rank, args=(rank, store, included, results, silence_noise))
        for rank in range(2)
    ]
    for process in started:
        process.start()
    weights = results.get(timeout=240)
    for process in started:
        process.join(60)
    assert [process.exitcode for process in started] == [0, 0]
    return weights


MODES = {
    "flat": {},
    "per layer": {"clipping": "per_layer"},
    "adaptive": {"clipping": "adaptive"},
    "ghost": {"clipping": "ghost"},
    "float noise": {"noise": "float"},
    "float sums": {"sums": "float"},
    "half precision": {"precision": "bfloat16"},
    "physical batches": {"physical_batch": 50},
    "augmented": {"augment": lambda rows: rows, "augmentations": 2},
    "by owner": {"copies": 3, "size": 5.0},
    "by vmap": {"make_model": OwnLinear},
    "clipped": {"size": 1000.0},
    "full batches": {"batch": CANARIES},
    "small samples": {"batch": 8, "epochs": 1},
    "tree": {"noise": "tree"},
    "bands": {"noise": "banded"},
}


@pytest.mark.parametrize("mode", MODES)
def test_no_mode_shows_more_than_it_claims(mode: str) -> None:
    assert not audit(**MODES[mode]).refutes(2)


def test_a_resumed_run_shows_no_more_than_it_claims(tmp_path) -> None:
    assert not audit(checkpoint=tmp_path / "run.pt").refutes(2)


@pytest.mark.parametrize("silence_noise", [False, True])
def test_ranks_show_no_more_than_they_claim(tmp_path, silence_noise: bool) -> None:
    """Planted: the rank that draws the noise adds none."""
    found = audit(train_on_ranks, store=str(tmp_path / "store"), silence_noise=silence_noise)
    assert found.refutes(2) is silence_noise


def test_planted_mistakes_are_refuted(monkeypatch) -> None:
    """Noise, clipping and accounting, each wrong by a factor: the same canaries refute the
    claim."""
    honest_draw = NoiseDrawer.draw
    with monkeypatch.context() as patch:
        patch.setattr(NoiseDrawer, "draw", lambda this, sigma: honest_draw(this, sigma // 100))
        assert audit().refutes(2)
    with monkeypatch.context() as patch:
        patch.setattr(clipping, "find_weights", lambda lengths, _: torch.ones_like(lengths.squares))
        assert audit(size=100.0).refutes(2)
    honest_plan = trainer.plan_sampling
    with monkeypatch.context() as patch:
        patch.setattr(
            trainer,
            "plan_sampling",
            lambda **given: replace(
                honest_plan(**given), noise_multiplier=honest_plan(**given).noise_multiplier / 100
            ),
        )
        patch.setattr(
            PrivateTrainer, "guarantee", property(lambda this: type("Claim", (), {"epsilon": 2}))
        )
        assert audit().refutes(2)
