"""The trusted part is small, is the one that docs/trusted.md lists, and loads nothing beyond it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trusted_part import (
    BASELINE,
    KERNEL,
    LARGEST_SHARE,
    PAGE,
    REWRITE,
    SOURCE,
    Tree,
    find_lazy_names,
    find_rooms,
    find_seeds,
    write_page,
)

OUTSIDE = {
    "dither.accounting": "the curve accountant",
    "dither.catalog.file": "the reader of YAML catalogs",
    "dither.catalog.explain": "the guarantee in words",
    "dither.laws": "tails and intervals of errors",
    "dither.mechanisms": "mechanisms that no request can name",
    "dither.data.register": "readers of sources, and registration",
    "dither.audit": "experiments, broken mechanisms and attacks",
    "dither.local": "local protocols",
    "dither.privacy.ledger.replay": "the replay of all entries",
    "dither.privacy.ledger.verify": "the check of a whole ledger",
    "dither.privacy.ledger.steward_ledger": "the steward's acts on a ledger",
    "dither.privacy.ledger.reports": "histories for people",
    "dither.sql": "questions in SQL",
    "dither.answer": "answers",
    "dither.publish": "certificates and reports",
    "dither.steward": "the steward's acts",
    "dither.session": "connections",
    "dither.connecting": "opening of connections",
    "dither.cli": "the command line",
}


@pytest.fixture(scope="module")
def tree() -> Iterator[Tree]:
    """The modules of dither, parsed once, and forgotten after the last test of this file."""
    tree = Tree(SOURCE)
    yield tree
    Tree.parse.cache_clear()
    Tree.find_imports.cache_clear()


@pytest.fixture(scope="module")
def seeds(tree) -> set[str]:
    return find_seeds(tree)


@pytest.fixture(scope="module")
def closure(tree, seeds) -> set[str]:
    return tree.find_closure(seeds)


def test_it_is_small(tree, closure):
    statements = sum(tree.count_statements(module) for module in closure)
    largest = BASELINE * LARGEST_SHARE // 100
    assert statements <= largest, (
        f"the trusted part has {statements:,} statements, at most {largest:,} are allowed: "
        "move what the kernel does not need to a module that it does not import"
    )


def test_it_starts_at_the_kernel_and_at_whoever_else_reads_data(seeds):
    assert set(KERNEL) == seeds


@pytest.mark.parametrize("room", OUTSIDE, ids=lambda room: room.removeprefix("dither."))
def test_what_no_request_needs_is_outside(tree, closure, room):
    assert any(module == room or module.startswith(f"{room}.") for module in tree.files), (
        "it was renamed: look again"
    )
    assert [module for module in closure if module == room or module.startswith(f"{room}.")] == []


def test_no_import_is_hidden_in_a_text(tree, closure):
    for module in closure:
        nodes = list(ast.walk(tree.parse(module)))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        modules = {
            alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
        }
        modules |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
        roots = {name.split(".")[0] for name in modules}
        assert not names & {"__import__", "exec", "eval"}, module
        assert not roots & {"importlib", "pkgutil", "runpy", "imp"}, module


def test_nothing_inside_asks_for_a_name_that_is_loaded_late(tree, closure):
    late = {package: find_lazy_names(tree.parse(package)) for package in closure}
    for module in closure:
        for node in ast.walk(tree.parse(module)):
            if isinstance(node, ast.ImportFrom) and node.module in late:
                assert not {alias.name for alias in node.names} & late[
                    node.module
                ] or _is_for_types(tree.parse(module), node)


def _is_for_types(code: ast.Module, node: ast.ImportFrom) -> bool:
    blocks = [block for block in ast.walk(code) if isinstance(block, ast.If)]
    return any(
        "TYPE_CHECKING" in ast.unparse(block.test) and node in ast.walk(block) for block in blocks
    )


def test_python_loads_no_other_module(seeds, closure):
    program = f"import sys, {', '.join(sorted(seeds))}\nprint('\\n'.join(sys.modules))"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {
        name for name in ended.stdout.split() if name == "dither" or name.startswith("dither.")
    }
    assert set(KERNEL) <= loaded
    assert loaded - closure == set()


def test_every_module_is_in_a_room_and_says_what_it_is(tree, closure):
    rooms = find_rooms()
    for module in closure - {"dither", "dither.privacy"}:
        assert any(module == room or module.startswith(f"{room}.") for room in rooms), module
        assert len(tree.first_sentence(module)) > 10, module


def test_the_page_lists_it(tree, closure):
    page = write_page(tree, closure)
    if os.environ.get("DITHER_WRITE_TRUSTED"):
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page, (
        f"docs/trusted.md is not the trusted part: {REWRITE}"
    )


def make_tree(folder: Path) -> Tree:
    """A small package with every kind of import."""
    files = {
        "__init__.py": "from dither import never\n",
        "never.py": "",
        "kernel/__init__.py": "def __getattr__(name):\n    from dither import late\n",
        "kernel/door.py": '"""A door."""\nif TYPE_CHECKING:\n    from dither import typed\n'
        'def open():\n    """Opens."""\n    from dither.deep.inner import thing\n',
        "late.py": "",
        "typed.py": "",
        "deep/__init__.py": "import dither.beside\n",
        "deep/inner.py": "class A:\n    def __getattr__(self, name):\n        import "
        "dither.method\n",
        "beside.py": "",
        "method.py": "",
    }
    for name, text in files.items():
        path = folder / "dither" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Tree(folder / "dither")


def test_the_search_follows_functions_methods_and_packages_and_counts_no_docstrings(tmp_path):
    tree = make_tree(tmp_path)
    closure = tree.find_closure({"dither.kernel.door"})
    inside = {"kernel", "kernel.door", "deep", "deep.inner", "beside", "method"}
    assert closure == {"dither"} | {f"dither.{name}" for name in inside}
    assert tree.count_statements("dither.kernel.door") == 4  # if, import, def, import
    order = tree.sort_bottom_up(closure)
    assert (
        order.index("dither.beside")
        < order.index("dither.deep")
        < order.index("dither.kernel.door")
    )
