"""Loads files of `examples/` by their path: they belong to no package and are on no search path."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[1] / "examples"


@cache
def load_example(file: str) -> ModuleType:
    """The module in `examples/<file>`, the same object at every call."""
    name = f"example_{Path(file).stem}"
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
