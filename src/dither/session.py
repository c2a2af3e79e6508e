"""The analyst's door: preview, ask, and see what is left. `connecting.py` opens it.

A question goes a straight line of frozen values, each made from the one before by one function:

    Asked    the text and its terms, checked                                read_question
    Bound    what its dialect said, its queries, the recipe of its answer   bind_question
    Offered  mechanisms and shares of the price, those that err least       choose_mechanisms
    Priced   the kernel's calibration and loss; the key of its answer       Kernel.price_at
    Release  noisy values: charged, measured and stored, or found stored    Kernel.answer
    Result   a table with intervals                                         make_result

What the ledger says about the pot is read once, before the line begins. The kernel takes a request,
and nothing that was derived on the way to it: it reads the ledger and derives everything again.
A preview ends after Priced. What only answers need, such as tables and the engine, is imported for
the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dither.algorithms import AlgorithmDoor
from dither.answer.asked import (
    Asked,
    Bound,
    read_price,
    read_question,
)
from dither.answer.choose_mechanism import Offered, read_facts
from dither.answer.curator_access import CuratorAccess, Pricer
from dither.answer.explain import Explanation, explain, strip_explain_prefix
from dither.answer.limit_notes import check_bins
from dither.answer.notebook_errors import hide_frames
from dither.answer.offers import Offers
from dither.answer.plain_marginal import find_plain_marginal
from dither.answer.preview import Preview, make_charge_preview, make_preview
from dither.answer.price_for_accuracy import read_widths
from dither.answer.quote import check_delta, quote_charge
from dither.answer.release_info import describe_release
from dither.builder import Question, table
from dither.canonical import Number
from dither.describing import DescriptionDoor
from dither.errors import ParameterError, QueryError
from dither.plan.facts import Facts
from dither.privacy.kernel.kernel import Priced, Release
from dither.privacy.kernel.request import Price, Request
from dither.privacy.ledger import LedgerView
from dither.question.recipe import Recipe
from dither.question.unit_limits import PartLimits, UnitLimits
from dither.sql.parameters import Parameters, write_parameters
from dither.sql.parse import read_text
from dither.suggesting import SuggestionDoor

if TYPE_CHECKING:
    from dither.answer.keys_result import KeysResult
    from dither.answer.result import Result
    from dither.answer.suggest_limits import LimitSuggestion
    from dither.postprocess.split_question import SplitQuestion
    from dither.workloads.earlier_question import EarlierQuestion

MOST_SPLITS = 256
"""How many questions over answers are remembered as rehearsed."""
hide_frames()


class Connection(AlgorithmDoor, SuggestionDoor, DescriptionDoor):
    """Questions to one registered dataset, paid from one pot."""

    def __init__(
        self, curator: CuratorAccess, *, pot: str = "total", reuse_releases: bool = True
    ) -> None:
        self._curator = curator
        self._reuse_releases = reuse_releases
        self._kernel: Pricer = curator.kernel
        self._pot = pot
        self._offers = Offers(curator.kernel, pot)
        self._splits: dict[tuple[int, str], SplitQuestion] = {}

    def preview(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        confidence: Number = 0.95,
        within: Number | dict[str, Number] | None = None,
        group_size: int | None = None,
        quantile_intervals: bool | Number = True,
        weights: Mapping[str, Number] | None = None,
        max_groups: int | None = None,
        limits: UnitLimits | PartLimits | LimitSuggestion | None = None,
        params: Parameters | None = None,
    ) -> Preview:
        """Price and error of a question.

        Reads no data, spends nothing, is the same for every database.

        `within=50` in place of a price finds the least price whose half-widths are at most 50 (or
        one for each column: `within={"n": 50}`). `group_size` is a number of rows for which
        averages, ratios and relative errors are shown. `params` are values for
        `?`, `$1` and `:name`.
        """
        question = read_question(
            write_parameters(sql, params),
            epsilon=epsilon,
            rho=rho,
            confidence=confidence,
            within=within,
            group_size=group_size,
            quantile_intervals=quantile_intervals,
            weights=weights,
            max_groups=max_groups,
            limits=limits,
        )
        try:
            return self._preview(question)[1]
        except QueryError as refusal:
            if (keys := self._list_keys(question)) is not None:
                from dither.answer.keys_result import preview_declared_keys

                return preview_declared_keys(keys)
            from dither.postprocess.ask_subquestions import preview_subquestions

            return preview_subquestions(
                question,
                refusal,
                self.catalog,
                lambda subquestion: self._preview(subquestion)[1],
                self._curator.read_public,
            )

    def explain(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        confidence: Number = 0.95,
        within: Number | dict[str, Number] | None = None,
        group_size: int | None = None,
        quantile_intervals: bool | Number = True,
        weights: Mapping[str, Number] | None = None,
        max_groups: int | None = None,
        limits: UnitLimits | PartLimits | LimitSuggestion | None = None,
        params: Parameters | None = None,
    ) -> Explanation:
        """EXPLAIN PRIVACY: plan, stability, sensitivity, mechanisms, scales, shares, price, errors.
        Reads no data."""
        sql = write_parameters(sql, params)
        question = read_question(
            strip_explain_prefix(read_text(sql)) or sql,
            epsilon=epsilon,
            rho=rho,
            confidence=confidence,
            within=within,
            group_size=group_size,
            quantile_intervals=quantile_intervals,
            weights=weights,
            max_groups=max_groups,
            limits=limits,
        )
        offered, preview = self._preview(question)
        analyses = offered.priced.version.analyses
        return explain(question.sql, offered.recipe, offered.priced, preview, analyses)

    def sql(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        confidence: Number = 0.95,
        group_size: int | None = None,
        quantile_intervals: bool | Number = True,
        weights: Mapping[str, Number] | None = None,
        max_groups: int | None = None,
        limits: UnitLimits | PartLimits | LimitSuggestion | None = None,
        params: Parameters | None = None,
        delta: Number | None = None,
        fresh: bool = False,
        dry_run: bool = False,
    ) -> Result:
        """Ask: the answer with intervals, paid with at most `epsilon` (or `rho`) from the pot.

        The same question at the same price has one answer: asked again it is free, and the same.
        So is one COUNT or SUM by declared keys that earlier releases answer no worse.
        `fresh=True` buys a new one. `weights={"n": 2}` gives a column more of the price,
        `max_groups` limits the groups of one unit, and `limits` are those that `suggest` bought for
        the question. `quantile_intervals=False` spends nothing on the
        intervals of quantiles, "1/3" a third of their price; an eighth if nothing is said.
        `dry_run=True` rehearses on a table generated from the catalog alone: free, as noisy as the
        real answer, about nobody. EXPLAIN PRIVACY SELECT ... gives a result whose table is the
        explanation, and reads no data. Declared keys alone (SELECT DISTINCT ward) are free: all are
        listed. A question over answers (windows, shares of a total, UNION)
        is asked in parts, and `result.answers` has their answers. `params=[1]` or `params={"a": 1}`
        are written into the text in the place of `?`, `$1` or `:a`.
        """
        sql = write_parameters(sql, params)
        if delta is not None:
            raise ParameterError(
                "delta is not the asker's to choose: a question takes what its budget states per "
                "question, which the steward said when it was opened (--delta-per-question)"
            )
        if strip_explain_prefix(read_text(sql)) is not None:
            shared: dict[str, Any] = {
                "group_size": group_size,
                "quantile_intervals": quantile_intervals,
            }
            shared |= {"weights": weights, "max_groups": max_groups, "limits": limits}
            explanation = self.explain(
                sql, epsilon=epsilon, rho=rho, confidence=confidence, **shared
            )
            from dither.answer.explained_result import make_explained_result

            return make_explained_result(explanation, {"sql": explanation.sql, "pot": self._pot})
        question = read_question(
            sql,
            epsilon=epsilon,
            rho=rho,
            confidence=confidence,
            group_size=group_size,
            quantile_intervals=quantile_intervals,
            weights=weights,
            max_groups=max_groups,
            limits=limits,
        )
        try:
            return self._ask(question, fresh, dry_run)
        except QueryError as refusal:
            key = (self._kernel.version.number, repr(question))
            split = self._splits.get(key)  # of a question that was rehearsed and answered before
            if split is None and (keys := self._list_keys(question)) is not None:
                return keys
            from dither.postprocess.ask_subquestions import ask_subquestions

            result = ask_subquestions(
                question,
                refusal,
                self.catalog,
                lambda subquestion: self._preview_charge(subquestion, fresh),
                None if split else lambda subquestion: self._ask(subquestion, False, True),
                lambda subquestion: self._ask(subquestion, fresh, dry_run),
                self._curator.read_public,
                fresh=fresh,
                dry_run=dry_run,
                split=split,
            )
            if len(self._splits) >= MOST_SPLITS:
                self._splits.clear()
            self._splits[key] = result.split
            return result

    def _ask(self, question: Asked, fresh: bool, dry_run: bool) -> Result:
        """Answer one question that needs data: bind it, choose mechanisms, release, make the
        result.

        It charges the pot, unless the answer is stored or this is a dry run.
        """
        from dither.answer.result import make_result

        view = self._view()
        bound = self._offers.bind(question)
        price = read_price(question, bound.dialect)
        offered = self._offers.offer(bound, question, price, view)
        if not fresh and not dry_run:
            offered = self._find_stored(bound, question, price, view, offered)
        check_delta(bound.dialect, offered.priced)
        if not fresh and not dry_run and not bound.dialect.reports:
            earlier = self._find_earlier(offered, view)
            if earlier is not None:
                return earlier.make_result(question.level, self._info, self._curator)
        request = offered.priced.request
        if dry_run:
            release = self._curator.rehearse(request)
        else:
            check_bins(offered.recipe, lambda: self._curator.has_answer(offered.priced))
            release = self._release(offered.priced, fresh, question.sql)
        info = self._info(release, offered.recipe)
        result = make_result(release, offered.recipe, question.level, info, offered.bands)
        if bound.dialect.reports:
            from dither.answer.noise_reports import add_reports

            result = add_reports(result, bound.dialect.reports)
        return replace(result, _certify=self._curator.certify)

    def _list_keys(self, question: Asked) -> KeysResult | None:
        """The answer to a question for declared keys alone, which needs no data and no price."""
        from dither.answer.keys_result import answer_declared_keys

        return answer_declared_keys(question, self.catalog, self._facts, self._pot)

    def table(self, name: str) -> Question:
        """Build a question step by step.

        Example: `con.table("visits").group_by("ward").agg(n=count()).ask(epsilon=0.5)`.
        """
        return table(name, self)

    def bind(self, sql: str, *, max_groups: int | None = None) -> Recipe:
        """The queries and output columns of a question, without a price."""
        return self._offers.bind(read_question(sql, max_groups=max_groups)).recipe

    def request(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        weights: Mapping[str, Number] | None = None,
        max_groups: int | None = None,
    ) -> Request:
        """The request that a question makes at a price."""
        question = read_question(
            sql, epsilon=epsilon, rho=rho, weights=weights, max_groups=max_groups
        )
        view = self._view()
        bound = self._offers.bind(question)
        return self._offers.offer(
            bound, question, read_price(question, bound.dialect), view
        ).priced.request

    # -- the line of a question
    # ----------------------------------------------------------------------------------

    @property
    def _facts(self) -> Facts:
        return read_facts(self._kernel)

    def _view(self) -> LedgerView:
        """What the ledger says about this connection's pot.

        The newest registered version is read with it.
        """
        return self._curator.view(self._pot)

    def _preview(self, question: Asked, *, finds_earlier: bool = True) -> tuple[Offered, Preview]:
        """Price a question and preview its error; the offer comes with it.

        Without `finds_earlier`, the ledger's history is not searched for releases to reuse.
        """
        view = self._view()
        bound = self._offers.bind(question)
        pot = next((pot for pot in self._curator.list_pots() if pot.name == self._pot), None)
        widths = None
        if question.within is None:
            price = read_price(question, bound.dialect)
        else:
            widths = read_widths(question.within, bound.recipe, question.group_size)
            price = self._offers.find_least_price(bound, question, widths, view, pot)
        offered = self._offers.offer(bound, question, price, view)
        offered = self._find_stored(bound, question, price, view, offered)
        terms = self._offers.make_terms(offered, question)
        stored = pot is not None and self._curator.has_answer(offered.priced)
        quote = quote_charge(pot, offered.priced)
        preview = make_preview(offered.priced, offered.recipe, terms, pot, quote, stored, widths)
        is_new = finds_earlier and not stored
        earlier = self._find_earlier(offered, view, is_stored=False) if is_new else None
        return offered, replace(preview, earlier=None if earlier is None else earlier.describe())

    def _preview_charge(self, question: Asked, fresh: bool) -> Preview:
        """Preview what an answer costs, without its errors; `fresh` looks for no stored one."""
        view = self._view()
        bound = self._offers.bind(question)
        price = read_price(question, bound.dialect)
        offered = self._offers.offer(bound, question, price, view)
        if not fresh:
            offered = self._find_stored(bound, question, price, view, offered)
        pot = next((pot for pot in self._curator.list_pots() if pot.name == self._pot), None)
        stored = not fresh and pot is not None and self._curator.has_answer(offered.priced)
        return make_charge_preview(offered.priced, pot, quote_charge(pot, offered.priced), stored)

    def _find_stored(
        self, bound: Bound, question: Asked, price: Price, view: LedgerView, offered: Offered
    ) -> Offered:
        """The offer that was made before, where its answer is stored; else the given one."""
        earlier = self._offers.list_earlier(bound, question, price, view, offered)
        return self._choose_stored(earlier, offered)

    def _find_earlier(
        self, offered: Offered, view: LedgerView, is_stored: bool | None = None
    ) -> EarlierQuestion | None:
        """The earlier releases that answer a question which is not stored, if there are any."""
        marginal = find_plain_marginal(offered.recipe) if self._reuse_releases else None
        if marginal is None or not view.path:
            return None
        if self._curator.has_answer(offered.priced) if is_stored is None else is_stored:
            return None
        quote_charge(view.path[0], offered.priced)  # refuses what this budget could never pay
        sources = self._curator.list_earlier(view, marginal.plan)
        if not sources:
            return None
        from dither.workloads.earlier_question import find_earlier_question

        return find_earlier_question(offered, marginal, sources)

    def _choose_stored(self, earlier: Iterator[Offered], offered: Offered) -> Offered:
        """The first of the earlier offers whose answer is stored; else the given one."""
        has_answer = self._curator.has_answer
        return next((offer for offer in earlier if has_answer(offer.priced)), offered)

    def _release(self, priced: Priced, fresh: bool, sql: str | None) -> Release:
        """Let the kernel answer a priced request; `fresh` buys an answer that is stored anew."""
        if not priced.view.path:
            self._refuse_pot()
        return self._curator.release(priced, fresh=fresh, sql=sql)

    def _info(self, release: Release, recipe: Recipe) -> dict[str, Any]:
        has_windows = bool(release.version.catalog.unit.column)
        person = self.budget().person() if has_windows else None
        return describe_release(release, recipe, person, self._curator.asked_through)
