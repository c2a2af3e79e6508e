"""Several processes that make one step together: slots are divided among them, integer sums are
added up, and noise is added once, by the first.

Guarantee: a unit is in one slot of a step, and a slot belongs to one rank, so that all rows of a
unit are clipped together and move the rounded sum of one rank alone; sums of integers are exact.
So the sensitivity is that of one process, and the noise is one rounded Gaussian (rule P17 of the
review). Proof: docs/proofs/deep-learning.md#ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as distributed
from torch import Tensor, nn

from dither.errors import ParameterError
from dither.learn.deep.sampling import Integers


class Ranks:
    """The processes of a group of `torch.distributed`, each of which holds all rows."""

    def __init__(self, group: Any) -> None:
        if not distributed.is_available() or not distributed.is_initialized():
            raise ParameterError(
                "process_group needs torch.distributed.init_process_group first, e.g. with gloo"
            )
        self._group = group
        self.size = distributed.get_world_size(group)
        self.rank = distributed.get_rank(group)
        self._first = distributed.get_global_rank(group, 0)
        if self.rank < 0:
            raise ParameterError("this process is no member of its process_group")

    @property
    def is_first(self) -> bool:
        """Whether this process draws samples and noise."""
        return bool(self.rank == 0)

    def check_same(self, facts: Any) -> None:
        """Refuse to go on where ranks differ in what all must share."""
        gathered: list[Any] = [None] * self.size
        distributed.all_gather_object(gathered, facts, group=self._group)
        if any(other != gathered[0] for other in gathered):
            raise ParameterError(
                "the ranks differ in plan, settings or data: give every rank the same rows and "
                "owners, in the same order, and the same settings"
            )

    def share_model(self, model: nn.Module) -> None:
        """Give all ranks the weights and buffers of the first."""
        with torch.no_grad():
            for values in (*model.parameters(), *model.buffers()):
                values.copy_(self.share(values.detach().clone()))

    def share(self, values: Tensor) -> Tensor:
        """The values of the first rank, on all of them."""
        kept = values.cpu()
        distributed.broadcast(kept, self._first, group=self._group)
        return kept.to(values.device)

    def share_slots(self, draw: Callable[[], Integers], slots: int) -> Integers:
        """The slots that the first rank draws; every rank keeps those that are its own."""
        filled = (
            torch.from_numpy(draw()) if self.is_first else torch.empty(slots, dtype=torch.int64)
        )
        own = slots // self.size
        shared: Integers = self.share(filled).numpy()
        return shared[self.rank * own : (self.rank + 1) * own]

    def add_up(self, steps: Tensor) -> Tensor:
        """The sum of all ranks' integers, for the first rank: that of another one means nothing."""
        assert steps.dtype == torch.int64
        kept = steps.cpu()
        distributed.reduce(kept, self._first, group=self._group)
        return kept.to(steps.device)
