"""Steps of a lease for wide tables: what the kernel would refuse after the charge is not asked."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dither.catalog import parse
from dither.plan.algebra import JointScores, Scan
from dither.plan.analysed_query import Analyses
from dither.plan.apply_operator import apply_operator
from dither.plan.operator_norms import largest_norms
from dither.plan.operators import check_operator
from dither.plan.scores import check_members
from dither.synth.groupings import ValueGrouping, group_rare, keep_all
from dither.synth.steps import MarginalCandidate, TableSteps, list_choosable
from tests.datasets.catalog_texts import write_head, write_private_head


class CheckingLease:
    """Checks a choice as the kernel does before it releases one, and chooses the last candidate."""

    left = F(1)

    def __init__(self, analyses: Analyses) -> None:
        self._analyses = analyses

    def release(self, query: Any, **_: Any) -> tuple[int, ...]:
        assert isinstance(query, JointScores)
        check_members(query.members)
        assert self._analyses.analyse_query(query).released_rows == 1
        return (len(query.members) - 1,)


def make_steps(columns: int, values: int) -> TableSteps:
    names = tuple(f"c{number}" for number in range(columns))
    declared = "".join(
        f"      {name}: {{type: integer, bounds: [0, {values - 1}], nulls: drop, provenance: x}}\n"
        for name in names
    )
    text = write_head("wide", "wide", "pid: {protected: true}")
    text += write_private_head("t", "{column: pid}", 1) + "      pid: {type: id}\n" + declared
    analyses = Analyses(parse(text))
    return TableSteps(CheckingLease(analyses), Scan("t"), names, analyses, "rho")


def list_pairs(columns: int, size: int) -> list[MarginalCandidate]:
    target = np.zeros((size, size))
    return [MarginalCandidate(pair, target) for pair in combinations(range(columns), 2)]


WIDE = {
    "28 million cells": (30, 256, ValueGrouping(tuple(np.repeat(range(4), 64).tolist()))),
    "1.2 million targets": (50, 32, keep_all(32)),
    "4,950 members": (100, 2, keep_all(2)),
}


@pytest.mark.parametrize(("columns", "values", "grouping"), WIDE.values(), ids=WIDE)
def test_a_choice_among_many_pairs_is_one_that_the_kernel_takes(
    columns: int, values: int, grouping: ValueGrouping
) -> None:
    candidates = list_pairs(columns, grouping.size)
    groupings = [grouping] * columns
    steps = make_steps(columns, values)
    chosen = steps.choose(candidates, groupings, F(1))
    assert chosen == list_choosable(candidates, groupings, 0)[-1]
    assert steps.released[-1].columns == tuple(f"c{a}" for a in candidates[chosen].clique)
    offered = [list_choosable(candidates, groupings, turn) for turn in range(columns)]
    assert {*range(len(candidates))} == {position for turn in offered for position in turn}


def test_few_candidates_are_all_offered() -> None:
    assert list_choosable(list_pairs(8, 4), [keep_all(4)] * 8, 3) == list(range(28))


def test_a_group_of_rare_labels_among_many_is_an_operator_that_the_kernel_takes() -> None:
    """900 labels and every third of them rare: 540,900 entries as a matrix, of 65,536 at most."""
    grouping = group_rare(np.where(np.arange(900) % 3 == 0, 1.0, 100.0), 10.0)
    operator = check_operator(grouping.write_operator())
    assert largest_norms(operator) == (1, 1, 1, 1)


def test_operators_of_groups_add_up_their_values() -> None:
    """By the matrix of the definition: one row for each group, ones at its values."""
    for labels in ((2, 0, 2, 1), (0, 0, 1, 1, 2), (0, 2, 1, 2, 3), (1, 0, 1, 0), (0, 1, 2)):
        grouping = ValueGrouping(labels)
        cells = np.arange(1, len(labels) + 1) ** 2
        expected = (grouping.matrix @ cells).tolist()
        assert apply_operator(grouping.write_operator(), cells, 10**4).tolist() == expected
