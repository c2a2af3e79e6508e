"""Queries that are read back from what the ledger keeps of them."""

from __future__ import annotations

import json
from fractions import Fraction as F
from typing import Any

import pytest

from dither.plan.algebra import (
    BlockCounts,
    Call,
    Cells,
    Column,
    Count,
    CountUnits,
    Filter,
    Holds,
    Keys,
    Linear,
    Quantiles,
    Scan,
    Sum,
    Value,
    to_json,
)
from dither.plan.stored_queries import read_query
from tests.plan.operator_samples import OF_FOUR

YOUNG = Filter(Scan("visits"), Holds(Call("lt", (Column("age"), Value("number", F(25))))))
COUNTS = Cells(YOUNG, ("ward", "sex"), (Count(), Sum("cost"), CountUnits()))
QUERIES: dict[str, Any] = {
    "cells": COUNTS,
    "keys": Keys(YOUNG, ("ward",)),
    "quantiles": Quantiles(YOUNG, (), "age", (F(1, 4), F(1, 2)), (F(19, 20), F(1, 8))),
    "quantiles without ends": Quantiles(YOUNG, ("sex",), "age", (F(1, 2),)),
    "blocks": BlockCounts(Cells(YOUNG, ("age",), (Count(),)), "count", 3, F(1, 4)),
    **{
        name: Linear(Cells(YOUNG, ("ward",), (Count(),)), operator)
        for name, operator in OF_FOUR.items()
    },
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_is_read_back_as_it_was(name: str) -> None:
    query = QUERIES[name]
    stored = json.loads(json.dumps(to_json(query)))
    assert read_query(stored) == query
    assert read_query(stored).hash == query.hash


@pytest.mark.parametrize(
    "change", [{"type": "nothing"}, {"keys": 7}, {"plan": {"type": "count", "v": 1}}], ids=str
)
def test_what_is_no_query_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no query"):
        read_query(to_json(COUNTS) | change)
