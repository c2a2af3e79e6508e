"""Clients and the budgets of their devices: never copied, never older than what was spent, never
silent."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither import BudgetError, DitherError, ParameterError, local
from dither.privacy.noise import Words


def test_a_client_holds_no_random_state() -> None:
    """Two clients in one state, asked for new answers, do not repeat each other (a resumed snapshot
    would)."""
    client = local.Client(local.OptimisedUnary(1, 256), lifetime_epsilon=100, memoise=False)
    twin = local.Client.from_json(client.to_json())
    assert client.report(3) != twin.report(3)  # equal with probability below 2**-90
    assert not any(isinstance(part, Words) for part in vars(client).values())


def test_budgets_and_clients_cannot_be_copied() -> None:
    client = local.Client(local.Direct(1, 4), lifetime_epsilon=1)
    for thing in (client, client.budget):
        for act in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied"):
                act(thing)
    with pytest.raises(AttributeError):
        client.budget.lifetime_epsilon = Fraction(9)  # type: ignore[misc]


def test_a_forked_child_does_not_spend() -> None:
    client = local.Client(local.Direct(1, 4), lifetime_epsilon=2)
    first = client.report(0)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        told = b"?"
        try:
            told = b"same" if client.report(0) == first else b"other"
            try:
                client.report(1)
                told += b" spent"
            except BudgetError:
                told += b" refused"
        finally:
            os.write(write, told)
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"same refused"
    assert client.report(1) and client.left == 0


def test_old_states_are_refused_where_they_can_be_seen() -> None:
    client = local.Client(local.Direct(1, 4), lifetime_epsilon=3)
    client.report(0)
    old = json.loads(json.dumps(client.to_json()))
    client.report(1)
    assert client.budget.answers == 2
    with pytest.raises(ParameterError, match="old copy"):
        local.Client.from_json(old, known_answers=2)
    assert local.Client.from_json(client.to_json(), known_answers=2).left == 1
    shared = local.DeviceBudget(3)
    with pytest.raises(ParameterError, match="older than this client"):
        local.Client.from_json(client.to_json(), budget=shared)
    shared = local.DeviceBudget.from_json(client.budget.to_json())
    shared.charge("another collection", Fraction(1))
    assert local.Client.from_json(client.to_json(), budget=shared, known_answers=3).left == 0
    with pytest.raises(ParameterError, match="older than this client"):
        local.Client.from_json(client.to_json(), budget=shared, known_answers=4)


def test_a_budget_in_a_file_is_opened_never_made_anew(tmp_path: Path) -> None:
    """A program that starts every day and opens "its" budget gets the one that it spent
    yesterday."""
    path = tmp_path / "budget.json"
    for day in range(3):
        client = local.Client(local.Direct(1, 4), budget=local.budget_file(path, 2))
        if day < 2:
            client.report(day)
        else:
            with pytest.raises(BudgetError):
                client.report(day)
        with pytest.raises(ParameterError, match="open already"):
            local.budget_file(path, 2)
        del client
    with pytest.raises(ParameterError, match="cannot be opened with another"):
        local.budget_file(path, 9)
    budget = local.budget_file(path, 2, known_answers=2)
    budget.renew(1, because="the user agreed")
    del budget
    again = local.budget_file(path, 2)
    assert again.left == 1 and again.renewals[0].because == "the user agreed"
    del again
    with pytest.raises(ParameterError, match="old copy"):
        local.budget_file(path, 2, known_answers=3)
    path.write_text("{}")
    with pytest.raises(ParameterError, match="not replaced"):
        local.budget_file(path, 2)
    path.unlink()
    with pytest.raises(ParameterError, match="not made anew"):
        local.budget_file(path, 2, known_answers=2)


def test_a_charge_that_cannot_be_stored_pays_for_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    client = local.Client(local.Direct(1, 4), budget=local.budget_file(folder / "budget", 2))
    shutil.rmtree(folder)
    with pytest.raises(OSError, match="budget"):
        client.report(1)
    assert (
        client.spent == 1 and client._memos == {}
    )  # charged, and no answer exists that could leave


def test_states_that_contradict_themselves_are_refused() -> None:
    client = local.Client(local.Direct(1, 4), lifetime_epsilon=2)
    client.report(0)
    state = client.to_json()
    for path, value in [
        (("budget", "charges", 0, "answers"), 0),
        (("budget", "charges", 0, "answers"), 9),
        (("budget", "charges", 0, "epsilon"), "-1/1"),
        (("budget", "renewals"), [{"epsilon": "5/1", "because": "x"}]),
        (("memos", "0"), "ffff"),
        (("memos", "0"), "09"),
        (("dither_local_client",), 2),
    ]:
        broken = json.loads(json.dumps(state))
        inner = broken
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
        with pytest.raises(DitherError):
            local.Client.from_json(broken)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.fractions(Fraction(1, 1000), 3, max_denominator=1000), max_size=12), st.booleans()
)
def test_the_integer_ledger_adds_like_fractions(prices: list[Fraction], store: bool) -> None:
    """A stale copy of the remainder, kept while the units widened, once doubled a budget."""
    budget, spent = local.DeviceBudget("7/3"), Fraction(0)
    for price in prices:
        if spent + price > budget.lifetime_epsilon:
            with pytest.raises(BudgetError):
                budget.charge("x", price)
        else:
            budget.charge("x", price)
            spent += price
        if store:
            budget = local.DeviceBudget.from_json(json.loads(json.dumps(budget.to_json())))
        assert budget.spent == spent and budget.left == budget.lifetime_epsilon - spent >= 0


@pytest.mark.parametrize(
    ("protocol", "otherwise", "strange"),
    [
        (local.Direct(1, 4), 3, [None, -1, 4, 2**70, 1.5, "x", True]),
        (local.OptimalHash(1, 100), 99, [None, -1, 100, "x"]),
        (local.OneBit(1, 0, 10), 0.0, [float("nan"), None, "x"]),
        (local.VectorMean(1, -1, 1, 3, 1), [0.0, 0.0, 0.0], [[0.0], [float("nan")] * 3]),
        (local.SparseMean(1, 1, 5, 3, 1), {}, [{7: 1.0}, {0: float("nan")}, None]),
        (local.RepeatedOneBit(1, 0, 10, 5), 0, [None, 1.5, "x"]),
        (local.PlanarLaplace(1, radius=10), [0.0, 0.0], [[float("nan"), 0.0], None, [1.0]]),
    ],
    ids=lambda p: getattr(p, "type", None),
)
def test_a_value_without_a_place_is_no_silence(
    protocol: local.Protocol, otherwise: Any, strange: list[Any]
) -> None:
    """Missing and unforeseen values raise without `otherwise` (and never an error of another kind),
    report with it."""
    plain = local.Client(protocol, lifetime_epsilon=50)
    total = local.Client(protocol, lifetime_epsilon=50, otherwise=otherwise)
    usual = total.report(otherwise)
    for value in strange:
        with pytest.raises(ParameterError):
            plain.report(value)
        assert total.report(value) == usual  # one answer for all of them
    assert plain.spent == 0 and total.budget.answers == 1
    again = local.Client.from_json(json.loads(json.dumps(total.to_json())))
    assert again.report(strange[0]) == usual


def test_labels_and_otherwise() -> None:
    client = local.Client(local.Direct(1, 3), lifetime_epsilon=9, labels=["a", "b", "other"])
    assert client.report(None) == client.report("zzz") == client.report(7) == client.report("other")
    with pytest.raises(ParameterError, match="different"):
        local.Client(local.Direct(1, 3), lifetime_epsilon=9, labels=["a", "a", "other"])
    with pytest.raises(ParameterError):
        local.Client(local.Direct(1, 3), lifetime_epsilon=9, otherwise=3)
    with pytest.raises(ParameterError, match="more labels"):
        local.Client(local.Direct(1, 3), lifetime_epsilon=9, labels=["a", "b", "c", "other"])
    client = local.Client(
        local.VectorMean(1, -1, 1, 2, 1), lifetime_epsilon=9, otherwise=np.zeros(2)
    )
    assert json.dumps(client.to_json())
