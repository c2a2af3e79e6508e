"""Two linked tables: people, and rows of theirs such as visits; keys are fresh numbers.

The parent is fitted alone. The child is fitted together with a few columns of its parent, so that
rows are drawn for a synthetic parent by the conditional distribution given those columns. How many
rows a parent has is drawn from a noisy histogram. No id of the source appears.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dither.canonical import Number, number_text
from dither.catalog import Catalog, Table
from dither.errors import ParameterError
from dither.plan.algebra import (
    Cells,
    Count,
    Join,
    Linear,
    Named,
    PerUnit,
    Project,
    Query,
    Scan,
)
from dither.plan.analysed_query import Analyses
from dither.plan.operators import Identity
from dither.publish.seal import write_certificate
from dither.synth.columns import SynthColumn, make_codes, widen_edges
from dither.synth.constraints import find_rejected, list_constraints
from dither.synth.contraction import Table as Counts
from dither.synth.draw_rows import draw_rows_given, draw_uniform
from dither.synth.edges import Bins, check_bins
from dither.synth.estimate import project_counts
from dither.synth.methods import METHODS, fit_child
from dither.synth.steps import ReleasedStep, StepLease, TableSteps
from dither.synth.synthesize import (
    SynthPlan,
    SynthPrice,
    find_table,
    list_columns,
    open_steps,
    plan_table,
)
from dither.synth.synthetic import MOST_DRAWS, Synthetic, note_rejected

PARENT_SHARE = Fraction(2, 5)
COUNT_SHARE = Fraction(1, 10)
MOST_LINK_CELLS = 512
"""The most combinations of values of the parent's columns that the child is drawn by."""
LINK_BINS = 8
"""How many bins a number or a time of the parent has when the child is drawn by it."""
_OWNER = "dither_owner"
"""No column of a catalog has such a name."""


@dataclass(frozen=True)
class LinkedPlan:
    """A checked wish for two tables; `links` are the columns of the parent that children follow."""

    parent: SynthPlan
    child: SynthPlan
    links: tuple[str, ...]


@dataclass
class LeaseShare:
    """A part of a lease: what a method may spend, so that the rest is left for others."""

    lease: StepLease
    amount: Fraction

    @property
    def left(self) -> Fraction:
        """What further steps of this part may cost."""
        return self.amount

    def release(
        self, query: Query, *, epsilon: Number | None = None, rho: Number | None = None
    ) -> tuple[int, ...]:
        """Release a step of the lease, and take its cost off this part."""
        before = self.lease.left
        values = self.lease.release(query, epsilon=epsilon, rho=rho)
        self.amount = max(Fraction(0), self.amount - (before - self.lease.left))
        return values


def plan_linked(
    catalog: Catalog,
    analyses: Analyses,
    parent: str,
    child: str,
    columns: Mapping[str, tuple[str, ...]],
    method: str,
    bins: Bins,
    child_bins: Bins | None = None,
) -> LinkedPlan:
    """Check a wish for two tables against the catalog. Reads no data.

    `bins` are those of both tables, unless the child has its own.
    """
    if child_bins is None:
        child_bins = bins
    parent_table = find_table(catalog, parent)
    child_table = find_table(catalog, child)
    if parent_table.rows_per_unit != 1:
        raise ParameterError(
            f"{parent} may hold several rows of one {catalog.unit.label}: the parent is a table "
            f"with one row for each"
        )
    own = columns.get(parent) or _list_declared(parent_table, analyses)
    names = columns.get(child) or _list_declared(child_table, analyses)
    for wishes in (bins, child_bins):
        check_bins(wishes, (*own, *names))
    parent_plan = plan_table(catalog, analyses, parent, own, method, bins)
    links = _choose_links(parent_plan, analyses)
    child_plan = _plan_child(child_table, names, parent_plan, links, analyses, child_bins)
    return LinkedPlan(parent_plan, child_plan, tuple(link.name for link in links))


def _list_declared(table: Table, analyses: Analyses) -> tuple[str, ...]:
    """The columns with a list of values; undeclared categories are left out."""
    domains = analyses.analyse_rows(Scan(table.name)).columns
    return tuple(name for name in list_columns(table) if not domains[name].undeclared)


def _choose_links(parent: SynthPlan, analyses: Analyses) -> tuple[SynthColumn, ...]:
    """Choose the columns of the parent that children follow: the first ones with few combinations.

    Numbers and times are put into wide bins; of edges that were asked for, every so many is kept.
    """
    ordered = {column.name: LINK_BINS for column in parent.columns if column.is_ordered}
    wide = make_codes(parent.table, tuple(ordered), analyses, ordered, {})
    in_wide_bins = {column.name: column for column, _ in wide}
    edged = [column for column in parent.columns if column.edges]
    in_wide_bins |= {column.name: widen_edges(column, LINK_BINS) for column in edged}
    links: list[SynthColumn] = []
    for column in parent.columns:
        link = in_wide_bins.get(column.name, column)
        if prod(chosen.size for chosen in (*links, link)) <= MOST_LINK_CELLS:
            links.append(link)
    if not links:
        raise ParameterError(
            f"no column of {parent.table.name} has at most {MOST_LINK_CELLS} values to draw the "
            f"rows of the other table by: add a category or a number to its columns"
        )
    return tuple(links)


def _plan_child(
    table: Table,
    names: tuple[str, ...],
    parent: SynthPlan,
    links: tuple[SynthColumn, ...],
    analyses: Analyses,
    bins: Bins,
) -> SynthPlan:
    """The child's codes beside those of its owner's links, which come first."""
    coded = make_codes(table, names, analyses, bins, {})
    linked = [replace(link, name=f"owner_{link.name}") for link in links]
    right = Project(
        Scan(parent.table.name),
        tuple(
            Named(column.name, link.write_expression())
            for column, link in zip(linked, links, strict=True)
        ),
    )
    left = Project(
        Scan(table.name), tuple(Named(column.name, expression) for column, expression in coded)
    )
    plan = Join(left, right, (), "inner")
    columns = (*linked, *(column for column, _ in coded))
    return SynthPlan(table, plan, columns, "aim", list_constraints(table, names, ()))


def measure_linked(
    plan: LinkedPlan,
    analyses: Analyses,
    price: SynthPrice,
    lease: StepLease,
    facts: Mapping[str, Any],
) -> SyntheticPair:
    """Measure parent, numbers of rows and child out of what a lease has left."""
    whole = lease.left
    share = LeaseShare(lease, whole * PARENT_SHARE)
    steps = open_steps(plan.parent, analyses, price, share)
    fitted = METHODS[plan.parent.method](steps, plan.parent.columns)
    about = {
        **facts,
        "price": price.asked,
        "lease": f"{price.measure} {number_text(price.value)}",
        "tuned_for": "counts of single columns and of pairs of columns",
    }
    parent = Synthetic(
        plan.parent.columns,
        fitted,
        tuple(steps.released),
        about
        | {
            "table": plan.parent.table.name,
            "method": plan.parent.method,
            "rows_per_unit": plan.parent.table.rows_per_unit,
            "left_out": plan.parent.list_left_out(),
        },
        plan.parent.constraints,
    )
    counts_price = replace(price, value=whole * COUNT_SHARE)
    counts, step = _measure_counts(plan, analyses, counts_price, lease, parent.fitted.model.total)
    steps = open_steps(plan.child, analyses, price, lease)
    child = Synthetic(
        plan.child.columns,
        fit_child(steps, plan.child.columns, tuple(range(len(plan.links)))),
        (step, *steps.released),
        about
        | {
            "table": plan.child.table.name,
            "method": "aim",
            "rows_per_unit": plan.child.table.rows_per_unit,
            "left_out": plan.child.list_left_out(),
        },
        plan.child.constraints,
    )
    return SyntheticPair(parent, child, tuple(counts.tolist()), plan.links)


def _measure_counts(
    plan: LinkedPlan, analyses: Analyses, price: SynthPrice, lease: StepLease, people: float
) -> tuple[Counts, ReleasedStep]:
    """How many parents have 0, 1, 2, ... rows: a noisy histogram, never below 0."""
    rows = PerUnit(Scan(plan.child.table.name), (), (Named("rows", Count()),))
    cells = Cells(rows, ("rows",), (Count(),))
    (domain,) = analyses.analyse_query(cells).domains
    query = Linear(cells, Identity(domain.codes))
    cost = price.value
    noisy = lease.release(query, **{price.measure: cost})
    steps = TableSteps(lease, rows, ("rows",), analyses, price.measure)
    error = steps.find_variance(query, cost) ** 0.5
    counts = np.zeros(domain.first + domain.size)
    counts[domain.first :] = noisy[: domain.size]
    counts[0] += people - sum(noisy)
    projected = project_counts(counts, people)
    step = ReleasedStep("counts", ("rows of one parent",), len(noisy), float(cost), error)
    return projected, step


@dataclass(frozen=True)
class SyntheticPair:
    """Two linked synthetic tables. `rows_of_parents` has the number of parents by how many rows
    they have, `links` the parent's columns that rows follow."""

    parent: Synthetic
    child: Synthetic
    rows_of_parents: tuple[float, ...]
    links: tuple[str, ...]
    signed: dict[str, Any] | None = None

    @cached_property
    def key(self) -> bytes:
        """What rows are drawn by: a hash of both models and of what ties them together."""
        numbers = np.ascontiguousarray(self.rows_of_parents, "<f8").tobytes()
        return hashlib.sha256(self.parent.key + self.child.key + numbers).digest()

    def sample(self, parents: int | None = None, *, draw: int = 0) -> tuple[pa.Table, pa.Table]:
        """Both tables: the parent's key is `<parent>_id`, a fresh number from 1 on, and the child
        has it too beside a fresh key of its own. The same call gives the same tables."""
        count = self.parent.rows if parents is None else parents
        if type(count) is not int or count < 0:
            raise ParameterError(f"parents must be a whole number of at least 0, got {parents!r}")
        key = hashlib.sha256(self.parent.key + self.child.key + f"{count} {draw}".encode()).digest()
        codes, parent, rejected_parents = self.parent.draw_valid(count, key)
        owners = self._draw_owners(len(codes), key)
        child, owners, rejected = self._draw_valid_children(codes, owners, key + b"child")
        child = child.drop_columns([f"owner_{name}" for name in self.links])
        order = self._order_children(child, owners)
        child = child.take(pa.array(order))
        parent_key = f"{self.parent.facts['table']}_id"
        child_key = f"{self.child.facts['table']}_id"
        parent = parent.add_column(0, parent_key, pa.array(np.arange(1, len(codes) + 1)))
        child = child.add_column(0, parent_key, pa.array(owners[order] + 1))
        child = child.add_column(0, child_key, pa.array(np.arange(1, len(owners) + 1)))
        return (
            note_rejected(parent, rejected_parents, count - len(codes), self.parent.facts),
            note_rejected(child, rejected, 0, self.child.facts),
        )

    def _draw_valid_children(
        self, codes: NDArray[np.int32], owners: NDArray[np.int64], key: bytes
    ) -> tuple[pa.Table, NDArray[np.int64], int]:
        """Rows for these owners; those that break a rule are drawn again for the same owner, and
        left out after 20 times."""
        kept: list[pa.Table] = []
        kept_owners: list[NDArray[np.int64]] = []
        rejected = 0
        for attempt in range(MOST_DRAWS if self.child.constraints else 1):
            own_key = key + (str(attempt).encode() if attempt else b"")
            table = self.child.decode(self._draw_children(codes[owners], own_key), own_key)
            is_rejected = find_rejected(table, self.child.constraints)
            rejected += int(is_rejected.sum())
            kept.append(table.filter(pa.array(~is_rejected)))
            kept_owners.append(owners[~is_rejected])
            owners = owners[is_rejected]
            if not len(owners):
                break
        return pa.concat_tables(kept), np.concatenate(kept_owners), rejected

    def _order_children(self, child: pa.Table, owners: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of one parent by their first date, ties by their content: nothing of the order of
        the source is kept."""
        columns = {c.name: c for c in self.child.columns if c.name in child.column_names}
        times = [name for name, c in columns.items() if c.kind in ("date", "timestamp")][:1]
        names = [*times, *(name for name in columns if name not in times)]
        keyed = child.append_column(_OWNER, pa.array(owners))
        keys = [(name, "ascending") for name in (_OWNER, *names)]
        order: NDArray[np.int64] = pc.sort_indices(keyed, sort_keys=keys).to_numpy()
        return order.astype(np.int64)

    def _draw_owners(self, count: int, key: bytes) -> NDArray[np.int64]:
        """The position of the parent of every row: numbers of rows by systematic sampling."""
        shares = np.cumsum(self.rows_of_parents) / max(sum(self.rows_of_parents), 1e-300)
        offset = float(draw_uniform(key, "offset of rows", 1)[0])
        points = (np.arange(count) + offset) / max(count, 1)
        order = np.argsort(draw_uniform(key, "order of rows", count), kind="stable")
        rows = np.searchsorted(shares[:-1], points[order], side="right")
        return np.repeat(np.arange(count), rows)

    def _draw_children(self, parents: NDArray[np.int32], key: bytes) -> NDArray[np.int32]:
        """Rows of the child for these parents, one for each."""
        fitted = self.child.fitted
        fixed_codes = {}
        for position, name in enumerate(self.links):
            column = next(i for i, c in enumerate(self.parent.columns) if c.name == name)
            wide = self.parent.columns[column].find_wider_codes(self.child.columns[position])
            labels = np.array(fitted.groupings[position].labels, np.int32)
            fixed_codes[position] = labels[wide[parents[:, column]]]
        groups = draw_rows_given(
            fitted.model, fixed_codes, len(parents), key, is_even=self.child.is_drawn_evenly
        )
        return self.child.draw_inside(groups, key)

    def report(self, file: str | Path | None = None) -> str:
        """An HTML page about both tables."""
        from dither.synth.report import write_pair_report

        page = write_pair_report(self)
        if file is not None:
            Path(file).write_text(page, encoding="utf-8")
        return page

    def certificate(self, file: str | Path | None = None) -> dict[str, Any]:
        """What was promised for both tables, signed with the dataset's key where there is one."""
        if self.signed is None:
            document = self.describe()
            text = json.dumps(document, indent=2, default=str) + "\n"
        else:
            document = self.signed
            text = write_certificate(document)
        if file is not None:
            Path(file).write_text(text, encoding="utf-8")
        return document

    def describe(self) -> dict[str, Any]:
        """Lease, steps and public facts of both tables, as JSON."""
        return {
            "parent": self.parent.describe(),
            "child": self.child.describe(),
            "links": list(self.links),
            "rows_of_parents": list(self.rows_of_parents),
        }

    def save(self, file: str | Path) -> None:
        """Write both models as JSON; `load_linked` reads them, and they give the same rows."""
        from dither.synth.stored_model import write_pair

        Path(file).write_text(write_pair(self), encoding="utf-8")
