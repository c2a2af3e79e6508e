"""Make a synthetic table: check what was asked, charge a lease, measure, fit.

Everything is checked before the charge, from the catalog alone: columns without a domain, a model
that is too large, a price at which every number would be noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dither.canonical import Number, number_text
from dither.catalog import Catalog, Id, Table, Text
from dither.errors import ParameterError
from dither.plan.algebra import Plan, Query
from dither.plan.analysed_query import Analyses
from dither.synth.columns import SynthColumn, make_columns
from dither.synth.constraints import Constraint, check_constraints, find_zeros, list_constraints
from dither.synth.edges import Bins
from dither.synth.methods import METHODS, choose_method, fit_from_earlier, fit_from_public
from dither.synth.steps import StepLease, TableSteps
from dither.synth.synthetic import Synthetic
from dither.synth.warm_start import PublicTable, check_earlier, encode_public

MOST_COLUMNS = 60


@dataclass(frozen=True)
class SynthPrice:
    """The price of a lease in its own measure, and what was asked for."""

    measure: str
    value: Fraction
    asked: str


@dataclass(frozen=True)
class SynthPlan:
    """A checked wish: nothing was read or charged yet."""

    table: Table
    plan: Plan
    columns: tuple[SynthColumn, ...]
    method: str
    constraints: tuple[Constraint, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def list_left_out(self) -> list[str]:
        """The columns of the source that the synthetic table does not have."""
        return [name for name in self.table.column_names if name not in self.names]


def plan_table(
    catalog: Catalog,
    analyses: Analyses,
    table: str,
    columns: tuple[str, ...] | None,
    method: str,
    bins: Bins,
    constraints: tuple[Constraint, ...] = (),
    labels: Mapping[str, tuple[str, ...]] | None = None,
) -> SynthPlan:
    """Check a wish against the catalog. Raises ParameterError, which says what to change."""
    declared = find_table(catalog, table)
    names = columns or list_columns(declared)
    if len(set(names)) != len(names) or not 1 <= len(names) <= MOST_COLUMNS:
        raise ParameterError(
            f"a synthetic table has 1 to {MOST_COLUMNS} different columns, got {len(names)}"
        )
    plan, coded = make_columns(declared, names, analyses, bins, labels or {})
    check_constraints(constraints, names)
    rules = list_constraints(declared, names, constraints)
    return SynthPlan(declared, plan, coded, choose_method(method, coded), rules)


def find_table(catalog: Catalog, name: str) -> Table:
    """A private table of the catalog."""
    tables = {table.name: table for table in catalog.private_tables}
    if name not in tables:
        raise ParameterError(f"no private table {name!r}: there are {', '.join(tables)}")
    return tables[name]


def list_columns(table: Table) -> tuple[str, ...]:
    """The columns that have values: neither ids nor free texts."""
    return tuple(column.name for column in table.columns if not isinstance(column, (Id, Text)))


def check_price(plan: SynthPlan, analyses: Analyses, price: SynthPrice) -> None:
    """Refuse a price at which the counts of single columns would be noise alone: an error beyond
    the declared number of rows. From the catalog alone."""
    steps = TableSteps(_NoLease(), plan.plan, plan.names, analyses, price.measure)
    share = price.value / (5 * len(plan.columns))
    error = max(steps.find_error((position,), share) for position in range(len(plan.columns)))
    most_rows = plan.table.max_rows
    if most_rows is not None and error > most_rows:
        raise ParameterError(
            f"{price.asked} is below what one round needs: every count would be off by about "
            f"{error:,.0f} rows, and {plan.table.name} has at most {most_rows:,}. Pay more, or "
            f"name fewer columns"
        )


class _NoLease:
    """No lease: for what is computed before one is charged."""

    left = Fraction(0)

    def release(
        self, query: Query, *, epsilon: Number | None = None, rho: Number | None = None
    ) -> tuple[int, ...]:
        raise AssertionError("nothing was charged")


def open_steps(
    plan: SynthPlan, analyses: Analyses, price: SynthPrice, lease: StepLease
) -> TableSteps:
    """The steps of a lease over the codes of a plan."""
    steps = TableSteps(lease, plan.plan, plan.names, analyses, price.measure)
    steps.zeros = find_zeros(plan.constraints, plan.columns)
    return steps


def measure_table(
    plan: SynthPlan,
    analyses: Analyses,
    price: SynthPrice,
    lease: StepLease,
    facts: Mapping[str, Any],
    start: Synthetic | PublicTable | None = None,
) -> Synthetic:
    """Run the method out of an open lease, from a starting point if there is one."""
    steps = open_steps(plan, analyses, price, lease)
    if isinstance(start, Synthetic):
        fitted = fit_from_earlier(steps, plan.columns, start.fitted)
    elif start is not None:
        fitted = fit_from_public(steps, plan.columns, start)
    else:
        fitted = METHODS[plan.method](steps, plan.columns)
    about = {
        **facts,
        "table": plan.table.name,
        "method": plan.method,
        "price": price.asked,
        "lease": f"{price.measure} {number_text(price.value)}",
        "rows_per_unit": plan.table.rows_per_unit,
        "tuned_for": "counts of single columns and of pairs of columns",
        "left_out": plan.list_left_out(),
    }
    if isinstance(start, PublicTable):
        about["started_from"] = f"a public table: {start.provenance}"
    elif start is not None:
        about["started_from"] = (
            f"release {start.facts.get('release')}, paid before ({start.facts['price']}): its "
            f"measurements are used again at no new loss"
        )
    return Synthetic(plan.columns, fitted, tuple(steps.released), about, plan.constraints)


def check_start(
    start: object, plan: SynthPlan, facts: Mapping[str, Any], pots: list[str]
) -> Synthetic | PublicTable | None:
    """A starting point that may be used, before anything is charged."""
    if start is None:
        return None
    if plan.method not in ("aim", "histogram", "independent") or len(plan.columns) < 2:
        raise ParameterError("start_from goes with method 'auto' or 'aim' and several columns")
    if isinstance(start, Synthetic):
        check_earlier(start, plan.columns, {**facts, "table": plan.table.name}, pots)
        return start
    if isinstance(start, PublicTable):
        encode_public(start, plan.columns)
        return start
    raise ParameterError(
        "start_from is an earlier Synthetic, or PublicTable(rows, provenance='...')"
    )
