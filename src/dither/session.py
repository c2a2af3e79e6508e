"""The analyst's door: connect, preview, ask, and see what is left.

A question goes a straight line of frozen values, each made from the one before by one function:

    Asked    the text and its terms, checked                                read_question
    Bound    what its dialect said, its queries, the recipe of its answer   bind_question
    Offered  mechanisms and shares of the price, those that err least       choose_mechanisms
    Priced   the kernel's calibration and loss; the key of its answer       Kernel.price_at
    Release  noisy values: charged, measured and stored, or found stored    Kernel.answer
    Result   a table with intervals                                         make_result

What the ledger says about the pot is read once, before the line begins. The kernel takes a request,
and nothing that was derived on the way to it: it reads the ledger and derives everything again.
"""

from __future__ import annotations

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
    read_epsilon,
    read_price,
    read_question,
    read_rho,
)
from dither.answer.choose_mechanism import Offered, choose_mechanisms, read_facts
from dither.answer.describe_tables import (
    Shown,
    TableList,
    describe_connection,
    describe_table,
    list_tables,
)
from dither.answer.explain import Explanation, explain, strip_explain_prefix
from dither.answer.explained_result import make_explained_result
from dither.answer.history import History, read_history
from dither.answer.keys_result import (
    KeysResult,
    answer_declared_keys,
    preview_declared_keys,
)
from dither.answer.leased import OpenLease
from dither.answer.limit_notes import check_bins
from dither.answer.notebook_errors import hide_frames
from dither.answer.offers import Offers
from dither.answer.preview import Preview, make_preview
from dither.answer.price_for_accuracy import read_widths
from dither.answer.quantile_intervals import Bands, count_rank_rows
from dither.answer.question_log import read_questions, record_question
from dither.answer.quote import check_delta, quote_charge
from dither.answer.release_info import describe_release
from dither.answer.result import Result, make_result
from dither.answer.suggest import Suggestion, make_suggestion, read_wish
from dither.builder import Question, table
from dither.canonical import Number
from dither.catalog import Catalog
from dither.catalog.file.load import load
from dither.catalog.storage import catalog_hash
from dither.commands import CHARGED_IS_STORED, name_catalog, naming_catalog
from dither.errors import (
    BudgetError,
    ParameterError,
    PrivacyWarning,
    QueryError,
    RefusedError,
)
from dither.plan.facts import Facts
from dither.postprocess.ask_subquestions import ask_subquestions, preview_subquestions
from dither.privacy.kernel.kernel import DRY_RUN, Priced, Release
from dither.privacy.kernel.opening import open_kernel
from dither.privacy.kernel.request import Price, Request
from dither.privacy.kernel.windows import horizon
from dither.privacy.ledger import LedgerView
from dither.privacy.ledger.reports import Reports
from dither.publish.budget import PotBalances
from dither.publish.certificate import write_body
from dither.publish.library import LIBRARY, NO_TOTAL, ConnectionBalances
from dither.publish.seal import sign
from dither.publish.signing import ensure_signing_key
from dither.question.recipe import Recipe
from dither.rules import PrivacyRule
from dither.sql.parameters import Parameters, write_parameters
from dither.sql.parse import read_text
from dither.state import State

if TYPE_CHECKING:
    from dither.steward.rehearsal import Rehearsals

hide_frames()


class Connection:
    """Questions to one registered dataset, paid from one pot."""

    def __init__(
        self, catalog: str | Path | Catalog, *, pot: str = "total", state: str | Path | None = None
    ) -> None:
        written = catalog if isinstance(catalog, Catalog) else load(catalog)
        file = Path(written.file)
        self._state = State.beside(file, state)
        with naming_catalog(file):
            self._kernel = open_kernel(self._state)
        self._reports = Reports.from_ledger(self._kernel.ledger)
        self._rehearsals: Rehearsals | None = None
        self._pot = pot
        self._file = file
        self._catalog_hash = catalog_hash(written)
        self._offers = Offers(self._kernel, pot)
        self._check_catalog()

    def _check_catalog(self) -> None:
        """The catalog that this connection was opened with is the registered one."""
        if self._kernel.version.catalog_hash != self._catalog_hash:
            raise RefusedError(
                f"catalog changed since version {self._kernel.version.number}: run "
                f"'{name_catalog('dither register CATALOG', self._file)}', or connect again if it "
                "was registered just now",
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
        )
        try:
            return self._preview(question)[1]
        except QueryError as refusal:
            if (keys := self._list_keys(question)) is not None:
                return preview_declared_keys(keys)
            return preview_subquestions(
                question, refusal, self.catalog, lambda subquestion: self._preview(subquestion)[1]
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
        params: Parameters | None = None,
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
        explanation, and reads no data. Declared keys alone (SELECT DISTINCT ward) are free: all are
        listed. A question over answers (windows, shares of a total, UNION)
        is asked in parts, and `result.answers` has their answers. `params=[1]` or `params={"a": 1}`
        are written into the text in the place of `?`, `$1` or `:a`.
        """
        sql = write_parameters(sql, params)
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
        )
        try:
            return self._ask(question, fresh, dry_run)
        except QueryError as refusal:
            if (keys := self._list_keys(question)) is not None:
                return keys
            return ask_subquestions(
                question,
                refusal,
                self.catalog,
                lambda subquestion: self._preview(subquestion)[1],
                lambda subquestion: self._ask(subquestion, False, True),
                lambda subquestion: self._ask(subquestion, fresh, dry_run),
                fresh=fresh,
            )

    def _ask(self, question: Asked, fresh: bool, dry_run: bool) -> Result:
        """The answer to one question that needs data."""
        view = self._view()
        bound = self._offers.bind(question)
        price = read_price(question, bound.dialect)
        offered = self._offers.offer(bound, question, price, view)
        if not fresh and not dry_run:
            offered = self._find_stored(bound, question, price, view, offered)
        check_delta(bound.dialect, offered.priced)
        request = offered.priced.request
        if not dry_run:
            check_bins(offered.recipe, lambda: self._reports.has_answer(offered.priced.key))
        release = self._rehearse(request) if dry_run else self._release(offered.priced, fresh)
        if not dry_run and not release.repeated:
            record_question(self._state.root, release.release_id, self._pot, question.sql)
        info = self._info(release, offered.recipe)
        result = make_result(release, offered.recipe, question.level, info, offered.bands)
        return replace(result, _certify=self._certificate)

    def _list_keys(self, question: Asked) -> KeysResult | None:
        """The answer to a question for declared keys alone, which needs no data and no price."""
        return answer_declared_keys(question, self.catalog, self._facts, self._pot)

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
        recipe = wished.recipe
        offered = choose_mechanisms(self._kernel, view, recipe, price, self._pot, {}, None)
        earlier = None if fresh else self._offers.find_earlier_wish(recipe, price, view)
        if earlier is not None and self._reports.has_answer(earlier.priced.key):
            offered = earlier
        release = self._release(offered.priced, fresh)
        rank = _rank(offered.priced, offered.bands)
        return make_suggestion(wished, release.values[0], self._info(release, offered.recipe), rank)

    def lease(self, *, epsilon: Number | None = None, rho: Number | None = None) -> OpenLease:
        """Charge a budget now, and spend it in steps that are chosen and priced as they come.

        For algorithms of one's own: `with con.lease(rho=0.5) as lease:` and
        `lease.release(query, rho=0.1)` with queries of `dither.plan.algebra`, such as `Linear` and
        `Scores`. The charge stays, whatever is used of it; a lease ends with its block or process.
        """
        price = Price(read_epsilon(epsilon), read_rho(rho))
        if not self._view().path:
            self._refuse_pot()
        return OpenLease(self._kernel, price, self._pot)

    def table(self, name: str) -> Question:
        """Build a question step by step.

        Example: `con.table("visits").group_by("ward").agg(n=count()).ask(epsilon=0.5)`.
        """
        return table(name, self)

    def budget(self) -> PotBalances:
        """Spent, left, cap and ceiling of every pot, and what they promise."""
        kind = ConnectionBalances if self._kernel.version.context == LIBRARY else PotBalances
        return kind(self._reports.pots(under_way=False), horizon=horizon(self._kernel.catalog))

    def history(self) -> History:
        """What was asked from this pot, and what it paid: parameters and prices."""
        questions = read_questions(self._state.root)
        return read_history(
            self._reports, self._pot, self._kernel.ledger.ensure_anchored, questions
        )

    @property
    def tables(self) -> TableList:
        """The tables that can be asked about; iterating gives their names."""
        return list_tables(self.catalog)

    def describe(self, table: str) -> Shown:
        """The columns of a table, their types, and what their values may be."""
        return describe_table(self.catalog, table)

    def __repr__(self) -> str:
        return str(describe_connection(self.catalog, self._pot, self.budget()))

    def _repr_html_(self) -> str:
        return describe_connection(self.catalog, self._pot, self.budget())._repr_html_()

    @property
    def catalog(self) -> Catalog:
        """The registered catalog: the public facts that every answer rests on."""
        return self._kernel.catalog

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

    def _certificate(
        self, release: Release, recipe: Recipe, steps: tuple[str, ...], commitment: str
    ) -> dict[str, Any]:
        """What was promised for a release, signed with the dataset's key."""
        if release.version.context == DRY_RUN:
            raise ParameterError(
                "a dry run is about nobody and promises nothing: ask without dry_run=True"
            )
        if release.version.context == LIBRARY:
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
        return sign(body, ensure_signing_key(self._state))

    # -- the line of a question
    # ----------------------------------------------------------------------------------

    @property
    def _facts(self) -> Facts:
        return read_facts(self._kernel)

    def _view(self) -> LedgerView:
        """What the ledger says about this connection's pot.

        The newest registered version is read with it.
        """
        with naming_catalog(self._file):
            view = self._kernel.view(self._pot)
        self._check_catalog()
        return view

    def _preview(self, question: Asked) -> tuple[Offered, Preview]:
        """Price a question and preview its error; the offer comes with it."""
        view = self._view()
        bound = self._offers.bind(question)
        ledger = self._reports
        pot = next((pot for pot in ledger.pots(under_way=False) if pot.name == self._pot), None)
        widths = None
        if question.within is None:
            price = read_price(question, bound.dialect)
        else:
            widths = read_widths(question.within, bound.recipe, question.group_size)
            price = self._offers.find_least_price(bound, question, widths, view, pot)
        offered = self._offers.offer(bound, question, price, view)
        offered = self._find_stored(bound, question, price, view, offered)
        terms = self._offers.make_terms(offered, question)
        stored = pot is not None and ledger.has_answer(offered.priced.key)
        quote = quote_charge(pot, offered.priced)
        return offered, make_preview(
            offered.priced, offered.recipe, terms, pot, quote, stored, widths
        )

    def _find_stored(
        self, bound: Bound, question: Asked, price: Price, view: LedgerView, offered: Offered
    ) -> Offered:
        """The offer that release 0.1 made, where its answer is stored; else the given one."""
        earlier = self._offers.find_earlier(bound, question, price, view)
        if earlier is None or not self._reports.has_answer(earlier.priced.key):
            return offered
        return earlier

    def _release(self, priced: Priced, fresh: bool) -> Release:
        if not priced.view.path:
            self._refuse_pot()
        try:
            with naming_catalog(self._file):
                if fresh:
                    return self._kernel.release(priced.request)
                return self._kernel.answer(priced.request, priced.version.rules)
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
        has_windows = bool(release.version.catalog.unit.column)
        return describe_release(release, recipe, self.budget().person() if has_windows else None)


def _rank(priced: Priced, bands: Bands) -> str:
    cells = max(cells for _, cells in bands.cells)
    rows = count_rank_rows(priced.steps[0].mechanism, cells, Fraction(95, 100))
    return f"with 95% confidence the rank behind it is off by at most {rows:,} rows"


def connect(
    data: Any = None,
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
    if data is not None and catalog is not None:
        if pot is not None or state is not None:
            raise ParameterError("a data frame has no pot and no state: each connect has its own")
        return _connect_frames(data, catalog, 1 if epsilon is None else epsilon)
    if epsilon is not None:
        raise ParameterError("the budget of a registered dataset is opened by its data steward")
    opened = catalog if data is None else data
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
