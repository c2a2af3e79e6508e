"""Checkpoints: weights, optimiser and the spent plan; never a key, a sample or noise.

A resumed run draws fresh keys and pays its remaining steps as new ones, unless the run that wrote
the checkpoint ended with it. How often a checkpoint was resumed is kept beside it, and every
further run pays for those before it: two runs from one checkpoint are two releases (rule P5 of the
review). Whoever deletes that file, or copies the checkpoint, must count by hand.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dither.errors import ParameterError
from dither.learn.deep.plan import SamplePlan
from dither.learn.deep.run import TrainerSettings

_FORMAT = 1


@dataclass(frozen=True)
class Resumed:
    """What a checkpoint says of the plan: steps that were made, and steps beyond the plan that are
    charged."""

    steps_done: int
    extra_steps: int


def write_checkpoint(
    path: Path,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    terms: dict[str, str],
    progress: Resumed,
    *,
    ends_run: bool,
) -> None:
    """Write a checkpoint, for whoever may read the model: nothing of the data is in it."""
    document = {
        "dither_checkpoint": _FORMAT,
        "plan": terms,
        "steps_done": progress.steps_done,
        "extra_steps": progress.extra_steps,
        "ends_run": ends_run,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    torch.save(document, path)


def write_terms(plan: SamplePlan, settings: TrainerSettings) -> dict[str, str]:
    """The plan and how its steps are computed: all steps of a certificate have the same ones."""
    known = vars(plan) | {
        name: getattr(settings, name)
        for name in (
            *("clip", "clipping", "noise", "has_proved_sums", "rows_per_unit", "augmentations"),
            "precision",
        )
    }
    return {name: str(value) for name, value in known.items()}


def read_checkpoint(
    path: Path,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    terms: dict[str, str],
    steps: int,
) -> Resumed:
    """Load weights and optimiser; count this run, and say what is charged for it."""
    document: dict[str, Any] = torch.load(path, weights_only=True)
    if not isinstance(document, dict) or document.get("dither_checkpoint") != _FORMAT:
        raise ParameterError(f"this is no checkpoint of format {_FORMAT}")
    if document["plan"] != terms:
        raise ParameterError(
            "the checkpoint belongs to another plan: give the trainer the same n, batch, epochs, "
            "epsilon, delta, unit, clip norm, kinds of clipping, noise and sums, rows per unit and "
            "precision as the run that wrote it"
        )
    done = document["steps_done"]
    earlier = _count_run(path) - (1 if document["ends_run"] else 0)
    model.load_state_dict(document["model"])
    optimizer.load_state_dict(document["optimizer"])
    return Resumed(done, document["extra_steps"] + earlier * (steps - done))


def _count_run(path: Path) -> int:
    """Note one more run from a checkpoint, durably, before it begins; say how many there are."""
    with open(f"{path}.resumed", "a+b") as file:
        file.write(b"r")
        file.flush()
        os.fsync(file.fileno())
        return file.tell()
