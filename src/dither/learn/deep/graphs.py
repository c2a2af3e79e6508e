"""The clipped sum of a block of slots as one CUDA graph: a small model's step is otherwise spent on
launching kernels.

The graph is recorded on invented rows, never on the caller's, and is used only where it gives the
same bits as the code that was rehearsed, on other invented rows, and where a step is short.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dither.learn.deep.clipping import ClippedSum
from dither.learn.deep.rows import RowStore, SlotRows
from dither.learn.deep.sampling import EMPTY, Integers
from dither.learn.deep.stage import StepShapes

ClipBlock = Callable[[SlotRows], ClippedSum]
_LONGEST = 2.0
"""Seconds of a block above which launching costs little beside computing."""
_TOLERANCE = 1e-4
"""Of sums whose order is free, in their largest number."""
_WARM_UPS = 3


class BlockGraph:
    """A recorded clipped sum. What it returns is overwritten by the next call."""

    def __init__(self, clip_block: ClipBlock, rows: SlotRows) -> None:
        self._rows = SlotRows(*(values.clone() for values in _list_values(rows)))
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                clip_block(self._rows)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._result = clip_block(self._rows)
        self._units = torch.empty(0, dtype=torch.int64)
        self._gather: torch.cuda.CUDAGraph | None = None

    def record_gather(self, store: RowStore, slots: int) -> None:
        """Record also how rows are gathered: of no unit, so that no row is read for it."""
        units = torch.full((slots,), EMPTY, dtype=torch.int64, device=self._rows.inputs.device)
        store.gather_units(units)
        torch.cuda.synchronize()
        gather = torch.cuda.CUDAGraph()
        with torch.cuda.graph(gather):
            self._fill(store.gather_units(units))
        self._units = units
        self._gather = gather

    def sum_units(self, store: RowStore, slots: Integers) -> ClippedSum:
        """The clipped sum over units, whose rows lie on the device."""
        if self._gather is None:
            return self(store.gather(slots))
        self._units.copy_(torch.from_numpy(slots).pin_memory(), non_blocking=True)
        self._gather.replay()
        self._graph.replay()
        return self._result

    def _fill(self, rows: SlotRows) -> None:
        for kept, given in zip(_list_values(self._rows), _list_values(rows), strict=True):
            kept.copy_(given)

    def __call__(self, rows: SlotRows) -> ClippedSum:
        """The clipped sum over a block of slots."""
        self._fill(rows)
        self._graph.replay()
        return self._result


def list_addresses(model: nn.Module) -> list[int]:
    """Where parameters, buffers and other tensors of a model's modules lie: a recorded graph reads
    them there. A cache that a layer made anew leaves its memory to whatever comes next."""
    tensors = [*model.parameters(), *model.buffers()]
    for module in model.modules():
        for kept in vars(module).values():
            listed = kept.values() if isinstance(kept, dict) else kept
            if not isinstance(kept, (dict, list, tuple)):
                listed = [kept]
            tensors += [value for value in listed if isinstance(value, Tensor)]
    return [tensor.data_ptr() for tensor in tensors]


def _list_values(rows: SlotRows) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return rows.inputs, rows.targets, rows.weights, rows.is_present


def record_block(
    clip_block: ClipBlock, stage: StepShapes, store: RowStore, unordered: frozenset[str]
) -> BlockGraph | None:
    """A graph of `clip_block`, or None where one would not help or would not be the same. Sums of
    `unordered` parameters are added up in an order that is free."""
    if not stage.inputs.is_cuda:
        return None
    device = stage.inputs.device
    first, second = _invent(stage, 1), _invent(stage, 2)
    with torch.random.fork_rng([device]):
        try:
            if _time_block(clip_block, first) > _LONGEST:
                return None
            graph = BlockGraph(clip_block, first)
            is_same = all(_agrees(clip_block, graph, rows, unordered) for rows in (second, first))
            if store.is_resident:
                graph.record_gather(store, stage.slots)
        except RuntimeError:  # what cannot be recorded runs as it did
            torch.cuda.synchronize(device)
            torch.cuda.empty_cache()
            return None
    return graph if is_same else None


def _invent(stage: StepShapes, number: int) -> SlotRows:
    """Invented rows, with every third slot empty in the second set."""
    inputs, targets, weights = stage.generate(number)
    is_present = torch.ones(stage.slots, dtype=torch.bool, device=inputs.device)
    if number > 1:
        is_present[::3] = False
    return SlotRows(inputs, targets, weights, is_present)


def _time_block(clip_block: ClipBlock, rows: SlotRows) -> float:
    clip_block(rows)
    torch.cuda.synchronize()
    start = time.perf_counter()
    clip_block(rows)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def _agrees(
    clip_block: ClipBlock, graph: BlockGraph, rows: SlotRows, unordered: frozenset[str]
) -> bool:
    """Whether the graph gives the same bits, with the same masks of dropout; nearly the same for
    sums whose order is free, which the bound of float errors covers."""
    torch.manual_seed(1)
    expected = clip_block(rows)
    torch.manual_seed(1)
    recorded = graph(rows)
    if expected.sums.keys() != recorded.sums.keys():
        return False
    if not torch.equal(expected.balance, recorded.balance):
        return False
    return all(
        _is_near(total, recorded.sums[name])
        if name in unordered
        else torch.equal(total, recorded.sums[name])
        for name, total in expected.sums.items()
    )


def _is_near(first: Tensor, second: Tensor) -> bool:
    return bool((first - second).abs().max() <= _TOLERANCE * first.abs().max())
