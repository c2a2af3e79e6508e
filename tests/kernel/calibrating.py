"""Calibration for tests that have a catalog and no kernel."""

from __future__ import annotations

from fractions import Fraction

from dither.catalog import Catalog
from dither.plan.analysed_query import Analyses
from dither.plan.facts import NO_FACTS, Facts
from dither.privacy.kernel.calibrate import Calibrated, calibrate_request
from dither.privacy.kernel.request import Request


def calibrate(
    request: Request, catalog: Catalog, delta: Fraction = Fraction(0), facts: Facts = NO_FACTS
) -> tuple[Calibrated, ...]:
    """The mechanisms of a request, by analyses of its own."""
    return calibrate_request(request, Analyses(catalog, facts), delta)
