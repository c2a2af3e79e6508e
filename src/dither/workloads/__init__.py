"""Workloads: many counting queries over one table, answered together for one price.

`con.workload(marginals(2, of=["ward", "sex"]), table="visits", epsilon=1)` chooses what to measure
(public, free), measures it as linear queries of the kernel in one request, and computes consistent
answers with intervals. No module here sees data or draws noise.
"""

from dither.workloads.adaptive_histogram import AdaptiveHistogram, AskedHistogram
from dither.workloads.asked_workload import AskedWorkload
from dither.workloads.fit_constraints import KnownTotals, StructuralZeros
from dither.workloads.language import (
    CountingWorkload,
    Product,
    cube,
    identity,
    marginals,
    prefixes,
    ranges,
    total,
)
from dither.workloads.preview import WorkloadPreview
from dither.workloads.result import WorkloadResult

__all__ = [
    "AdaptiveHistogram",
    "AskedHistogram",
    "AskedWorkload",
    "CountingWorkload",
    "KnownTotals",
    "Product",
    "StructuralZeros",
    "WorkloadPreview",
    "WorkloadResult",
    "cube",
    "identity",
    "marginals",
    "prefixes",
    "ranges",
    "total",
]
