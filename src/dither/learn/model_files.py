"""Models as JSON with the guarantee attached, and as a card for readers. Nothing private is in
either: all of it follows from noisy sums and public facts."""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import sha256
from importlib import import_module
from typing import Any

import numpy as np

from dither.errors import ParameterError
from dither.escape import escape_lines
from dither.learn import _MODULES
from dither.learn.columns import CategoryColumn, Column, ColumnFacts, NumericColumn
from dither.learn.guarantees import ModelGuarantee
from dither.version import __version__

_FORMAT = 1
_ARRAYS = (
    "weights_",
    "classes_",
    "mean_",
    "components_",
    "explained_variance_",
    "cluster_centers_",
    "splits_",
    "leaf_counts_",
    "scores_",
    "bias_",
    "spread_",
)


def write_model(estimator: Any) -> str:
    """A fitted estimator as JSON text: how to encode, what was learnt, and the guarantee."""
    guarantee = getattr(estimator, "guarantee_", None)
    if guarantee is None:
        raise ParameterError("the estimator is not fitted: call fit or fit_table first")
    arrays = {
        name: getattr(estimator, name).tolist() for name in _ARRAYS if hasattr(estimator, name)
    }
    if hasattr(estimator, "network_"):
        arrays["network_"] = write_network(estimator.hidden_, estimator.network_)
    document = {
        "dither_model": _FORMAT,
        "dither_version": __version__,
        "estimator": type(estimator).__name__,
        "columns": [_write_column(column) for column in estimator.columns_.columns],
        "learnt": arrays,
        "target_bounds": getattr(estimator, "_bounds", None),
        "guarantee": guarantee.to_json(),
    }
    return json.dumps(document, default=_write_scalar, allow_nan=False)


def write_network(hidden: Any, weights: list[Any]) -> dict[str, Any]:
    """A network as plain values."""
    shapes = [
        {"width": shape.width, "activation": shape.activation, "normalise": shape.is_normalised}
        for shape in hidden
    ]
    return {"layers": shapes, "weights": [matrix.tolist() for matrix in weights]}


def read_network(written: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Layers and weights of a written network."""
    from dither.learn.networks import read_layers

    return read_layers(written["layers"]), [np.array(rows) for rows in written["weights"]]


def _write_column(column: Column) -> dict[str, Any]:
    kind = "number" if isinstance(column, NumericColumn) else "category"
    return {"kind": kind, **asdict(column)}


def _write_scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise ParameterError(f"{type(value).__name__} has no place in JSON: declare texts and numbers")


def read_model(text: str) -> Any:
    """An estimator from its JSON: it predicts as the written one did."""
    document = json.loads(text)
    name = document.get("estimator") if isinstance(document, dict) else None
    if name not in _MODULES or document.get("dither_model") != _FORMAT:
        raise ParameterError(f"this is no model of format {_FORMAT}: write it with write_model")
    estimator = getattr(import_module(f"dither.learn.{_MODULES[name]}"), name)()
    _fill(estimator, document)
    return estimator


def read_learnt(estimator: Any, text: str) -> None:
    """Give an estimator what another of its kind has learnt, which wrote itself as this text."""
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("estimator") != type(estimator).__name__:
        raise ParameterError("this is no model of this estimator")
    _fill(estimator, document)


def _fill(estimator: Any, document: dict[str, Any]) -> None:
    """Set what was learnt, how to encode, and the guarantee."""
    estimator.columns_ = ColumnFacts(tuple(map(_read_column, document["columns"])))
    for array, values in document["learnt"].items():
        if array in _ARRAYS:
            setattr(estimator, array, np.array(values))
    if "network_" in document["learnt"]:
        estimator.hidden_, estimator.network_ = read_network(document["learnt"]["network_"])
    if document["target_bounds"] is not None:
        estimator._bounds = tuple(document["target_bounds"])
    estimator.guarantee_ = ModelGuarantee(**document["guarantee"])
    names = [column.name for column in estimator.columns_.columns]
    estimator.n_features_in_ = len(names)
    if names and all(isinstance(column, str) for column in names):
        estimator.feature_names_in_ = np.array(names, object)


def _read_column(written: dict[str, Any]) -> Column:
    facts = {key: value for key, value in written.items() if key != "kind"}
    if written["kind"] == "number":
        return NumericColumn(**{**facts, "edges": tuple(facts["edges"])})
    return CategoryColumn(**{**facts, "values": tuple(facts["values"])})


def write_model_certificate(estimator: Any) -> str:
    """What was promised for a model, as JSON: the digest of its file, the guarantee with the loss
    as data, the release as history names it, and what no noise protects.

    It is not signed: the charge stands in the ledger's chain, under the name of the release.
    """
    text = write_model(estimator)
    facts = estimator.guarantee_.to_json()
    document = {
        "dither_model_certificate": _FORMAT,
        "dither_version": __version__,
        "signed": False,
        "model": type(estimator).__name__,
        "model_sha256": sha256(text.encode()).hexdigest(),
        "guarantee": facts,
        "solver": getattr(estimator, "solver_", None),
        "unprotected": [
            "n: declared",
            *(f"bounds, values and bins of {c.name}: declared" for c in estimator.columns_.columns),
        ],
    }
    return json.dumps(document, default=_write_scalar, allow_nan=False)


def write_model_card(estimator: Any, *, purpose: str) -> str:
    """A card in Markdown: what the model is, whom it protects and how much, what it rests on."""
    if not purpose.strip():
        raise ParameterError("purpose is missing: say in a sentence what the model is for")
    guarantee = estimator.guarantee_
    rows = [
        ("model", type(estimator).__name__),
        ("purpose", purpose.strip()),
        ("protected", f"one {guarantee.unit}; neighbours: {guarantee.neighbours}"),
        ("guarantee", f"epsilon {guarantee.epsilon:.6g} at delta {guarantee.delta:.3g}"),
        ("tuning", guarantee.tuning),
        ("trust", guarantee.trust),
        ("releases", f"{guarantee.releases:,} noisy sums, all of them covered"),
        *((f"public: {name}", str(value)) for name, value in guarantee.public.items()),
        ("columns", ", ".join(str(column.name) for column in estimator.columns_.columns)),
        ("not protected", "names, bounds, listed values and bins of columns, and n: declared"),
        ("written by", f"dither {__version__}"),
    ]
    return write_card(rows)


def write_card(rows: list[tuple[str, str]]) -> str:
    """A model card of these rows, whatever their texts hold."""
    lines = [f"| {_escape_cell(name)} | {_escape_cell(value)} |" for name, value in rows]
    return "\n".join(["# Model card", "", "| | |", "|---|---|", *lines]) + "\n"


def _escape_cell(text: str) -> str:
    """A text that cannot leave its cell of a Markdown table, nor be read as markup."""
    line = " ".join(escape_lines(text).split())
    for mark, entity in (("&", "&amp;"), ("<", "&lt;"), ("|", "&#124;"), ("[", "&#91;")):
        line = line.replace(mark, entity)
    return line
