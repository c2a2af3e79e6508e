"""What algorithms ask of a connection: workloads, synthetic tables, leases and jobs.

`Connection` in `session.py` has these beside questions in SQL. Packages that compute from released
values alone are imported when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dither.answer.asked import read_epsilon, read_rho
from dither.answer.curator_access import CuratorAccess, Pricer
from dither.canonical import Number
from dither.errors import BudgetError, ParameterError
from dither.plan.algebra import Query
from dither.privacy.kernel.kernel import Priced, Release, Values
from dither.privacy.kernel.request import Price
from dither.privacy.ledger import LedgerView
from dither.question.recipe import Recipe

if TYPE_CHECKING:
    from dither.answer.leased import JobStep, OpenFixedLease, OpenLease
    from dither.answer.result import Result
    from dither.synth.constraints import Constraint
    from dither.synth.linked import SyntheticPair
    from dither.synth.synthetic import Synthetic
    from dither.synth.warm_start import PublicTable
    from dither.workloads.adaptive_grid import AskedGrid
    from dither.workloads.adaptive_histogram import AskedHistogram
    from dither.workloads.adaptive_ranges import AskedRanges
    from dither.workloads.asked_workload import AskedWorkload
    from dither.workloads.language import CountingWorkload
    from dither.workloads.online import OnlineCounts


class AlgorithmDoor:
    """The part of a connection that algorithms use."""

    _curator: CuratorAccess
    _kernel: Pricer
    _pot: str

    if TYPE_CHECKING:
        sql: Callable[..., Result]
        bind: Callable[..., Recipe]
        _view: Callable[[], LedgerView]
        _release: Callable[[Priced, bool, str | None], Release]
        _info: Callable[[Release, Recipe], dict[str, Any]]

    def workload(
        self,
        workload: CountingWorkload | Sequence[str] | None = None,
        *,
        marginals: int | None = None,
        of: Sequence[str] = (),
        table: str | None = None,
        where: str | None = None,
        aggregate: str = "COUNT(*)",
        epsilon: Number | None = None,
        rho: Number | None = None,
        confidence: Number = 0.95,
        progress: bool = False,
    ) -> AskedWorkload:
        """Many counting queries over one table, answered together for one price.

        `con.workload(marginals(2, of=["ward", "sex"]), table="visits", epsilon=1)` with words of
        `dither.workloads` (or `con.workload(marginals=2, of=[...], table=...)`), or a list of
        counts in SQL over one table, each with conditions and keys of its own. `.preview()` says
        price, strategy, the error of every query and the lower bound; `.answer()` asks. Nothing is
        read or spent before that. `progress=True` shows on a terminal what is under way.
        """
        from dither.answer.intervals import read_level
        from dither.workloads.asked_workload import AskedWorkload
        from dither.workloads.bind import bind_asked
        from dither.workloads.language import choose_words

        level = read_level(confidence)
        words = choose_words(workload, marginals, of)
        self._refuse_closed_pot()
        view = self._view()
        price = Price(read_epsilon(epsilon), read_rho(rho))
        analyses = self._kernel.version.analyses
        bound = bind_asked(words, table, where, aggregate, self.bind, analyses)
        return AskedWorkload(
            bound, price, self._pot, level, self._curator, view, self._info, progress
        )

    def cube(self, dims: Sequence[str], *, up_to: int = 3, table: str, **how: Any) -> AskedWorkload:
        """All tables of at most `up_to` of these columns, which add up to each other.

        Everything else is as for `workload`.
        """
        from dither.workloads.language import cube

        return self.workload(cube(dims, up_to), table=table, **how)

    def adaptive_histogram(
        self,
        by: Sequence[str],
        *,
        table: str,
        where: str | None = None,
        epsilon: Number,
        score: str = "deviation",
        tree_share: Number = "0.25",
        confidence: Number = 0.95,
    ) -> AskedHistogram:
        """Counts in blocks of neighbouring values, which are split where the data is not flat.

        For ranges over one to three columns with many values and few rows. `score` "deviation"
        splits blocks whose values differ, "count" those that hold many rows (PrivTree).
        `.preview()` says price and noise; `.answer()` asks. Nothing is read or spent before that.
        """
        from dither.answer.intervals import read_level
        from dither.workloads.adaptive_histogram import AskedHistogram, read_score, read_tree_share
        from dither.workloads.bind import bind_workload
        from dither.workloads.language import identity

        self._refuse_closed_pot()
        view = self._view()
        analyses = self._kernel.version.analyses
        bound = bind_workload(identity(*by), table, where, "COUNT(*)", self.bind, analyses)
        return AskedHistogram(
            bound,
            Price(read_epsilon(epsilon)),
            self._pot,
            read_score(score),
            read_tree_share(tree_share),
            read_level(confidence),
            self._curator,
            view,
            self._info,
        )

    def adaptive_ranges(
        self,
        by: Sequence[str],
        *,
        table: str,
        where: str | None = None,
        epsilon: Number,
        confidence: Number = 0.95,
    ) -> AskedRanges:
        """Counts for ranges over one or two columns, by what is best for the data.

        A small part of the price looks at the data and chooses between blocks that follow it and
        fixed strategies; the rest measures. `.preview()` says what it costs and errs by at most
        where the data is rough; `.answer()` asks.
        """
        from dither.workloads.adaptive_ranges import AskedRanges, check_axes
        from dither.workloads.language import ranges

        if not by:
            raise ParameterError("ranges that follow the data are over one or two columns")
        workload = ranges(by[0])
        for column in by[1:]:
            workload = workload * ranges(column)
        fixed = self.workload(
            workload, table=table, where=where, epsilon=epsilon, confidence=confidence
        )
        check_axes(fixed.bound)
        exact_epsilon = read_epsilon(epsilon)
        assert exact_epsilon is not None
        return AskedRanges(
            fixed, exact_epsilon, fixed.confidence, self._curator, self._view(), self._info
        )

    def adaptive_grid(
        self,
        by: Sequence[str],
        *,
        table: str,
        where: str | None = None,
        epsilon: Number,
        confidence: Number = 0.95,
    ) -> AskedGrid:
        """Counts in a grid over two columns, such as places, that is finer where rows are many.

        Three requests at one price together: all rows, a coarse grid, a fine one. `.preview()` says
        what it costs; `.answer()` asks. Nothing is read or spent before that.
        """
        from dither.answer.intervals import read_level
        from dither.workloads.adaptive_grid import AskedGrid, check_plane
        from dither.workloads.bind import bind_workload
        from dither.workloads.language import identity

        self._refuse_closed_pot()
        exact_epsilon = read_epsilon(epsilon)
        if exact_epsilon is None:
            raise ParameterError("an adaptive grid is priced in epsilon: ask with epsilon=")
        level = read_level(confidence)
        analyses = self._kernel.version.analyses
        bound = bind_workload(identity(*by), table, where, "COUNT(*)", self.bind, analyses)
        check_plane(bound)
        return AskedGrid(
            bound, exact_epsilon, self._pot, level, self._curator, self._view(), self._info
        )

    def online(
        self,
        by: Sequence[str],
        *,
        table: str,
        where: str | None = None,
        epsilon: Number,
        updates: int = 20,
        within: int | None = None,
        confidence: Number = 0.95,
    ) -> OnlineCounts:
        """Counts one after the other: `with con.online(["age", "sex"], ...) as online:` and
        `online.count(age=(18, 64), sex="f")`.

        The whole price is charged now. A count is answered from a model while that fits the data
        up to `within` rows; at most `updates` counts that do not are measured. After that answers
        are marked unchecked.
        """
        from dither.answer.intervals import read_level
        from dither.workloads.bind import bind_workload
        from dither.workloads.language import identity
        from dither.workloads.online import TOTAL_SHARE, OnlineCounts, read_updates, read_within

        self._refuse_closed_pot()
        level = read_level(confidence)
        epochs = read_updates(updates)
        allowed = read_within(within)
        analyses = self._kernel.version.analyses
        bound = bind_workload(identity(*by), table, where, "COUNT(*)", self.bind, analyses)
        cells = bound.make_cells(bound.columns)
        price = Price(read_epsilon(epsilon))
        lease = self._curator.open_online_lease(price, cells, TOTAL_SHARE, epochs, self._pot)
        return OnlineCounts(bound, lease, allowed, level)

    def lease(self, *, epsilon: Number | None = None, rho: Number | None = None) -> OpenLease:
        """Charge a budget now, and spend it in steps that are chosen and priced as they come.

        For algorithms of one's own: `with con.lease(rho=0.5) as lease:` and
        `lease.release(query, rho=0.1)` with queries of `dither.plan.algebra`, such as `Linear` and
        `Scores`. The charge stays, whatever is used of it; a lease ends with its block or process.
        """
        price = Price(read_epsilon(epsilon), read_rho(rho))
        self._refuse_closed_pot()
        return self._curator.open_lease(price, self._pot)

    def fixed_lease(
        self,
        query: Query,
        *,
        steps: int,
        epsilon: Number | None = None,
        rho: Number | None = None,
        family: str | None = None,
    ) -> OpenFixedLease:
        """Charge a budget now for `steps` steps, each of the loss of this query at this price.

        For training: `with con.fixed_lease(query, rho=0.01, steps=100) as lease:` and
        `lease.release(query)` with other queries of the same loss, such as `UnitVectors` at another
        theta. Samples of units are paid by their amplified loss, from a budget of the rule approx
        or rdp.
        """
        from dither.answer.leased import write_request

        price = Price(read_epsilon(epsilon), read_rho(rho))
        self._refuse_closed_pot()
        first = write_request(query, price, self._pot, family, rho is None)
        return self._curator.open_fixed_lease(first, steps)

    @property
    def question_delta(self) -> Fraction:
        """The smallest delta that a budget of this connection takes for one question; 0 where none
        states one."""
        from dither.answer.leased import find_question_delta

        return find_question_delta(self._view().path)

    def synthesize(
        self,
        table: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        columns: Sequence[str] | None = None,
        method: str = "auto",
        bins: Mapping[str, int] | None = None,
        constraints: Sequence[Constraint] = (),
        labels_epsilon: Number | None = None,
        start_from: Synthetic | PublicTable | None = None,
    ) -> Synthetic:
        """Make a table that may be shared: `con.synthesize("patients", epsilon=1).sample()`.

        One lease pays for everything that is measured; rows drawn from the model cost nothing.
        Methods: "aim", "mst", "mwem", "privbayes", "histogram", "independent", or "auto". `bins`
        says into how many bins of equal width a number or date goes. `labels_epsilon` buys, for
        each undeclared category, the labels that many people share; others become `other`.
        `start_from` is an earlier synthetic table of these columns, paid by the same budgets, or
        `PublicTable(rows, provenance="...")`.
        """
        from dither.synth.asking import SynthAsker, read_synth_price

        self._refuse_closed_pot()
        view = self._view()

        def buy_labels(table: str, column: str) -> tuple[tuple[str, ...], str]:
            sql = f"SELECT {column}, COUNT(*) AS n FROM {table} GROUP BY {column} ORDER BY n DESC"
            result = self.sql(sql, epsilon=labels_epsilon)
            labels = tuple(label for label in result.to_dict()[column] if label is not None)
            return labels, result.info["release_id"]

        return SynthAsker(self._curator, self._pot, view).ask(
            table,
            read_synth_price(view, epsilon, rho),
            columns=columns,
            method=method,
            bins=bins,
            constraints=constraints,
            buy_labels=None if labels_epsilon is None else buy_labels,
            labels_epsilon=labels_epsilon,
            start_from=start_from,
        )

    def check_synthetic(
        self,
        synthetic: Synthetic,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        pairs: Sequence[tuple[str, str]] | None = None,
    ) -> Synthetic:
        """Count pairs of columns anew and hold them against a synthetic table, for a price of its
        own: the table with `quality`, which its report shows.

        Without `pairs`, the first 20 that were not measured.
        """
        from dither.synth.asking import SynthAsker, read_synth_price

        self._refuse_closed_pot()
        view = self._view()
        price = read_synth_price(view, epsilon, rho)
        return SynthAsker(self._curator, self._pot, view).check(synthetic, price, pairs)

    def synthesize_linked(
        self,
        parent: str,
        child: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        columns: Mapping[str, Sequence[str]] | None = None,
        method: str = "auto",
        bins: Mapping[str, int] | None = None,
    ) -> SyntheticPair:
        """Make two linked tables, such as patients and visits, with fresh keys between them.

        `columns` are lists by table; two fifths of the price go to the parent.
        """
        from dither.synth.asking import SynthAsker, read_synth_price

        self._refuse_closed_pot()
        view = self._view()
        return SynthAsker(self._curator, self._pot, view).ask_linked(
            parent,
            child,
            read_synth_price(view, epsilon, rho),
            columns=columns or {},
            method=method,
            bins=bins,
        )

    def run_job(
        self,
        steps: Sequence[JobStep],
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        fresh: bool = False,
    ) -> Values:
        """Answer fixed queries for one price, all together: noisy numbers for each step.

        For algorithms of one's own on a served dataset, where a lease would show when each step was
        measured. `steps` are `dither.answer.leased.JobStep`s with queries such as `Linear` and
        `Scores`; a choice is the position of its candidate. The same job again is free.
        """
        from dither.answer.leased import write_job

        self._refuse_closed_pot()
        request = write_job(steps, Price(read_epsilon(epsilon), read_rho(rho)), self._pot)
        priced = self._kernel.price_at(request, self._view())
        return self._release(priced, fresh, None).values

    def run_algorithm(self, name: str, terms: Mapping[str, Any]) -> str | None:
        """Let a curator elsewhere run a named algorithm as one job; None where it is here.

        For the estimators of `dither.learn`: `fit_table` calls it.
        """
        self._refuse_closed_pot()
        return self._curator.run_algorithm(name, terms, self._pot)

    def _refuse_closed_pot(self) -> None:
        """Refuse where the pot of this connection is not open."""
        if not self._view().path:
            self._refuse_pot()

    def _refuse_pot(self) -> None:
        """Raise BudgetError: the pot of this connection is not open.

        It says which are, and the remedy.
        """
        names = [pot.name for pot in self._curator.list_pots()]
        raise BudgetError(
            f"there is no budget {self._pot!r}"
            + (f" (there are {', '.join(names)})" if names else "")
            + ". "
            + self._curator.name_commands(
                f"The data steward opens it: dither budget open CATALOG {self._pot} --epsilon 3 "
                "--ceiling 5 --question '...' --population '...' --recipient '...'"
            )
        )
