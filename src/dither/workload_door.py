"""The methods of a connection that ask for many counts at once.

Some use a fixed strategy; others choose what to measure by what they released before.
`AlgorithmDoor` in `algorithms.py` inherits these methods and adds leases and jobs. Packages that
compute from released values alone are imported by the method that needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dither.answer.asked import read_epsilon, read_rho
from dither.answer.close_leases import close_left_leases
from dither.answer.curator_access import CuratorAccess, Pricer
from dither.canonical import Number
from dither.errors import BudgetError, ParameterError
from dither.privacy.kernel.kernel import Release
from dither.privacy.kernel.request import Price
from dither.privacy.ledger import LedgerView
from dither.question.recipe import Recipe

if TYPE_CHECKING:
    from dither.workloads.adaptive_grid import AskedGrid
    from dither.workloads.adaptive_histogram import AskedHistogram
    from dither.workloads.adaptive_ranges import AskedRanges
    from dither.workloads.ask_steps import StepAsker
    from dither.workloads.asked_workload import AskedWorkload
    from dither.workloads.clustered_histogram import AskedClusters
    from dither.workloads.language import CountingWorkload
    from dither.workloads.mwem import AskedMwem
    from dither.workloads.online import OnlineCounts


class WorkloadDoor:
    """The part of a connection that asks for many counts together."""

    _curator: CuratorAccess
    _kernel: Pricer
    _pot: str

    if TYPE_CHECKING:
        bind: Callable[..., Recipe]
        _view: Callable[[], LedgerView]
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

        A small share of the price looks at the data and chooses between blocks that follow it and
        fixed strategies; the rest measures. `.preview()` says what it costs, and the largest error,
        which it has where the data is rough; `.answer()` asks.
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

    def clustered_histogram(
        self,
        by: Sequence[str],
        *,
        table: str,
        where: str | None = None,
        epsilon: Number,
        confidence: Number = 0.95,
    ) -> AskedClusters:
        """Counts of single cells, where cells with like counts share one count, neighbours or not.

        Two requests share the price: the first counts every cell, the second counts clusters of
        cells whose noisy counts are alike (AHP). This is for single cells of columns whose values
        have no order. Sums of many cells err more than those of a workload. `.preview()` says what
        it costs; `.answer()` asks.
        """
        from dither.answer.intervals import read_level
        from dither.workloads.bind import bind_workload
        from dither.workloads.clustered_histogram import AskedClusters, check_cells
        from dither.workloads.language import identity

        self._refuse_closed_pot()
        exact_epsilon = read_epsilon(epsilon)
        if exact_epsilon is None:
            raise ParameterError("a clustered histogram is priced in epsilon: ask with epsilon=")
        level = read_level(confidence)
        analyses = self._kernel.version.analyses
        bound = bind_workload(identity(*by), table, where, "COUNT(*)", self.bind, analyses)
        check_cells(bound)
        return AskedClusters(bound, exact_epsilon, level, self._make_asker())

    def mwem(
        self,
        workload: CountingWorkload | Sequence[str],
        *,
        table: str | None = None,
        where: str | None = None,
        epsilon: Number | None = None,
        rho: Number | None = None,
        rounds: int = 10,
        confidence: Number = 0.95,
        progress: bool = False,
    ) -> AskedMwem:
        """A workload answered from a model that is fitted to the queries it gets most wrong (MWEM).

        Every round pays for a choice among all queries and for the count of the chosen one. This is
        for few rows and many queries over few columns. Tables are biased and have no intervals.
        `.preview()` says what it costs, and the error of the best fixed strategy; `.answer()` asks.
        """
        from dither.workloads.mwem import AskedMwem, check_workload, read_rounds

        chosen_rounds = read_rounds(rounds)
        fixed = self.workload(
            workload,
            table=table,
            where=where,
            epsilon=epsilon,
            rho=rho,
            confidence=confidence,
            progress=progress,
        )
        check_workload(fixed.bound)
        return AskedMwem(fixed, chosen_rounds, self._make_asker())

    def _make_asker(self) -> StepAsker:
        """Make what asks several requests in a row from the pot of this connection."""
        from dither.workloads.ask_steps import StepAsker

        return StepAsker(self._pot, self._curator, self._view(), self._info)

    @close_left_leases
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

    def _refuse_closed_pot(self) -> None:
        """Refuse where the pot of this connection is not open."""
        if not self._view().path:
            self._refuse_pot()

    def _refuse_pot(self) -> None:
        """Raise BudgetError: the pot of this connection is not open.

        The message lists the open pots and says how to open one.
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
