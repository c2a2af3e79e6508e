"""Constraints: what every row of a synthetic table must meet, as a public fact with its source.

A rule such as `end >= start` is stated by a person who says how it is known. It is never learned
from the data, and is listed among the facts that no noise protects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dither.errors import ParameterError

_RULE = re.compile(r"\s*(\w+)\s*(<=|>=|!=|=|<|>)\s*(\w+)\s*")
_COMPARE = {
    "<=": pc.less_equal,
    ">=": pc.greater_equal,
    "!=": pc.not_equal,
    "=": pc.equal,
    "<": pc.less,
    ">": pc.greater,
}


@dataclass(frozen=True)
class Constraint:
    """A comparison of two columns that holds for every row, and how it is known.

    >>> Constraint("end >= start", provenance="form of the registry").columns
    ('end', 'start')
    """

    text: str
    provenance: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not _RULE.fullmatch(self.text):
            raise ParameterError(
                "a constraint compares two columns, such as Constraint('end >= start', "
                "provenance='...')"
            )
        if not self.provenance:
            raise ParameterError(
                "a constraint needs provenance=: how it is known without looking at the data"
            )

    @property
    def columns(self) -> tuple[str, str]:
        """The two columns."""
        return self._match[1], self._match[3]

    @property
    def _match(self) -> Any:
        return _RULE.fullmatch(self.text)

    def find_rejected(self, table: pa.Table) -> NDArray[np.bool_]:
        """Which rows break it; a null breaks nothing."""
        first, second = self.columns
        holds = _COMPARE[self._match[2]](table[first], table[second])
        broken: NDArray[np.bool_] = pc.invert(pc.fill_null(holds, True)).to_numpy()
        return broken


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
