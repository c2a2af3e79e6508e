"""Raw rows through registration to measured integers, against the naive evaluator, on neighbours.

One owner's rows are all added or removed: the real engine must agree with the oracle exactly on
both databases, nobody else's registered rows may change, and the measured change may not exceed the
claimed sensitivity.
"""

from __future__ import annotations

import tempfile
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st

from dither.audit import naive
from dither.plan.algebra import And, Cells, Compare, Count, Filter, IsNull, Not, Or, Scan, Sum
from dither.plan.of_catalog import key_domains, largest_value, sensitivity
from tests.case_lists import mark_rest, run_examples
from tests.datasets import clinic

FACTS = clinic.catalog()
TABLE = FACTS.table("visits")
ODD = [
    "",
    None,
    "nan",
    "NaN",
    "-inf",
    "inf",
    "1e400",
    "-1e400",
    "1e-400",
    "-0.0",
    "0x10",
    "1_0",
    "9" * 29,
    "-" + "9" * 29,
]
ODD += [
    "9" * 40,
    "٣",
    "é",
    "a,b",
    'quo"te',
    " 12 ",
    "12.0",
    "12.5",
    ".5",
    "5.",
    "+3",
    "--3",
    "null",
    "NULL",
]
texts = st.sampled_from(ODD)
wards = st.one_of(st.sampled_from(["north", "south", "west", "North", "other"]), texts)
kinds = st.one_of(st.sampled_from(["a", "b", "c"]), st.sampled_from(["a", "b"]), texts)
numbers = st.one_of(
    st.integers(-200, 700).map(str),
    st.floats(-20, 600).map(repr),
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.decimals(-20, 600, places=3).map(str),
    texts,
)
truths = st.one_of(st.sampled_from(["true", "FALSE", "t", "0", "1", "Yes", "n"]), texts)
days = st.one_of(
    st.dates().map(str),
    st.sampled_from(
        [
            "2024-02-30",
            "2024-06-01 10:00",
            "2024-06-01T10:00:00Z",
            "0000-01-01",
            "0001-01-01",
            "24-1-1",
        ]
    ),
    texts,
)
contents = st.fixed_dictionaries(
    {
        "ward": wards,
        "kind": kinds,
        "age": st.one_of(st.integers(-5, 130).map(str), numbers),
        "score": numbers,
        "cost": numbers,
        "weight": numbers,
        "urgent": truths,
        "day": days,
    }
)
visits = st.one_of(st.integers(0, 4).map(str), texts)


@st.composite
def rows_of(draw, owners, most):
    """Rows with duplicates: some are drawn once and repeated."""
    rows = []
    for _ in range(draw(st.integers(0, most))):
        new = {"visit": draw(visits), "patient": draw(owners), **draw(contents)}
        rows += [new] * draw(st.sampled_from([1, 1, 1, 2, 4]))
    return rows[:most]


number_columns = st.sampled_from(["age", "score", "cost", "weight", "urgent", "day"])
comparisons = st.one_of(
    st.builds(
        Compare,
        number_columns,
        st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
        st.one_of(
            st.integers(-20, 600).map(Fraction), st.fractions(-20, 600), st.just(Fraction(19800))
        ),
    ),
    st.builds(
        Compare,
        st.just("ward"),
        st.sampled_from(["=", "<>"]),
        st.sampled_from(["north", "south", "other"]),
    ),
    st.builds(Compare, st.just("kind"), st.sampled_from(["=", "<>"]), st.sampled_from(["a", "b"])),
    st.builds(IsNull, st.sampled_from(["ward", "score", "cost", "day"])),
)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
    ),
    max_leaves=5,
)
plans = st.one_of(
    st.just(Scan("visits")),
    st.builds(Filter, st.just(Scan("visits")), conditions),
    st.builds(Filter, st.builds(Filter, st.just(Scan("visits")), conditions), conditions),
)
keys = st.sampled_from(
    [
        (),
        ("ward",),
        ("kind",),
        ("urgent",),
        ("score",),
        ("ward", "kind"),
        ("urgent", "score", "ward"),
    ]
)
aggregates = st.one_of(
    st.just(Count()), st.sampled_from(["age", "score", "cost", "weight", "urgent"]).map(Sum)
)
queries = st.builds(Cells, plans, keys, aggregates.map(lambda one: (one,)))


def measured(folder: Path, rows, asked) -> list[np.ndarray]:
    measurer = clinic.measurer(folder, rows)
    try:
        for query in asked:
            measurer.prepare(query)
        return [measurer.measure(query) for query in asked]
    finally:
        measurer.close()


NEIGHBOURS = {
    "others": rows_of(st.sampled_from(["p1", "p2", "p3", "p 4", "", None]), 12),
    "mine": rows_of(st.just("victim"), 9),
    "where": st.integers(0, 12),
    "asked": st.lists(queries, min_size=4, max_size=8),
}


@pytest.mark.parametrize("examples", mark_rest([6, 40], quick=1))
def test_engine_agrees_with_the_oracle_and_no_neighbour_beats_the_claimed_sensitivity(examples):
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_examples(check_neighbours, examples, NEIGHBOURS, suppress_health_check=slow)


def check_neighbours(others, mine, where, asked):
    with_me = others[:where] + mine + others[where:]
    with tempfile.TemporaryDirectory() as folder:
        one = measured(Path(folder) / "one", others, asked)
        two = measured(Path(folder) / "two", with_me, asked)
    kept_one = naive.registered(others, TABLE, clinic.KEY)
    kept_two = naive.registered(with_me, TABLE, clinic.KEY)
    for query, without, within in zip(asked, one, two, strict=True):
        assert without.tolist() == evaluate_listed(query, kept_one)
        assert within.tolist() == evaluate_listed(query, kept_two)
        moved = [abs(int(change)) for change in (within - without).ravel()]
        claim = sensitivity(query, FACTS)
        assert sum(moved) <= claim.l1
        assert sum(change > 0 for change in moved) <= claim.l0
        assert max(moved) <= claim.linf
        assert sum(change * change for change in moved) <= claim.l2_squared
        assert max(abs(int(cell)) for cell in within.ravel()) <= largest_value(
            query.columns[0], query, FACTS
        )


def evaluate_listed(query, kept):
    """The oracle's cells of the keys that a WHERE leaves; nobody has the other declared keys."""
    cells = naive.evaluate(query, FACTS, kept)
    declared = key_domains(Cells(Scan("visits"), query.keys, query.columns), FACTS)
    codes = product(*(range(domain.codes) for domain in declared))
    expected = dict(zip(codes, cells, strict=True))
    listed = [
        [domain.first - whole.first + code for code in range(domain.size)]
        + [whole.size] * domain.has_null
        for domain, whole in zip(key_domains(query, FACTS), declared, strict=True)
    ]
    shown = [expected.pop(key) for key in product(*listed)]
    assert not any(any(cell) for cell in expected.values())
    return shown


def test_the_claimed_sensitivity_is_reached():
    """The claim is not only safe but exact: extreme rows of one owner move the answers by all of
    it."""
    mine = [clinic.row(f"v{i}", "victim", cost="1e9", score="-99", age="500") for i in range(7)]
    with tempfile.TemporaryDirectory() as folder:
        asked = [
            Cells(Scan("visits"), (), (a,))
            for a in (Count(), Sum("cost"), Sum("score"), Sum("age"))
        ]
        for query, within in zip(asked, measured(Path(folder), mine, asked), strict=True):
            assert abs(int(within[0, 0])) == sensitivity(query, FACTS).l1


def test_a_condition_narrows_the_claim_and_the_clamp_together():
    """Rule clamp-to-priced-bounds: WHERE cost <= 20 lowers SUM(cost) from 3 x 500 to 3 x 20, and
    rows obey."""
    query = Cells(Filter(Scan("visits"), Compare("cost", "<=", Fraction(20))), (), (Sum("cost"),))
    assert sensitivity(query, FACTS).l1 == 3 * 2000
    mine = [
        clinic.row(f"v{i}", "victim", cost=cost) for i, cost in enumerate(["19.99", "20", "1e9"])
    ]
    with tempfile.TemporaryDirectory() as folder:
        assert measured(Path(folder), mine, [query])[0].tolist() == [[3999]]
