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
from dither.errors import RefusedError
from dither.privacy.kernel.kernel import Release
from dither.privacy.kernel.request import Price
from dither.privacy.ledger import LedgerView
from dither.question.recipe import Recipe
from dither.rules import PrivacyRule
from dither.workloads.adopt_plan import adopt_release
from dither.workloads.bind import BoundWorkload
from dither.workloads.choose_plan import WorkloadOffer, choose_plan
from dither.workloads.earlier import EarlierAnswer, find_earlier_answer
from dither.workloads.preview import WorkloadPreview, make_preview
from dither.workloads.progress import show_step
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
    progress: bool = False
    """Whether a terminal shows what is under way."""

    @cached_property
    def offer(self) -> WorkloadOffer:
        """What will be measured; the same for every database."""
        with show_step("choosing a strategy", self.progress):
            offer = choose_plan(self.bound, self.price, self.pot, self._curator.kernel, self._view)
        if self._curator.has_answer(offer.priced):
            return offer
        adopted = (adopt_release(offer, release) for release in self._sources)
        return next((stored for stored in adopted if stored is not None), offer)

    @cached_property
    def _sources(self) -> tuple[Release, ...]:
        """Releases over the same rows that this pot's path paid for; reads no data."""
        return self._curator.list_earlier(self._view, self.bound.plan)

    @cached_property
    def earlier(self) -> EarlierAnswer | None:
        """The same workload from releases that this pot's path paid for before; reads no data."""
        return find_earlier_answer(self.bound, self._sources, self.offer.lower_bound)

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
        return make_preview(self.offer, charge, self.pot, stored, self.level, self.earlier)

    def answer(self, *, fresh: bool = False) -> WorkloadResult:
        """Charge the pot, measure, and fit all tables. Asked again it is free, and the same.

        Where earlier releases of this version give the whole workload with no larger error, it is
        answered from them and nothing is charged. `fresh=True` measures anew in any case.
        """
        if not fresh and not self._curator.has_answer(self.offer.priced):
            earlier = self.earlier
            if earlier is not None and earlier.offer.error <= self.offer.error:
                return self._make_earlier_result(earlier)
        release = self._curator.release(self.offer.priced, fresh=fresh, sql=None)
        return self._make_result(release)

    def answer_from_earlier(self) -> WorkloadResult:
        """The answer from earlier releases alone, at no new loss, however large its error."""
        if self.earlier is None:
            raise RefusedError(
                "no earlier releases of this version hold this workload: ask for it with answer()",
                rule=PrivacyRule.PAID_VALUES,
            )
        return self._make_earlier_result(self.earlier)

    def _make_earlier_result(self, earlier: EarlierAnswer) -> WorkloadResult:
        info = earlier.describe_derived(self._describe(earlier.release, self.bound.recipe)) | {
            "strategy": earlier.offer.plan.name,
            "noise": earlier.offer.noise,
            "scale": 1,
        }
        sources = earlier.sources

        def certify(
            _: Release, recipe: Recipe, steps: tuple[str, ...], commitment: str
        ) -> dict[str, Any]:
            return self._curator.certify_earlier(sources, recipe, steps, commitment)

        return WorkloadResult(
            info,
            earlier.offer,
            fit_release(earlier.offer, earlier.release),
            earlier.release,
            self.level,
            notes=(f"{earlier.offer.plan.name}: {', '.join(earlier.release_ids)}; no new loss",),
            _certify=certify,
            _sources=sources,
        )

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
        with show_step("fitting all tables", self.progress):
            fitted = fit_release(offer, release)
        return WorkloadResult(
            info,
            offer,
            fitted,
            release,
            self.level,
            _certify=self._curator.certify,
            progress=self.progress,
        )
