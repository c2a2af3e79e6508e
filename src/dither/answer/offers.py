"""Bound questions and offers of one connection, remembered while they stand.

The kernel prices every request by itself, so that nothing remembered here decides a charge.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from dither.answer.asked import Asked, Bound, bind_question
from dither.answer.choose_mechanism import Offered, choose_mechanisms
from dither.answer.earlier_rules import was_priced_otherwise
from dither.answer.preview_columns import Terms, list_preview_columns
from dither.answer.price_for_accuracy import find_least_price, meets_widths
from dither.answer.split import check_weights
from dither.errors import ParameterError, QueryError
from dither.plan.analyse import FIRST_RULES, NEWEST_RULES
from dither.plan.analysed_query import Analyses
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price
from dither.privacy.ledger import LedgerView, Pot
from dither.question.recipe import Recipe

_MOST_REMEMBERED = 256


class Offers:
    """Binds questions and makes offers for them, each once."""

    def __init__(self, kernel: Kernel, pot: str) -> None:
        self._kernel = kernel
        self._pot = pot
        self._remembered: dict[tuple[Any, ...], Any] = {}
        self._first: tuple[int, Analyses] | None = None

    def bind(self, question: Asked, rules: int = NEWEST_RULES) -> Bound:
        """The bound question; one that was bound before stands while the version does.

        So does a refusal: finding all its reasons binds a question several times.
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

    def _first_analyses(self) -> Analyses:
        """Analyses by the first rules of stability, kept while the version stands."""
        version = self._kernel.version
        if self._first is None or self._first[0] != version.number:
            self._first = (version.number, replace(version, rules=FIRST_RULES).analyses)
        return self._first[1]

    def offer(self, bound: Bound, question: Asked, price: Price, view: LedgerView) -> Offered:
        """The offer for a bound question; one made before stands while the terms of the pot do."""
        weights = check_weights(question.weights, bound.recipe)
        key = ("offered", bound.key, price, tuple(weights.items()), question.ends)
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
                bound.rules,
            )
            self._remember(key, offered)
        return offered

    def find_earlier(
        self, bound: Bound, question: Asked, price: Price, view: LedgerView
    ) -> Offered | None:
        """The offer that release 0.1 made for a question; None where it would be the same one."""
        key = ("priced otherwise", bound.key)
        if key not in self._remembered:
            newest = self._kernel.version.analyses
            differs = was_priced_otherwise(bound.recipe, self._first_analyses(), newest)
            self._remember(key, differs)
        if not self._remembered[key]:
            return None
        return self.offer(self.bind(question, FIRST_RULES), question, price, view)

    def find_earlier_wish(self, recipe: Recipe, price: Price, view: LedgerView) -> Offered | None:
        """As `find_earlier`, for a bound or limit that is bought."""
        newest = self._kernel.version.analyses
        if not was_priced_otherwise(recipe, self._first_analyses(), newest):
            return None
        return choose_mechanisms(
            self._kernel, view, recipe, price, self._pot, {}, None, FIRST_RULES
        )

    def _remember(self, key: tuple[Any, ...], value: Bound | Offered | QueryError | bool) -> None:
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = value

    def make_terms(self, offered: Offered, question: Asked) -> Terms:
        """The terms under which the columns of a question are previewed."""
        analyses = offered.priced.version.analyses
        return Terms(question.level, analyses, question.group_size, offered.bands, question.limits)

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
            return meets_widths(list_preview_columns(offered.recipe, mechanisms, terms), widths)

        return make_price(find_least_price(meets))
