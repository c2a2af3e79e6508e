"""Cheap collection: every worker of pytest-xdist collects all tests by itself.

Collecting makes hundreds of thousands of objects that live until the end of the run. Looking for
garbage among them again and again took a third of the time, so it waits until they are all there,
and never looks at them afterwards.
"""

import gc
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

PROMPT = b">>>"


class QuickCollection:
    """Pytest plugin: no search for garbage while collecting, and none for doctests where no
    examples are."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self):
        gc.disable()
        try:
            return (yield)
        finally:
            gc.freeze()
            gc.enable()

    def pytest_unconfigure(self):
        """Let the end of the process free them: else the engine reports what it takes for leaks."""
        gc.unfreeze()

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path):
        collectors = yield
        if file_path.suffix == ".py" and PROMPT not in file_path.read_bytes():
            return [node for node in collectors if not isinstance(node, DoctestModule)]
        return collectors
