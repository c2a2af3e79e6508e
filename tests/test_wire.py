"""Documents of the wire: strict reading, exact numbers, names that do not follow the code."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import pytest

from dither import ParameterError, canonical, wire
from dither.question.documents import RECIPE_TYPES, read_recipe
from dither.stored import stored, stored_keys, stored_name
from dither.strict_json import read_json


@stored("leaf", text="text", size="size")
@dataclass(frozen=True)
class Leaf:
    text: str
    size: int | Fraction | float | None


@stored("branch", kind="kind", leaves="leaves", pair="pair", named="named", is_open="is_open")
@dataclass(frozen=True)
class Branch:
    kind: Literal["a", "b"]
    leaves: tuple[Leaf, ...]
    pair: tuple[int, str]
    named: dict[str, float]
    is_open: bool = False


TYPES = (Leaf, Branch)
BRANCH = Branch(
    "a",
    (Leaf("x", 1), Leaf("y", Fraction(1, 3)), Leaf("z", 0.1), Leaf("", None)),
    (7, "seven"),
    {"low": -0.0, "high": float("inf")},
    True,
)


def test_a_value_is_the_same_after_a_trip_through_text():
    text = canonical.dumps(wire.write(BRANCH))
    read = wire.read(read_json(text), Branch, TYPES)
    assert read == BRANCH
    assert [type(leaf.size) for leaf in read.leaves] == [type(leaf.size) for leaf in BRANCH.leaves]
    assert str(read.named["low"]) == "-0.0"


@pytest.mark.parametrize(
    "change",
    [
        {"type": "twig"},
        {"type": None},
        {"kind": "c"},
        {"kind": 1},
        {"more": 1},
        {"is_open": 1},
        {"pair": [True, "seven"]},
        {"pair": [7]},
        {"leaves": [7]},
        {"leaves": {"type": "leaf", "text": "x", "size": 1}},
        {"leaves": [{"type": "leaf", "text": "x"}]},
        {"leaves": [{"type": "leaf", "text": "x", "size": {"fraction": "2/6"}}]},
        {"leaves": [{"type": "leaf", "text": "x", "size": {"fraction": "1/0"}}]},
        {"leaves": [{"type": "leaf", "text": "x", "size": {"float": "0.10"}}]},
        {"leaves": [{"type": "leaf", "text": "x", "size": {"fraction": "1" * 2000}}]},
        {"named": {"map": [["low", 1]]}},
        {"named": {"map": [["low"]]}},
        {"named": 1.5},
    ],
    ids=str,
)
def test_anything_else_is_refused(change):
    tree = {**wire.write(BRANCH), **change}
    with pytest.raises(ParameterError, match="this is no branch as dither writes it"):
        wire.read(tree, Branch, TYPES)


def test_a_missing_key_is_refused_and_so_is_another_class():
    tree = wire.write(BRANCH)
    with pytest.raises(ParameterError, match="has the keys"):
        wire.read({key: value for key, value in tree.items() if key != "pair"}, Branch, TYPES)
    with pytest.raises(ParameterError, match="where Branch belongs"):
        wire.read(wire.write(BRANCH.leaves[0]), Branch, TYPES)
    with pytest.raises(ParameterError, match="no recipe"):
        read_recipe({"type": "scan", "table": "visits"})


def test_a_class_that_was_not_named_is_refused():
    with pytest.raises(ParameterError, match="unknown type"):
        wire.read(wire.write(BRANCH), Branch, (Branch,))


def test_names_on_the_wire_are_given_and_different():
    names = [stored_name(cls) for cls in RECIPE_TYPES]
    assert len(set(names)) == len(names)
    assert all("type" not in stored_keys(cls) for cls in RECIPE_TYPES)
