"""A registered clinic for each test: a copy of one that is registered once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dither import steward
from tests.datasets.regional_clinic import PATIENTS, VISITS, Clinic, write_sources


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Registered once; every test gets a copy."""
    folder = tmp_path_factory.mktemp("regional-clinic")
    before = os.environ.get("XDG_STATE_HOME")
    try:
        for name, tables in (("patients", PATIENTS), ("visits", VISITS)):
            os.environ["XDG_STATE_HOME"] = str(folder / name / "xdg")
            steward.register(write_sources(folder / name / "clinic", tables))
    finally:
        os.environ.pop("XDG_STATE_HOME")
        if before is not None:
            os.environ["XDG_STATE_HOME"] = before
    return folder


def _copy(templates: Path, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    shutil.copytree(templates / name, folder / "site")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "site" / "xdg"))
    return Clinic(folder / "site" / "clinic" / "clinic.yaml")


@pytest.fixture
def clinic(templates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    """Patients, one row each."""
    return _copy(templates, "patients", tmp_path, monkeypatch)


@pytest.fixture
def visits(templates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    """Visits, up to eight of a patient."""
    return _copy(templates, "visits", tmp_path, monkeypatch)
