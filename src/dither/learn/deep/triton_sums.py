"""Kernels of integer sums on a CUDA device: `integer_sums.split_twin` and `combine_twin`, each in
one launch. Imported only where Triton is installed and the model lies on a CUDA device."""

from __future__ import annotations

import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

_ROWS = 64
_COLUMNS = 64
_NUMBERS = 1024


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _split_kernel(  # type: ignore[no-untyped-def]
    values,
    factors,
    planes,
    rows,
    width,
    padded_rows,
    padded_width,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    factor = tl.load(factors + row, mask=row < rows, other=0.0)
    is_read = ((row < rows) & (factor != 0.0))[:, None] & (column < width)[None, :]
    value = tl.load(values + row[:, None] * width + column[None, :], mask=is_read, other=0.0)
    whole = tl.floor(value.to(tl.float64) * factor[:, None] + 0.5).to(tl.int32)
    low = ((whole + 128) & 255) - 128
    whole = (whole - low) >> 8
    middle = ((whole + 128) & 255) - 128
    high = (whole - middle) >> 8
    is_written = (column < padded_width)[:, None] & (row < padded_rows)[None, :]
    target = planes + column[:, None] * padded_rows + row[None, :]
    plane = padded_width.to(tl.int64) * padded_rows
    tl.store(target, tl.trans(low.to(tl.int8)), mask=is_written)
    tl.store(target + plane, tl.trans(middle.to(tl.int8)), mask=is_written)
    tl.store(target + 2 * plane, tl.trans(high.to(tl.int8)), mask=is_written)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _combine_kernel(  # type: ignore[no-untyped-def]
    products, totals, out, width, padded_out, padded_width, NUMBERS: tl.constexpr
):
    number = tl.program_id(0).to(tl.int64) * NUMBERS + tl.arange(0, NUMBERS)
    is_there = number < out * width
    row = number // width
    column = number % width
    total = tl.load(totals + number, mask=is_there, other=0)
    for first in tl.static_range(3):
        for second in tl.static_range(3):
            line = (row + first * padded_out) * (3 * padded_width)
            product = tl.load(
                products + line + second * padded_width + column, mask=is_there, other=0
            )
            total += product.to(tl.int64) << (8 * (first + second))
    tl.store(totals + number, total, mask=is_there)


def launch_split(values: Tensor, factors: Tensor, planes: Tensor) -> None:
    """Fill planes (3, padded width, padded rows) with the digits of `values` (rows, width)."""
    rows, width = values.shape
    _, padded_width, padded_rows = planes.shape
    grid = (triton.cdiv(padded_rows, _ROWS), triton.cdiv(padded_width, _COLUMNS))
    _split_kernel[grid](
        values,
        factors,
        planes,
        rows,
        width,
        padded_rows,
        padded_width,
        ROWS=_ROWS,
        COLUMNS=_COLUMNS,
    )


def launch_combine(products: Tensor, totals: Tensor) -> None:
    """Add products of digits, at their powers of 256, to `totals` (out, width), int64."""
    out, width = totals.shape
    padded_out, padded_width = (size // 3 for size in products.shape)
    grid = (triton.cdiv(totals.numel(), _NUMBERS),)
    _combine_kernel[grid](products, totals, out, width, padded_out, padded_width, NUMBERS=_NUMBERS)
