"""Pictures of estimates and of what error to expect. matplotlib is imported when one is drawn
(extra `plot`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dither.errors import ParameterError
from dither.surfaces import PLOT_TEXT, escape_label

if TYPE_CHECKING:
    from dither.local.estimate import Estimate


def _make_axes() -> Any:
    """Make an empty figure with axes; say how to install matplotlib where it is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ParameterError("plots need matplotlib: pip install 'dither[plot]'") from None
    figure = Figure(figsize=(7, 4), layout="constrained")
    return figure, figure.subplots()


def bars(estimate: Estimate, *, level: float = 0.95, top: int = 40) -> Any:
    """Draw the `top` largest values with their intervals.

    Zero is drawn, because raw estimates may be negative.
    """
    figure, axes = _make_axes()
    values = estimate.values.ravel()
    order = np.argsort(values)[::-1][:top]
    low, high = (end.ravel()[order] for end in estimate.interval(level))
    names = estimate.labels or tuple(str(i) for i in range(values.size))
    positions = np.arange(len(order))
    axes.bar(positions, values[order], color="#4c72b0")
    axes.errorbar(
        positions,
        values[order],
        [values[order] - low, high - values[order]],
        fmt="none",
        ecolor="#222222",
    )
    axes.axhline(0, color="#222222", linewidth=0.8)
    axes.set_xticks(
        positions, [escape_label(names[i]) for i in order], rotation=45, ha="right", **PLOT_TEXT
    )
    axes.set_ylabel(escape_label(f"estimated {estimate.what}"), **PLOT_TEXT)
    axes.set_title(f"{estimate.reports:,} reports, intervals at {level:.0%}")
    return figure


def error_curves(
    users: Sequence[int], errors: Mapping[str, Sequence[float]], *, ylabel: str
) -> Any:
    """Draw error against the number of users, one line a protocol or epsilon, on logarithmic
    axes."""
    figure, axes = _make_axes()
    for name, line in errors.items():
        axes.loglog(users, line, marker="o", label=name)
    axes.set_xlabel("users")
    axes.set_ylabel(ylabel)
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    return figure


def distribution(
    edges: Sequence[float], density: Sequence[float], *, truth: Sequence[float] | None = None
) -> Any:
    """Draw a histogram recovered from reports, with the truth where it is known (simulations
    only)."""
    figure, axes = _make_axes()
    axes.stairs(density, edges, fill=True, alpha=0.6, label="estimate")
    if truth is not None:
        axes.stairs(truth, edges, color="#222222", label="truth")
    axes.set_ylabel("share of users")
    axes.legend()
    return figure
