"""Bound questions and offers of one connection, remembered while they stand.

The kernel prices every request by itself, so that nothing remembered here decides a charge.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dither.answer.asked import Asked, Bound, bind_question
from dither.answer.choose_mechanism import Offered, choose_mechanisms
from dither.answer.preview_columns import Terms, list_preview_columns
from dither.answer.price_for_accuracy import find_least_price, meets_widths
from dither.answer.quantile_intervals import Bands
from dither.answer.split import check_weights
from dither.errors import ParameterError
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price
from dither.privacy.ledger import LedgerView, Pot

_MOST_REMEMBERED = 256


class Offers:
    """Binds questions and makes offers for them, each once."""

    def __init__(self, kernel: Kernel, pot: str) -> None:
        self._kernel = kernel
        self._pot = pot
        self._remembered: dict[tuple[Any, ...], Any] = {}

    def bind(self, question: Asked) -> Bound:
        """The bound question; one that was bound before stands while the version does."""
        key = (
            "bound",
            question.sql,
            type(question.max_groups),
            question.max_groups,
            self._kernel.version.number,
        )
        bound: Bound | None = self._remembered.get(key)
        if bound is None:
            bound = bind_question(question, key, self._kernel.version.analyses)
            self._remember(key, bound)
        return bound

    def offer(self, bound: Bound, question: Asked, price: Price, view: LedgerView) -> Offered:
        """The offer for a bound question; one made before stands while the terms of the pot do."""
        weights = check_weights(question.weights, bound.recipe)
        key = ("offered", bound.key, price, tuple(weights.items()), question.ends)
        offered: Offered | None = self._remembered.get(key)
        if offered is None or offered.priced.view.path != view.path:
            offered = choose_mechanisms(
                self._kernel, view, bound.recipe, price, self._pot, weights, question.ends
            )
            self._remember(key, offered)
        return offered

    def _remember(self, key: tuple[Any, ...], value: Bound | Offered) -> None:
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = value

    def make_terms(self, bands: Bands, question: Asked) -> Terms:
        """The terms under which the columns of a question are previewed."""
        return Terms(question.level, self._kernel.version.analyses, question.group_size, bands)

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
            terms = self.make_terms(offered.bands, question)
            return meets_widths(list_preview_columns(offered.recipe, mechanisms, terms), widths)

        return make_price(find_least_price(meets))
