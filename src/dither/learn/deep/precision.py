"""How products and sums are taken: in which precision, and whether torch may shorten them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

_widest: ContextVar[float | None] = ContextVar("widest", default=None)


@contextmanager
def wide_sums(widest: float | None) -> Iterator[None]:
    """Whether sums are taken in float64, or in integers where a layer has several positions, and
    stay so: then `widest` is the most that weighted products of a unit are long together."""
    token = _widest.set(widest)
    try:
        yield
    finally:
        _widest.reset(token)


def find_widest() -> float | None:
    """What `wide_sums` was told; None where sums are not wide."""
    return _widest.get()


_is_relaxed: ContextVar[bool] = ContextVar("is_relaxed", default=False)


@contextmanager
def relaxed_products(is_relaxed: bool) -> Iterator[None]:
    """Whether products may be taken as torch is set up, without a proved error."""
    token = _is_relaxed.set(is_relaxed)
    try:
        yield
    finally:
        _is_relaxed.reset(token)


@contextmanager
def exact_products() -> Iterator[None]:
    """Products of float32 matrices are not shortened to TF32 or less, but where relaxed."""
    before = torch.get_float32_matmul_precision()
    if before == "highest" or _is_relaxed.get():
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
