"""Any output as one text and a list of leaves, so that the tester looks at all of it.

Two outputs have the same text only if their content and their types are equal: True, 1, 1.0 and
np.int64(1) have four texts. Tables, arrays, sets, iterators, dataclasses and plain objects are
opened to the last leaf; a text is opened too, as JSON or as numbers and words. What cannot be
opened is named in `unread`, and the verdict then acquits nobody (rule audits-fixed-in-advance).

>>> read_output([True, 1]).text, read_output({"n": "[3, 4]"}).leaves["value['n'][1]"]
('[True, 1]', 4)
>>> read_output(lambda: 0).unread
('function',)
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import hashlib
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

MOST_ELEMENTS = 100_000  # of one iterator: an endless one must end somewhere
_MOST_LEAVES = 1_000_000
_DEEPEST = 60
_LONG_INTEGER = 10_000  # bits; Python refuses to write longer ones in decimal
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_EXACT_REPR = (
    decimal.Decimal,
    fractions.Fraction,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.tzinfo,
    pathlib.PurePath,
    range,
    slice,
    type(Ellipsis),
)
_TOKENS = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|[^\W\d]\w*|\s+|[^\w\s]+")
_OPENERS = ("{", "[", '"')


@dataclasses.dataclass(frozen=True)
class Reading:
    """One output, read: its text, its leaves by path, and the types that could not be opened."""

    text: str
    leaves: dict[str, Any]
    unread: tuple[str, ...]

    def __repr__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class Raised:
    """What a mechanism raised, as an output."""

    kind: str
    message: str


def read_output(output: Any) -> Reading:
    """Read one output to the last leaf. An output that breaks while it is read is an output that
    raised."""
    if isinstance(output, Reading):
        return output
    walk = _Walk()
    try:
        text = walk.write(output, "value")
    except Exception as error:  # an iterator or a property of the output raised
        raised = read_output(Raised(type(error).__name__, str(error)))
        unread = f"{type(output).__qualname__} (raised {type(error).__name__} while it was read)"
        return Reading(raised.text, raised.leaves, (unread,))
    return Reading(text, walk.leaves, tuple(sorted(walk.unread)))


class _Walk:
    """The walk through one output: collects leaves and unread types, returns texts."""

    def __init__(self) -> None:
        self.leaves: dict[str, Any] = {}
        self.unread: set[str] = set()
        self._open: list[Any] = []  # the values around the one that is written

    def write(self, value: Any, path: str) -> str:
        """Write the text of a value; its leaves are noted below `path`."""
        if type(value) in _PLAIN:
            return self._write_plain(value, path)
        inside_itself = any(outer is value for outer in self._open)
        if inside_itself or len(self._open) > _DEEPEST or len(self.leaves) > _MOST_LEAVES:
            return self._write_unread(value, path, "too large, too deep or inside itself")
        self._open.append(value)
        self.leaves[f"type of {path}"] = type(value).__qualname__
        try:
            return self._write_object(value, path)
        finally:
            self._open.pop()

    def _write_plain(self, value: Any, path: str) -> str:
        """Write a plain value and note it as a leaf, with the leaves inside a text."""
        self.leaves[path] = value
        if isinstance(value, complex):
            self.leaves[f"real part of {path}"] = value.real
            self.leaves[f"imaginary part of {path}"] = value.imag
        elif isinstance(value, str):
            self._read_text(value, path)
        elif isinstance(value, bytes):
            self._read_text(value.decode("latin-1"), path)
        return write_plain(value)

    def _write_object(self, value: Any, path: str) -> str:
        """Write a value by the writer of its type, else as a table, mapping, iterable or state."""
        for kinds, write in _WRITERS:
            if isinstance(value, kinds):
                return _name_type(value) + write(self, value, path)
        opened = _open_table(value)
        if opened is not None:
            return _name_type(value) + self.write(opened, path)
        if isinstance(value, Mapping):
            return _name_type(value) + _write_dict(self, dict(value), path)
        if isinstance(value, Iterable) and not isinstance(value, type):
            return _name_type(value) + _write_iterable(self, value, path)
        return self._write_state(value, path)

    def _write_state(self, value: Any, path: str) -> str:
        """An object by its attributes; without any it cannot be opened."""
        state = _list_attributes(value)
        if not state or callable(value):
            return self._write_unread(value, path, "")
        return f"{_name_type(value)}{_write_dict(self, state, path)}"

    def _write_unread(self, value: Any, path: str, why: str) -> str:
        kind = type(value).__qualname__
        self.unread.add(f"{kind} ({why})" if why else kind)
        self.leaves[path] = f"<{kind}>"
        return f"<{kind}>"

    def _read_text(self, text: str, path: str) -> None:
        """Note the leaves inside a text: those of the JSON in it, else its numbers, words and
        signs."""
        self.leaves[f"length of {path}"] = len(text)
        document = _parse_json(text)
        if document is not None:
            inner = _Walk()
            inner.write(document, path)
            self.leaves |= inner.leaves
            return
        tokens = _TOKENS.findall(text)
        if len(tokens) > 1 or (tokens and tokens[0][-1].isdigit()):
            for i, token in enumerate(tokens):
                self.leaves[f"token {i} of {path}"] = _parse_number(token)


def _parse_json(text: str) -> Any:
    """Read the list or mapping that a text spells as JSON; None if it spells none."""
    if not text.lstrip().startswith(_OPENERS):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, (dict, list)) else None


def _parse_number(token: str) -> Any:
    try:
        return float(token) if token[-1].isdigit() else token
    except ValueError:  # a digit of another script
        return token


def _name_type(value: Any) -> str:
    """The name of a type that its text does not show; empty for lists, tuples, dicts and sets."""
    kind = type(value)
    return "" if kind in (list, tuple, dict, set) else f"{kind.__module__}.{kind.__qualname__}"


def _list_attributes(value: Any) -> dict[str, Any]:
    """Collect the attributes of an object: those in its dict, and those in slots."""
    slots = [
        name
        for kind in type(value).__mro__
        for name in _list_names(kind.__dict__.get("__slots__", ()))
    ]
    state = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return state | dict(getattr(value, "__dict__", {}))


def _list_names(slots: Any) -> tuple[str, ...]:
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _note_length(walk: _Walk, path: str, length: int) -> None:
    walk.leaves["length" if path == "value" else f"length of {path}"] = length


def _write_attributes_beside(walk: _Walk, value: Any, path: str) -> str:
    """Attributes that a subclass of a container carries beside its elements."""
    state = dict(getattr(value, "__dict__", {}))
    return _write_dict(walk, state, f"{path}.__dict__") if state else ""


def _write_sequence(walk: _Walk, value: Any, path: str) -> str:
    """Write a list or tuple, and note its length and every element as leaves."""
    elements = list(value)
    _note_length(walk, path, len(elements))
    texts = [walk.write(element, f"{path}[{i}]") for i, element in enumerate(elements)]
    body = ", ".join(texts)
    return f"[{body}]" if isinstance(value, list) else f"({body})"


def _write_list(walk: _Walk, value: Any, path: str) -> str:
    text = _write_sequence(walk, value, path)
    return text + _write_attributes_beside(walk, value, path)


def _write_set(walk: _Walk, value: Any, path: str) -> str:
    ordered = sorted(value, key=lambda element: _Walk().write(element, path))
    return "{" + _write_sequence(walk, tuple(ordered), path)[1:-1] + "}"


def _write_dict(walk: _Walk, value: Any, path: str) -> str:
    """Write the entries in their order, which a reader of the output sees as well."""
    _note_length(walk, path, len(value))
    texts = []
    for key, element in value.items():
        name = _write_key(walk, key)
        texts.append(f"{name}: {walk.write(element, f'{path}[{name}]')}")
    text = "{" + ", ".join(texts) + "}"
    return text + _write_attributes_beside(walk, value, path)


def _write_key(walk: _Walk, key: Any) -> str:
    """Write a mapping's key; its own leaves are not noted, only what could not be read in it."""
    if type(key) in _PLAIN:
        return write_plain(key)
    inner = _Walk()
    text = inner.write(key, "key")
    walk.unread |= inner.unread
    return text


def _write_array(walk: _Walk, value: Any, path: str) -> str:
    """Write an array with its type and shape; a masked one with its mask."""
    mask = ""
    if isinstance(value, np.ma.MaskedArray):
        mask = _write_array(walk, np.ma.getmaskarray(value), f"{path}.mask")
        value = value.data
    body = walk.write(value.tolist(), path)
    return f"{value.dtype.str}{value.shape}{body}{mask}"


def _write_scalar(walk: _Walk, value: Any, path: str) -> str:
    """Write a number of numpy: its type is in the name, its value is the leaf."""
    plain = value.item()
    text = walk.write(plain, path) if type(plain) in _PLAIN else repr(value)
    if isinstance(value, (np.integer, np.floating, np.bool_)) or type(plain) not in _PLAIN:
        walk.leaves[path] = value
    return f"({text})"


def _write_exact(walk: _Walk, value: Any, path: str) -> str:
    """A value whose repr is all of it. Numbers are read as numbers as well."""
    walk.leaves[path] = repr(value)
    if isinstance(value, (decimal.Decimal, fractions.Fraction)):
        walk.leaves[f"size of {path}"] = to_float(value)
    return f"({value!r})"


def _write_enum(walk: _Walk, value: Any, path: str) -> str:
    return f"({value.name}, {walk.write(value.value, path)})"


def _write_iterator(walk: _Walk, value: Any, path: str) -> str:
    elements = list(islice(value, MOST_ELEMENTS + 1))
    if len(elements) > MOST_ELEMENTS:
        walk.unread.add(f"{type(value).__qualname__} (after {MOST_ELEMENTS:,} elements)")
    return _write_sequence(walk, tuple(elements[:MOST_ELEMENTS]), path)


def _write_iterable(walk: _Walk, value: Any, path: str) -> str:
    """A container of a type of its own: its elements and its attributes."""
    text = _write_iterator(walk, iter(value), path)
    state = _list_attributes(value)
    return text + (_write_dict(walk, state, f"{path}.__dict__") if state else "")


def _write_raised(walk: _Walk, value: Any, path: str) -> str:
    walk.leaves["raised"] = value.kind
    return f"({value.kind!r}, {walk.write(value.message, 'message')})"


def _write_subclass(walk: _Walk, value: Any, path: str) -> str:
    """A number or text of a type of its own: the plain value and the attributes beside it."""
    base: Any = next(kind for kind in _PLAIN if isinstance(value, kind))
    text = walk.write(base(value), path)
    return f"({text})" + _write_attributes_beside(walk, value, path)


_Write = Callable[[_Walk, Any, str], str]
_WRITERS: tuple[tuple[Any, _Write], ...] = (
    (Raised, _write_raised),
    (enum.Enum, _write_enum),
    (np.generic, _write_scalar),
    (np.ndarray, _write_array),
    (_EXACT_REPR, _write_exact),
    ((bool, int, float, complex, str, bytes), _write_subclass),
    (dict, _write_dict),
    ((list, tuple), _write_list),
    ((set, frozenset), _write_set),
    (Iterator, _write_iterator),
)


def _open_table(value: Any) -> Any:
    """The content of a table or column of Arrow, pandas or polars; None if it is none of them.

    Their own texts are abbreviated, and their dicts lose rows of equal index and columns of equal
    name.
    """
    library = type(value).__module__.split(".")[0]
    openers = {"pyarrow": _open_arrow, "pandas": _open_pandas, "polars": _open_polars}
    return openers.get(library, _open_tensor)(value)


def _open_tensor(value: Any) -> Any:
    """The content of an array of another library, such as a tensor of torch."""
    if not all(hasattr(value, name) for name in ("tolist", "dtype", "shape")):
        return None
    return {"type": str(value.dtype), "shape": tuple(value.shape), "elements": value.tolist()}


def _open_arrow(value: Any) -> Any:
    """Turn an Arrow table, array or scalar into a dict of plain values, or None."""
    if hasattr(value, "column_names"):
        columns = [column.to_pylist() for column in value.columns]
        return {"schema": str(value.schema), "columns": columns}
    if hasattr(value, "to_pylist"):
        return {"type": str(value.type), "elements": value.to_pylist()}
    return {"type": str(value.type), "value": value.as_py()} if hasattr(value, "as_py") else None


def _open_pandas(value: Any) -> Any:
    """Turn a pandas frame, series or index into a dict of plain values, or None."""
    if hasattr(value, "columns"):
        cells = value.to_dict("split") | {"types": [str(kind) for kind in value.dtypes]}
        return cells | {"attributes": dict(value.attrs)}
    if hasattr(value, "to_list"):
        index = list(value.index) if hasattr(value, "index") else []
        names = (str(value.name), str(value.dtype))
        return {"names": names, "index": index, "elements": value.to_list()}
    return None


def _open_polars(value: Any) -> Any:
    """Turn a polars frame or series into a dict of plain values, or None."""
    if hasattr(value, "collect"):
        value = value.collect()
    if hasattr(value, "rows"):
        schema = [(name, str(kind)) for name, kind in value.schema.items()]
        return {"schema": schema, "columns": [value[name].to_list() for name, _ in schema]}
    if hasattr(value, "to_list"):
        return {"name": value.name, "type": str(value.dtype), "elements": value.to_list()}
    return None


def write_plain(value: Any) -> str:
    """The repr of a value, or the hexadecimal digits of an integer too long for it."""
    long = isinstance(value, int) and value.bit_length() > _LONG_INTEGER
    return hex(value) if long else repr(value)


def hash_text(text: str) -> int:
    """64 bits of a hash, as a signed integer."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def to_float(value: Any) -> float:
    """A number as a float; one beyond the range of floats as an infinity."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
