"""Every test has a state home of its own: no head of a test's ledger reaches the developer's."""

import pytest
from cpu_report import CpuReport


def pytest_configure(config):
    config.pluginmanager.register(CpuReport())


@pytest.fixture(autouse=True)
def _own_state_home(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("xdg")))
    monkeypatch.delenv("DITHER_STATE", raising=False)
