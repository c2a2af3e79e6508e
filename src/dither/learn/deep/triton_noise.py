"""Kernels of noise on a CUDA device: `device_law.draw_twin` and the addition of noise to sums, each
in one launch. Imported only where Triton is installed and the model lies on a CUDA device.

Line by line the same integers as the twin: `tests/learn/deep/test_device_noise.py` compares them on
a machine with a device, and `bench/deep.py --gpu` before it measures.
"""

from __future__ import annotations

import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from dither.learn.deep.device_law import COIN_BITS, FLAG, LANES, MARGIN, OFFSET_BITS, STREAMS

_FLAG = tl.constexpr(FLAG)
_MARGIN = tl.constexpr(MARGIN)
_OFFSET_MASK = tl.constexpr((1 << OFFSET_BITS) - 1)
_OFFSET_STEP = tl.constexpr(2.0**-OFFSET_BITS)
_COIN_STEP = tl.constexpr(2.0**-COIN_BITS)
_HALF_SHIFT = tl.constexpr(OFFSET_BITS - 1)
_STREAMS = tl.constexpr(STREAMS)
_ADD_BLOCK = 1024


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _rotate(word, BITS: tl.constexpr):  # type: ignore[no-untyped-def]
    return (word << BITS) | (word >> (32 - BITS))


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _mix(a, b, c, d):  # type: ignore[no-untyped-def]
    a = a + b
    d = _rotate(d ^ a, 16)
    c = c + d
    b = _rotate(b ^ c, 12)
    a = a + b
    d = _rotate(d ^ a, 8)
    c = c + d
    b = _rotate(b ^ c, 7)
    return a, b, c, d


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _fill(word, like):  # type: ignore[no-untyped-def]
    return like * 0 + word.to(tl.uint32)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _take(key, NUMBER: tl.constexpr, like):  # type: ignore[no-untyped-def]
    return like * 0 + tl.load(key + NUMBER).to(tl.uint32, bitcast=True)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _decide(  # type: ignore[no-untyped-def]
    high,
    low,
    first,
    second,
    third,
    values,
    positions,
    is_open,
    attempt,
    thresholds,
    numbers,
    flagged,
    FINE: tl.constexpr,
    CELLS: tl.constexpr,
    DEPTH: tl.constexpr,
    DEGREE: tl.constexpr,
):
    """Store what five words decide; returns 1 where another attempt is needed."""
    word = ((high.to(tl.int64) - 2147483648) << 32) + low.to(tl.int64)
    sign = -(((second >> 8) & 1).to(tl.int64))
    offset = (first.to(tl.int64) << 8) | (second & 255).to(tl.int64)
    coin = ((second >> 11).to(tl.int64) << 32) | third.to(tl.int64)
    cell = positions * 0
    for level in tl.static_range(DEPTH):
        end = tl.load(thresholds + cell + ((1 << (DEPTH - 1 - level)) - 1))
        cell = tl.where(end <= word, cell + (1 << (DEPTH - 1 - level)), cell)
    away = offset ^ (sign & _OFFSET_MASK)
    x = (away.to(tl.float64) + 0.5) * _OFFSET_STEP
    y = x * (cell.to(tl.float64) * 2.0 + x) * tl.load(numbers)
    bound = y * 0.0 + tl.load(numbers + 1)
    for degree in tl.static_range(DEGREE):
        bound = bound * y + tl.load(numbers + 2 + degree)
    gap = bound - coin.to(tl.float64) * _COIN_STEP
    is_unsure = (tl.abs(gap) < _MARGIN) | (cell >= CELLS)
    signed = cell ^ sign
    if FINE > 0:
        value = (signed + (1 << (FINE - 1))) >> FINE
    else:
        halves = offset >> (_HALF_SHIFT + FINE)
        value = (signed << (-FINE)) + ((halves + 1) >> 1)
    value = tl.where(is_unsure, attempt.to(tl.int64) + _FLAG, value)
    is_done = is_unsure | (gap > 0)
    tl.store(values + positions, value, mask=(is_open > 0) & is_done)
    unsettled = tl.sum(tl.where((is_open > 0) & is_unsure, 1, 0))
    if unsettled > 0:
        tl.atomic_add(flagged, unsettled)
    return tl.where(is_done, 0, is_open)


@triton.jit(do_not_specialize=["count", "draw_low", "draw_high"])  # type: ignore[untyped-decorator,unused-ignore]
def _draw_kernel(  # type: ignore[no-untyped-def]
    values,
    flagged,
    key,
    thresholds,
    numbers,
    count,
    draw_low,
    draw_high,
    FINE: tl.constexpr,
    CELLS: tl.constexpr,
    DEPTH: tl.constexpr,
    DEGREE: tl.constexpr,
    LANES: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES).to(tl.int64)
    positions0 = program * (_STREAMS * LANES) + lane
    positions1 = positions0 + LANES
    positions2 = positions1 + LANES
    counter = (program * LANES + lane).to(tl.uint32)
    open0 = tl.where(positions0 < count, 1, 0)
    open1 = tl.where(positions1 < count, 1, 0)
    open2 = tl.where(positions2 < count, 1, 0)
    attempt = tl.zeros([LANES], tl.uint32)
    while tl.sum(open0 + open1 + open2) > 0:
        zero = counter * 0
        x0 = zero + 0x61707865
        x1 = zero + 0x3320646E
        x2 = zero + 0x79622D32
        x3 = zero + 0x6B206574
        x4 = _take(key, 0, counter)
        x5 = _take(key, 1, counter)
        x6 = _take(key, 2, counter)
        x7 = _take(key, 3, counter)
        x8 = _take(key, 4, counter)
        x9 = _take(key, 5, counter)
        x10 = _take(key, 6, counter)
        x11 = _take(key, 7, counter)
        x12 = counter
        x13 = _fill(draw_low, counter)
        x14 = _fill(draw_high, counter)
        x15 = attempt
        for _ in range(10):
            x0, x4, x8, x12 = _mix(x0, x4, x8, x12)
            x1, x5, x9, x13 = _mix(x1, x5, x9, x13)
            x2, x6, x10, x14 = _mix(x2, x6, x10, x14)
            x3, x7, x11, x15 = _mix(x3, x7, x11, x15)
            x0, x5, x10, x15 = _mix(x0, x5, x10, x15)
            x1, x6, x11, x12 = _mix(x1, x6, x11, x12)
            x2, x7, x8, x13 = _mix(x2, x7, x8, x13)
            x3, x4, x9, x14 = _mix(x3, x4, x9, x14)
        x0 = x0 + 0x61707865
        x1 = x1 + 0x3320646E
        x2 = x2 + 0x79622D32
        x3 = x3 + 0x6B206574
        x4 = x4 + _take(key, 0, counter)
        x5 = x5 + _take(key, 1, counter)
        x6 = x6 + _take(key, 2, counter)
        x7 = x7 + _take(key, 3, counter)
        x8 = x8 + _take(key, 4, counter)
        x9 = x9 + _take(key, 5, counter)
        x10 = x10 + _take(key, 6, counter)
        x11 = x11 + _take(key, 7, counter)
        x12 = x12 + counter
        x13 = x13 + _fill(draw_low, counter)
        x14 = x14 + _fill(draw_high, counter)
        # fmt: off
        open0 = _decide(
            x0, x1, x2, x3, x4, values, positions0, open0, attempt,
            thresholds, numbers, flagged, FINE, CELLS, DEPTH, DEGREE,
        )
        open1 = _decide(
            x5, x6, x7, x8, x9, values, positions1, open1, attempt,
            thresholds, numbers, flagged, FINE, CELLS, DEPTH, DEGREE,
        )
        open2 = _decide(
            x10, x11, x12, x13, x14, values, positions2, open2, attempt,
            thresholds, numbers, flagged, FINE, CELLS, DEPTH, DEGREE,
        )
        # fmt: on
        attempt = attempt + 1


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator,unused-ignore]
def _add_kernel(sums, noise, means, numbers, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    positions = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_there = positions < count
    total = tl.load(sums + positions, mask=is_there, other=0.0).to(tl.float64)
    steps = tl.floor(total * tl.load(numbers) + 0.5).to(tl.int64)
    noisy = steps + tl.load(noise + positions, mask=is_there, other=0)
    mean = noisy.to(tl.float64) * tl.load(numbers + 1)
    tl.store(means + positions, mean.to(tl.float32), mask=is_there)


def launch_draw(
    values: Tensor,
    flagged: Tensor,
    key: Tensor,
    thresholds: Tensor,
    numbers: Tensor,
    draw: int,
    *,
    fine: int,
    cells: int,
    depth: int,
    degree: int,
) -> None:
    """Fill `values` (int64) with the noise of one draw; adds to `flagged` how many are flagged.

    `numbers` (float64) are the rate of the law and the coefficients of its polynomial.
    """
    count = values.numel()
    _draw_kernel[(-(-count // (STREAMS * LANES)),)](
        values,
        flagged,
        key,
        thresholds,
        numbers,
        count,
        draw & 0xFFFFFFFF,
        draw >> 32,
        FINE=fine,
        CELLS=cells,
        DEPTH=depth,
        DEGREE=degree,
        LANES=LANES,
        num_warps=LANES // 32,
    )


def launch_add(sums: Tensor, noise: Tensor, means: Tensor, numbers: Tensor) -> None:
    """means = (round(sums * numbers[0]) + noise) * numbers[1], for float32 sums; numbers[0] is a
    power of two."""
    count = sums.numel()
    grid = (-(-count // _ADD_BLOCK),)
    _add_kernel[grid](sums, noise, means, numbers, count, BLOCK=_ADD_BLOCK)
