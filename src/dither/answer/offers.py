"""Bound questions and offers of one connection, remembered while they stand.

The kernel prices every request by itself, so that nothing remembered here decides a charge.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dither.answer.asked import Asked, Bound, bind_question
from dither.answer.choose_mechanism import Offered, choose_mechanisms
from dither.answer.curator_access import Pricer
from dither.answer.earlier_rules import double_weights, has_newer_laws, was_priced_otherwise
from dither.answer.preview_columns import Terms, list_half_widths
from dither.answer.price_for_accuracy import find_least_price, meets_widths
from dither.answer.split import check_weights
from dither.errors import DitherError, ParameterError, QueryError
from dither.plan.analyse import FIRST_RULES, NEWEST_RULES
from dither.plan.analysed_query import Analyses
from dither.privacy.kernel.families import FIRST_LAWS, NEWEST_LAWS
from dither.privacy.kernel.request import Price
from dither.privacy.ledger import LedgerView, Pot
from dither.question.recipe import Recipe
from dither.question.unit_limits import PartLimits

_MOST_REMEMBERED = 256


class Offers:
    """Binds questions and makes offers for them, each once."""

    def __init__(self, kernel: Pricer, pot: str) -> None:
        self._kernel = kernel
        self._pot = pot
        self._remembered: dict[tuple[Any, ...], Any] = {}
        # (version, its analyses by the first rules)
        self._first: tuple[int, Analyses] | None = None

    def bind(self, question: Asked, rules: int = NEWEST_RULES) -> Bound:
        """Bind a question, that is: turn its text into a recipe.

        A bound question is kept and returned again while the registered version is the same. So is
        a refusal: finding all its reasons binds a question several times.
        """
        version = self._kernel.version
        key = (
            "bound",
            question.sql,
            type(question.max_groups),
            question.max_groups,
            question.limits,
            version.number,
            rules,
        )
        bound: Bound | QueryError | None = self._remembered.get(key)
        if bound is None:
            analyses = version.analyses if rules == NEWEST_RULES else self._first_analyses()
            try:
                bound = bind_question(question, key, analyses)
            except QueryError as refusal:
                self._remember(key, refusal)
                raise
            self._remember(key, bound)
        if isinstance(bound, QueryError):
            raise bound.with_traceback(None)
        return bound

    def _has_earlier(self) -> bool:
        """Whether answers of the registered version can have been sold by earlier rules."""
        return self._kernel.version.facts.rules < NEWEST_RULES

    def _first_analyses(self) -> Analyses:
        """Return the analyses by the first rules of stability; kept while the version is."""
        version = self._kernel.version
        number, analyses = self._first or (None, None)
        if analyses is None or number != version.number:
            analyses = replace(version, rules=FIRST_RULES).analyses
            self._first = (version.number, analyses)
        return analyses

    def offer(
        self,
        bound: Bound,
        question: Asked,
        price: Price,
        view: LedgerView,
        laws: int = NEWEST_LAWS,
    ) -> Offered:
        """Choose the mechanisms for a bound question at a price: its offer.

        An offer is kept and returned again while the terms of the pot are the same.
        """
        weights = check_weights(question.weights, bound.recipe)
        key = ("offered", bound.key, price, tuple(weights.items()), question.ends, laws)
        offered: Offered | None = self._remembered.get(key)
        if offered is None or offered.priced.view.path != view.path:
            offered = choose_mechanisms(
                self._kernel,
                view,
                bound.recipe,
                price,
                self._pot,
                weights,
                question.ends,
                bound.analyses,
                laws,
            )
            if laws == NEWEST_LAWS and bound.analyses.rules == NEWEST_RULES:
                first = self._offer_first(bound, question, price, view)
                offered = self._tell_apart(offered, first)
            self._remember(key, offered)
        return offered

    def list_earlier(
        self, bound: Bound, question: Asked, price: Price, view: LedgerView, offered: Offered
    ) -> Iterator[Offered]:
        """The other offers that were made for a question before, the oldest first.

        What an earlier release refused was never answered by it.
        """
        first = self._offer_first(bound, question, price, view)
        if first is not None:
            yield first
        if self._has_earlier() and has_newer_laws(offered.priced.request):
            with suppress(DitherError):
                yield self.offer(bound, question, price, view, FIRST_LAWS)

    def _offer_first(
        self, bound: Bound, question: Asked, price: Price, view: LedgerView
    ) -> Offered | None:
        """Return the offer that release 0.1 made; None where it is the same or was refused."""
        if not self._has_earlier():
            return None
        key = ("priced otherwise", bound.key)
        if key not in self._remembered:
            differs = was_priced_otherwise(bound.recipe, self._first_analyses(), bound.analyses)
            self._remember(key, differs)
        if not self._remembered[key]:
            return None
        with suppress(DitherError):
            first = self.bind(question, FIRST_RULES)
            return self.offer(first, question, price, view, FIRST_LAWS)
        return None

    def _tell_apart(self, offered: Offered, first: Offered | None) -> Offered:
        """The same offer under another key, where an earlier one with more noise has its key.

        The key holds losses, which may not say the scale of the noise.
        """
        if first is None or first.priced.key != offered.priced.key:
            return offered
        if _list_mechanisms(first) == _list_mechanisms(offered):
            return offered
        return replace(offered, priced=double_weights(self._kernel, offered.priced))

    def offer_wish(self, recipe: Recipe, price: Price, view: LedgerView) -> Offered:
        """The offer for a bound or limit that is bought."""
        offered = choose_mechanisms(self._kernel, view, recipe, price, self._pot, {}, None)
        first = self._offer_first_wish(recipe, price, view)
        return self._tell_apart(offered, first)

    def list_earlier_wishes(
        self, recipe: Recipe, price: Price, view: LedgerView, offered: Offered
    ) -> Iterator[Offered]:
        """As `list_earlier`, for a bound or limit that is bought."""
        first = self._offer_first_wish(recipe, price, view)
        if first is not None:
            yield first
        if self._has_earlier() and has_newer_laws(offered.priced.request):
            with suppress(DitherError):
                newest = self._kernel.version.analyses
                yield self._offer_old_wish(recipe, price, view, newest)

    def _offer_first_wish(self, recipe: Recipe, price: Price, view: LedgerView) -> Offered | None:
        if not self._has_earlier():
            return None
        newest = self._kernel.version.analyses
        first = self._first_analyses()
        if was_priced_otherwise(recipe, first, newest):
            with suppress(DitherError):
                return self._offer_old_wish(recipe, price, view, first)
        return None

    def _offer_old_wish(
        self, recipe: Recipe, price: Price, view: LedgerView, analyses: Analyses
    ) -> Offered:
        return choose_mechanisms(
            self._kernel, view, recipe, price, self._pot, {}, None, analyses, FIRST_LAWS
        )

    def _remember(self, key: tuple[Any, ...], value: Bound | Offered | QueryError | bool) -> None:
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = value

    def make_terms(self, offered: Offered, question: Asked) -> Terms:
        """The terms under which the columns of a question are previewed."""
        analyses = offered.priced.version.analyses
        limits = question.limits
        assert not isinstance(limits, PartLimits)  # refused when the question was bound
        return Terms(question.level, analyses, question.group_size, offered.bands, limits)

    def find_least_price(
        self,
        bound: Bound,
        question: Asked,
        widths: dict[str, float],
        view: LedgerView,
        pot: Pot | None,
    ) -> Price:
        """Find the least price whose half-widths are within `widths`, in the pot's own measure."""
        in_rho = pot is not None and pot.rule.name == "zcdp"

        def make_price(value: Fraction) -> Price:
            return Price(None, value) if in_rho else Price(value, None)

        # What is refused is refused at any price.
        self.offer(bound, question, make_price(Fraction(1)), view)

        def meets(value: Fraction) -> bool:
            try:
                offered = self.offer(bound, question, make_price(value), view)
            except ParameterError:  # more noise than can be drawn
                return False
            mechanisms = [step.mechanism for step in offered.priced.steps]
            terms = self.make_terms(offered, question)
            halves = list_half_widths(offered.recipe, mechanisms, terms, widths)
            return meets_widths(halves, widths)

        return make_price(find_least_price(meets))


def _list_mechanisms(offered: Offered) -> list[Any]:
    return [step.mechanism for step in offered.priced.steps]
