"""A synthetic table as a file: JSON whose numbers are read back exactly."""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dither.errors import ParameterError
from dither.strict_json import read_json
from dither.synth.columns import SynthColumn
from dither.synth.constraints import Constraint
from dither.synth.estimate import Measurement
from dither.synth.fitted import FittedTable
from dither.synth.groupings import ValueGrouping
from dither.synth.linked import SyntheticPair
from dither.synth.model import GraphicalModel
from dither.synth.quality import QualityCheck
from dither.synth.steps import ReleasedStep
from dither.synth.synthetic import Synthetic

FORMAT = "dither synthetic table"
PAIR_FORMAT = "dither linked synthetic tables"
VERSION = 1


def write_model(synthetic: Synthetic) -> str:
    """The model and everything that was released, as text."""
    model = synthetic.fitted.model
    document = {
        "format": FORMAT,
        "v": VERSION,
        "facts": synthetic.facts,
        "columns": [asdict(c) | {"step": str(c.step)} for c in synthetic.columns],
        "total": model.total.hex(),
        "potentials": [
            {"clique": list(clique), "table": [number.hex() for number in table.ravel().tolist()]}
            for clique, table in sorted(model.potentials.items())
        ],
        "groupings": [list(grouping.labels) for grouping in synthetic.fitted.groupings],
        "singles": [[n.hex() for n in single.tolist()] for single in synthetic.fitted.singles],
        "released": [
            asdict(step) | {"price": step.price.hex(), "error": step.error.hex()}
            for step in synthetic.released
        ],
        "constraints": [asdict(constraint) for constraint in synthetic.constraints],
        "is_drawn_evenly": synthetic.is_drawn_evenly,
        "certificate": synthetic.signed,
        "measurements": [_write_measurement(m) for m in synthetic.fitted.measurements],
        "single_counts": [_write_measurement(m) for m in synthetic.fitted.single_counts],
        "gaps": [[list(c), gap.hex()] for c, gap in sorted(synthetic.fitted.gaps.items())],
        "quality": [
            {"columns": list(c.columns), "estimate": c.estimate.hex(), "upper": c.upper.hex()}
            for c in synthetic.quality
        ],
    }
    return json.dumps(document) + "\n"


def _write_measurement(measurement: Measurement) -> dict[str, Any]:
    return {
        "clique": list(measurement.clique),
        "counts": [number.hex() for number in measurement.counts.ravel().tolist()],
        "variance": [number.hex() for number in measurement.variance.ravel().tolist()],
    }


def load_synthetic(file: str | Path) -> Synthetic:
    """Read a saved model; it gives the same rows as the one that was saved."""
    return read_model(Path(file).read_text(encoding="utf-8"), str(file))


def read_model(text: str, name: str = "this") -> Synthetic:
    """The synthetic table that a text of `write_model` describes."""
    try:
        document = read_json(text, max_characters=len(text))
        if document["format"] != FORMAT or document["v"] != VERSION:
            raise ValueError("another format")
        return _read_model(document)
    except (KeyError, TypeError, ValueError, IndexError):
        raise ParameterError(
            f"{name} is no saved synthetic table of version {VERSION}: write one with save()"
        ) from None


def write_pair(pair: SyntheticPair) -> str:
    """Two linked tables as text: their models, and what ties them together."""
    document = {
        "format": PAIR_FORMAT,
        "v": VERSION,
        "parent": write_model(pair.parent),
        "child": write_model(pair.child),
        "rows_of_parents": [number.hex() for number in pair.rows_of_parents],
        "links": list(pair.links),
        "certificate": pair.signed,
    }
    return json.dumps(document) + "\n"


def load_linked(file: str | Path) -> SyntheticPair:
    """Read two saved models; they give the same rows as those that were saved."""
    return read_pair(Path(file).read_text(encoding="utf-8"))


def read_pair(text: str) -> SyntheticPair:
    """The linked tables that a text of `write_pair` describes."""
    try:
        document = read_json(text, max_characters=len(text))
        if document["format"] != PAIR_FORMAT or document["v"] != VERSION:
            raise ValueError("another format")
        rows = tuple(float.fromhex(number) for number in document["rows_of_parents"])
        links = tuple(map(str, document["links"]))
        parent = read_model(document["parent"])
        child = read_model(document["child"])
    except (KeyError, TypeError, ValueError, IndexError):
        raise ParameterError("these are no linked synthetic tables of version 1") from None
    return SyntheticPair(parent, child, rows, links, document.get("certificate"))


def _read_model(document: Any) -> Synthetic:
    columns = tuple(
        SynthColumn(
            **column
            | {
                "step": Fraction(column["step"]),
                "labels": tuple(column["labels"]),
                "edges": tuple(column.get("edges", ())),
            }
        )
        for column in document["columns"]
    )
    groupings = tuple(ValueGrouping(tuple(labels)) for labels in document["groupings"])
    sizes = tuple(grouping.size for grouping in groupings)
    potentials = {
        tuple(saved["clique"]): _read_numbers(saved["table"]).reshape(
            [sizes[attribute] for attribute in saved["clique"]]
        )
        for saved in document["potentials"]
    }
    model = GraphicalModel(sizes, float.fromhex(document["total"]), potentials)
    singles = tuple(_read_numbers(single) for single in document["singles"])
    released = tuple(_read_step(step) for step in document["released"])
    constraints = tuple(Constraint(**constraint) for constraint in document["constraints"])
    values = tuple(grouping.values for grouping in groupings)
    measurements = tuple(
        _read_measurement(saved, sizes) for saved in document.get("measurements", ())
    )
    single_counts = tuple(
        _read_measurement(saved, values) for saved in document.get("single_counts", ())
    )
    gaps = {tuple(clique): float.fromhex(gap) for clique, gap in document.get("gaps", ())}
    fitted = FittedTable(model, groupings, singles, measurements, gaps, single_counts)
    quality = tuple(
        QualityCheck(tuple(c["columns"]), float.fromhex(c["estimate"]), float.fromhex(c["upper"]))
        for c in document.get("quality", ())
    )
    is_even = document.get("is_drawn_evenly", False)
    facts = document["facts"]
    signed = document.get("certificate")
    return Synthetic(columns, fitted, released, facts, constraints, is_even, signed, quality)


def _read_measurement(saved: Any, sizes: tuple[int, ...]) -> Measurement:
    clique = tuple(saved["clique"])
    shape = [sizes[attribute] for attribute in clique]
    counts, variance = (
        _read_numbers(saved[name]).reshape(shape) for name in ("counts", "variance")
    )
    return Measurement(clique, counts, variance)


def _read_step(step: Any) -> ReleasedStep:
    return ReleasedStep(
        step["kind"],
        tuple(step["columns"]),
        step["cells"],
        float.fromhex(step["price"]),
        float.fromhex(step["error"]),
    )


def _read_numbers(texts: list[str]) -> Any:
    return np.array([float.fromhex(text) for text in texts])
