"""The trusted part is small, is the one that docs/trusted.md lists, and loads nothing beyond it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
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

TREE = Tree(SOURCE)
SEEDS = find_seeds(TREE)
CLOSURE = TREE.find_closure(SEEDS)
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


def test_it_is_small():
    statements = sum(TREE.count_statements(module) for module in CLOSURE)
    largest = BASELINE * LARGEST_SHARE // 100
    assert statements <= largest, (
        f"the trusted part has {statements:,} statements, at most {largest:,} are allowed: "
        "move what the kernel does not need to a module that it does not import"
    )


def test_it_starts_at_the_kernel_and_at_whoever_else_reads_data():
    assert set(KERNEL) == SEEDS


@pytest.mark.parametrize("room", OUTSIDE, ids=lambda room: room.removeprefix("dither."))
def test_what_no_request_needs_is_outside(room):
    assert any(module == room or module.startswith(f"{room}.") for module in TREE.files), (
        "it was renamed: look again"
    )
    assert [module for module in CLOSURE if module == room or module.startswith(f"{room}.")] == []


def test_no_import_is_hidden_in_a_text():
    for module in CLOSURE:
        nodes = list(ast.walk(TREE.parse(module)))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        modules = {
            alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
        }
        modules |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
        roots = {name.split(".")[0] for name in modules}
        assert not names & {"__import__", "exec", "eval"}, module
        assert not roots & {"importlib", "pkgutil", "runpy", "imp"}, module


def test_nothing_inside_asks_for_a_name_that_is_loaded_late():
    late = {package: find_lazy_names(TREE.parse(package)) for package in CLOSURE}
    for module in CLOSURE:
        for node in ast.walk(TREE.parse(module)):
            if isinstance(node, ast.ImportFrom) and node.module in late:
                assert not {alias.name for alias in node.names} & late[
                    node.module
                ] or _is_for_types(module, node)


def _is_for_types(module: str, node: ast.ImportFrom) -> bool:
    blocks = [block for block in ast.walk(TREE.parse(module)) if isinstance(block, ast.If)]
    return any(
        "TYPE_CHECKING" in ast.unparse(block.test) and node in ast.walk(block) for block in blocks
    )


def test_python_loads_no_other_module():
    program = f"import sys, {', '.join(sorted(SEEDS))}\nprint('\\n'.join(sys.modules))"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {
        name for name in ended.stdout.split() if name == "dither" or name.startswith("dither.")
    }
    assert set(KERNEL) <= loaded
    assert loaded - CLOSURE == set()


def test_every_module_is_in_a_room_and_says_what_it_is():
    rooms = find_rooms()
    for module in CLOSURE - {"dither", "dither.privacy"}:
        assert any(module == room or module.startswith(f"{room}.") for room in rooms), module
        assert len(TREE.first_sentence(module)) > 10, module


def test_the_page_lists_it():
    page = write_page(TREE, CLOSURE)
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
