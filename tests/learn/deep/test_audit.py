"""The one-run audit of whole trainings: every mode stays below its claim, planted mistakes do not.

400 canaries, each with a feature of its own, are in or out by fair coins; the trained weight of a
canary's feature is its score. An honest run fails with probability at most 1e-9.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
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


def audit(make_model=make_linear, *, size: float = 1.0, copies: int = 1, **settings):
    """Train once on the canaries that the coins include, and guess the coins."""

    def train(included):
        rows = torch.eye(CANARIES)[torch.from_numpy(included)] * size
        rows = rows.repeat_interleave(copies, 0)
        owners = None
        if copies > 1:
            owners = np.repeat(np.flatnonzero(included), copies)
            settings.setdefault("rows_per_unit", copies)
        model = make_model()
        given = PLAN | {"optimizer": torch.optim.SGD(model.parameters(), lr=1.0)} | settings
        private = PrivateTrainer(model, push, **given)
        private.fit((rows, torch.zeros(len(rows))), owners=owners)
        assert private.guarantee.epsilon <= 2
        return model.weight.detach().numpy()[0]

    return one_run(
        train, CANARIES, lambda weights: weights, guesses=GUESSES, delta=DELTA, alpha=ALPHA
    )


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
