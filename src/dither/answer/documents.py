"""Previews as canonical JSON, both ways.

A client that prices nothing itself can show what a question would cost.
"""

from __future__ import annotations

from typing import Any

from dither import wire
from dither.answer.preview import Amounts, Balance, Preview
from dither.answer.preview_columns import PreviewColumn

PREVIEW_TYPES: tuple[type, ...] = (Amounts, Balance, Preview, PreviewColumn)


def write_preview(preview: Preview) -> dict[str, Any]:
    """The preview as a tree for `canonical.dumps`."""
    tree: dict[str, Any] = wire.write(preview)
    return tree


def read_preview(tree: Any) -> Preview:
    """The preview that `write_preview` wrote; ParameterError for anything else."""
    return wire.read(tree, Preview, PREVIEW_TYPES)
