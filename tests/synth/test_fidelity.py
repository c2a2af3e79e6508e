"""Distances of tables on data that may be looked at, against values known beforehand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dither.errors import ParameterError
from dither.synth.fidelity import compare_tables, measure_utility
from tests.synth.survey import invent_people

COLUMNS = ["age", "work", "town", "pay"]


def test_a_table_is_at_no_distance_from_itself() -> None:
    people = invent_people(500).select(COLUMNS)
    fidelity = compare_tables(people, people)
    assert fidelity.one_way == fidelity.two_way == fidelity.correlation == 0
    assert fidelity.propensity < 1e-6 and fidelity.k_marginal == 1000


def test_distances_are_those_of_hand_made_tables() -> None:
    """a = b in one table, a = 1 - b in the other: singles agree, no pair does."""
    bits = [0, 1] * 50
    real = pa.table({"a": bits, "b": bits})
    made = pa.table({"a": bits, "b": [1 - bit for bit in bits]})
    fidelity = compare_tables(real, made)
    assert fidelity.one_way == 0 and fidelity.two_way == 1
    np.testing.assert_allclose(fidelity.correlation, 2)
    assert fidelity.k_marginal == 0
    apart = compare_tables(real, pa.table({"a": [2] * 100, "b": [2] * 100}))
    assert apart.one_way == 1 and apart.propensity > 0.2


def test_rows_of_the_same_law_are_near_and_shuffled_columns_far() -> None:
    people = invent_people(4000).select(COLUMNS)
    alike = invent_people(4000, seed=5).select(COLUMNS)
    order = np.random.default_rng(1).permutation(4000)
    shuffled = alike.set_column(1, "work", alike["work"].take(pa.array(order)))
    near = compare_tables(people, alike)
    far = compare_tables(people, shuffled)
    assert near.two_way < 0.06 < 0.1 < far.two_way
    assert near.propensity < 0.01
    assert measure_utility(alike, people, "town") > 0.75
    assert measure_utility(shuffled, people, "town") < measure_utility(alike, people, "town")


def test_rows_that_are_alike_count_as_half_a_win_each() -> None:
    """A model that cannot tell rows apart has an area of 1/2, in whatever order they come."""
    table = pa.table({"a": [1, 2] * 50, "flat": [0] * 100, "yes": [False] * 50 + [True] * 50})
    utility = measure_utility(table.select(["flat", "yes"]), table.select(["flat", "yes"]), "yes")
    assert utility == 0.5


def test_tables_without_common_columns_are_refused() -> None:
    with pytest.raises(ParameterError, match="in common"):
        compare_tables(pa.table({"a": [1]}), pa.table({"b": [1]}))
    with pytest.raises(ParameterError, match="two values"):
        measure_utility(*[invent_people(50).select(["age", "work"])] * 2, "age")
