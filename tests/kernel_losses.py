"""The losses that the kernel knows.

Where the accountant is imported, those of training runs are registered too; they have tests of
their own in `tests/accounting/test_training_losses.py`, and no pot pays for them.
"""

from __future__ import annotations

from dither.privacy import losses


def list_kernel_losses() -> set[type[losses.Loss]]:
    """Every loss of `dither.privacy.losses`."""
    return {kind for kind in losses.LOSS_TYPES.values() if kind.__module__ == losses.__name__}
