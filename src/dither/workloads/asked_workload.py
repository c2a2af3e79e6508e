"""A workload that is asked of a connection: preview it, then answer it. One request, one price."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from dither.answer.curator_access import CuratorAccess
from dither.answer.intervals import read_level
from dither.answer.quote import quote_charge
from dither.canonical import Number
from dither.privacy.kernel.kernel import Release
from dither.privacy.kernel.request import Price
from dither.privacy.ledger import LedgerView
from dither.question.recipe import Recipe
from dither.workloads.bind import BoundWorkload
from dither.workloads.choose_plan import WorkloadOffer, choose_plan
from dither.workloads.preview import WorkloadPreview, make_preview
from dither.workloads.result import WorkloadResult, fit_release


@dataclass(frozen=True)
class AskedWorkload:
    """A bound workload at a price. Nothing is read or spent before `answer`."""

    bound: BoundWorkload
    price: Price
    pot: str
    confidence: Number
    _curator: CuratorAccess
    _view: LedgerView
    _describe: Callable[[Release, Recipe], dict[str, Any]]

    @cached_property
    def offer(self) -> WorkloadOffer:
        """What will be measured; the same for every database."""
        return choose_plan(self.bound, self.price, self.pot, self._curator.kernel, self._view)

    @property
    def level(self) -> Fraction:
        """The level of intervals."""
        return read_level(self.confidence)

    def preview(self) -> WorkloadPreview:
        """Price, strategy, the error of every query and the lower bound. Reads no data."""
        pots = self._curator.list_pots()
        pot = next((listed for listed in pots if listed.name == self.pot), None)
        charge = quote_charge(pot, self.offer.priced)
        stored = pot is not None and self._curator.has_answer(self.offer.priced)
        return make_preview(self.offer, charge, self.pot, stored, self.level)

    def answer(self, *, fresh: bool = False) -> WorkloadResult:
        """Charge the pot, measure, and fit all tables. Asked again it is free, and the same."""
        release = self._curator.release(self.offer.priced, fresh=fresh, sql=None)
        return self._make_result(release)

    def rehearse(self) -> WorkloadResult:
        """The same on a table generated from the catalog alone: free, and about nobody."""
        return self._make_result(self._curator.rehearse(self.offer.priced.request))

    def _make_result(self, release: Release) -> WorkloadResult:
        offer = self.offer
        info = self._describe(release, self.bound.recipe) | {
            "strategy": offer.plan.name,
            "noise": offer.noise,
            "scale": offer.scale,
        }
        return WorkloadResult(
            info,
            offer,
            fit_release(offer, release),
            release,
            self.level,
            _certify=self._curator.certify,
        )
