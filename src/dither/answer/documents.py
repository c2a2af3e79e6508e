"""Previews as canonical JSON, both ways.

A client that prices nothing itself can show what a question would cost.
"""

from __future__ import annotations

from typing import Any

from dither import wire
from dither.answer.preview import Amounts, Balance, EarlierSources, Preview
from dither.answer.preview_columns import PreviewColumn

PREVIEW_TYPES: tuple[type, ...] = (Amounts, Balance, EarlierSources, Preview, PreviewColumn)


def write_preview(preview: Preview) -> dict[str, Any]:
    """The preview as a tree for `canonical.dumps`."""
    tree: dict[str, Any] = wire.write(preview)
    return tree


def read_preview(tree: Any) -> Preview:
    """The preview that `write_preview` wrote; ParameterError for anything else."""
    return wire.read(tree, Preview, PREVIEW_TYPES)


def describe_preview(preview: Preview) -> dict[str, Any]:
    return {
        "price": {
            "asked": preview.price,
            "in": preview.measure,
            "charged": preview.charged.amount,
            "delta": preview.charged.delta,
            "charged_in": preview.charged_in,
            "unit": preview.unit,
        },
        "fits": preview.fits,
        "left": preview.left,
        "questions_left": preview.questions_left,
        "rows": preview.rows,
        "confidence": preview.confidence,
        "smallest_group": preview.smallest_group,
        "stored": preview.stored,
        "earlier": None
        if preview.earlier is None
        else {
            "releases": list(preview.earlier.release_ids),
            "standard_error": preview.earlier.standard_error,
        },
        "columns": [
            {
                "name": column.name,
                "by": column.by,
                "scale": column.scale,
                "standard_error": column.standard_error,
                "half_width": column.half_width,
                "joint_half_width": column.joint_half_width,
                "relative_error": column.relative_error,
                "limits": list(column.limits),
                "notes": list(column.notes),
            }
            for column in preview.columns
        ],
    }
