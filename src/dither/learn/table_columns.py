"""The columns of a registered table as declared facts: all of it is read off the catalog."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dither.catalog import OTHER
from dither.errors import DitherError, ParameterError
from dither.learn.columns import (
    CategoryColumn,
    Column,
    ColumnFacts,
    NumericColumn,
    check_edges,
    check_width,
    make_edges,
)
from dither.plan.algebra import Distinct, Plan, Scan
from dither.plan.analyse import analyse
from dither.plan.domain import Columns, Domain
from dither.plan.encodings import Binned, Feature, Intercept, OneHot, Scaled

_KINDS = ("number", "boolean", "category")
_FINEST_EDGE = 10**6


@dataclass(frozen=True)
class TableRows:
    """The rows that a model is trained on: a plan, and what its columns can hold."""

    plan: Plan
    domains: Columns


@dataclass(frozen=True)
class TableFeatures:
    """Features of a table for the kernel, and where their numbers stand among those of `facts`.

    `facts` has a number for missing values in every column; the kernel has it where nulls are kept.
    """

    facts: ColumnFacts
    features: tuple[Feature, ...]
    positions: tuple[int, ...]


def find_rows(con: Any, table_or_sql: str) -> TableRows:
    """Read the name of a table, or a SELECT whose rows are meant, against the catalog."""
    plan: Plan = (
        Scan(table_or_sql) if re.fullmatch(r"\w+", table_or_sql) else _bind_rows(con, table_or_sql)
    )
    return TableRows(plan, analyse(plan, con.catalog).columns)


def _bind_rows(con: Any, sql: str) -> Plan:
    """The plan of the rows of a SELECT, computed columns included.

    A count of rows needs no computed column, and its plan has none; a count of different rows needs
    them all, and stands on the plan of the rows.
    """
    try:
        rows = f"SELECT DISTINCT * FROM ({sql}) AS computed_rows"
        plan = con.bind(f"SELECT COUNT(*) FROM ({rows}) AS training_rows").queries[0].plan
        if isinstance(plan, Distinct):
            source: Plan = plan.source
            return source
    except DitherError:
        pass
    counted: Plan = con.bind(f"SELECT COUNT(*) FROM ({sql}) AS training_rows").queries[0].plan
    return counted


def list_feature_columns(rows: TableRows, target: str | None, columns: Any) -> list[str]:
    """The stated columns; else all numbers, truth values and listed values but the target."""
    if columns is None:
        return [
            name
            for name, domain in rows.domains.items()
            if name != target and domain.kind in _KINDS
        ]
    names = list(columns)
    for name in names:
        if name not in rows.domains or rows.domains[name].kind not in _KINDS or name == target:
            raise ParameterError(
                f"{name!r} is no number, truth value or list of values that can be a feature: "
                f"leave it out, or declare it in the catalog"
            )
    return names


def read_table_features(rows: TableRows, names: Sequence[str], bins: Any) -> TableFeatures:
    """Encode columns by the facts of the catalog: numbers scaled and in bins, values listed."""
    columns: list[Column] = [_read_column(name, rows.domains[name], bins) for name in names]
    facts = ColumnFacts(tuple(columns))
    check_width(facts)
    features: list[Feature] = [Intercept()]
    features += [Scaled(column.name) for column in facts.numbers]
    positions = list(range(facts.dense_width))
    first = facts.dense_width
    for column in columns:
        if not column.hot_width:
            continue
        if isinstance(column, NumericColumn):
            edges = tuple(Fraction(edge).limit_denominator(_FINEST_EDGE) for edge in column.edges)
            features.append(Binned(column.name, edges))
        else:
            features.append(OneHot(column.name))
        width = column.hot_width - (not rows.domains[column.name].nullable)
        positions += range(first, first + width)
        first += column.hot_width
    return TableFeatures(facts, tuple(features), tuple(positions))


def _read_column(name: str, domain: Domain, bins: Any) -> Column:
    if domain.kind != "number":
        other = OTHER if OTHER in domain.labels else None
        return CategoryColumn(name, list_values(domain), other)
    low = float(domain.low * domain.step)
    high = float(domain.high * domain.step)
    if isinstance(bins, dict):
        edges = tuple(float(edge) for edge in bins.get(name, ()))
    else:
        edges = make_edges(low, high, bins)
    check_edges(edges, low, high, name)
    exact = [Fraction(edge).limit_denominator(_FINEST_EDGE) for edge in edges]
    return NumericColumn(name, low, high, tuple(float(edge) for edge in exact))


def list_values(domain: Domain) -> tuple[Any, ...]:
    """The listed values of a column, in the order of GROUP BY."""
    if domain.kind == "category":
        return domain.labels
    if domain.kind == "boolean":
        return (False, True)
    first, last = domain.listed
    numbers = [code * domain.step for code in range(first, last + 1)]
    return tuple(int(number) if number == int(number) else float(number) for number in numbers)


def find_target(rows: TableRows, target: str | None) -> Domain:
    """The domain of the target; refused where there is none."""
    domain = rows.domains.get(target) if target is not None else None
    if domain is None or domain.kind not in _KINDS:
        raise ParameterError(
            f"target {target!r} is no number, truth value or list of values of these rows: name "
            f"a column of the catalog"
        )
    return domain
