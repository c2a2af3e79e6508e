"""Shapes and precision of a run: the same for every step, whatever a sample holds."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from dither.errors import ParameterError

_ORDERED_ATTENTION = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
UNORDERED = "does not have a deterministic implementation"
Batch = tuple[Tensor, Tensor, Tensor]
"""Inputs, targets and weights of rows, those of one unit side by side."""


@dataclass(frozen=True, eq=False)
class StepShapes:
    """`slots` slots run at a time, `runs` times a step, and are added up `sum_block` at a time.
    Each has `rows_per_unit` rows that are augmented so many times. `inputs` and `targets` are zeros
    like one row."""

    inputs: Tensor
    targets: Tensor
    slots: int
    runs: int
    sum_block: int
    rows_per_unit: int
    augmentations: int
    augment: Callable[[Tensor], Tensor] | None
    precision: torch.dtype | None
    is_proved: bool = True
    is_wide: bool = False

    @property
    def capacity(self) -> int:
        """All slots of a step."""
        return self.slots * self.runs

    @property
    def sum_blocks(self) -> int:
        """How many blocks are added up in a step."""
        return self.runs * -(-self.slots // self.sum_block)

    @property
    def rows_per_slot(self) -> int:
        """Rows of one slot, with augmented copies."""
        return self.rows_per_unit * self.augmentations

    def prepare(self, inputs: Tensor, targets: Tensor, weights: Tensor) -> Batch:
        """Rows with their augmented copies beside them. A copy weighs 1 / augmentations, so that a
        row's gradients are averaged before anything is clipped."""
        if self.augment is None:
            return inputs, targets, weights
        copies = self.augmentations
        # unit by unit, so that no function can mix the rows of two of them
        changed = [
            self.augment(rows.repeat_interleave(copies, 0))
            for rows in inputs.split(self.rows_per_unit)
        ]
        return (
            torch.cat(changed),
            targets.repeat_interleave(copies, 0),
            weights.repeat_interleave(copies, 0) / copies,
        )

    @contextmanager
    def passes(self, *, is_strict: bool = True) -> Iterator[None]:
        """The precision of forward and backward passes; no kernel is chosen by timing rows. Where
        sums are proved and `is_strict`, kernels without a fixed order raise."""
        device = self.inputs.device.type
        with ExitStack() as contexts:
            if device == "cuda":
                fixed = torch.backends.cudnn.flags(
                    enabled=True, benchmark=False, deterministic=True, allow_tf32=True
                )
                contexts.enter_context(fixed)
                contexts.enter_context(
                    deterministic_kernels(is_strict=is_strict and self.is_proved)
                )
                if self.is_proved:  # other kernels of attention add in an order of their own
                    contexts.enter_context(sdpa_kernel(_ORDERED_ATTENTION))
            if self.precision is not None:
                contexts.enter_context(torch.autocast(device, dtype=self.precision))
            yield

    def generate(self, number: int) -> Batch:
        """Invented rows, targets and weights, the same for the same number."""
        rows = self.slots * self.rows_per_unit
        generator = torch.Generator(self.inputs.device).manual_seed(number)
        inputs = _invent(self.inputs, rows, generator)
        targets = _invent(self.targets, rows, generator)
        return inputs, targets, torch.ones(rows, device=self.inputs.device)


@contextmanager
def deterministic_kernels(*, is_strict: bool) -> Iterator[None]:
    """Kernels that add in a fixed order, where torch has them. Where it has none it raises if
    `is_strict`, else it warns. Efficient attention has a fixed order only where it is strict."""
    is_enabled = torch.are_deterministic_algorithms_enabled()
    is_warning = torch.is_deterministic_algorithms_warn_only_enabled()
    is_filling = torch.utils.deterministic.fill_uninitialized_memory
    workspace = os.environ.get(_WORKSPACE)
    os.environ.setdefault(_WORKSPACE, ":4096:8")  # torch asks for it before products of matrices
    torch.use_deterministic_algorithms(True, warn_only=not is_strict)
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*CuBLAS.*")
            yield
    finally:
        torch.use_deterministic_algorithms(is_enabled, warn_only=is_warning)
        torch.utils.deterministic.fill_uninitialized_memory = is_filling
        if workspace is None:
            del os.environ[_WORKSPACE]


@contextmanager
def refused_orders(*, is_proved: bool) -> Iterator[None]:
    """Refuse kernels that add in an order of their own: a slot's floats would not be the same bits
    in every run, and the proof rests on that."""
    try:
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            yield
        messages = [str(warning.message) for warning in raised]
    except RuntimeError as error:
        if UNORDERED not in str(error):
            raise
        messages = [str(error)]
    for message in messages:
        if is_proved and UNORDERED in message:
            raise ParameterError(
                f"{message.split()[0]} adds in an order of its own on this device, so that a "
                f"slot's result is not the same bits in every run: use another layer, train on "
                f"the CPU, or sums='float', which the certificate says"
            )


def _invent(row: Tensor, rows: int, generator: torch.Generator) -> Tensor:
    """Normal numbers, or the integers 0 and 1, which are classes and tokens of every model."""
    shape = (rows, *row.shape[1:])
    if row.dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=row.dtype, device=row.device)
    draws = torch.randint(0, 2, shape, generator=generator, device=row.device)
    return draws.to(row.dtype)
