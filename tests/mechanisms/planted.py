"""Planted bugs: mistakes that people made, switched in by patching, each with the test that must
fail."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest import mock


@dataclass(frozen=True)
class Bug:
    """`test` passes as it stands and must fail with an AssertionError while `patches` (object,
    name, value) hold."""

    what: str
    test: Callable[[], None]
    patches: tuple[tuple[Any, str, Any], ...]

    def is_caught(self) -> bool:
        with ExitStack() as stack:
            for target, name, value in self.patches:
                stack.enter_context(mock.patch.object(target, name, value))
            try:
                self.test()
            except AssertionError:
                return True
        return False
