"""Stored names: what is in digests and documents does not depend on what classes and fields are
called in Python.

`stored_samples.json` was written before stored names were made explicit: the same texts must come
out for ever, since a digest that moved would make a stored answer unfindable and charge its
question again.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import dither
from dither import RefusedError
from dither.plan import (
    algebra,
    encodings,
    expressions,
    hashed,
    network_functions,
    operators,
    tree_functions,
    utilities,
    vector_functions,
)
from dither.plan.algebra import to_json
from dither.privacy.ledger import lineages
from dither.stored import stored, stored_keys, stored_name
from tests.kernel_losses import list_kernel_losses
from tests.stored_samples import loss_samples, plan_samples, stored_texts

SAVED = json.loads(Path(__file__).with_name("stored_samples.json").read_text())


@dataclass(frozen=True)
class _Two:
    name: str
    count: int


STORED_ROOMS = ("dither.plan", "dither.privacy", "dither.local", "dither.catalog")


def as_saved(texts: dict[str, Any]) -> Any:
    return json.loads(json.dumps(texts))


def every_class() -> list[type]:
    """Every class of the rooms whose values are stored."""
    modules = [
        importlib.import_module(info.name)
        for info in pkgutil.walk_packages(dither.__path__, "dither.")
        if info.name.startswith(STORED_ROOMS)
    ]
    classes = {cls for module in modules for _, cls in inspect.getmembers(module, inspect.isclass)}
    return [cls for cls in classes if cls.__module__.startswith(STORED_ROOMS)]


@pytest.mark.parametrize("kind", sorted(SAVED))
def test_what_is_stored_is_what_was_stored(kind: str) -> None:
    assert as_saved(stored_texts())[kind] == SAVED[kind]


@contextmanager
def renamed(classes: list[type]) -> Iterator[None]:
    """The classes under another name, as after a rename in the source."""
    names = [(cls, cls.__name__, cls.__qualname__) for cls in classes]
    try:
        for cls in classes:
            cls.__name__ = "Renamed"
            cls.__qualname__ = "Renamed"
        yield
    finally:
        for cls, name, qualified in names:
            cls.__name__ = name
            cls.__qualname__ = qualified


def test_no_class_name_reaches_what_is_stored() -> None:
    with renamed(every_class()):
        assert as_saved(stored_texts()) == SAVED


def test_a_class_name_in_a_digest_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the plan's own class name as its type, as it was."""
    monkeypatch.setattr(hashed, "stored_name", lambda cls: cls.__name__.lower())
    assert to_json(algebra.Scan("visits")) == {"type": "scan", "v": 1, "table": "visits"}
    with renamed([algebra.Scan]):
        assert as_saved(stored_texts()) != SAVED


def test_the_samples_hold_every_node_and_every_loss() -> None:
    texts = json.dumps(stored_texts())
    nodes = {
        cls
        for module in (
            algebra,
            encodings,
            expressions,
            operators,
            network_functions,
            tree_functions,
            utilities,
            vector_functions,
        )
        for cls in vars(module).values()
        if inspect.isclass(cls)
        and is_dataclass(cls)
        and cls.__module__ == module.__name__
        and cls not in (algebra.OverCells, encodings.ResolvedFeature)
    }
    for cls in nodes:
        assert f'"type": "{stored_name(cls)}"' in texts
    for name in (kind.type for kind in list_kernel_losses()):
        assert f'"type": "{name}"' in texts
    assert len({type(sample) for sample in plan_samples()}) == 19 and len(loss_samples()) > 15


def test_a_lineage_file_holds_stored_keys_and_not_field_names(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What cannot be read stops every opening of a total; the last two keys came later."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first = {"installation", "dataset", "lineage", "population", "ledger"}
    assert set(stored_keys(lineages.Known)) == first | {"opened", "source"}
    folder = tmp_path / "dither" / "lineages"
    this = lineages.Known("a", "clinic", "clinic", "residents", "/state", opened=True)
    lineages.remember(this)
    text = (folder / "a.json").read_text()
    assert set(json.loads(text)) == first | {"opened", "source"}
    assert lineages.list_other_datasets("b") == (this,)
    (folder / "c.json").write_text(json.dumps(dict.fromkeys(first, "c")))
    assert lineages.list_other_datasets("a") == (lineages.Known("c", "c", "c", "c", "c"),)
    (folder / "d.json").write_text(json.dumps(dict.fromkeys(first | {"place"}, "d")))
    with pytest.raises(RefusedError, match="cannot be read"):
        lineages.list_other_datasets("a")
    (folder / "d.json").unlink()
    keys = {"place" if key == "ledger" else key: key for key in stored_keys(lineages.Known)}
    monkeypatch.setattr(lineages.Known, "__stored_keys__", keys)
    lineages.remember(this)
    assert json.loads((folder / "a.json").read_text())["place"] == "/state"


def test_a_field_without_a_stored_key_is_refused() -> None:
    with pytest.raises(TypeError, match=r"without a stored key: \['count'\]"):
        stored("few", name="name")(type("Few", (_Two,), {}))
    assert stored_keys(algebra.Scan) == {"table": "table"}
