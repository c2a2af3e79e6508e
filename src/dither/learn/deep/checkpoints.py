"""Checkpoints: weights, optimiser and the spent plan; never a key, a sample or noise.

A resumed run draws fresh keys and pays its remaining steps as new ones, unless the run that wrote
the checkpoint ended with it. All checkpoints of a run, and of the runs that were resumed from them,
are one *family* with one count beside them, in one folder: every further run pays for all those
before it, from whichever checkpoint they began (two runs from a checkpoint
are two releases). Whoever copies a folder must count by hand.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dither.errors import ParameterError
from dither.learn.deep.forms import Forms, read_forms, write_forms
from dither.learn.deep.plan import SamplePlan
from dither.learn.deep.run import TrainerSettings
from dither.privacy.noise.source import fresh_bytes

_FORMAT = 2
_FAMILY_BYTES = 16


@dataclass(frozen=True)
class Family:
    """The runs that began from checkpoints of one run. Their count is a file in `folder`."""

    name: str
    folder: Path

    def note(self, steps: int) -> None:
        """Note so many steps more, durably, before they are made; fewer where a run ended."""
        with open(self.count_file, "a+b") as file:
            file.write(f"{steps}\n".encode())
            file.flush()
            os.fsync(file.fileno())

    def count_steps(self) -> int:
        """The steps of all runs together beyond those of the first plan."""
        return sum(int(number) for number in self.count_file.read_bytes().split())

    @property
    def count_file(self) -> Path:
        return self.folder / f"{self.name}.resumed"


@dataclass(frozen=True)
class Resumed:
    """What a checkpoint says of the plan: steps that were made, steps beyond the plan that are
    charged, the family of the run, and the forms that it measured."""

    steps_done: int
    extra_steps: int
    family: Family | None
    forms: Forms | None


def write_checkpoint(
    path: Path,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    terms: dict[str, str],
    progress: Resumed,
    *,
    unmade_steps: int | None,
) -> Family:
    """Write a checkpoint, for whoever may read the model: nothing of the data is in it.

    A run that ends with it gives back its `unmade_steps`, once.
    """
    folder = path.absolute().parent
    family = progress.family or Family(fresh_bytes(_FAMILY_BYTES).hex(), folder)
    if family.folder != folder:
        raise ParameterError(
            f"write all checkpoints of a run into one folder, {family.folder}: runs that are "
            f"resumed from them are counted there"
        )
    family.note(-(unmade_steps or 0))
    document = {
        "dither_checkpoint": _FORMAT,
        "family": family.name,
        "plan": terms,
        "steps_done": progress.steps_done,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "forms": None if progress.forms is None else write_forms(progress.forms, model),
    }
    torch.save(document, path)
    return family


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
    family = Family(document["family"], path.absolute().parent)
    if not _is_family(family.name) or not family.count_file.exists():
        raise ParameterError(
            f"the count of runs, {family.name}.resumed, is not beside the checkpoint: without it a "
            f"resumed run cannot say what it costs"
        )
    done = document["steps_done"]
    written = document.get("forms")  # none in checkpoints of earlier versions: measured again
    forms = None if written is None else read_forms(written, model)
    family.note(steps - done)
    model.load_state_dict(document["model"])
    optimizer.load_state_dict(document["optimizer"])
    return Resumed(done, family.count_steps(), family, forms)


def _is_family(name: Any) -> bool:
    return (
        isinstance(name, str)
        and len(name) == 2 * _FAMILY_BYTES
        and set(name) <= set("0123456789abcdef")
    )
