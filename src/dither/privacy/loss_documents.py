"""Losses read back from the documents that they were stored as.

>>> from dither.privacy.losses import Pure
>>> read_loss((Pure(1) + Pure(2)).to_json()) == Pure(2) + Pure(1)
True
"""

from __future__ import annotations

from typing import Any

from dither.canonical import quote
from dither.errors import ParameterError
from dither.privacy.losses import LOSS_TYPES, Loss
from dither.privacy.numbers import refuse_beyond_floats
from dither.stored import stored_keys


@refuse_beyond_floats
def read_loss(tree: dict[str, Any]) -> Loss:
    """Build the loss that `to_json` wrote as a dict.

    Raises ParameterError for a type, a version or a key that is not known here, and for floats.
    """
    name = tree.get("type") if isinstance(tree, dict) else tree
    if not isinstance(tree, dict) or not isinstance(name, str) or name not in LOSS_TYPES:
        raise ParameterError(f"no loss of type {quote(name)}")
    kind = LOSS_TYPES[name]
    if type(tree.get("v")) is not int or tree["v"] != kind.version:
        raise ParameterError(
            f"loss {kind.type} version {tree.get('v')} is not known here: it needs a newer dither"
        )
    keys = stored_keys(kind)
    if set(tree) != {*keys, "type", "v"}:
        raise ParameterError(
            f"loss {kind.type} has the keys {sorted(keys)}, got {sorted(set(tree) - {'type', 'v'})}"
        )
    values: dict[str, Any] = {}
    for key, attribute in keys.items():
        value = tree[key]
        if isinstance(value, dict):
            value = read_loss(value)
        elif isinstance(value, list):
            value = tuple(read_loss(inner) for inner in value)
        elif isinstance(value, float):
            raise ParameterError(
                f"loss {kind.type}: {key} is a float; canonical JSON writes fractions as 'p/q'"
            )
        values[attribute] = value
    return kind(**values)
