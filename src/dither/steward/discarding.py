"""Throwing away a dataset of invented data. One about people is never thrown away: its ledger says
what was spent, and a lost ledger does not give that back."""

from __future__ import annotations

import shutil
from pathlib import Path

from dither.data.register.placing import drop_copy
from dither.errors import RefusedError
from dither.privacy.ledger import default_head_path, lineages
from dither.rules import PrivacyRule
from dither.state import State
from dither.steward.budgets import NOT_REGISTERED, read_registered
from dither.steward.registration import forget_head


def check_can_discard(state: State) -> None:
    """Refuse a lineage that is about people, whatever was asked of it: once prod, always prod. A
    lineage that has a budget on this machine is one, whatever this folder says."""
    registered = read_registered(state)
    had_budget = any(
        relative.lineage == registered.public["lineage"]
        or relative.installation == state.installation_id()
        for relative in lineages.list_other_datasets(NOT_REGISTERED)
    )
    if registered.public["context"] != "dev" or had_budget:
        raise RefusedError(
            f"{state.root} is about people (prod): its ledger says what was spent on them, and is "
            "kept for ever. Only a dataset that was registered with --dev is thrown away",
            rule=PrivacyRule.FOLLOW_DATA,
        )


def list_discarded(state: State) -> tuple[Path, ...]:
    """What `discard` removes: the state folder, and the files outside that belong to it."""
    check_can_discard(state)
    head = default_head_path(state.installation_id())
    return (state.root, *sorted(head.parent.glob(head.name + "*")))


def discard(state: State) -> None:
    """Remove a dev lineage: its registered copies, ledger, keys and head. Catalog and source files
    stay."""
    check_can_discard(state)
    for folder in state.versions.iterdir():
        drop_copy(folder)
    forget_head(state)
    shutil.rmtree(state.root)
