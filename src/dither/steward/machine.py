"""The datasets of this machine: those that have a budget, by public facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dither.privacy.ledger import lineages
from dither.steward.budgets import NOT_REGISTERED


@dataclass(frozen=True)
class MachineDataset:
    """A dataset whose budget was opened on this machine, and its state folder."""

    name: str
    population: str
    state_folder: Path


def list_datasets() -> tuple[MachineDataset, ...]:
    """List the datasets that have a budget on this machine. Opens none of them."""
    return tuple(
        MachineDataset(record.dataset, record.population, Path(record.ledger))
        for record in lineages.list_other_datasets(NOT_REGISTERED)
    )
