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
def _read_exponent(number):  # type: ignore[no-untyped-def]
    return (number.to(tl.int64, bitcast=True) >> 52) & 2047


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _make_power(exponent):  # type: ignore[no-untyped-def]
    return ((exponent + 1023) << 52).to(tl.float64, bitcast=True)


# No `tl.where` on masks that are also expanded: Triton 3.6 gives their layouts two types.
@triton.jit(do_not_specialize=["step_bits"])  # type: ignore[untyped-decorator,unused-ignore]
def _factor_kernel(  # type: ignore[no-untyped-def]
    of_inputs, of_gradients, weights, factors, rows, positions, step_bits, ROWS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = row < rows
    weight = tl.load(weights + row // positions, mask=is_row, other=0.0)
    of_input = tl.load(of_inputs + row, mask=is_row, other=0.0)
    weighed = tl.load(of_gradients + row, mask=is_row, other=0.0) * weight * weight
    is_there = (of_input > 0.0) & (weighed > 0.0)
    balance = (_read_exponent(weighed) - _read_exponent(of_input) + 2) >> 2
    balance = balance * is_there.to(tl.int64)
    kept = is_there.to(tl.float64)
    tl.store(factors + row, _make_power(step_bits + balance) * kept, mask=is_row)
    for_gradient = weight * _make_power(step_bits - balance)
    tl.store(factors + rows + row, for_gradient * kept, mask=is_row)


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


# A number that is 1 would else be no number of the device, and `units.to` would not compile.
@triton.jit(do_not_specialize=["units"])  # type: ignore[untyped-decorator,unused-ignore]
def _gram_kernel(  # type: ignore[no-untyped-def]
    of_inputs,
    of_gradients,
    lengths,
    results,
    terms,
    units,
    positions,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Sums of one unit, as `gram_sums.reduce_twin` takes them."""
    unit = tl.program_id(0).to(tl.int64)
    base = unit * positions * positions
    column = tl.arange(0, COLUMNS)
    is_column = column < positions
    total = tl.zeros([ROWS], tl.float64)
    for start in range(0, positions, ROWS):
        row = start + tl.arange(0, ROWS)
        cell = base + row[:, None] * positions + column[None, :]
        is_cell = (row < positions)[:, None] & is_column[None, :]
        left = tl.load(of_inputs + cell, mask=is_cell, other=0.0).to(tl.float64)
        right = tl.load(of_gradients + cell, mask=is_cell, other=0.0).to(tl.float64)
        total += tl.sum(left * right, axis=1)
    diagonal = base + column * (positions + 1)
    first = tl.load(of_inputs + diagonal, mask=is_column, other=0.0).to(tl.float64)
    second = tl.load(of_gradients + diagonal, mask=is_column, other=0.0).to(tl.float64)
    first = first * tl.load(terms) + tl.load(terms + 1)
    second = second * tl.load(terms + 2) + tl.load(terms + 3)
    length = lengths + unit * positions + column
    tl.store(length, first, mask=is_column)
    tl.store(length + units.to(tl.int64) * positions, second, mask=is_column)
    largest = tl.load(terms + 4)
    is_sane = (first <= largest) & (second <= largest)
    first = tl.sqrt(first) * is_column.to(tl.float64)
    second = tl.sqrt(second) * is_column.to(tl.float64)
    spread = tl.sum(first * second)
    round_up = tl.load(terms + 7)
    spread = spread * spread * round_up
    of_first = tl.sum(first)
    of_second = tl.sum(second)
    longest = of_first * of_first + of_second * of_second
    squares = tl.sum(total)
    squares = tl.where(squares > 0.0, squares, 0.0)
    squares = squares + longest * tl.load(terms + 6) + spread * tl.load(terms + 5)
    squares = tl.where(squares < spread, squares, spread) * round_up
    tl.store(results + unit, squares)
    tl.store(results + units + unit, spread)
    insane = tl.sum(is_column.to(tl.int32) * (1 - is_sane.to(tl.int32)))
    tl.store(results + 2 * units + unit, insane.to(tl.float64))


def launch_gram(
    of_inputs: Tensor, of_gradients: Tensor, lengths: Tensor, results: Tensor, terms: Tensor
) -> None:
    """Fill lengths (2, units, positions) and results (3, units) from inner products."""
    units, positions, _ = of_inputs.shape
    columns = triton.next_power_of_2(positions)
    _gram_kernel[(units,)](
        of_inputs,
        of_gradients,
        lengths,
        results,
        terms,
        units,
        positions,
        ROWS=max(1, min(32, 4096 // columns)),
        COLUMNS=columns,
    )


def launch_factors(
    lengths: tuple[Tensor, Tensor], weights: Tensor, step_bits: int, factors: Tensor
) -> None:
    """Fill factors (2, rows) of inputs and gradients, as `integer_sums.find_factors` does."""
    rows = factors.shape[1]
    _factor_kernel[(triton.cdiv(rows, _NUMBERS),)](
        lengths[0],
        lengths[1],
        weights,
        factors,
        rows,
        rows // len(weights),
        step_bits,
        ROWS=_NUMBERS,
    )


def launch_split(values: Tensor, factors: Tensor, planes: Tensor) -> None:
    """Fill planes (3, padded width, padded rows) with digits, as `integer_sums.split_twin` does."""
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
