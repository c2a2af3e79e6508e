"""A lease is of one version: what it was priced by is what its steps are priced and measured by.

The steward may register anew while a lease opens, and a question of another thread then moves the
kernel on to the newer version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction as F
from pathlib import Path
from typing import Any

import pytest

from dither import RefusedError, steward
from dither.answer.leased import OpenFixedLease, OpenLease, OpenOnlineLease
from dither.plan.algebra import Cells, Count, Scan
from dither.privacy.kernel import online_lease
from dither.privacy.kernel.budget_lease import BudgetLease
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.online_lease import OnlineLease
from dither.privacy.kernel.release import Version
from dither.privacy.kernel.request import Price, Request, Step
from tests.workloads.conftest import CATALOG, Survey

CELLS = Cells(Scan("survey"), ("age",), (Count(),))
STEP = Request((Step(CELLS, "laplace", F(1)),), Price(F(1, 10)), "total")
OPENED: dict[str, Callable[[Kernel], Any]] = {
    "budget": lambda kernel: OpenLease(kernel, Price(F(1)), "total"),
    "fixed": lambda kernel: OpenFixedLease(kernel, STEP, 3),
    "online": lambda kernel: OpenOnlineLease(kernel, Price(F(1)), CELLS, F(1, 10), 5, "total"),
}


class ReadVersions:
    """In the place of `Kernel.version`: another version from the read after so many on."""

    def __init__(self, older: Version, newer: Version, reads: int) -> None:
        self._older = older
        self._newer = newer
        self._left = reads

    def __get__(self, kernel: Kernel, kind: type) -> Version:
        self._left -= 1
        return self._older if self._left >= 0 else self._newer

    def __set__(self, kernel: Kernel, version: Version) -> None:
        raise AssertionError("no view is read here")


@pytest.fixture
def survey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Survey:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    survey = Survey(tmp_path / "survey.yaml")
    survey.write()
    survey.connect("pure")
    return survey


def open_at_every_moment(
    survey: Survey, open_lease: Callable[[Kernel], Any], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[Any, Version]]:
    """The leases that opened, and the newer version, where it is registered between any two reads
    of the version by a kernel. Whoever is refused has paid nothing."""
    kernels = [Kernel(survey.state) for _ in range(4)]
    survey.file.write_text(CATALOG.replace("rows_per_unit: 2", "rows_per_unit: 20"))
    steward.register(survey.file)
    newer = Kernel(survey.state).version
    opened = []
    for reads, kernel in enumerate(kernels):
        spent = survey.read_spent()
        with monkeypatch.context() as patch:
            patch.setattr(
                Kernel, "version", ReadVersions(kernel.version, newer, reads), raising=False
            )
            try:
                opened.append((open_lease(kernel), newer))
            except RefusedError as refusal:
                assert "another version was registered meanwhile" in str(refusal)
                assert survey.read_spent() == spent
    return opened


@pytest.mark.parametrize("kind", OPENED)
def test_a_lease_is_of_one_version_or_refused(
    survey: Survey, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_at_every_moment(survey, OPENED[kind], monkeypatch)
    assert 1 <= len(opened) < 4
    for door, newer in opened:
        lease = door._lease
        if isinstance(lease, OnlineLease):
            check_epoch(lease, newer)
        door.close()


def check_epoch(lease: OnlineLease, newer: Version) -> None:
    """One person has 2 rows, or 20 in the newer version: so much more noise in each epoch."""
    rows_per_unit = lease._version.catalog.table("survey").rows_per_unit
    assert rows_per_unit == (20 if lease._version == newer else 2)
    assert lease.epoch.sensitivity == rows_per_unit


def test_a_planted_online_lease_that_reads_the_version_again_is_caught(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had noise for 2 rows of a person where 20 were registered: a tenth of what was needed."""
    honest = online_lease._find_epoch

    def find_without_version(*given: Any) -> Any:
        return (*honest(*given)[:2], None)

    monkeypatch.setattr(online_lease, "_find_epoch", find_without_version)
    monkeypatch.setattr(BudgetLease, "release", lambda *_: None)
    opened = open_at_every_moment(survey, OPENED["online"], monkeypatch)
    with pytest.raises(AssertionError):
        for door, newer in opened:
            check_epoch(door._lease, newer)


def test_a_step_for_another_unit_is_refused(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(survey.state)
    honest = kernel.price

    def price_for_another_unit(request: Request) -> Any:
        priced = honest(request)
        return replace(priced, loss=replace(priced.loss, unit="household"))

    with BudgetLease(kernel, Price(F(1)), "total") as lease:
        monkeypatch.setattr(kernel, "price", price_for_another_unit)
        with pytest.raises(RefusedError, match="this lease was paid for"):
            lease.release(STEP)
        assert lease.left == 1
