"""Runs for tests: trainers of one small plan, and the secret sums before noise."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from dither.learn.deep import PrivateTrainer
from dither.learn.deep.release import SumRelease
from dither.learn.deep.sampling import EMPTY

COMMON = {"n": 40, "epsilon": 2, "delta": "1e-5", "epochs": 2, "batch": 10, "clip": 1}


def make_trainer(model: nn.Module, loss=None, **changed) -> PrivateTrainer:
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    given = {"optimizer": optimizer, **COMMON, **changed}
    return PrivateTrainer(model, loss or nn.CrossEntropyLoss(), **given)


def sum_slots(trainer: PrivateTrainer, data, units: list[int], *, owners=None) -> dict:
    """The clipped float sums, rounded to steps of the grid, with these units in the first slots."""
    run = trainer._begin(data, owners)
    stage = run._stage
    filled = np.full(stage.capacity, EMPTY, np.int64)
    filled[: len(units)] = units
    grid = run.release.grid
    totals: dict[str, torch.Tensor] = {}
    for start in range(0, len(filled), stage.slots):
        clipped = run._clip_block(run._store.gather(filled[start : start + stage.slots]))
        for name, total in clipped.sums.items():
            totals[name] = totals[name] + total if name in totals else total
    trainer._run = None
    run.close()
    rounded = {name: (total * 2.0**-grid.exponent).round() for name, total in totals.items()}
    return {"steps": rounded, "grid": grid, "balance": clipped.balance}


def find_distance(first: dict, second: dict) -> float:
    """The L2 distance of two rounded sums, in steps."""
    names = first["steps"].keys() | second["steps"].keys()
    squares = 0.0
    for name in names:
        difference = first["steps"][name].double() - second["steps"][name].double()
        squares += float(difference.square().sum())
    return squares**0.5


class Recorder:
    """Records the sums that are released, and lets them pass."""

    def __init__(self, monkeypatch) -> None:
        self.sums: list[list[torch.Tensor]] = []
        self.means: list[list[torch.Tensor]] = []
        original = SumRelease.release

        def release(this, sums, balance, *, is_last):
            self.sums.append([total.clone() for total in sums])
            means = original(this, sums, balance, is_last=is_last)
            self.means.append([mean.clone() for mean in means])
            return means

        monkeypatch.setattr(SumRelease, "release", release)
