"""A synthetic table: what was measured, the model of it, and rows drawn from the model.

Everything here follows from released numbers, so it costs nothing more, however often it is used.
The same model gives the same table again: rows are drawn by a key that is a hash of the model.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dither.canonical import dumps
from dither.errors import ParameterError
from dither.publish.seal import write_certificate
from dither.synth.columns import SynthColumn
from dither.synth.conditions import Condition, CountEstimate, find_weights
from dither.synth.constraints import Constraint, find_rejected
from dither.synth.contraction import Table
from dither.synth.count_bounds import bound_count
from dither.synth.draw_rows import draw_rows, draw_uniform, draw_values
from dither.synth.fitted import FittedTable
from dither.synth.groupings import share_groups
from dither.synth.junction_tree import Clique
from dither.synth.model import GraphicalModel
from dither.synth.quality import QualityCheck
from dither.synth.steps import ReleasedStep

MOST_DRAWS = 20
"""How often rows that break a constraint are drawn again, before fewer rows are handed out."""
COMMITMENT_VERSION = 2
"""What certificates commit to; version 1 left out the number of rows and the bounds."""
NOISE_WARNING = "these rows are mostly noise at this price: pay more, or name fewer columns"


@dataclass(frozen=True)
class Synthetic:
    """A table that may be shared, with what it promises. `facts` say what was released.

    `is_drawn_evenly` is false for models that were saved before rows were spread evenly: they give
    the table that they gave then.
    """

    columns: tuple[SynthColumn, ...]
    fitted: FittedTable
    released: tuple[ReleasedStep, ...]
    facts: dict[str, Any]
    constraints: tuple[Constraint, ...] = ()
    is_drawn_evenly: bool = True
    signed: dict[str, Any] | None = None
    quality: tuple[QualityCheck, ...] = ()

    @property
    def rows(self) -> int:
        """The estimated number of rows of the source: from noisy counts, never the exact one."""
        return max(1, round(self.fitted.model.total))

    @property
    def is_mostly_noise(self) -> bool:
        """Whether the number of rows is below four of its standard errors, by the least noisy step.

        Such a table says next to nothing. False for a table of a condition.
        """
        names = {column.name for column in self.columns}
        errors = [
            step.error * sqrt(step.cells)
            for step in self.released
            if step.kind == "counts" and {*step.columns} <= names
        ]
        has_errors = bool(self.fitted.measurements and errors)
        return has_errors and self.fitted.model.total < 4 * min(errors)

    @cached_property
    def key(self) -> bytes:
        """What rows are drawn by: a hash of the model."""
        digest = hashlib.sha256(dumps(self.facts).encode())
        for clique, table in sorted(self.fitted.model.potentials.items()):
            digest.update(repr(clique).encode() + np.ascontiguousarray(table, "<f8").tobytes())
        for single in self.fitted.singles:
            digest.update(np.ascontiguousarray(single, "<f8").tobytes())
        for column in self.columns:
            if column.edges:
                digest.update(repr((column.name, column.edges)).encode())
        return digest.digest()

    @property
    def commitment(self) -> str:
        """What its certificate commits to: hashes of the model, and of all else but later checks,
        so that another table may start from it.

        Certificates from before version 2 commit to less: what starts from theirs is not signed.
        """
        fitted = self.fitted
        measured = (*fitted.measurements, *fitted.single_counts)
        contents = (
            self.columns,
            self.constraints,
            self.is_drawn_evenly,
            [(s.kind, s.columns, s.cells, s.price.hex(), s.error.hex()) for s in self.released],
            [grouping.labels for grouping in fitted.groupings],
            (fitted.model.sizes, float(fitted.model.total).hex()),
            [(c, _hash_table(table)) for c, table in sorted(fitted.model.potentials.items())],
            [_hash_table(single) for single in fitted.singles],
            len(fitted.measurements),
            [(m.clique, _hash_table(m.counts), _hash_table(m.variance)) for m in measured],
            [(clique, float(gap).hex()) for clique, gap in sorted(fitted.gaps.items())],
        )
        digest = hashlib.sha256(repr(contents).encode()).hexdigest()
        return f"version {COMMITMENT_VERSION}, model {self.key.hex()}, contents {digest}"

    def sample(self, rows: int | None = None, *, draw: int = 0) -> pa.Table:
        """A table of so many rows, the estimated number of the source's if nothing is said.

        The same number and the same `draw` give the same table. Rows that break a constraint are
        drawn again; how many is in the metadata under `rejected`.
        """
        count = self.rows if rows is None else rows
        if type(count) is not int or count < 0:
            raise ParameterError(f"rows must be a whole number of at least 0, got {rows!r}")
        kept: list[pa.Table] = []
        rejected = 0
        missing = count
        for attempt in range(MOST_DRAWS if self.constraints else 1):
            key = hashlib.sha256(self.key + f"{missing} {draw} {attempt}".encode()).digest()
            table = self.decode(self.draw_codes(missing, key), key)
            is_rejected = find_rejected(table, self.constraints)
            rejected += int(is_rejected.sum())
            kept.append(table.filter(pa.array(~is_rejected)))
            missing -= kept[-1].num_rows
            if not missing:
                break
        return note_rejected(pa.concat_tables(kept), rejected, missing, self.facts)

    def draw_valid(self, rows: int, key: bytes) -> tuple[NDArray[np.int32], pa.Table, int]:
        """So many rows that break no rule, as codes and as values, and how many were drawn again;
        fewer rows where 20 draws are not enough."""
        codes = np.zeros((0, len(self.columns)), np.int32)
        tables: list[pa.Table] = []
        rejected = 0
        for attempt in range(MOST_DRAWS if self.constraints else 1):
            own_key = key + (str(attempt).encode() if attempt else b"")
            drawn = self.draw_codes(rows - len(codes), own_key)
            table = self.decode(drawn, own_key)
            is_rejected = find_rejected(table, self.constraints)
            rejected += int(is_rejected.sum())
            codes = np.concatenate([codes, drawn[~is_rejected]])
            tables.append(table.filter(pa.array(~is_rejected)))
            if len(codes) == rows:
                break
        return codes, pa.concat_tables(tables), rejected

    def draw_codes(self, rows: int, key: bytes) -> NDArray[np.int32]:
        """Rows as codes of the values of each column."""
        groups = draw_rows(self.fitted.model, rows, key, is_even=self.is_drawn_evenly)
        return self.draw_inside(groups, key)

    def draw_inside(self, groups: NDArray[np.int32], key: bytes) -> NDArray[np.int32]:
        """Codes of values, given the codes of groups."""
        shares = [
            share_groups(grouping, single)
            for grouping, single in zip(self.fitted.groupings, self.fitted.singles, strict=True)
        ]
        return draw_values(groups, shares, key, is_even=self.is_drawn_evenly)

    def decode(self, codes: NDArray[np.int32], key: bytes) -> pa.Table:
        """Codes as values of the source's types."""
        return pa.table(
            {
                column.name: column.decode(
                    codes[:, attribute], draw_uniform(key, f"value {attribute}", len(codes))
                )
                for attribute, column in enumerate(self.columns)
            }
        )

    def to_arrow(self) -> pa.Table:
        """The table with the estimated number of rows."""
        return self.sample()

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame."""
        return self.sample().to_pandas()

    def find_marginal(self, *names: str) -> Table:
        """The expected counts of some columns, in the order given: one axis for each column."""
        positions = [self._find_position(name) for name in names]
        if len(set(positions)) != len(positions):
            raise ParameterError("a column twice: name each once")
        table = self.fitted.find_marginal(tuple(sorted(positions)))
        return np.transpose(table, np.argsort(np.argsort(positions)))

    def _find_position(self, name: str) -> int:
        for position, column in enumerate(self.columns):
            if column.name == name:
                return position
        names = ", ".join(column.name for column in self.columns)
        raise ParameterError(f"no column {name!r} in this synthetic table: there are {names}")

    def count(self, where: Condition) -> CountEstimate:
        """The expected number of rows that meet a condition, such as
        `{"ward": ["surgery"], "age": (18, 64)}`, exactly by the model, with error and bounds."""
        names = sorted(where, key=self._find_position)
        weights = {
            name: find_weights(self.columns[self._find_position(name)], where[name])
            for name in names
        }
        value = self.fitted.model.total
        if names:
            table = self.find_marginal(*names)
            for name in names:
                table = np.tensordot(table, weights[name], axes=(0, 0))
            value = float(table)
        by_position = {self._find_position(name): weights[name] for name in names}
        error = self._find_error(weights) if self.fitted.measurements else None
        bounds = bound_count(self.fitted, by_position, self._has_gaussian_noise)
        if bounds is None:
            return CountEstimate(value, error)
        return CountEstimate(value, error, bounds.low, bounds.high)

    @property
    def _has_gaussian_noise(self) -> bool:
        """Whether all counts have Gaussian noise; those of an earlier table may have another."""
        facts = self.facts
        return str(facts.get("lease", "")).startswith("rho") and not facts.get("sources")

    def _find_error(self, weights: dict[str, Table]) -> float | None:
        """The least standard error of a step that counted all these columns together."""
        errors = [
            step.error * sqrt(self._add_squares(step, weights))
            for step in self.released
            if weights and step.kind == "counts" and {*weights} <= {*step.columns}
        ]
        return min(errors, default=None)

    def _add_squares(self, step: ReleasedStep, weights: dict[str, Table]) -> float:
        """Sum the squares of the factors by which the cells of a step enter a count.

        Columns without a condition enter with all their cells. Steps of several columns counted
        groups of values, so that factors of values become factors of groups.
        """
        squares = 1.0
        for name in step.columns:
            position = self._find_position(name)
            factors = weights.get(name, np.ones(self.columns[position].size))
            if len(step.columns) > 1:
                grouping = self.fitted.groupings[position]
                factors = share_groups(grouping, self.fitted.singles[position]) @ factors
            squares *= float(np.square(factors).sum())
        return squares

    def given(self, where: Condition) -> Synthetic:
        """The synthetic table of the rows that meet a condition: `made.given({"sex": ["f"]})`."""
        potentials = dict(self.fitted.model.potentials)
        singles = list(self.fitted.singles)
        for name, allowed in where.items():
            position = self._find_position(name)
            grouping = self.fitted.groupings[position]
            weights = find_weights(self.columns[position], allowed)
            shares = share_groups(grouping, singles[position]) @ weights
            evidence = np.log(np.maximum(shares, 1e-300))
            own = potentials.get((position,), np.zeros(grouping.size))
            potentials[(position,)] = own + evidence
            singles[position] = singles[position] * weights
        total = self.count(where).value
        if total < 1e-6:
            raise ParameterError("no row of the model meets this condition")
        model = GraphicalModel(self.fitted.model.sizes, total, potentials)
        fitted = FittedTable(model, self.fitted.groupings, tuple(singles))
        return replace(self, fitted=fitted, signed=None, quality=())

    def predict_errors(self) -> list[ErrorPrediction]:
        """The error of every marginal of one and two columns: what noise alone explains where it
        was measured, else a bound where one is known."""
        positions = range(len(self.columns))
        cliques: list[Clique] = [(a,) for a in positions] + list(combinations(positions, 2))
        return [self._predict(clique) for clique in cliques]

    def _predict(self, clique: Clique) -> ErrorPrediction:
        """From the measurement that holds the clique with the least noise. None says the model
        alone speaks: how far it is off is unknown."""
        names = tuple(self.columns[attribute].name for attribute in clique)
        errors = [
            step.error * sqrt(2 / np.pi) * step.cells
            for step in self.released
            if step.kind == "counts" and {*names} <= {*step.columns}
        ]
        rows = 2 * self.fitted.model.total
        if errors and self.fitted.measurements:
            return ErrorPrediction(names, min(1.0, min(errors) / rows))
        gap = self.fitted.gaps.get(clique)
        return ErrorPrediction(names, None, None if gap is None else min(1.0, gap / rows))

    def list_unprotected(self) -> list[str]:
        """Public facts that no noise protects: values of the catalog, edges of bins that were asked
        for, and constraints."""
        return [
            *(f"values of {c.name}: from the catalog" for c in self.columns if not c.is_bought),
            *(c.write_edges() for c in self.columns if c.edges and not c.has_bought_edges),
            *(f"{c.text}: {c.provenance}" for c in self.constraints),
        ]

    def certificate(self, file: str | Path | None = None) -> dict[str, Any]:
        """What was promised, signed with the dataset's key: `dither verify` checks it.

        It commits to the model. A frame without a registered dataset, and a served one, give the
        unsigned list of `describe()`.
        """
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
        """The lease, every step with its noise, and public facts, as JSON."""
        return {
            **self.facts,
            "signed": False,
            "steps": [
                {
                    "kind": step.kind,
                    "columns": list(step.columns),
                    "cells": step.cells,
                    "price": step.price,
                    "standard_error": step.error,
                }
                for step in self.released
            ],
            "quality": [asdict(check) for check in self.quality],
            "unprotected": self.list_unprotected(),
            "bought": [f"labels of {c.name}" for c in self.columns if c.is_bought],
            "model": self.key.hex(),
        }

    def report(self, file: str | Path | None = None) -> str:
        """An HTML page: what was measured, how far off it is, and what it may be used for."""
        from dither.synth.report import write_report

        page = write_report(self)
        if file is not None:
            Path(file).write_text(page, encoding="utf-8")
        return page

    def save(self, file: str | Path) -> None:
        """Write the model as JSON; `load_synthetic` reads it, and it gives the same rows."""
        from dither.synth.stored_model import write_model

        Path(file).write_text(write_model(self), encoding="utf-8")


def _hash_table(table: Table) -> tuple[tuple[int, ...], str]:
    """The shape of a table and a hash of its numbers."""
    numbers = np.ascontiguousarray(table, "<f8")
    return table.shape, hashlib.sha256(numbers.tobytes()).hexdigest()


@dataclass(frozen=True)
class ErrorPrediction:
    """The expected total variation distance of a marginal from the source's by noise alone; None
    where it was not measured.

    `at_most` bounds the distance of a pair that was not measured, by model and noise together, with
    95% confidence: a chosen pair had fitted about as badly or worse. None where no bound is known.
    """

    columns: tuple[str, ...]
    distance: float | None
    at_most: float | None = None


def note_rejected(table: pa.Table, rejected: int, missing: int, facts: dict[str, Any]) -> pa.Table:
    """The table with the counts of rows that broke a rule in its metadata, beside the facts."""
    about = {"rejected": rejected, "missing": missing, **facts}
    return table.replace_schema_metadata({"dither": json.dumps(about, default=str)})
