"""Rows of the caller's data, gathered into the slots of a step.

Shapes are the same at every step: a slot without a unit, and a place without a row, hold zeros.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset, default_collate

from dither.errors import ParameterError
from dither.learn.deep.sampling import EMPTY, Integers, group_rows
from dither.privacy.noise import Words


@dataclass(frozen=True, eq=False)
class SlotRows:
    """Rows of some slots, side by side: inputs, targets, a weight for each row (0 for none), and
    whether a slot holds a unit."""

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    is_present: Tensor

    @property
    def units(self) -> int:
        return len(self.is_present)


class RowStore:
    """Data as rows of units; `units` of them. One row is one unit, unless owners are given."""

    def __init__(
        self, data: Any, owners: Any, rows_per_unit: int, source: Words, device: torch.device
    ) -> None:
        self._data = _read_data(data, device)
        self._device = device
        self._table: Integers | None = None
        self._device_table: Tensor | None = None
        self.rows_per_unit = rows_per_unit
        self.units = _count_rows(self._data)
        if self.units == 0:
            self._data = _make_one_row(self._data)
        self._owners = owners
        if owners is not None:
            self._table = group_rows(owners, self.units, rows_per_unit, source)
            self.units = len(self._table)

    @property
    def is_on_cuda(self) -> bool:
        """Whether rows are gathered for a device, which the host must not keep waiting."""
        return bool(self._device.type == "cuda")

    @property
    def is_resident(self) -> bool:
        """Whether all rows lie on the device."""
        return self.is_on_cuda and isinstance(self._data, tuple)

    def describe_row(self) -> tuple[Tensor, Tensor]:
        """Zeros of the shape and type of one row and its target: shapes are public."""
        inputs, targets = self._take(np.zeros(1, np.int64))
        return torch.zeros_like(inputs), torch.zeros_like(targets)

    def describe_units(self) -> tuple[int, str]:
        """What ranks compare with each other: the number of units, and a digest of rows (where
        they are tensors) and owners."""
        digest = hashlib.sha256()
        if isinstance(self._data, tuple):
            for values in self._data:
                digest.update(repr((values.shape, values.dtype)).encode())
                digest.update(
                    values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
                )
        if self._owners is not None:
            digest.update(repr(np.asarray(self._owners).tolist()).encode())
        return self.units, digest.hexdigest()

    def gather(self, slots: Integers) -> SlotRows:
        """The rows of the units in some slots."""
        if self.is_resident:
            return self.gather_units(self.send_units(slots))
        rows = self._list_rows(slots)
        is_row = rows != EMPTY
        inputs, targets = self._take(np.maximum(rows, 0))
        absent = torch.from_numpy(np.flatnonzero(~is_row)).to(self._device)
        return SlotRows(
            inputs.index_fill_(0, absent, 0),
            targets.index_fill_(0, absent, 0),
            torch.from_numpy(is_row.astype(np.float32)).to(self._device),
            torch.from_numpy(slots != EMPTY).to(self._device),
        )

    def send_units(self, slots: Integers) -> Tensor:
        """The numbers of units on the device, without waiting for it."""
        return torch.from_numpy(slots).pin_memory().to(self._device, non_blocking=True)

    def gather_units(self, units: Tensor) -> SlotRows:
        """The rows of units whose numbers lie on the device, by operations there alone."""
        assert isinstance(self._data, tuple)
        is_present = units != EMPTY
        rows = units
        if self._table is not None:
            if self._device_table is None:
                self._device_table = torch.from_numpy(self._table).to(self._device)
            of_units = self._device_table.index_select(0, units.clamp(min=0))
            rows = of_units.masked_fill_(~is_present[:, None], EMPTY).flatten()
        is_absent = rows == EMPTY
        chosen = rows.clamp(min=0)
        taken = []
        for values in self._data:
            mask = is_absent.view(-1, *[1] * (values.dim() - 1))
            taken.append(values.index_select(0, chosen).masked_fill_(mask, 0))
        return SlotRows(taken[0], taken[1], (~is_absent).to(torch.float32), is_present)

    def _list_rows(self, slots: Integers) -> Integers:
        """The rows of every slot, EMPTY where there is none: `rows_per_unit` for each."""
        if self._table is None:
            return slots
        rows = np.where((slots == EMPTY)[:, None], EMPTY, self._table[np.maximum(slots, 0)])
        return rows.ravel()

    def _take(self, rows: Integers) -> tuple[Tensor, Tensor]:
        if isinstance(self._data, tuple):
            places = torch.from_numpy(rows).to(self._device)
            return self._data[0].index_select(0, places), self._data[1].index_select(0, places)
        inputs, targets = default_collate([self._data[int(row)] for row in rows])
        return inputs.to(self._device), targets.to(self._device)


def _read_data(data: Any, device: torch.device) -> tuple[Tensor, Tensor] | Dataset[Any]:
    """A pair of tensors or arrays, or a dataset of pairs with a length."""
    if isinstance(data, TensorDataset):
        data = data.tensors
    if isinstance(data, (tuple, list)):
        if len(data) != 2 or len(data[0]) != len(data[1]):
            raise ParameterError("data is a pair (inputs, targets) of equal length, or a Dataset")
        inputs, targets = (torch.as_tensor(part).to(device) for part in data)
        return inputs, targets
    is_dataset = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    if not is_dataset or isinstance(data, (Tensor, np.ndarray)):
        raise ParameterError(
            "data is a pair (inputs, targets) or a Dataset with a length: a loader's batches have "
            "an order of their own, and the trainer must draw its sample itself"
        )
    checked: Dataset[Any] = data
    return checked


def _count_rows(data: tuple[Tensor, Tensor] | Dataset[Any]) -> int:
    return len(data[0] if isinstance(data, tuple) else data)


def _make_one_row(data: tuple[Tensor, Tensor] | Dataset[Any]) -> tuple[Tensor, Tensor]:
    """A row of zeros that no slot ever holds, for the shape of data without rows."""
    if not isinstance(data, tuple):
        raise ParameterError("a Dataset without rows has no shape: give a pair of tensors")
    inputs, targets = data
    return inputs.new_zeros(1, *inputs.shape[1:]), targets.new_zeros(1, *targets.shape[1:])
