"""What `con.synthesize` does: terms of the price, labels to buy, and the lease."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

from dither.answer.asked import read_epsilon, read_rho
from dither.answer.curator_access import Pricer
from dither.answer.leased import OpenLease
from dither.canonical import Number, fraction_text, number_text, positive
from dither.errors import ParameterError
from dither.plan.algebra import Scan
from dither.plan.analysed_query import Analyses
from dither.privacy.kernel.kernel import delta_of_path
from dither.privacy.kernel.release import Version
from dither.privacy.kernel.request import Price
from dither.privacy.kernel.rho_within import rho_within
from dither.privacy.ledger import LedgerView
from dither.publish.lease_certificate import LeaseRemarks
from dither.synth.bought_edges import (
    EdgeWish,
    buy_edges,
    find_rank_errors,
    list_edge_wishes,
    reuse_edges,
)
from dither.synth.columns import MOST_LABELS, write_plan
from dither.synth.constraints import Constraint
from dither.synth.edges import Bins, check_bins, refuse_bought_edges, write_bins
from dither.synth.linked import (
    PARENT_SHARE,
    LinkedPlan,
    SyntheticPair,
    measure_linked,
    plan_linked,
)
from dither.synth.quality import list_unmeasured, measure_quality
from dither.synth.steps import TableSteps
from dither.synth.stored_model import read_model, read_pair
from dither.synth.synthesize import (
    SynthPlan,
    SynthPrice,
    check_price,
    check_start,
    find_table,
    list_columns,
    measure_table,
    plan_table,
)
from dither.synth.synthetic import Synthetic
from dither.synth.warm_start import (
    PublicTable,
    is_as_signed,
    list_bought_labels,
    list_sources,
)

BuyLabels = Callable[[str, str], tuple[tuple[str, ...], str]]
"""Table and column in, the labels and the release that told them out."""


def read_synth_price(view: LedgerView, epsilon: Number | None, rho: Number | None) -> SynthPrice:
    """The price of the lease: an epsilon buys a rho where the pot states a delta per question,
    since Gaussian noise errs less over many numbers; else Laplace noise."""
    price = Price(read_epsilon(epsilon), read_rho(rho))
    asked = f"{price.name} {number_text(price.value)}"
    if price.epsilon is None:
        return SynthPrice("rho", price.value, asked)
    delta = delta_of_path(view.path)
    if delta:
        asked += f" at delta {number_text(delta)}"
        return SynthPrice("rho", rho_within(price.value, delta), asked)
    return SynthPrice("epsilon", price.value, asked)


def _add_labels_price(
    price: SynthPrice, labels_epsilon: Number | None, bought: tuple[str, ...]
) -> SynthPrice:
    """The price with what bought labels cost beside the lease, in the words of certificates."""
    epsilon = read_epsilon(labels_epsilon)
    if not bought or epsilon is None:
        return price
    words = f"epsilon {number_text(epsilon)} for the labels of each of {', '.join(bought)}"
    return replace(price, asked=f"{price.asked}, and {words}")


def write_terms(
    plan: SynthPlan,
    bins: Bins,
    labels: Mapping[str, tuple[str, ...]],
    price: SynthPrice,
) -> dict[str, Any]:
    """A checked wish as the terms of a job."""
    return {
        "table": plan.table.name,
        "columns": list(plan.names),
        "method": plan.method,
        "bins": write_bins(bins),
        "constraints": [asdict(constraint) for constraint in plan.constraints],
        "labels": {name: list(texts) for name, texts in labels.items()},
        "measure": price.measure,
        "price": fraction_text(price.value),
        "asked": price.asked,
    }


def read_terms_price(terms: Mapping[str, Any]) -> SynthPrice:
    """The price in the terms of a job."""
    measure = terms["measure"]
    return SynthPrice(measure, positive(terms["price"], measure), terms["asked"])


def write_remarks(tables: Sequence[Synthetic], asked: str, commitment: str) -> LeaseRemarks:
    """What a certificate says of synthetic tables: every step with its noise, limits and public
    facts."""
    steps = []
    limits = []
    unprotected = []
    for made in tables:
        name = made.facts["table"]
        limits.append(f"{name}: at most {made.facts['rows_per_unit']} rows of one unit")
        unprotected += [f"{name}: {fact}" for fact in made.list_unprotected()]
        steps += [f"{name}: {step.write_words()}" for step in made.released]
    names = " and ".join(str(made.facts["table"]) for made in tables)
    text = f"synthetic {names} by {tables[0].facts['method']}"
    return LeaseRemarks(
        text,
        asked,
        tuple(steps),
        tuple(limits),
        tuple(unprotected),
        commitment,
        tuple(dict.fromkeys(source for made in tables for source in made.facts.get("sources", ()))),
    )


class LeaseAccess(Protocol):
    """What is asked of a curator: public facts, and a lease or a whole job."""

    @property
    def kernel(self) -> Pricer:
        """What prices requests by public facts."""

    def open_lease(self, price: Price, pot: str) -> OpenLease:
        """Charge a pot for a lease."""

    def run_algorithm(self, name: str, terms: Mapping[str, Any], pot: str) -> str | None:
        """Run an algorithm where the data is; None where it runs here."""

    def sign_lease(self, release_id: str, remarks: LeaseRemarks) -> dict[str, Any] | None:
        """The signed certificate of a lease that is over; None where none is given."""


class SynthAsker:
    """Makes synthetic tables of one dataset, paid from one pot."""

    def __init__(self, curator: LeaseAccess, pot: str, view: LedgerView) -> None:
        self._curator = curator
        self._pot = pot
        self._view = view

    @property
    def _version(self) -> Version:
        return self._curator.kernel.version

    @property
    def _analyses(self) -> Analyses:
        return self._version.analyses

    def ask(
        self,
        table: str,
        price: SynthPrice,
        *,
        columns: Sequence[str] | None,
        method: str,
        bins: Bins | None,
        constraints: Sequence[Constraint],
        buy_labels: BuyLabels | None,
        labels_epsilon: Number | None = None,
        start_from: object = None,
    ) -> Synthetic:
        """Make one table out of one lease.

        Labels of undeclared categories are those of an earlier table that it starts from, or are
        bought first, by a charge of their own.
        """
        names = self._list_names(table, columns)
        check_bins(bins or {}, names)
        refuse_bought_edges(bins)
        bins = reuse_edges(bins or {}, start_from)
        labels = list_bought_labels(start_from)
        undeclared = tuple(n for n in self._list_undeclared(table, names) if n not in labels)
        if undeclared and buy_labels is None and columns is None:
            names = tuple(name for name in names if name not in undeclared)
            undeclared = ()
        sources: list[str] = []
        if buy_labels is not None:
            # refused before labels are paid for, and for as many labels as could be bought
            most = tuple(f"?{number}" for number in range(MOST_LABELS))
            stand_ins = labels | dict.fromkeys(undeclared, most)
            rehearsed = self._plan(table, names, method, bins, constraints, stand_ins)
            self._price_edges([rehearsed], {table: bins}, price)
            check_start(start_from, rehearsed, self._facts(), self._list_pots())
            for name in undeclared:
                labels[name], source = buy_labels(table, name)
                sources.append(source)
            price = _add_labels_price(price, labels_epsilon, undeclared)
        plan_with = partial(
            self._plan, table, names, method, constraints=constraints, labels=labels
        )
        plan = plan_with(bins)
        wishes = self._price_edges([plan], {table: bins}, price)
        start = check_start(start_from, plan, self._facts(), self._list_pots())
        if start is None:
            terms = write_terms(plan, bins, labels, price)
            document = self._curator.run_algorithm("synthesize", terms, self._pot)
            if document is not None:
                return read_model(document)
        return self._fit(plan_with, bins, wishes, price, start, sources)

    def run(self, terms: Mapping[str, Any]) -> Synthetic:
        """Make the table that the terms of a job describe, out of one lease."""
        plan_with = partial(
            self._plan,
            terms["table"],
            tuple(terms["columns"]),
            terms["method"],
            constraints=tuple(Constraint(**written) for written in terms["constraints"]),
            labels={name: tuple(texts) for name, texts in terms["labels"].items()},
        )
        bins = terms["bins"]
        refuse_bought_edges(bins)
        price = read_terms_price(terms)
        wishes = self._price_edges([plan_with(bins)], {terms["table"]: bins}, price)
        return self._fit(plan_with, bins, wishes, price)

    def _fit(
        self,
        plan_with: Callable[[Bins], SynthPlan],
        bins: Bins,
        wishes: Sequence[EdgeWish],
        price: SynthPrice,
        start: Synthetic | PublicTable | None = None,
        sources: Sequence[str] = (),
    ) -> Synthetic:
        """Charge the lease, buy edges of bins, run the method, and sign what was released.

        `sources` are releases that told labels; those of an earlier table are added.
        """
        earlier = list_sources(start) if isinstance(start, Synthetic) else []
        names = list(dict.fromkeys([*sources, *earlier]))
        with self._open_lease(price) as lease:
            facts = self._facts() | {"release": lease.release_id, "pots": self._list_pots()}
            facts |= {"sources": names} if names else {}
            bought = buy_edges(wishes, lease, self._analyses)
            plan = plan_with(bins)
            plan = plan_with(bought.replace_wishes(plan.table.name, bins)) if wishes else plan
            made = measure_table(plan, self._analyses, price, lease, facts, start)
        made = bought.add_steps(made)
        remarks = write_remarks([made], price.asked, made.commitment)
        signed = self._curator.sign_lease(lease.release_id, remarks)
        if isinstance(start, Synthetic) and not is_as_signed(start, signed):
            signed = None  # nobody vouches for what it started from
        return replace(made, signed=signed)

    def _price_edges(
        self,
        plans: Sequence[SynthPlan],
        bins: Mapping[str, Bins],
        price: SynthPrice,
        share: Fraction = Fraction(1),
    ) -> tuple[EdgeWish, ...]:
        """Price the edges that are to be bought, and find by how much they will be off.

        Raises ParameterError where a share of what is left then buys nothing for one of the plans.
        """
        columns = {plan.table.name: plan.names for plan in plans}
        wishes = list_edge_wishes(columns, bins, price)
        wishes = find_rank_errors(wishes, self._curator.kernel, self._pot, self._view)
        rest = price.value - sum(wish.price.value for wish in wishes)
        for plan in plans:
            check_price(plan, self._analyses, replace(price, value=rest * share))
        return wishes

    def ask_linked(
        self,
        parent: str,
        child: str,
        price: SynthPrice,
        *,
        columns: Mapping[str, Sequence[str]],
        method: str,
        bins: Bins | None,
    ) -> SyntheticPair:
        """Make two linked tables out of one lease."""
        chosen = {name: tuple(names) for name, names in columns.items()}
        bins = bins or {}
        refuse_bought_edges(bins)
        plan_with = partial(self._plan_linked, parent, child, chosen, method)
        wishes = self._price_linked_edges(plan_with(bins, bins), bins, price)
        terms = {
            "parent": parent,
            "child": child,
            "columns": {name: list(names) for name, names in chosen.items()},
            "method": method,
            "bins": write_bins(bins),
            "measure": price.measure,
            "price": fraction_text(price.value),
            "asked": price.asked,
        }
        document = self._curator.run_algorithm("synthesize_linked", terms, self._pot)
        if document is not None:
            return read_pair(document)
        return self._measure_linked(plan_with, bins, wishes, price)

    def run_linked(self, terms: Mapping[str, Any]) -> SyntheticPair:
        """Make the linked tables that the terms of a job describe, out of one lease."""
        chosen = {name: tuple(names) for name, names in terms["columns"].items()}
        price = read_terms_price(terms)
        bins = terms["bins"]
        refuse_bought_edges(bins)
        plan_with = partial(
            self._plan_linked, terms["parent"], terms["child"], chosen, terms["method"]
        )
        wishes = self._price_linked_edges(plan_with(bins, bins), bins, price)
        return self._measure_linked(plan_with, bins, wishes, price)

    def _price_linked_edges(
        self, plan: LinkedPlan, bins: Bins, price: SynthPrice
    ) -> tuple[EdgeWish, ...]:
        """Price the edges of both tables; checks that what is left buys something for each."""
        names = (plan.parent.table.name, plan.child.table.name)
        return self._price_edges(
            [plan.parent, plan.child], dict.fromkeys(names, bins), price, PARENT_SHARE
        )

    def _plan_linked(
        self,
        parent: str,
        child: str,
        columns: Mapping[str, tuple[str, ...]],
        method: str,
        parent_bins: Bins,
        child_bins: Bins,
    ) -> LinkedPlan:
        """Make the plan of two tables, checked against the catalog. Reads no data."""
        return plan_linked(
            self._version.catalog,
            self._analyses,
            parent,
            child,
            columns,
            method,
            parent_bins,
            child_bins,
        )

    def _measure_linked(
        self,
        plan_with: Callable[[Bins, Bins], LinkedPlan],
        bins: Bins,
        wishes: Sequence[EdgeWish],
        price: SynthPrice,
    ) -> SyntheticPair:
        """Charge the lease, buy edges of bins, measure both tables, and sign what was released."""
        with self._open_lease(price) as lease:
            bought = buy_edges(wishes, lease, self._analyses)
            plan = plan_with(bins, bins)
            if wishes:
                names = (plan.parent.table.name, plan.child.table.name)
                plan = plan_with(*(bought.replace_wishes(name, bins) for name in names))
            pair = measure_linked(plan, self._analyses, price, lease, self._facts())
        pair = replace(
            pair, parent=bought.add_steps(pair.parent), child=bought.add_steps(pair.child)
        )
        remarks = write_remarks([pair.parent, pair.child], price.asked, f"model {pair.key.hex()}")
        return replace(pair, signed=self._curator.sign_lease(lease.release_id, remarks))

    def _plan(
        self,
        table: str,
        names: tuple[str, ...],
        method: str,
        bins: Bins,
        constraints: Sequence[Constraint],
        labels: Mapping[str, tuple[str, ...]],
    ) -> SynthPlan:
        check_bins(bins, names)
        return plan_table(
            self._version.catalog,
            self._analyses,
            table,
            names,
            method,
            bins,
            tuple(constraints),
            labels,
        )

    def _list_names(self, table: str, columns: Sequence[str] | None) -> tuple[str, ...]:
        if isinstance(columns, str):
            raise ParameterError("columns is a list of names: columns=['age', 'sex']")
        return tuple(columns or list_columns(find_table(self._version.catalog, table)))

    def _list_undeclared(self, table: str, names: tuple[str, ...]) -> tuple[str, ...]:
        domains = self._analyses.analyse_rows(Scan(table)).columns
        return tuple(name for name in names if name in domains and domains[name].undeclared)

    def check(
        self, made: Synthetic, price: SynthPrice, pairs: Sequence[tuple[str, str]] | None
    ) -> Synthetic:
        """The table with a check of some pairs against the data, paid by a lease of its own."""
        facts = self._facts()
        if any(made.facts.get(name) != value for name, value in facts.items()):
            raise ParameterError(
                "this table was made of another dataset or version: check it where it was made"
            )
        names = tuple(column.name for column in made.columns)
        table = find_table(self._version.catalog, made.facts["table"])
        if not {*names} <= {*table.column_names}:
            raise ParameterError(
                "a check is of one table: make the child of linked tables alone to check it"
            )
        cliques = list_unmeasured(names, pairs, made.fitted)
        plan = write_plan(table.name, made.columns)
        with self._open_lease(price) as lease:
            steps = TableSteps(lease, plan, names, self._analyses, price.measure)
            checks = measure_quality(steps, names, made.fitted, cliques, lease.left)
        return replace(made, quality=(*made.quality, *checks))

    def _list_pots(self) -> list[str]:
        """The pots on the path that pays."""
        return [pot.name for pot in self._view.path]

    def _open_lease(self, price: SynthPrice) -> OpenLease:
        return self._curator.open_lease(Price(**{price.measure: price.value}), self._pot)

    def _facts(self) -> dict[str, Any]:
        """What every certificate of a synthetic table says of the dataset."""
        version = self._version
        return {
            "dataset": version.catalog.dataset,
            "version": version.number,
            "catalog": version.catalog_hash,
            "unit": version.catalog.unit.label,
            "neighbours": version.catalog.neighbours,
        }
