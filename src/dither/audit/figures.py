"""Claims and runs of audits as people read them."""

from __future__ import annotations

from dither.figures import write_bound, write_figure


def write_claim(epsilon: float, delta: float) -> str:
    """Write the claim of a mechanism of the zoo: an epsilon, or a pair.

    >>> write_claim(1.0, 0.0), write_claim(0.5, 1e-05)
    ('1', '(0.5, 1e-5)')
    """
    shown_epsilon = write_bound(epsilon, up=True)
    return f"({shown_epsilon}, {write_bound(delta, up=True)})" if delta else shown_epsilon


def write_needed_runs(runs: int) -> str:
    """Write how many runs a black box needs, with two digits.

    >>> write_needed_runs(123_456), write_needed_runs(598_765_432_100)
    ('120,000 a side', '600,000,000,000 a side')
    """
    return f"{write_figure(runs, 2)} a side"
