"""The analyst's door: connect, preview, ask, and see what is left.

A question goes a straight line of frozen values, each made from the one before by one function:

    Asked    the text and its terms, checked                                read_question
    Bound    what its dialect said, its queries, the recipe of its answer   bind_question
    Offered  mechanisms and shares of the price, those that err least       choose_mechanisms
    Priced   the kernel's calibration and loss; the key of its answer       Kernel.price_at
    Release  noisy values: charged, measured and stored, or found stored    Kernel.answer
    Result   a table with intervals                                         build_result

What the ledger says about the pot is read once, before the line begins. The kernel takes a request,
and nothing that was derived on the way to it: it reads the ledger and derives everything again.
"""

from __future__ import annotations

import getpass
import warnings
import weakref
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dither.answer.asked import (
    Asked,
    Bound,
    bind_question,
    read_epsilon,
    read_price,
    read_question,
    read_rho,
)
from dither.answer.choose_mechanism import Offered, choose_mechanisms, read_facts
from dither.answer.explain import Explanation, explain, strip_explain_prefix
from dither.answer.explained_result import build_explained_result
from dither.answer.history import History, read_history
from dither.answer.preview import Preview, make_preview
from dither.answer.preview_columns import Terms, list_preview_columns
from dither.answer.price_for_accuracy import find_least_price, meets_widths, read_widths
from dither.answer.quantile_intervals import Bands, count_rank_rows
from dither.answer.result import Result, build_result
from dither.answer.split import check_weights
from dither.answer.suggest import Suggestion, make_suggestion, read_wish
from dither.builder import Question, table
from dither.canonical import Number, fraction_text
from dither.catalog import Catalog
from dither.catalog.explain import UNPROTECTED
from dither.catalog.file.load import load
from dither.catalog.storage import catalog_hash
from dither.commands import CHARGED_IS_STORED, name_catalog, naming_catalog
from dither.errors import BudgetError, ParameterError, PrivacyWarning, RefusedError
from dither.plan.facts import Facts
from dither.privacy.charges.rules import Charge, charge, charge_from_amounts, charge_pure
from dither.privacy.kernel.kernel import DRY_RUN, Priced, Release
from dither.privacy.kernel.opening import open_kernel
from dither.privacy.kernel.request import Price, Request
from dither.privacy.kernel.windows import horizon
from dither.privacy.ledger import LedgerView, Pot
from dither.privacy.ledger.reports import Reports
from dither.publish.budget import PotBalances
from dither.publish.certificate import write_body
from dither.publish.library import LIBRARY, NO_TOTAL, ConnectionBalances
from dither.publish.seal import sign
from dither.publish.signing import ensure_signing_key
from dither.question.recipe import Recipe
from dither.rules import PrivacyRule
from dither.sql.dialects import DialectQuestion
from dither.sql.parse import read_text
from dither.state import State
from dither.version import LOSS_VERSION, __version__

if TYPE_CHECKING:
    from dither.steward.rehearsal import Rehearsals

_MOST_REMEMBERED = 256


class Connection:
    """Questions to one registered dataset, paid from one pot."""

    def __init__(
        self, catalog: str | Path | Catalog, *, pot: str = "total", state: str | Path | None = None
    ) -> None:
        written = catalog if isinstance(catalog, Catalog) else load(catalog)
        file = Path(written.file)
        self._place = State.beside(file, state)
        with naming_catalog(file):
            self._kernel = open_kernel(self._place)
        self._reports = Reports.of(self._kernel.ledger)
        self._rehearsals: Rehearsals | None = None
        self._pot = pot
        self._file, self._catalog_hash = file, catalog_hash(written)
        self._remembered: dict[tuple[Any, ...], Any] = {}
        self._check_catalog()

    def _check_catalog(self) -> None:
        """The catalog that this connection was opened with is the registered one."""
        if self._kernel.at.catalog_hash != self._catalog_hash:
            raise RefusedError(
                f"catalog changed since version {self._kernel.at.number}: run "
                f"'{name_catalog('dither register CATALOG', self._file)}', or "
                "connect again if it was registered just now",
                rule=PrivacyRule.CATALOG,
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
        """Price and error of a question. Reads no data, spends nothing, is the same for every
        database.

        `within=50` in place of a price finds the least price whose half-widths are at most 50 (or
        one for each column: `within={"n": 50}`). `group_size` is a number of rows for which
        averages, ratios and relative errors are shown.
        """
        question = read_question(
            sql,
            epsilon=epsilon,
            rho=rho,
            confidence=confidence,
            within=within,
            group_size=group_size,
            quantile_intervals=quantile_intervals,
            weights=weights,
            max_groups=max_groups,
        )
        return self._preview(question)[1]

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
        """EXPLAIN PRIVACY: plan, stability, sensitivity, mechanisms, scales, shares, price, errors.
        Reads no data."""
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
        )
        offered, shown = self._preview(question)
        return explain(
            question.sql, offered.recipe, offered.priced, shown, self._kernel.at.analyses
        )

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
    ) -> Result:
        """Ask: the answer with intervals, paid with at most `epsilon` (or `rho`) from the pot.

        The same question at the same price has one answer: asked again it is free, and the same.
        `fresh=True` buys a new one. `weights={"n": 2}` gives a column more of the price,
        `max_groups` limits the groups of one unit. `quantile_intervals=False` spends nothing on the
        intervals of quantiles, "1/3" a third of their price; an eighth if nothing is said.
        `dry_run=True` rehearses on a table generated from the catalog alone: free, as noisy as the
        real answer, about nobody. EXPLAIN PRIVACY SELECT ... gives a result whose table is the
        explanation, and reads no data.
        """
        if delta is not None:
            raise ParameterError(
                "delta is not the asker's to choose: a question takes what its pot states per "
                "question, which the steward said when it was opened (--delta-per-question)"
            )
        if strip_explain_prefix(read_text(sql)) is not None:
            shared: dict[str, Any] = {
                "group_size": group_size,
                "quantile_intervals": quantile_intervals,
            }
            shared |= {"weights": weights, "max_groups": max_groups}
            explanation = self.explain(
                sql, epsilon=epsilon, rho=rho, confidence=confidence, **shared
            )
            return build_explained_result(explanation, {"sql": explanation.sql, "pot": self._pot})
        question = read_question(
            sql,
            epsilon=epsilon,
            rho=rho,
            confidence=confidence,
            group_size=group_size,
            quantile_intervals=quantile_intervals,
            weights=weights,
            max_groups=max_groups,
        )
        view = self._view()
        bound = self._bind(question)
        offered = self._offer(bound, question, read_price(question, bound.dialect), view)
        _check_delta(bound.dialect, offered.priced)
        request = offered.priced.request
        release = self._rehearse(request) if dry_run else self._release(offered.priced, fresh)
        info = self._info(release, offered.recipe)
        result = build_result(release, offered.recipe, confidence, info, offered.bands)
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

        Also "rows_per_unit" of a table and "max_groups" of a column. The share kept is the one
        bought, never measured.
        """
        view = self._view()
        wished = read_wish(what, of, keep, self.catalog, self._facts)
        price = Price(read_epsilon(epsilon), read_rho(rho))
        offered = choose_mechanisms(self._kernel, view, wished.recipe, price, self._pot, {}, None)
        release = self._release(offered.priced, fresh)
        rank = _rank(offered.priced, offered.bands)
        return make_suggestion(wished, release.values[0], self._info(release, offered.recipe), rank)

    def table(self, name: str) -> Question:
        """A question built step by step:
        `con.table("visits").group_by("ward").agg(n=count()).ask(epsilon=0.5)`."""
        return table(name, self)

    def budget(self) -> PotBalances:
        """Spent, left, cap and ceiling of every pot, and what they promise."""
        kind = ConnectionBalances if self._kernel.at.context == LIBRARY else PotBalances
        return kind(self._reports.pots(under_way=False), horizon=horizon(self._kernel.catalog))

    def history(self) -> History:
        """What was asked from this pot, and what it paid: parameters and prices."""
        return read_history(self._reports, self._pot, self._kernel.ledger.ensure_anchored)

    @property
    def catalog(self) -> Catalog:
        """The registered catalog: the public facts that every answer rests on."""
        return self._kernel.catalog

    def bind(self, sql: str, *, max_groups: int | None = None) -> Recipe:
        """The queries and output columns of a question, without a price."""
        return self._bind(read_question(sql, max_groups=max_groups)).recipe

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
        bound = self._bind(question)
        return self._offer(
            bound, question, read_price(question, bound.dialect), view
        ).priced.request

    def _certificate(
        self, release: Release, recipe: Recipe, steps: tuple[str, ...], commitment: str
    ) -> dict[str, Any]:
        """What was promised for a release, signed with the dataset's key."""
        if release.at.context == DRY_RUN:
            raise ParameterError(
                "a dry run is about nobody and promises nothing: ask without dry_run=True"
            )
        if release.at.context == LIBRARY:
            raise ParameterError(f"{NO_TOTAL}: register the data: dither quickstart --help")
        ledger = self._reports
        budget = self.budget()
        standing = {pot.name: pot for pot in budget.pots}
        pot_path = tuple(standing[pot.name] for pot in ledger.path(release.priced.request.pot))
        limits = [limit for atom in recipe.atoms for limit in atom.limits]
        body = write_body(
            release,
            recipe.sql,
            limits,
            pot_path,
            ledger.incidents(),
            steps,
            budget.person(),
            commitment,
        )
        return sign(body, ensure_signing_key(self._place))

    # -- the line of a question
    # ----------------------------------------------------------------------------------

    @property
    def _facts(self) -> Facts:
        return read_facts(self._kernel)

    def _view(self) -> LedgerView:
        """What the ledger says about this connection's pot, and the newest registered version with
        it."""
        with naming_catalog(self._file):
            view = self._kernel.view(self._pot)
        self._check_catalog()
        return view

    def _bind(self, question: Asked) -> Bound:
        """The bound question; one that was bound before stands while the version does."""
        key = (
            "bound",
            question.sql,
            type(question.max_groups),
            question.max_groups,
            self._kernel.at.number,
        )
        bound: Bound | None = self._remembered.get(key)
        if bound is None:
            bound = bind_question(question, key, self._kernel.catalog, self._facts)
            self._remember(key, bound)
        return bound

    def _offer(self, bound: Bound, question: Asked, price: Price, view: LedgerView) -> Offered:
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

    def _preview(self, question: Asked) -> tuple[Offered, Preview]:
        view = self._view()
        bound = self._bind(question)
        ledger = self._reports
        pot = next((pot for pot in ledger.pots(under_way=False) if pot.name == self._pot), None)
        wanted = None
        if question.within is None:
            price = read_price(question, bound.dialect)
        else:
            wanted = read_widths(question.within, bound.recipe, question.group_size)
            price = self._find_least_price(bound, question, wanted, view, pot)
        offered = self._offer(bound, question, price, view)
        terms = self._terms(offered.bands, question)
        stored = pot is not None and ledger.has_answer(offered.priced.key)
        quote = _quote(pot, offered.priced)
        return offered, make_preview(
            offered.priced, offered.recipe, terms, pot, quote, stored, wanted
        )

    def _terms(self, bands: Bands, question: Asked) -> Terms:
        return Terms(question.level, self._kernel.at.analyses, question.group_size, bands)

    def _find_least_price(
        self,
        bound: Bound,
        question: Asked,
        wanted: dict[str, float],
        view: LedgerView,
        pot: Pot | None,
    ) -> Price:
        """The least price that meets the wish, in the pot's own measure."""
        in_rho = pot is not None and pot.rule == "zcdp"

        def make_price(value: Fraction) -> Price:
            return Price(None, value) if in_rho else Price(value, None)

        self._offer(
            bound, question, make_price(Fraction(1)), view
        )  # what is refused is refused at any price

        def meets(value: Fraction) -> bool:
            try:
                offered = self._offer(bound, question, make_price(value), view)
            except ParameterError:  # more noise than can be drawn
                return False
            mechanisms = [step.mechanism for step in offered.priced.steps]
            columns = list_preview_columns(
                offered.recipe, mechanisms, self._terms(offered.bands, question)
            )
            return meets_widths(columns, wanted)

        return make_price(find_least_price(meets))

    def _release(self, priced: Priced, fresh: bool) -> Release:
        if not priced.view.path:
            self._refuse_pot()
        ask = self._kernel.release if fresh else self._kernel.answer
        try:
            with naming_catalog(self._file):
                return ask(priced.request)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(CHARGED_IS_STORED)
            raise

    def _rehearse(self, request: Request) -> Release:
        """The request on an invented table; what invents it is imported for the first rehearsal."""
        if self._rehearsals is None:
            from dither.steward.rehearsal import Rehearsals

            self._rehearsals = Rehearsals()
        return self._rehearsals.rehearse(self._kernel.price(replace(request, context=DRY_RUN)))

    def _refuse_pot(self) -> None:
        names = [pot.name for pot in self._reports.pots(under_way=False)]
        raise BudgetError(
            f"there is no pot {self._pot!r}"
            + (f" (there are {', '.join(names)})" if names else "")
            + ". "
            + name_catalog(
                f"The data steward opens it: dither budget open CATALOG {self._pot} --epsilon 3 "
                "--ceiling 5 --question '...' --population '...' --recipient '...'",
                self._file,
            )
        )

    def _info(self, release: Release, recipe: Recipe) -> dict[str, Any]:
        catalog, price = release.at.catalog, release.priced.request.price
        pot_name = release.priced.request.pot
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
            "pot": pot_name,
            "rule": "none" if pot is None else pot.rule,
            "measure": price.name if pot is None else pot.filter.measure,
            "unit": catalog.unit.label,
            "neighbours": catalog.neighbours,
            "price_asked": fraction_text(price.value),
            "price_in": price.name,
            "charged": fraction_text(release.charged),
            "charges": {
                name: list(map(fraction_text, taken)) for name, taken in release.charges.items()
            },
            "loss": release.priced.loss.to_json(),
            "pot_spent_after": fraction_text(release.spent_after),
            "pot_cap": fraction_text(release.cap),
            "released_at": release.released_at,
            "dither_version": __version__,
            "loss_version": LOSS_VERSION,
            "unprotected": list(UNPROTECTED),
            **({"library": NO_TOTAL} if release.at.context == LIBRARY else {}),
            **({"person": str(self.budget().person())} if catalog.unit.column else {}),
        }


def _check_delta(dialect: DialectQuestion, priced: Priced) -> None:
    """A delta in the question is a limit on what the pot's share may be."""
    path = priced.view.path
    if dialect.delta is None or not path:
        return
    taken = charge(priced.loss, path[0].filter).delta
    if taken > dialect.delta:
        raise RefusedError(
            f"the question allows delta {float(dialect.delta):g}, and its pot takes "
            f"{float(taken):g}: ask from a pot "
            "with a smaller delta per question",
            rule=PrivacyRule.ONLY_TIGHTEN,
        )


def _rank(priced: Priced, bands: Bands) -> str:
    cells = max(cells for _, cells in bands.cells)
    rows = count_rank_rows(priced.steps[0].mechanism, cells, Fraction(95, 100))
    return f"with 95% confidence the rank behind it is off by at most {rows:,} rows"


def _quote(pot: Pot | None, priced: Priced) -> Charge:
    """What the pot would take; refused here, for free, where its rule has no charge for the
    loss."""
    if pot is not None:
        return charge(priced.loss, pot.filter)
    price = priced.request.price
    return charge_from_amounts(
        charge_pure(priced.loss) if price.rho is None else price.rho, price.value * 0
    )


def connect(
    source: Any = None,
    *,
    catalog: str | Path | Catalog | None = None,
    pot: str | None = None,
    state: str | Path | None = None,
    epsilon: Number | None = None,
) -> Connection:
    """Open a registered dataset by its catalog: a file, or a Catalog loaded from one.

    `connect(frame, catalog="adult.yaml")` asks a pandas, polars or Arrow frame that the caller
    holds (several as `{"table": frame}`), with a budget of `epsilon` (1) for this connection alone:
    each one starts from zero, and no total is promised.
    """
    if source is not None and catalog is not None:
        if pot is not None or state is not None:
            raise ParameterError("a data frame has no pot and no state: each connect has its own")
        return _connect_frames(source, catalog, 1 if epsilon is None else epsilon)
    if epsilon is not None:
        raise ParameterError("the budget of a registered dataset is opened by its data steward")
    opened = catalog if source is None else source
    if not isinstance(opened, (str, Path, Catalog)):
        raise ParameterError(
            "connect takes the catalog of a registered dataset, or a data frame with its catalog: "
            "connect(frame, catalog='adult.yaml')"
        )
    return Connection(opened, pot=pot or "total", state=state)


def _connect_frames(frames: Any, catalog: str | Path | Catalog, epsilon: Number) -> Connection:
    from dither.steward.frames import POT, copy_frames

    copy = copy_frames(frames, catalog, epsilon)
    try:
        connection = Connection(copy.catalog, pot=POT, state=copy.state.root)
    except BaseException:
        copy.remove()
        raise
    weakref.finalize(connection, copy.remove)
    warnings.warn(NO_TOTAL, PrivacyWarning, stacklevel=3)
    return connection
