"""Opening a kernel on behalf of people: a ledger that needs a replay is replayed first."""

from __future__ import annotations

from dither.privacy.kernel.kernel import Kernel
from dither.privacy.ledger import default_head_path
from dither.privacy.ledger.replaying import replay_ledger
from dither.privacy.ledger.writer import ReplayNeededError
from dither.state import State


def open_kernel(state: State) -> Kernel:
    """Open the kernel of a state folder.

    Where a crash or the first version of dither left the ledger unchecked, all its entries are
    replayed first.
    """
    try:
        return Kernel(state)
    except ReplayNeededError:
        return Kernel(
            state,
            replay_ledger(state.ledger_location(), default_head_path(state.installation_id())),
        )
