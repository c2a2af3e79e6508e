"""Starting points of a fit: an earlier synthetic table, or a public one.

An earlier table was paid for: what it measured is used again for free, by the pots that paid. A
public table is known to all: it says what may depend on what, and measured counts correct it. No
private row is read for either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from dither.errors import ParameterError
from dither.publish.seal import check, write_certificate
from dither.synth.columns import SynthColumn
from dither.synth.contraction import Table
from dither.synth.groupings import ValueGrouping
from dither.synth.junction_tree import Clique
from dither.synth.synthetic import Synthetic

_FLOOR = 0.5
"""Rows that every cell of a public table is given, so that nothing is impossible."""


@dataclass(frozen=True)
class PublicTable:
    """A table that everybody may see, with the columns of the private one, and how it is known."""

    rows: pa.Table
    provenance: str

    def __post_init__(self) -> None:
        if not self.provenance:
            raise ParameterError(
                "a public table needs provenance=: how it is known without the private data"
            )


def check_earlier(
    earlier: Synthetic, columns: tuple[SynthColumn, ...], facts: dict[str, Any], pots: list[str]
) -> None:
    """Refuse an earlier table that these pots did not pay for, or that is of other rows or columns.

    A pot outside would be given for free what it never paid for.
    """
    for name in ("dataset", "version", "catalog", "unit", "neighbours", "table"):
        if earlier.facts.get(name) != facts[name]:
            raise ParameterError(
                f"start_from is of another {name}: a warm start needs the same table of the same "
                f"registered version"
            )
    if not {*pots} <= {*earlier.facts.get("pots", ())}:
        raise ParameterError(
            "start_from was paid by other budgets: a warm start is free only to those that paid "
            "for it. Leave start_from out"
        )
    if earlier.columns != columns:
        raise ParameterError("start_from has other columns, bins or labels: ask for the same ones")
    if not isinstance(earlier.facts.get("release"), str):
        raise ParameterError("start_from does not say which release it is: leave it out")
    if not earlier.fitted.measurements:
        raise ParameterError("start_from was saved without its measurements: leave it out")
    if not _has_fitting_shapes(earlier):
        raise ParameterError(
            "start_from has tables whose shapes do not fit its columns: load the file that save() "
            "wrote"
        )


def _has_fitting_shapes(earlier: Synthetic) -> bool:
    """Whether all tables of an earlier fit have the shapes that its columns and groups say."""
    fitted = earlier.fitted
    values = tuple(column.size for column in earlier.columns)
    sizes = tuple(grouping.size for grouping in fitted.groupings)
    shapes = [
        (m.clique, t.shape, sizes) for m in fitted.measurements for t in (m.counts, m.variance)
    ]
    shapes += [(clique, table.shape, sizes) for clique, table in fitted.model.potentials.items()]
    shapes += [
        (m.clique, t.shape, values) for m in fitted.single_counts for t in (m.counts, m.variance)
    ]
    return (
        tuple(grouping.values for grouping in fitted.groupings) == values
        and tuple(single.shape for single in fitted.singles) == tuple((n,) for n in values)
        and fitted.model.sizes == sizes
        and all(len(measurement.clique) == 1 for measurement in fitted.single_counts)
        and all(
            {*clique} <= {*range(len(values))} and shape == tuple(lengths[a] for a in clique)
            for clique, shape, lengths in shapes
        )
    )


def is_as_signed(earlier: Synthetic, later: Mapping[str, Any] | None) -> bool:
    """Whether an earlier table is as its own certificate commits to it: that of the lease that it
    names, signed by the key that signed the later table.

    Else its numbers may come from other releases than those that it names, and the certificate of
    the later table could state too small a loss.
    """
    if earlier.signed is None or later is None:
        return False
    trusted = [later["header"]["public_key"]]
    verdict = check(write_certificate(earlier.signed), trusted)
    if not verdict.intact or not verdict.has_known_key or verdict.body is None:
        return False
    body = verdict.body
    return bool(
        body["mechanisms"][0]["family"] == "lease"
        and body["release"]["id"] == earlier.facts.get("release")
        and body["values"]["commitment"] == earlier.commitment
    )


def list_bought_labels(start: object) -> dict[str, tuple[str, ...]]:
    """List the labels that an earlier table had bought, by column; none for other starts."""
    if not isinstance(start, Synthetic):
        return {}
    return {column.name: column.labels[:-1] for column in start.columns if column.is_bought}


def list_sources(earlier: Synthetic) -> list[str]:
    """The releases that an earlier table was made from: its own, and those before it."""
    return [earlier.facts["release"], *earlier.facts.get("sources", ())]


def find_public_potentials(
    public: PublicTable, columns: tuple[SynthColumn, ...], groupings: list[ValueGrouping]
) -> dict[Clique, Table]:
    """The logarithms of how much likelier values are together than apart in a public table, for a
    spanning tree of its strongest pairs."""
    codes = encode_public(public, columns)
    tables = {}
    for first, second in combinations(range(len(columns)), 2):
        shape = (groupings[first].size, groupings[second].size)
        rows = [np.array(groupings[a].labels)[codes[:, a]] for a in (first, second)]
        counts = np.bincount(
            np.ravel_multi_index(tuple(rows), shape), minlength=shape[0] * shape[1]
        )
        joint = counts.reshape(shape) + _FLOOR
        joint = joint / joint.sum()
        tables[first, second] = joint, np.outer(joint.sum(axis=1), joint.sum(axis=0))
    ranked = sorted(tables, key=lambda pair: -float(np.abs(np.subtract(*tables[pair])).sum()))
    groups = list(range(len(columns)))
    potentials: dict[Clique, Table] = {}
    for first, second in ranked:
        if groups[first] == groups[second]:
            continue
        merged = groups[second]
        groups = [groups[first] if group == merged else group for group in groups]
        joint, apart = tables[first, second]
        potentials[first, second] = np.log(joint / apart)
    return potentials


def encode_public(public: PublicTable, columns: tuple[SynthColumn, ...]) -> Any:
    """The codes of public rows. Raises ParameterError where a value is outside the domain."""
    try:
        codes = np.stack([column.encode(public.rows[column.name]) for column in columns], axis=1)
    except (KeyError, ValueError, TypeError, AttributeError):
        codes = None
    sizes = np.array([column.size for column in columns])
    if codes is None or not len(codes) or (codes < 0).any() or (codes >= sizes).any():
        raise ParameterError(
            "the public table needs rows with all columns of the synthetic one, and values inside "
            "the domain that the catalog declares"
        )
    return codes
