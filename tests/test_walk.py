"""The walk of one question, counted: COUNT and AVG by ward, asked for the first time.

A question goes one way: the ledger is read once for the session and once for the kernel, which
believes nothing; the dialect is parsed once; one offer is made and priced. Each repetition would
cost time, and hide what depends on what.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import threading
from collections import Counter
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import dither
from dither import steward
from dither.plan.algebra import Cells, Count, Scan
from dither.plan.analyse import Analysed
from dither.plan.stability import Owned
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.ledger.database import Transaction
from dither.state import State
from tests.datasets.clinic import CATALOG, PURPOSE, catalog, row, write_csv

QUESTION = "SELECT ward, COUNT(*) AS n, AVG(cost) AS mean FROM visits GROUP BY ward"
MOST_TRANSACTIONS = 6
MOST_PRICES = 2
NODES = 2
"""The plan of the question: a scan, and a projection that moves costs to the middle of their
bounds."""


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dither.Connection:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    file = tmp_path / "clinic.yaml"
    file.write_text(CATALOG)
    wards = ("north", "south")
    write_csv(
        tmp_path / "visits.csv", [row(str(i), str(i % 40), ward=wards[i % 2]) for i in range(100)]
    )
    steward.register(file)
    steward.open_pot(
        State.beside(file), catalog(), "total", epsilon=10, ceiling=20, purpose=PURPOSE
    )
    return dither.connect(file)


@pytest.fixture
def calls(connection: dither.Connection, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each function of dither ran, in any thread, and how many transactions the ledger's
    driver saw."""
    counted: Counter[str] = Counter()
    begin = Transaction.__init__

    def counting(self: Transaction, raw: Any, dialect: Any) -> None:
        counted["transactions"] += 1
        begin(self, raw, dialect)

    def note_call(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "dither" in frame.f_globals.get("__name__", ""):
            counted[f"{frame.f_globals['__name__']}.{frame.f_code.co_name}"] += 1

    monkeypatch.setattr(Transaction, "__init__", counting)
    threading.setprofile(note_call)
    sys.setprofile(note_call)
    try:
        connection.sql(QUESTION, epsilon=1)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return counted


def test_the_ledger_is_opened_few_times(calls: Counter[str]) -> None:
    assert 4 <= calls["transactions"] <= MOST_TRANSACTIONS


def test_a_question_is_read_bound_and_offered_once_and_priced_twice(calls: Counter[str]) -> None:
    assert calls["dither.sql.dialects.read_dialect"] == 1
    assert calls["dither.sql.bind.bind"] == 1
    assert calls["dither.answer.choose_mechanism.choose_mechanisms"] == 1
    assert 1 <= calls["dither.privacy.kernel.kernel.price_at"] <= MOST_PRICES
    assert (
        calls["dither.privacy.kernel.kernel.price"] == 1
    )  # by the kernel itself, which takes nobody's word


def test_the_pot_path_is_read_once_by_each_side(calls: Counter[str]) -> None:
    assert calls["dither.privacy.ledger.queries.view"] == 2
    assert calls["dither.privacy.ledger.queries.path"] == 0


def test_each_side_analyses_the_plan_once(calls: Counter[str]) -> None:
    """The binder grows a plan node by node, and hands its analysis to previews and intervals. The
    kernel takes nobody's: it looks up its own copy of the plan by the hash."""
    assert calls["dither.plan.analyse.analyse"] == 2  # one for the answer, one of the kernel
    assert 1 <= calls["dither.plan.analyse._apply_rule"] <= 2 * NODES


def test_counts_and_sums_over_the_same_rows_are_one_statement(calls: Counter[str]) -> None:
    assert calls["dither.data.measure._write_sql"] == 1
    assert calls["dither.data.measure.measure"] == 1


def test_no_request_can_carry_an_analysis() -> None:
    """The kernel believes nothing: what a request is made of has no room for what somebody else
    derived."""
    fields = {
        field.name: field.type
        for cls in (Request, Step, Price)
        for field in dataclasses.fields(cls)
    }
    assert set(fields) == {
        "steps",
        "price",
        "pot",
        "context",
        "measured",
        "family",
        "weight",
        "columns",
    } | {
        "epsilon",
        "rho",
    }
    for entry in (Kernel.price, Kernel.release, Kernel.answer):
        assert "analys" not in str(inspect.signature(entry))
    forged = Cells(Scan("visits"), (), (Count(),))
    with pytest.raises(TypeError):
        Step(forged, "laplace", Fraction(1), analysed="sensitivity 0")  # type: ignore[call-arg]


def test_the_kernel_prices_by_its_own_analysis(connection: dither.Connection) -> None:
    """A binder that claims smaller sensitivities changes nothing of what the kernel charges and
    adds."""
    request = connection.request(QUESTION, epsilon=1)
    honest = connection._kernel.price(request)
    plan = request.steps[0].measured.plan
    forged = Analysed(plan, Owned(rows=0, most=0), {})
    object.__setattr__(plan, "analysed", forged)
    assert connection._kernel.price(request).loss == honest.loss
    assert [step.mechanism for step in connection._kernel.price(request).steps] == [
        step.mechanism for step in honest.steps
    ]
