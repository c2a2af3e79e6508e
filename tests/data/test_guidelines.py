"""The examples of Kifer et al. 2020 ("Guidelines for Implementing ..."), and claims that are
reached exactly."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import pytest

from dither import steward
from dither.errors import RefusedError
from dither.plan import algebra as a
from dither.plan import analyse as analysis
from dither.plan.algebra import (
    Call,
    Cells,
    Column,
    Count,
    CountDistinct,
    CountUnits,
    Filter,
    Named,
    Scan,
    Sum,
    Value,
)
from dither.plan.analyse import analyse
from dither.plan.bounds import bounds
from dither.plan.of_catalog import sensitivity, shape
from dither.plan.stability import Loose
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.losses import DiscreteLaplace
from dither.state import State
from tests.datasets import clinic, hospital

FACTS = hospital.catalog()
SALARIES = Scan("patients")
EXTREME = [hospital.patient("victim", salary="1e9")]


def doubled(plan: a.Plan, times: int) -> a.Plan:
    for _ in range(times):
        plan = a.UnionAll(plan, plan)
    return plan


@pytest.fixture(scope="module")
def rich():
    """One person with the largest values, in everything."""
    visits = [
        hospital.visit(
            f"v{i}", "victim", cost="1e9", score="-99", county=["ash", "elm", "oak"][i % 3]
        )
        for i in range(6)
    ]
    people = [hospital.patient("victim", salary="999999999")]
    with hospital.registered(hospital.raws(people, visits, [hospital.item("v1")] * 9)) as both:
        yield both


def one(rich, query: Cells) -> int:
    return int(abs(rich.measurer.measure(query)[0, 0]))


def test_doubling_a_table_five_times_multiplies_the_sensitivity_by_32(rich):
    query = Cells(doubled(SALARIES, 5), (), (Sum("salary"),))
    assert sensitivity(query, FACTS).l1 == 32 * 300_000 == one(rich, query)


@pytest.fixture
def kernel(tmp_path):
    """The hospital, registered as a steward does, behind a kernel."""
    folder = tmp_path
    file = folder / "hospital.yaml"
    file.write_text(hospital.CATALOG)
    for table in FACTS.tables:
        rows = hospital.raws(EXTREME)[table.name]
        hospital.write_csv(folder / table.source_name, table.column_names, rows)
    place = State.beside(file)
    steward.register(file, state=place)
    steward.open_pot(place, FACTS, "total", epsilon="10", ceiling="10", purpose=clinic.PURPOSE)
    return Kernel(place)


def calibrated(kernel: Kernel, plan: a.Plan, epsilon: F):
    """What the kernel would draw for SUM(salary) over a plan, and what it would charge."""
    query = Cells(plan, (), (Sum("salary"),))
    priced = kernel.price(Request((Step(query, "laplace", F(1)),), Price(epsilon), "total"))
    return priced.steps[0].mechanism, priced.loss


def test_the_kernel_draws_noise_of_32_times_the_bound_over_epsilon(kernel, monkeypatch):
    """Kifer et al. 2020: five doublings. The scale is the exact quotient, or rounded up on a fine
    grid."""
    five, once = doubled(SALARIES, 5), a.Distinct(doubled(SALARIES, 5), per_unit=True)
    claims = {SALARIES: 300_000, five: 32 * 300_000, once: 300_000}
    for epsilon in (F(1), F(1, 2), F(3, 10), F(1, 7)):
        for plan, bound in claims.items():
            mechanism, loss = calibrated(kernel, plan, epsilon)
            assert bound / epsilon <= mechanism.scale <= bound / epsilon * (1 + F(1, 2**18))
            assert loss == DiscreteLaplace(
                mechanism.scale, bound, neighbours="add_remove", unit="person"
            )
    monkeypatch.setattr(analysis, "union_rows", lambda left, right, distinct: left)
    planted = doubled(
        a.Filter(SALARIES, a.Compare("salary", ">=", F(0))), 5
    )  # a plan that nobody analysed before
    assert calibrated(kernel, planted, F(1))[0].scale < 32 * 300_000


def test_distinct_per_owner_brings_it_back(rich):
    query = Cells(a.Distinct(doubled(SALARIES, 5), per_unit=True), (), (Sum("salary"),))
    assert sensitivity(query, FACTS).l1 == 300_000 == one(rich, query)


def test_distinct_in_all_brings_it_back_too_and_loses_the_owner(rich):
    plan = a.Distinct(doubled(SALARIES, 5), per_unit=False)
    assert analyse(plan, FACTS).node == Loose(1, 32 * 1000)
    for lost in (
        a.Join(plan, SALARIES, (), "inner"),
        a.LimitGroups(plan, ("sex",), 1),
        a.PerUnit(plan, (), ()),
    ):
        with pytest.raises(RefusedError):
            analyse(lost, FACTS)
    with pytest.raises(RefusedError):
        sensitivity(Cells(plan, (), (CountUnits(),)), FACTS)


def test_unions_of_different_plans_are_not_brought_back():
    other = Filter(SALARIES, a.Compare("salary", ">", F(5)))
    plan = a.Distinct(a.UnionAll(a.UnionAll(SALARIES, other), SALARIES), per_unit=True)
    assert analyse(plan, FACTS).node.rows == 2


def test_twice_the_sum_of_salaries_has_sensitivity_600000(rich):
    twice = Named("x", Call("multiply", (Value("number", F(2)), Column("salary"))))
    query = Cells(a.Project(SALARIES, (twice,)), (), (Sum("x"),))
    assert sensitivity(query, FACTS).l1 == 600_000 == one(rich, query)


def test_bounds_after_where(rich):
    plan = Filter(
        Scan("visits"), a.And((a.Compare("cost", ">", F(5)), a.Compare("cost", "<=", F(20))))
    )
    found = bounds("cost", plan, rich.catalog, rich.facts)
    assert (found.low, found.high) == (501, 2000)
    holds = Filter(Scan("visits"), a.Holds(Call("le", (Column("cost"), Value("number", F(20))))))
    assert bounds("cost", holds, rich.catalog, rich.facts).high == 2000
    assert sensitivity(Cells(holds, (), (Sum("cost"),)), rich.catalog, rich.facts).l1 == 3 * 2000


def test_every_declared_key_on_an_empty_table():
    with hospital.registered(hospital.raws()) as empty:
        for keys in (("county",), ("urgent", "county"), ("score",)):
            query = Cells(Scan("visits"), keys, (Count(), Sum("cost")))
            cells = empty.measurer.measure(query)
            assert cells.shape == shape(query, empty.catalog, empty.facts)
            assert not cells.any()


def test_metadata_does_not_depend_on_rows(rich):
    """Bounds, keys and shapes of an empty and of an extreme table are the same."""
    with hospital.registered(hospital.raws()) as empty:
        query = Cells(Scan("visits"), ("county", "urgent"), (Sum("cost"),))
        assert empty.measurer.measure(query).shape == rich.measurer.measure(query).shape
        assert empty.facts == rich.facts


@pytest.mark.parametrize(
    ("query", "claim"),
    [
        (Cells(Scan("visits"), (), (Sum("cost"),)), 3 * 50_000),
        (Cells(Scan("visits"), (), (Count(),)), 3),
        (Cells(Scan("items"), (), (Count(),)), 4),
        (Cells(Scan("visits"), (), (CountUnits(),)), 1),
        (Cells(Scan("visits"), (), (CountDistinct("county"),)), 3),
        (
            Cells(a.Join(Scan("visits"), Scan("patients"), (), "inner"), (), (Sum("salary"),)),
            3 * 300_000,
        ),
        (
            Cells(a.Join(Scan("patients"), Scan("visits"), (), "left"), (), (Sum("salary"),)),
            3 * 300_000,
        ),
        (Cells(a.PerUnit(Scan("visits"), (), (Named("n", Count()),)), (), (Sum("n"),)), 3),
        (
            Cells(a.PerUnit(Scan("visits"), (), (Named("c", Sum("cost")),)), (), (Sum("c"),)),
            3 * 50_000,
        ),
    ],
)
def test_claims_are_reached(query, claim, rich):
    assert sensitivity(query, rich.catalog, rich.facts).l1 == claim == one(rich, query)


def test_bounding_groups_and_values_per_unit_bounds_every_norm(rich):
    """At most two counties per person, at most 100.00 a county: L0 = 2, Linf = 10000, L2 squared =
    2 * 10000^2."""
    limited = a.LimitGroups(Scan("visits"), ("county",), 2)
    summed = a.PerUnit(limited, ("county",), (Named("c", Sum("cost")),))
    clamp = Call("clamp", (Column("c"), Value("number", F(0)), Value("number", F(100))))
    plan = a.Project(summed, (Named("county", Column("county")), Named("c", clamp)))
    query = Cells(plan, ("county",), (Sum("c"),))
    claim = sensitivity(query, rich.catalog, rich.facts)
    assert (claim.l0, claim.l1, claim.linf, claim.l2_squared) == (2, 20_000, 10_000, 2 * 10_000**2)
    cells = rich.measurer.measure(query)
    assert sorted(int(cell) for cell in cells.ravel()) == [0, 0, 0, 10_000, 10_000]


PER_COUNTY = a.PerUnit(
    Scan("visits"),
    ("county",),
    (Named("n", Count()), Named("c", Sum("cost")), Named("m", a.Minimum("score"))),
)


def test_bounding_a_total_per_unit_bounds_all_cells_together(rich):
    """120.00 of a person in all counties: one county's 500.00 becomes 120.00, the others 0."""
    query = Cells(
        a.LimitTotal(PER_COUNTY, ("county",), "c", F(120)), ("county",), (Sum("c"), Count())
    )
    claim = sensitivity(replace(query, columns=query.columns[:1]), rich.catalog, rich.facts)
    assert (claim.l1, claim.linf, claim.l2_squared) == (12_000, 12_000, 12_000**2)
    sums, counts = rich.measurer.measure(query).reshape(-1, 2).T.tolist()
    assert sorted(map(int, sums)) == [0, 0, 0, 0, 12_000]
    assert sum(map(int, counts)) == 3


def test_without_a_per_group_bound_one_cell_can_take_it_all(rich):
    query = Cells(a.LimitGroups(Scan("visits"), ("county",), 2), ("county",), (Count(),))
    claim = sensitivity(query, rich.catalog, rich.facts)
    assert (claim.l0, claim.l1, claim.linf) == (2, 3, 3)


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (a.Join(Scan("counties"), Scan("visits"), (("county", "county"),), "left"), "no owner"),
        (a.Join(Scan("visits"), Scan("counties"), (("county", "county"),), "right"), "preserved"),
        (a.Join(Scan("visits"), Scan("counties"), (("county", "county"),), "full"), "preserved"),
        (a.Join(Scan("visits"), Scan("counties"), (), "inner"), "multiplicity"),
        (a.Join(Scan("visits"), Scan("counties"), (("note", "beds"),), "inner"), "different kinds"),
        (a.Join(Scan("visits"), Scan("visits"), (), "inner"), "two columns called"),
        (a.UnionAll(Scan("visits"), Scan("items")), "different columns"),
        (a.UnionAll(Scan("counties"), Scan("counties")), "no owner"),
        (a.Group(Scan("visits"), (), (Named("n", Count()),)), "grand total"),
        (a.Group(Scan("visits"), ("note",), (Named("n", Count()),)), "cannot be a key"),
        (a.Group(Scan("visits"), ("visit",), (Named("n", Count()),)), "cannot be a key"),
        (a.PerUnit(Scan("visits"), ("note",), (Named("n", Count()),)), "cannot be a key"),
        (a.LimitGroups(Scan("visits"), ("visit",), 1), "cannot be a key"),
        (a.PerUnit(Scan("visits"), (), (Named("n", CountUnits()),)), "no rule"),
        (a.LimitTotal(Scan("visits"), ("county",), "score", F(1)), "keys that no two rows"),
        (a.LimitTotal(PER_COUNTY, (), "n", F(1)), "keys that no two rows"),
        (a.LimitTotal(PER_COUNTY, ("county", "n"), "n", F(1)), "keys that no two rows"),
        (a.LimitTotal(PER_COUNTY, ("county",), "n", F(0)), "positive multiple"),
        (a.LimitTotal(PER_COUNTY, ("county",), "n", F(1, 2)), "positive multiple"),
        (a.LimitTotal(PER_COUNTY, ("county",), "n", 1), "positive multiple"),
        (a.LimitTotal(PER_COUNTY, ("county",), "n", F(10**40)), "37 digits"),
        (a.LimitTotal(PER_COUNTY, ("county",), "county", F(1)), "keys that no two rows"),
        (a.LimitTotal(PER_COUNTY, ("county",), "nothing", F(1)), "numbers without nulls"),
        (a.LimitTotal(PER_COUNTY, ("county",), "m", F(1)), "numbers without nulls"),
        (a.SampleUnits(Scan("visits"), F(1)), "between 0 and 1"),
        (a.LimitGroups(Scan("visits"), ("county",), 0), "at least one"),
        (a.Project(Scan("visits"), (Named("x", Column("person")),)), "no column person"),
        (a.Filter(Scan("visits"), a.Compare("visit", "=", "v1")), "never compared"),
        (a.Filter(Scan("visits"), a.Compare("note", "<", "v1")), "= and <>"),
        (Scan("nowhere"), "no table"),
        (a.Project(Scan("visits"), (Named("dither_owner", Column("note")),)), "no name"),
        (a.Project(Scan("visits"), (Named("dither_a", Column("score")),)), "no name"),
        (a.Project(Scan("visits"), (Named('x" OR 1=1 --', Column("score")),)), "no name"),
        (
            a.Project(Scan("visits"), (Named("x", Column("score")), Named("X", Column("note")))),
            "two columns",
        ),
        (a.PerUnit(Scan("visits"), (), (Named("dither_b", Count()),)), "no name"),
        (a.LimitGroups(Scan("visits"), ("county",), "1 OR true"), "at least one"),
        (a.LimitGroups(Scan("visits"), ("county",), True), "at least one"),
        (a.SampleUnits(Scan("visits"), 0.5), "between 0 and 1"),
        (a.Filter(Scan("visits"), a.Compare("score", "= 1 OR 1", F(1))), "no operator"),
        (a.Filter(Scan("visits"), a.Compare("score", "=", 1.5)), "compared with a number"),
        (Scan("Visits"), "write visits"),
    ],
)
def test_refused(plan, why, rich):
    with pytest.raises(RefusedError, match=why):
        analyse(plan, rich.catalog, rich.facts)


def test_a_plan_that_doubles_too_often_is_refused_before_any_work():
    with pytest.raises(RefusedError, match="500 nodes"):
        analyse(doubled(SALARIES, 60), FACTS)


def test_a_sample_without_a_kernels_key_is_refused(rich):
    query = Cells(a.SampleUnits(Scan("visits"), F(1, 2)), (), (Count(),))
    rich.measurer.prepare(query)
    with pytest.raises(RefusedError, match="kernel"):
        rich.measurer.measure(query)
    found = {int(rich.measurer.measure(query, bytes([i] * 32))[0, 0]) for i in range(40)}
    assert found == {0, 3}
