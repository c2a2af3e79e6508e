"""Names that say what they hold: a list of words that say nothing, and how often they may occur."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "dither"
FILLER_WORDS = """
found each told place places at part parts one ones known way ways item items thing things val vals res tmp
asked answered spoken boxed seen said made given mine theirs ours
"""
FILLER = frozenset(FILLER_WORDS.split())
"""Words that name neither an act nor a kind of thing."""
MOST_FILLER = 0.03
MOST_PARALLEL = 0.02
TREES = {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def list_bindings(tree: ast.AST) -> Iterator[str]:
    """Every name that a module gives to something: variables, parameters, attributes, functions,
    classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name


def is_parallel(node: ast.AST) -> bool:
    """a, b = x, y: several statements in one line."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
    )


def test_few_names_are_filler_words():
    names = Counter(name.strip("_") for tree in TREES.values() for name in list_bindings(tree))
    filler = {word: names[word] for word in FILLER if names[word]}
    assert sum(filler.values()) <= MOST_FILLER * names.total(), filler


def test_few_assignments_are_parallel():
    assignments = [
        node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.Assign)
    ]
    parallel = [node for node in assignments if is_parallel(node)]
    assert len(parallel) <= MOST_PARALLEL * len(assignments)


def list_public_classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    for path, tree in TREES.items():
        for node in tree.body:
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
