"""Names that say what they hold: a list of words that say nothing, and how often they may occur."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "dither"
FILLER_WORDS = """
found each told place places at part parts one ones known way ways item items thing things val vals
res tmp asked answered spoken boxed seen said made given mine theirs ours left of shown most other
wanted side held
"""
FILLER = frozenset(FILLER_WORDS.split())
"""Words that name neither an act nor a kind of thing."""
LEFT_AND_RIGHT_FILES = """
answer/evaluate.py answer/interval_arithmetic.py audit/events.py audit/exact.py
audit/naive_functions.py audit/sensitivity_check.py audit/zoo/bug.py audit/zoo/laws.py
builder.py data/lower/functions/conditions.py data/lower/functions/numbers.py
data/lower/join.py data/lower/nulls.py data/lower/union_all.py plan/algebra.py plan/analyse.py
plan/carry_degrees.py plan/expressions.py plan/stability/degrees.py plan/stability/join.py
plan/stability/union_all.py sql/centred.py
sql/dates.py sql/formula_rules.py sql/groups.py sql/joins.py sql/rows.py sql/subqueries.py
sql/unions.py
"""
LEFT_AND_RIGHT = frozenset(LEFT_AND_RIGHT_FILES.split())
"""Files where `left` stands beside `right`: the sides of a join or a union, the operands of an
operation, or the two laws that an audit compares. That is the field's word."""
MOST_FILLER = 0.01
MOST_FILLER_IN_ROOM: dict[str, int] = {
    "accounting": 73,
    "answer": 99,
    "audit": 40,
    "builder.py": 2,
    "canonical.py": 1,
    "cli": 16,
    "data": 38,
    "given_numbers.py": 1,
    "local": 71,
    "plan": 15,
    "publish": 26,
    "question": 3,
    "sql": 28,
    "suggesting.py": 1,
    "surfaces.py": 1,
}
"""Rooms above that share: how many filler names each may still hold. Only ever lower a number."""
MOST_PARALLEL = 0.01
PATHS = sorted(SOURCE.rglob("*.py"))
ROOMS = sorted({path.relative_to(SOURCE).parts[0] for path in PATHS})


@pytest.fixture(autouse=True, scope="module")
def _forget_trees():
    """The trees of all modules are large: no other test should keep them in memory."""
    yield
    parse_file.cache_clear()


@cache
def parse_file(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def parse_all() -> list[ast.Module]:
    return [parse_file(path) for path in PATHS]


def list_bindings(tree: ast.AST) -> Iterator[str]:
    """Every name that a module gives to something: variables, parameters, attributes, functions,
    classes. `other` in a method such as `__eq__` is Python's own word, and is not listed."""
    operands = {
        id(argument)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name.startswith("__")
        for argument in function.args.args
        if argument.arg == "other"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg) and id(node) not in operands:
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name


def count_names(room: str) -> Counter[str]:
    """How often each name is given in a room: a package of `dither`, or a module beside them."""
    names = Counter[str]()
    for path in PATHS:
        relative = path.relative_to(SOURCE)
        if relative.parts[0] != room:
            continue
        exempt = {"left"} if relative.as_posix() in LEFT_AND_RIGHT else set()
        names.update(
            name.strip("_")
            for name in list_bindings(parse_file(path))
            if name.strip("_") not in exempt
        )
    return names


def is_parallel(node: ast.AST) -> bool:
    """a, b = x, y: several statements in one line."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
    )


@pytest.mark.parametrize("room", ROOMS)
def test_few_names_are_filler_words(room):
    names = count_names(room)
    filler = {word: names[word] for word in FILLER if names[word]}
    most = MOST_FILLER_IN_ROOM.get(room, int(MOST_FILLER * names.total()))
    assert sum(filler.values()) <= most, filler


def test_other_is_a_word_of_dunder_methods_alone():
    tree = ast.parse("class A:\n    def __eq__(self, other): ...\n    def plus(self, other): ...")
    assert list(list_bindings(tree)).count("other") == 1


def test_every_file_with_left_and_right_has_both():
    """The exemption is for pairs: a file without `right` has no reason to be listed."""
    for name in LEFT_AND_RIGHT:
        names = set(list_bindings(parse_file(SOURCE / name)))
        assert {"left", "right"} <= names, name


def test_few_assignments_are_parallel():
    assignments = [
        node for tree in parse_all() for node in ast.walk(tree) if isinstance(node, ast.Assign)
    ]
    parallel = [node for node in assignments if is_parallel(node)]
    assert len(parallel) <= MOST_PARALLEL * len(assignments)


def list_public_classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    for path in PATHS:
        for node in parse_file(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield path, node


def test_no_two_public_classes_have_one_name():
    names = Counter(node.name for _, node in list_public_classes())
    assert {name: count for name, count in names.items() if count > 1} == {}


def test_a_class_named_error_is_an_exception():
    bases = {
        node.name: [ast.unparse(base) for base in node.bases] for _, node in list_public_classes()
    }

    def is_exception(name: str) -> bool:
        parents = bases.get(name, [])
        return name in ("Exception", "ValueError", "Exit") or any(map(is_exception, parents))

    assert [name for name in bases if name.endswith("Error") and not is_exception(name)] == []
