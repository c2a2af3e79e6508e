"""What algorithms ask of a connection: workloads, synthetic tables, leases and jobs.

`Connection` in `session.py` has these beside questions in SQL. Packages that compute from released
values alone are imported when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dither.answer.asked import read_epsilon, read_rho
from dither.answer.close_leases import close_left_leases
from dither.canonical import Number
from dither.plan.algebra import Query
from dither.privacy.kernel.kernel import Priced, Release, Values
from dither.privacy.kernel.request import Price
from dither.workload_door import WorkloadDoor

if TYPE_CHECKING:
    from dither.answer.leased import JobStep, OpenFixedLease, OpenLease
    from dither.answer.result import Result
    from dither.synth.constraints import Constraint
    from dither.synth.edges import Bins
    from dither.synth.linked import SyntheticPair
    from dither.synth.synthetic import Synthetic
    from dither.synth.warm_start import PublicTable


class AlgorithmDoor(WorkloadDoor):
    """The part of a connection that algorithms use."""

    if TYPE_CHECKING:
        sql: Callable[..., Result]
        _release: Callable[[Priced, bool, str | None], Release]

    @close_left_leases
    def lease(self, *, epsilon: Number | None = None, rho: Number | None = None) -> OpenLease:
        """Charge a budget now, and spend it in steps that are chosen and priced as they come.

        For algorithms of one's own: `with con.lease(rho=0.5) as lease:` and
        `lease.release(query, rho=0.1)` with queries of `dither.plan.algebra`, such as `Linear` and
        `Scores`. The charge stays, whatever is used of it; a lease ends with its block or process.
        """
        price = Price(read_epsilon(epsilon), read_rho(rho))
        self._refuse_closed_pot()
        return self._curator.open_lease(price, self._pot)

    @close_left_leases
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

    @close_left_leases
    def synthesize(
        self,
        table: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        columns: Sequence[str] | None = None,
        method: str = "auto",
        bins: Bins | None = None,
        constraints: Sequence[Constraint] = (),
        labels_epsilon: Number | None = None,
        start_from: Synthetic | PublicTable | None = None,
    ) -> Synthetic:
        """Make a table that may be shared: `con.synthesize("patients", epsilon=1).sample()`.

        One lease pays for everything that is measured; rows drawn from the model cost nothing.
        Methods: "aim", "mst", "mwem", "privbayes", "histogram", "independent", or "auto". `bins`
        says into how many bins of equal width a number or date goes, or where they begin:
        `{"cost": 40, "age": [18, 30, 65]}`; such edges are public. `{"cost": "buy:12"}` buys edges
        of 12 bins of about equal counts, out of the same price. `labels_epsilon` buys, for
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

    @close_left_leases
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

    @close_left_leases
    def synthesize_linked(
        self,
        parent: str,
        child: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        columns: Mapping[str, Sequence[str]] | None = None,
        method: str = "auto",
        bins: Bins | None = None,
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
