"""What every run has: a state home for each test, a PostgreSQL server, the CPU report, skips that
fail on demand."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cpu_report import CpuReport
from tests.no_skips import FailSkippedTests
from tests.postgres_server import running_server
from tests.quick_collection import QuickCollection


def pytest_addoption(parser):
    parser.addoption("--no-skips", action="store_true", help="a skipped test fails, with its name")


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a run that a script starts with &
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(CpuReport())
    config.pluginmanager.register(QuickCollection())
    if config.getoption("--no-skips"):
        config.pluginmanager.register(FailSkippedTests())


@pytest.fixture(autouse=True, scope="session")
def _state_home_of_shared_fixtures(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("shared-xdg")))
        patch.delenv("DITHER_STATE", raising=False)
        yield


@pytest.fixture(autouse=True, scope="module")
def _state_home_of_a_module(tmp_path_factory):
    """Datasets that a module shares do not meet those of another module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("module-xdg")))
        yield


@pytest.fixture(autouse=True)
def _own_state_home(tmp_path_factory, monkeypatch):
    """No head of a test's ledger reaches the developer's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("xdg")))
    monkeypatch.delenv("DITHER_STATE", raising=False)


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    """A PostgreSQL of our own, one per test process."""
    with running_server() as running:
        yield running
