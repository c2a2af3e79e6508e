"""Benchmarks are not run by tests, so what they import may be moved or deleted without notice."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

BENCHES = sorted((Path(__file__).parents[1] / "bench").glob("*.py"))
NEEDS_TORCH = ("deep", "deep_mnist", "deep_steps")


@pytest.mark.parametrize("file", BENCHES, ids=lambda file: file.stem)
def test_what_a_benchmark_imports_is_there(file: Path) -> None:
    if file.stem in NEEDS_TORCH and find_spec("torch") is None:
        return
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dither"):
            module = import_module(str(node.module))
            for name in node.names:
                is_module = find_spec(f"{node.module}.{name.name}") if _is_package(module) else None
                assert hasattr(module, name.name) or is_module, name.name


def _is_package(module: object) -> bool:
    return hasattr(module, "__path__")


def test_a_name_that_is_gone_is_noticed(tmp_path: Path) -> None:
    """Planted: a benchmark that imports a name which no module has."""
    file = tmp_path / "gone.py"
    file.write_text("from dither.canonical import no_such_name\n")
    with pytest.raises(AssertionError, match="no_such_name"):
        test_what_a_benchmark_imports_is_there(file)
