"""What a connection buys beside answers: bounds and limits for questions to come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dither.answer.asked import read_epsilon, read_question, read_rho
from dither.answer.choose_mechanism import Offered, read_facts
from dither.answer.curator_access import CuratorAccess, Pricer
from dither.answer.offers import Offers
from dither.answer.quantile_intervals import Bands, list_rank_laws, write_rank_rows
from dither.canonical import Number
from dither.errors import DitherError, ParameterError, QueryError
from dither.privacy.kernel.kernel import Priced, Release
from dither.privacy.kernel.request import Price
from dither.privacy.ledger import LedgerView
from dither.question.recipe import Recipe

if TYPE_CHECKING:
    from dither.answer.limit_wishes import LimitWish, WiderQuestion
    from dither.answer.suggest import Suggestion
    from dither.answer.suggest_limits import LimitSuggestion


class SuggestionDoor:
    """The part of a connection that buys bounds and limits."""

    _kernel: Pricer
    _offers: Offers

    if TYPE_CHECKING:
        _curator: CuratorAccess
        _view: Callable[[], LedgerView]
        _choose_stored: Callable[[Iterator[Offered], Offered], Offered]
        _release: Callable[[Priced, bool, str | None], Release]
        _info: Callable[[Release, Recipe], dict[str, Any]]

    def suggest(
        self,
        what: str,
        of: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        keep: Number = 0.99,
        fresh: bool = False,
    ) -> Suggestion | LimitSuggestion:
        """Buy a bound or a limit: `suggest("bounds", "visits.cost", epsilon=0.2, keep=0.99)`.

        Also "rows_per_unit" of a table and "max_groups" of a column. The share kept is the one
        bought, never measured. `suggest("limits", sql, epsilon=0.1)` buys the limits with which a
        question at nine times that price errs least: pass them to `sql` as `limits=`.
        """
        if what == "limits":
            return self._suggest_limits(of, Price(read_epsilon(epsilon), read_rho(rho)), fresh)
        from dither.answer.suggest import make_suggestion, read_wish

        view = self._view()
        wished = read_wish(what, of, keep, self._kernel.catalog, read_facts(self._kernel))
        price = Price(read_epsilon(epsilon), read_rho(rho))
        recipe = wished.recipe
        offered = self._offers.offer_wish(recipe, price, view)
        if not fresh:
            earlier = self._offers.list_earlier_wishes(recipe, price, view, offered)
            offered = self._choose_stored(earlier, offered)
        release = self._release(offered.priced, fresh, None)
        rank = _rank(offered.priced, offered.bands)
        return make_suggestion(wished, release.values[0], self._info(release, offered.recipe), rank)

    def _suggest_limits(self, sql: str, price: Price, fresh: bool) -> LimitSuggestion:
        """Buy the limits of a question, by histograms of what people add to it."""
        from dither.answer.limit_wishes import make_wish_recipe
        from dither.answer.suggest_limits import make_limit_suggestion

        view = self._view()
        wishes = self._read_limit_wishes(sql, price)
        analyses = self._kernel.version.analyses
        recipe = make_wish_recipe([wish for wish in wishes.values() if wish is not None], analyses)
        offered = self._offers.offer_wish(recipe, price, view)
        release = self._release(offered.priced, fresh, None)
        info = self._info(release, offered.recipe)
        return make_limit_suggestion(sql, wishes, recipe, release, price, info)

    def _read_limit_wishes(self, sql: str, price: Price) -> dict[str, LimitWish | None]:
        """What is to be bought for each part of a question; one without parts has no name."""
        question = read_question(sql, epsilon=price.epsilon, rho=price.rho)
        try:
            self._offers.bind(question)
        except QueryError as refusal:
            from dither.postprocess.limited_parts import list_limited_parts

            limited_parts = list_limited_parts(
                question,
                refusal,
                self._kernel.catalog,
                self._curator.read_public,
                lambda text: self._offers.bind(read_question(text)),
            )
            if len(limited_parts) == 1:
                return {
                    "": self._read_limit_wish(
                        sql, limited_parts[0].sql, limited_parts[0].sql, price
                    )
                }
            wishes: dict[str, LimitWish | None] = {}
            errors: list[ParameterError] = []
            for limited in limited_parts:
                try:
                    wishes[limited.name] = self._read_limit_wish(
                        sql, limited.sql, limited.uniform_sql, price
                    )
                except ParameterError as error:
                    errors.append(error)
                    wishes[limited.name] = None
            if not any(wishes.values()) and errors:
                raise errors[-1] from None
            return wishes
        return {"": self._read_limit_wish(sql, sql, sql, price)}

    def _read_limit_wish(
        self, sql: str, text: str | None, uniform: str | None, price: Price
    ) -> LimitWish:
        """The histograms of one question, and of a wider one where few people would be in them."""
        from dither.answer.limit_wishes import read_limit_wish

        if text is None:
            raise ParameterError(
                "no limits are bought for a part that waits for a number, unless it is made of "
                "averages of values with public bounds"
            )
        bound = self._offers.bind(read_question(text))
        wider = None if uniform is None else self._find_wider(uniform)
        analyses = self._kernel.version.analyses
        allow_total = price.rho is None
        return read_limit_wish(sql, bound.recipe, analyses, allow_total=allow_total, wider=wider)

    def _find_wider(self, sql: str) -> WiderQuestion | None:
        """The wider question, where there is one and public rows are at hand."""
        from dither.answer.limit_wishes import WiderQuestion
        from dither.postprocess.wider_question import widen_question

        try:
            widened = widen_question(sql, self._kernel.catalog, self._curator.read_public)
            if widened is None:
                return None
            recipe = self._offers.bind(read_question(widened[0])).recipe
        except DitherError:
            return None
        return WiderQuestion(recipe, widened[1])


def _rank(priced: Priced, bands: Bands) -> str:
    cells = max(cells for _, cells in bands.cells)
    laws = list_rank_laws(priced.steps[0].mechanism)
    rows = write_rank_rows(laws, cells, Fraction(95, 100))
    return f"with 95% confidence the rank behind it is off by at most {rows}"
