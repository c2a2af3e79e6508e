"""Tests of models on PyTorch, which `make setup-all` installs; without it they are not collected,
but where no test may be missing (`--no-skips`)."""

from importlib.util import find_spec

import pytest


def pytest_ignore_collect(collection_path, config):
    is_test = collection_path.name.startswith("test_")
    is_missing = find_spec("torch") is None and not config.getoption("--no-skips")
    return True if is_test and is_missing else None


@pytest.fixture(autouse=True)
def _one_thread():
    """Small models are slower on several threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch):
    """Forms by formula: two runs that a test compares must not differ by what a clock said."""
    from dither.learn.deep import forms, rehearsal

    for module in (forms, rehearsal):
        monkeypatch.setattr(module, "time_work", lambda work, *, is_cuda: 1.0)
