"""Constraints: what every row of a synthetic table must meet, as a public fact with its source.

A rule such as `end >= start` is stated by a person who says how it is known, in the catalog or in
the call. It is never learned from the data, and is listed among the facts that no noise protects.
Cells that no row can have are left out of the model; rows that still break a rule are drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dither.catalog import Table
from dither.catalog.row_rules import FORMS, RowRule
from dither.errors import ParameterError
from dither.synth.columns import SynthColumn
from dither.synth.junction_tree import Clique

_COMPARE = {
    "<=": pc.less_equal,
    ">=": pc.greater_equal,
    "!=": pc.not_equal,
    "=": pc.equal,
    "<": pc.less,
    ">": pc.greater,
}
_LAST = float(np.nextafter(1.0, 0.0))
"""The point in [0, 1) that decodes to the last value of a bin."""
MOST_ZERO_CELLS = 100_000
"""Cells of the columns of a rule that the model may leave out; larger rules are met by drawing."""


@dataclass(frozen=True)
class Constraint:
    """A rule between columns that holds for every row, and how it is known.

    >>> Constraint("end >= start", provenance="form of the registry").columns
    ('end', 'start')
    """

    text: str
    provenance: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not RowRule(self.text, "").is_sound:
            raise ParameterError(f"a constraint compares two columns, or is another rule: {FORMS}")
        if not self.provenance:
            raise ParameterError(
                "a constraint needs provenance=: how it is known without looking at the data"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it speaks of."""
        return self.rule.columns

    @cached_property
    def rule(self) -> RowRule:
        """What the text means."""
        return RowRule(self.text, self.provenance)

    def find_rejected(self, table: pa.Table) -> NDArray[np.bool_]:
        """Which rows break it; a null breaks nothing."""
        rule = self.rule
        if rule.operator:
            first, second = self.columns
            holds = _COMPARE[rule.operator](table[first], table[second])
            broken: NDArray[np.bool_] = pc.invert(pc.fill_null(holds, True)).to_numpy()
            return broken
        if rule.values:
            together = np.ones(table.num_rows, bool)
            for name, text in rule.values.items():
                together &= _is_equal(table[name], text)
            return together
        first, second = self.columns
        is_valid: NDArray[np.bool_] = pc.is_valid(table[first]).to_numpy(zero_copy_only=False)
        wrong = np.zeros(table.num_rows, bool)
        for determining, determined in rule.pairs:
            wrong |= _is_equal(table[second], determining) & ~_is_equal(table[first], determined)
        return is_valid & wrong


def _is_equal(values: pa.ChunkedArray, text: str) -> NDArray[np.bool_]:
    """Which values are the written one: as the catalog writes labels, booleans and integers."""
    written = pc.cast(values, pa.string())
    equal: NDArray[np.bool_] = pc.fill_null(pc.equal(written, text), False).to_numpy()
    return equal


def list_constraints(
    table: Table, names: tuple[str, ...], stated: tuple[Constraint, ...]
) -> tuple[Constraint, ...]:
    """The constraints that were stated, and the catalog's rules about these columns."""
    declared = [
        Constraint(rule.text, f"{rule.provenance} (catalog)")
        for rule in table.rules
        if {*rule.columns} <= {*names}
    ]
    return (*stated, *(c for c in declared if c.text not in [s.text for s in stated]))


def check_constraints(constraints: tuple[Constraint, ...], names: tuple[str, ...]) -> None:
    """Refuse constraints on columns that are not there."""
    for constraint in constraints:
        for name in constraint.columns:
            if name not in names:
                raise ParameterError(
                    f"the constraint {constraint.text!r} names {name!r}, which is not among the "
                    f"columns {', '.join(names)}"
                )


def find_rejected(table: pa.Table, constraints: tuple[Constraint, ...]) -> NDArray[np.bool_]:
    """Which rows break any constraint."""
    rejected = np.zeros(table.num_rows, bool)
    for constraint in constraints:
        rejected |= constraint.find_rejected(table)
    return rejected


def find_zeros(
    constraints: tuple[Constraint, ...], columns: tuple[SynthColumn, ...]
) -> dict[Clique, NDArray[np.bool_]]:
    """The cells of codes that no row can have, by the columns that rules speak of.

    A cell stays where any of its values meets the rules. From public facts alone.
    """
    names = [column.name for column in columns]
    zeros: dict[Clique, NDArray[np.bool_]] = {}
    for constraint in constraints:
        clique = tuple(sorted(names.index(name) for name in constraint.columns))
        own = [columns[attribute] for attribute in clique]
        is_binned = any(column.width > 1 for column in own)
        if prod(column.size for column in own) > MOST_ZERO_CELLS or (
            is_binned and constraint.rule.operator == "="
        ):
            continue  # bins that overlap may hold equal values
        broken = _find_broken(constraint, own)
        zeros[clique] = zeros.get(clique, np.zeros_like(broken)) | broken
    return {clique: table for clique, table in zeros.items() if table.any() and not table.all()}


def _find_broken(constraint: Constraint, columns: list[SynthColumn]) -> NDArray[np.bool_]:
    """Which cells break one rule with all of their values: both ends of every bin do."""
    grids = np.indices([column.size for column in columns]).reshape(len(columns), -1)
    broken = np.ones(grids.shape[1], bool)
    corners = np.indices([2] * len(columns)).reshape(len(columns), -1).T
    for corner in corners:
        table = pa.table(
            {
                column.name: column.decode(codes.astype(np.int32), np.full(len(codes), end * _LAST))
                for column, codes, end in zip(columns, grids, corner, strict=True)
            }
        )
        broken &= constraint.find_rejected(table)
    return broken.reshape([column.size for column in columns])
