"""The analyst's door: connect, preview, ask, and see what is left."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from dither.answer.choose_mechanism import Offer, facts_of, offer
from dither.answer.explain import Explanation, explain, explained
from dither.answer.history import History, history
from dither.answer.intervals import level_of
from dither.answer.preview import Preview, Terms, preview, preview_columns
from dither.answer.price_for_accuracy import least_price, meets_widths, wanted_widths
from dither.answer.quantile_intervals import Bands, Ends, ends_asked, rank_rows
from dither.answer.result import Result, build
from dither.answer.split import checked
from dither.answer.suggest import Suggestion, suggestion, wish
from dither.builder import Question, table
from dither.canonical import Number, fraction_text, positive
from dither.catalog import Catalog
from dither.catalog.explain import UNPROTECTED
from dither.catalog.file.load import load
from dither.catalog.owners import owner_names
from dither.catalog.storage import catalog_hash
from dither.errors import BudgetError, ParameterError, QueryError, RefusedError
from dither.given_numbers import whole_number
from dither.privacy.kernel.kernel import DRY_RUN, Kernel, Priced, Release
from dither.privacy.kernel.request import Price, Request
from dither.privacy.kernel.windows import horizon
from dither.privacy.ledger import LedgerView, Pot, charge
from dither.privacy.ledger.reports import Reports
from dither.privacy.ledger.rules import Charge, charge_pure
from dither.publish.budget import Budget
from dither.publish.certificate import body_of
from dither.publish.seal import sign
from dither.publish.signing import signing_key
from dither.question.recipe import Recipe
from dither.sql.bind import bind
from dither.sql.dialects import Spoken, spoken, with_ends
from dither.sql.parse import read_text
from dither.state import State
from dither.steward.rehearsal import Rehearsals
from dither.version import LOSS_VERSION, __version__

_MOST_REMEMBERED = 256
_ADVICE = "choose e.g. epsilon=0.5, or run preview() to see what it buys"


class Bound(NamedTuple):
    """A question that was read: what it is remembered by, what its dialect said, and what it asks for."""

    key: tuple[Any, ...]
    dialect: Spoken
    recipe: Recipe


class Connection:
    """Questions to one registered dataset, paid from one pot."""

    def __init__(self, catalog: str | Path | Catalog, *, pot: str = "total", state: str | Path | None = None) -> None:
        written = catalog if isinstance(catalog, Catalog) else load(catalog)
        file = Path(written.file)
        self._place = State.beside(file, state)
        self._kernel = Kernel(self._place)
        self._reports = Reports.of(self._kernel.ledger)
        self._rehearsals = Rehearsals()
        self._pot = pot
        self._file, self._catalog_hash = file, catalog_hash(written)
        self._bound: dict[tuple[Any, ...], Bound] = {}
        self._offers: dict[tuple[Any, ...], Offer] = {}
        self._check_catalog()

    def _check_catalog(self) -> None:
        """The catalog that this connection was opened with is the registered one."""
        if self._kernel.at.catalog_hash != self._catalog_hash:
            raise RefusedError(
                f"catalog changed since version {self._kernel.at.number}: run 'dither register {self._file}', or "
                "connect again if it was registered just now",
                rule="the registered catalog is the one that counts",
            )

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
    ) -> Preview:
        """Price and error of a question. Reads no data, spends nothing, is the same for every database.

        `within=50` in place of a price finds the least price whose half-widths are at most 50 (or one for each column:
        `within={"n": 50}`). `group_size` is a number of rows for which averages, ratios and relative errors are shown.
        """
        terms = (within, group_size, quantile_intervals, weights, max_groups)
        return self._previewed(sql, epsilon, rho, confidence, *terms)[1]

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
    ) -> Explanation:
        """EXPLAIN PRIVACY: plan, stability, sensitivity, mechanisms, scales, shares, price, errors. Reads no data."""
        asked = explained(read_text(sql)) or sql
        terms = (within, group_size, quantile_intervals, weights, max_groups)
        found, shown = self._previewed(asked, epsilon, rho, confidence, *terms)
        return explain(asked, found.recipe, found.priced, shown, self.catalog, facts_of(self._kernel))

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
        delta: Number | None = None,
        fresh: bool = False,
        dry_run: bool = False,
    ) -> Result | Explanation:
        """Ask: the answer with intervals, paid with at most `epsilon` (or `rho`) from the pot.

        The same question at the same price has one answer: asked again it is free, and the same. `fresh=True` buys a
        new one. `weights={"n": 2}` gives a column more of the price, `max_groups` limits the groups of one unit.
        `quantile_intervals=False` spends nothing on the intervals of quantiles, "1/3" a third of their price; an eighth
        if nothing is said. `dry_run=True` rehearses on a table generated from the catalog alone: free, as noisy as the
        real answer, about nobody. EXPLAIN PRIVACY SELECT ... returns the explanation, reading no data.
        """
        if delta is not None:
            raise ParameterError(
                "delta is not the asker's to choose: a question takes what its pot states per question "
                "(dither budget open --rule approx --delta-per-question)"
            )
        if explained(read_text(sql)) is not None:
            shared: dict[str, Any] = {"group_size": group_size, "quantile_intervals": quantile_intervals}
            shared |= {"weights": weights, "max_groups": max_groups}
            return self.explain(sql, epsilon=epsilon, rho=rho, confidence=confidence, **shared)
        level = level_of(confidence)
        _check_size(group_size)
        view = self._view()
        bound = self._bind_once(sql, max_groups)
        price = _price(epsilon, rho, bound.dialect)
        found = self._offer(bound, view, price, weights, ends_asked(quantile_intervals, level))
        _check_delta(bound.dialect, found.priced)
        release = self._rehearse(found.priced.request) if dry_run else self._released(found.priced, fresh)
        result = build(release, found.recipe, confidence, self._info(release, found.recipe), found.bands)
        return replace(result, _certify=self._certificate)

    def suggest(
        self,
        what: str,
        of: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        keep: Number = 0.99,
        fresh: bool = False,
    ) -> Suggestion:
        """Buy a bound or a limit: `suggest("bounds", "visits.cost", epsilon=0.2, keep=0.99)`.

        Also "rows_per_unit" of a table and "max_groups" of a column. The share kept is the one bought, never measured.
        """
        view = self._view()
        wished = wish(what, of, keep, self.catalog, facts_of(self._kernel))
        found = offer(self._kernel, view, wished.recipe, _price(epsilon, rho), self._pot, {}, None)
        release = self._released(found.priced, fresh)
        rank = _rank(found.priced, found.bands)
        return suggestion(wished, release.values[0], self._info(release, found.recipe), rank)

    def table(self, name: str) -> Question:
        """A question built step by step: `con.table("visits").group_by("ward").agg(n=count()).ask(epsilon=0.5)`."""
        return table(name, self)

    def budget(self) -> Budget:
        """Spent, left, cap and ceiling of every pot, and what they promise."""
        return Budget(self._reports.pots(under_way=False), horizon=horizon(self._kernel.catalog))

    def history(self) -> History:
        """What was asked from this pot, and what it paid: parameters and prices."""
        return history(self._reports, self._pot)

    @property
    def kernel(self) -> Kernel:
        """The kernel behind this connection."""
        return self._kernel

    @property
    def catalog(self) -> Catalog:
        """The registered catalog: the public facts that every answer rests on."""
        return self._kernel.catalog

    def bind(self, sql: str, *, max_groups: int | None = None) -> Recipe:
        """The queries and output columns of a question, without a price; a question asked again is bound once."""
        return self._bind_once(sql, max_groups).recipe

    def _bind_once(self, sql: str, max_groups: int | None) -> Bound:
        read_text(sql)
        if max_groups is not None:
            whole_number(max_groups, "max_groups", remedy="a number of groups, such as 3")
        key = (sql, type(max_groups), max_groups, self._kernel.at.number)
        bound = self._bound.get(key)
        if bound is None:
            dialect = spoken(sql)
            bound = Bound(key, dialect, self._bind(sql, dialect, max_groups))
            _make_room(self._bound)
            self._bound[key] = bound
        return bound

    def _bind(self, sql: str, said: Spoken, max_groups: int | None) -> Recipe:
        self._check_unit(said)
        limits = [limit for limit in (max_groups, said.max_groups) if limit is not None]
        with said.placed():
            recipe = bind(said.sql, self._kernel.catalog, facts_of(self._kernel), min(limits) if limits else None)
            if said.public_groups and any(each.selection is not None for each in recipe.sets):
                raise QueryError(
                    "PUBLIC_GROUPS, but some keys are in no list: join from the public table that lists them, or list "
                    "them in the catalog; without PUBLIC_GROUPS they are shown by private key selection"
                )
            return with_ends(replace(recipe, sql=sql), said)

    def _check_unit(self, said: Spoken) -> None:
        """A question may name the unit, as GoogleSQL does; it cannot choose another."""
        owners = {name for table in self.catalog.private_tables for name in owner_names(self.catalog, table)}
        if said.unit is not None and said.unit.lower() not in {name.lower() for name in owners}:
            told = ", ".join(sorted(owners)) or "each row by itself"
            raise RefusedError(
                f"privacy_unit_column {said.unit}: the catalog protects {told}",
                rule="the unit is the catalog's",
            )

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
        view = self._view()
        bound = self._bind_once(sql, max_groups)
        price = _price(epsilon, rho, bound.dialect)
        return self._offer(bound, view, price, weights, Ends(Fraction(95, 100))).priced.request

    def _certificate(self, release: Release, recipe: Recipe, steps: tuple[str, ...], commitment: str) -> dict[str, Any]:
        """What was promised for a release, signed with the dataset's key."""
        if release.at.context == DRY_RUN:
            raise ParameterError("a dry run is about nobody and promises nothing: ask without dry_run=True")
        ledger = self._reports
        budget = self.budget()
        standing = {pot.name: pot for pot in budget.pots}
        way = tuple(standing[pot.name] for pot in ledger.path(release.priced.request.pot))
        limits = [limit for atom in recipe.atoms for limit in atom.limits]
        body = body_of(release, recipe.sql, limits, way, ledger.incidents(), steps, budget.person(), commitment)
        return sign(body, signing_key(self._place))

    # -- the way of a question ------------------------------------------------------------------------------------

    def _view(self) -> LedgerView:
        """What the ledger says about this connection's pot, and the newest registered version with it."""
        view = self._kernel.view(self._pot)
        self._check_catalog()
        return view

    def _offer(
        self,
        bound: Bound,
        view: LedgerView,
        price: Price,
        weights: Mapping[str, Number] | None,
        ends: Ends | None,
    ) -> Offer:
        """The offer for a bound question; one made before stands while the terms of the pot do.

        `ends`: the intervals of quantiles, or None for none.
        """
        shares = checked(weights, bound.recipe)
        key = (bound.key, price, tuple(shares.items()), ends)
        made = self._offers.get(key)
        if made is None or made.priced.view.path != view.path:
            made = offer(self._kernel, view, bound.recipe, price, self._pot, shares, ends)
            _make_room(self._offers)
            self._offers[key] = made
        return made

    def _previewed(
        self,
        sql: str,
        epsilon: Number | None,
        rho: Number | None,
        confidence: Number,
        within: Number | dict[str, Number] | None,
        group_size: int | None,
        quantile_intervals: bool | Number,
        weights: Mapping[str, Number] | None,
        max_groups: int | None,
    ) -> tuple[Offer, Preview]:
        level = level_of(confidence)
        _check_size(group_size)
        ends = ends_asked(quantile_intervals, level)
        view = self._view()
        bound = self._bind_once(sql, max_groups)
        ledger = self._reports
        pot = next((pot for pot in ledger.pots(under_way=False) if pot.name == self._pot), None)
        wanted = None
        if within is None:
            price = _price(epsilon, rho, bound.dialect)
        else:
            if epsilon is not None or rho is not None:
                raise ParameterError("within= finds the price: leave epsilon= and rho= out")
            wanted = wanted_widths(within, bound.recipe, group_size)
            price = self._least(bound, view, wanted, weights, group_size, level, ends, pot)
        found = self._offer(bound, view, price, weights, ends)
        terms = self._terms(found.bands, level, group_size)
        stored = pot is not None and ledger.has_answer(found.priced.key)
        shown = preview(found.priced, found.recipe, terms, pot, _quote(pot, found.priced), stored, wanted)
        return found, shown

    def _terms(self, bands: Bands, level: Fraction, group_size: int | None) -> Terms:
        return Terms(level, self.catalog, facts_of(self._kernel), group_size, bands)

    def _least(
        self,
        bound: Bound,
        view: LedgerView,
        wanted: dict[str, float],
        weights: Mapping[str, Number] | None,
        group_size: int | None,
        level: Fraction,
        ends: Ends | None,
        pot: Pot | None,
    ) -> Price:
        """The least price that meets the wish, in the pot's own measure."""
        in_rho = pot is not None and pot.rule == "zcdp"

        def priced(value: Fraction) -> Price:
            return Price(None, value) if in_rho else Price(value, None)

        self._offer(bound, view, priced(Fraction(1)), weights, ends)  # what is refused is refused at any price

        def meets(value: Fraction) -> bool:
            try:
                found = self._offer(bound, view, priced(value), weights, ends)
            except ParameterError:  # more noise than can be drawn
                return False
            mechanisms = [each.mechanism for each in found.priced.steps]
            columns = preview_columns(found.recipe, mechanisms, self._terms(found.bands, level, group_size))
            return meets_widths(columns, wanted)

        return priced(least_price(meets))

    def _released(self, priced: Priced, fresh: bool) -> Release:
        if not priced.view.path:
            self._refuse_pot()
        return self._kernel.release(priced.request) if fresh else self._kernel.answer(priced.request)

    def _rehearse(self, request: Request) -> Release:
        return self._rehearsals.rehearse(self._kernel.price(replace(request, context=DRY_RUN)))

    def _refuse_pot(self) -> None:
        names = [pot.name for pot in self._reports.pots(under_way=False)]
        raise BudgetError(
            f"there is no pot {self._pot!r}" + (f" (there are {', '.join(names)})" if names else "") + ". "
            f"The data steward opens it: dither budget open {self._pot} --epsilon 3 --ceiling 5 "
            "--question '...' --population '...' --recipient '...'"
        )

    def _info(self, release: Release, recipe: Recipe) -> dict[str, Any]:
        catalog, price = release.at.catalog, release.priced.request.price
        asked = release.priced.request.pot
        path = release.priced.view.path  # only a dry run can have no pot
        pot = path[0] if path else None
        return {
            "release_id": release.release_id,
            "repeated": release.repeated,
            "dataset": catalog.dataset,
            "lineage": catalog.lineage,
            "version": release.at.number,
            "catalog_hash": release.at.catalog_hash,
            "plan_hash": recipe.plan_hash,
            "sql": recipe.sql,
            "context": release.at.context,
            "mode": "embedded",
            "principal": getpass.getuser(),
            "pot": asked,
            "rule": "none" if pot is None else pot.rule,
            "measure": price.name if pot is None else pot.filter.measure,
            "unit": catalog.unit.label,
            "neighbours": catalog.neighbours,
            "price_asked": fraction_text(price.value),
            "price_in": price.name,
            "charged": fraction_text(release.charged),
            "charges": {name: list(map(fraction_text, taken)) for name, taken in release.charges.items()},
            "loss": release.priced.loss.to_json(),
            "pot_spent_after": fraction_text(release.spent_after),
            "pot_cap": fraction_text(release.cap),
            "released_at": release.released_at,
            "dither_version": __version__,
            "loss_version": LOSS_VERSION,
            "unprotected": list(UNPROTECTED),
            **({"person": str(self.budget().person())} if catalog.unit.column else {}),
        }


def _check_delta(dialect: Spoken, priced: Priced) -> None:
    """A delta in the question is a limit on what the pot's share may be."""
    path = priced.view.path
    if dialect.delta is None or not path:
        return
    taken = charge(path[0].filter, priced.loss).delta
    if taken > dialect.delta:
        raise RefusedError(
            f"the question allows delta {float(dialect.delta):g}, and its pot takes {float(taken):g}: ask from a pot "
            "with a smaller delta per question",
            rule="options tighten, never loosen",
        )


def _price(epsilon: Number | None, rho: Number | None, dialect: Spoken | None = None) -> Price:
    """The price of the arguments, or that in the question's own OPTIONS(epsilon=...)."""
    said = None if dialect is None else dialect.epsilon
    if said is not None:
        if epsilon is not None or rho is not None:
            raise ParameterError("the price is in OPTIONS(epsilon=...) already: leave epsilon= and rho= out")
        epsilon = said
    return Price(
        None if epsilon is None else positive(epsilon, "epsilon", _ADVICE),
        None if rho is None else positive(rho, "rho", "choose e.g. rho=0.1"),
    )


def _make_room(remembered: dict[Any, Any]) -> None:
    if len(remembered) >= _MOST_REMEMBERED:
        remembered.clear()


def _check_size(group_size: int | None) -> None:
    if group_size is not None:
        whole_number(group_size, "group_size", remedy="a number of rows, such as 1000")


def _rank(priced: Priced, bands: Bands) -> str:
    cells = max(cells for _, cells in bands.cells)
    rows = rank_rows(priced.steps[0].mechanism, cells, Fraction(95, 100))
    return f"with 95% confidence the rank behind it is off by at most {rows:,} rows"


def _quote(pot: Pot | None, priced: Priced) -> Charge:
    """What the pot would take; refused here, for free, where its rule has no charge for the loss."""
    if pot is not None:
        return charge(pot.filter, priced.loss)
    price = priced.request.price
    return Charge(charge_pure(priced.loss) if price.rho is None else price.rho, price.value * 0)


def connect(catalog: str | Path | Catalog, *, pot: str = "total", state: str | Path | None = None) -> Connection:
    """Open a registered dataset by its catalog: a file, or a Catalog loaded from one."""
    return Connection(catalog, pot=pot, state=state)
