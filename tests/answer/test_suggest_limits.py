"""Limits that are bought for a question: what they do to its plan, and what previews say."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import pytest

from dither import ParameterError, connect
from dither.answer.asked import read_question
from dither.answer.limit_notes import list_limit_notes
from dither.answer.limit_wishes import read_limit_wish
from dither.audit.naive_plans import grouped
from dither.plan.analysed_query import Analyses
from dither.plan.of_catalog import sensitivity
from dither.question.unit_limits import UnitClamp, UnitLimits, limit_recipe
from dither.sql.bind import bind
from tests.datasets import clinic, clinic_sql

COSTS = "SELECT ward, SUM(cost) AS s FROM visits GROUP BY ward"
LIMITS = UnitLimits((UnitClamp("SUM(cost)", Fraction(0), Fraction(300)),), 2)


@pytest.fixture(scope="module")
def place():
    with clinic_sql.registered(30) as registered:
        yield registered


def limit_question(sql: str, limits: UnitLimits, registered):
    recipe = bind(sql, registered.catalog, registered.facts)
    return limit_recipe(recipe, limits, "person", Analyses(registered.catalog, registered.facts))


def add_per_person(registered, clamp: Fraction) -> dict[object, Fraction]:
    """The oracle: costs of each person and ward, clamped, and added up, without a limit of
    groups."""
    own: dict[tuple[str, object], Fraction] = defaultdict(Fraction)
    table = registered.catalog.table("visits")
    ward = table.column("ward")
    for row in registered.oracle.tables["visits"]:
        label = None if row["ward"] is None else [*ward.values, "other"][row["ward"]]
        cost = Fraction(row["cost"] or 0, 100)
        own[row["owner"], label] += cost
    totals: dict[object, Fraction] = defaultdict(Fraction)
    for (_, label), cost in own.items():
        totals[label] += min(cost, clamp)
    return totals


def test_what_each_person_adds_is_clamped_and_added_up(place):
    registered, _ = place
    limited = limit_question(COSTS, replace(LIMITS, max_groups=None), registered)
    cells = {
        key[0]: numbers[0]
        for key, numbers in grouped(limited.queries[0], registered.oracle).items()
    }
    assert cells == add_per_person(registered, Fraction(300))
    assert cells != add_per_person(registered, Fraction(10**6))


def test_the_noise_is_for_the_clamp_in_each_of_the_groups(place):
    """300.00 in each of two groups, in cents, against 5,000.00 in each of 20 rows."""
    registered, _ = place
    recipe = bind(COSTS, registered.catalog, registered.facts)
    limited = limit_recipe(recipe, LIMITS, "person", Analyses(registered.catalog, registered.facts))
    claims = [
        sensitivity(query, registered.catalog, registered.facts).l1
        for query in (recipe.queries[0], limited.queries[0])
    ]
    assert claims == [20 * 5000 * 100, 2 * 300 * 100]


def test_the_noise_of_a_total_is_for_the_total(place):
    """300.00 of a person in all wards together, in cents, however many wards; off the grid, the
    total below."""
    registered, _ = place
    for high in (Fraction(300), Fraction(30_000_999, 100_000)):
        limits = UnitLimits((replace(LIMITS.clamps[0], high=high),), None, True)
        limited = limit_question(COSTS, limits, registered)
        claim = sensitivity(limited.queries[0], registered.catalog, registered.facts)
        assert (claim.l1, claim.linf) == (300 * 100, 300 * 100)
        assert "SUM(cost) of all groups together clamped to" in limited.atoms[0].limits[-1]


@pytest.mark.parametrize(
    ("low", "high", "stated"),
    [(10, 300, "[0, 300]"), (-300, 10, "[0, 300]"), (0, Fraction(1, 1000), "[0, 0.01]")],
)
def test_a_total_is_stated_as_it_is_applied(place, low, high, stated):
    """Absolute values are added up: a lower end of 10 was stated, and never applied; so was a
    total below one cent."""
    registered, _ = place
    clamp = replace(LIMITS.clamps[0], low=Fraction(low), high=Fraction(high))
    limited = limit_question(COSTS, UnitLimits((clamp,), None, True), registered)
    assert limited.atoms[0].limits[-1].endswith(f"of all groups together clamped to {stated}")
    (query,) = limited.queries
    assert query.plan.total == Fraction(stated[:-1].split(", ")[1])


def test_a_total_is_bought_for_one_aggregate_by_keys_and_epsilon(place):
    """Gaussian noise is for the L2 norm, and two aggregates share the noise of a group."""
    registered, _ = place
    analyses = Analyses(registered.catalog, registered.facts)
    both = "SELECT ward, SUM(cost) AS s, SUM(score) AS t FROM visits GROUP BY ward"
    for sql, allow_total, expected in (
        (COSTS, True, True),
        (COSTS, False, False),
        (both, True, False),
        ("SELECT SUM(cost) AS s FROM visits", True, False),
    ):
        recipe = bind(sql, registered.catalog, registered.facts)
        wish = read_limit_wish(sql, recipe, analyses, allow_total=allow_total)
        assert wish.is_total is expected
        assert bool(wish.group_edges) is (not expected and "ward" in sql)


@pytest.mark.parametrize("max_groups", [1, 2, None])
@pytest.mark.parametrize("is_total", [False, True])
def test_no_person_moves_the_answer_by_more_than_claimed(place, max_groups, is_total):
    """Brute force: every person taken away, one after the other."""
    registered, _ = place
    limits = replace(LIMITS, max_groups=max_groups, is_total=is_total)
    query = limit_question(COSTS, limits, registered).queries[0]
    claim = sensitivity(query, registered.catalog, registered.facts)
    before = grouped(query, registered.oracle)
    moves = []
    for person in {row["owner"] for row in registered.oracle.tables["visits"]}:
        tables = {
            name: [row for row in rows if row.get("owner") != person]
            for name, rows in registered.oracle.tables.items()
        }
        after = grouped(query, replace(registered.oracle, tables=tables))
        change = [
            abs(before.get(key, [Fraction(0)])[0] - after.get(key, [Fraction(0)])[0])
            for key in {**before, **after}
        ]
        moves.append(sum(change))
        assert sum(change) * 100 <= claim.l1
    assert max(moves) * 100 > claim.l1 / 3  # a claim that nobody comes near would test nothing


def test_a_planted_claim_for_one_group_is_exceeded(place):
    """Without a limit of groups a person moves more than one group's clamp."""
    registered, _ = place
    query = limit_question(COSTS, replace(LIMITS, max_groups=None), registered).queries[0]
    person_moves = []
    before = grouped(query, registered.oracle)
    for person in {row["owner"] for row in registered.oracle.tables["visits"]}:
        tables = dict(registered.oracle.tables)
        tables["visits"] = [row for row in tables["visits"] if row["owner"] != person]
        after = grouped(query, replace(registered.oracle, tables=tables))
        person_moves.append(
            sum(before[key][0] - after.get(key, [Fraction(0)])[0] for key in before)
        )
    assert max(person_moves) > 300


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT AVG(cost), SUM(cost) FROM visits",
        "SELECT SUM(age), COUNT(*) FROM patients",
        "SELECT MEDIAN(cost) FROM visits",
        "SELECT COUNT(DISTINCT patient_id) FROM visits",
        "SELECT diagnosis, COUNT(*) FROM visits GROUP BY diagnosis",
    ],
)
def test_other_questions_are_not_limited(place, sql):
    registered, _ = place
    recipe = bind(sql, registered.catalog, registered.facts)
    with pytest.raises(ParameterError, match="limits= are for counts, sums and their ratios"):
        limit_recipe(recipe, LIMITS, "person", Analyses(registered.catalog, registered.facts))


@pytest.mark.parametrize("number", ["COUNT(*)", "AVG(age)"])
def test_no_limit_is_sold_where_none_is_smaller(place, number):
    """Patients have one row each: one person adds 1 to one group, and one row to an average."""
    registered, _ = place
    question = f"SELECT sex, {number} AS n FROM patients GROUP BY sex"
    recipe = bind(question, registered.catalog, registered.facts)
    with pytest.raises(ParameterError, match="nothing to buy"):
        read_limit_wish(question, recipe, Analyses(registered.catalog, registered.facts))


def test_limits_of_another_question_are_refused(place):
    registered, _ = place
    with pytest.raises(ParameterError, match=r"these limits are for SUM\(cost\)"):
        limit_question("SELECT SUM(score) FROM visits", LIMITS, registered)


def register(folder, costs: list[int]):
    rows = [
        clinic.row(f"{person}-{visit}", str(person), cost=str(cost), ward="north")
        for person, cost in enumerate(costs)
        for visit in range(2)
    ]
    file, state = clinic.register(folder, rows)
    clinic.open_total(state)
    return connect(file)


def test_bought_limits_are_asked_with_and_paid_once(tmp_path):
    """200 people add 40 to one ward each; the catalog allows 1,500."""
    con = register(tmp_path / "clinic", [20] * 200)
    limits = con.suggest("limits", COSTS, epsilon=1)
    assert con.suggest("limits", COSTS, epsilon=1).limits == limits.limits
    assert float(con.budget().pots[0].spent) <= 1
    (clamp,) = limits.limits.clamps
    assert (clamp.aggregate, clamp.low <= 0) == ("SUM(cost)", True)
    assert 40 <= clamp.high <= 120
    answer = con.sql(COSTS, epsilon=1, limits=limits)
    north = dict(zip(*answer.to_dict(intervals=False).values(), strict=True))["north"]
    assert abs(north - 8000) <= 21 * float(clamp.high) * 3  # Laplace noise beyond: below 1e-9
    words = "; ".join(answer.columns[1].limits)
    assert "what one person adds to SUM(cost) of all groups together clamped to" in words


def write_previews(con) -> str:
    """Everything that is shown before paying, with limits and without."""
    previews = [
        con.preview(COSTS, epsilon=1),
        con.preview(COSTS, epsilon=1, limits=LIMITS),
        con.preview(
            COSTS,
            epsilon=1,
            limits=replace(LIMITS, clamps=(replace(LIMITS.clamps[0], size=Fraction(1)),)),
        ),
        con.preview("SELECT COUNT(*) AS n FROM visits", epsilon=1),
    ]
    return json.dumps([str(preview) for preview in previews])


def test_previews_are_the_same_for_all_data(tmp_path, monkeypatch):
    """Equal catalogs and releases, other people, costs and sizes."""
    previews = []
    for name, costs in (("few", [1, 2, 500]), ("many", [400] * 50)):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / f"heads_{name}"))
        previews.append(write_previews(register(tmp_path / name, costs)))
    assert previews[0] == previews[1]


def test_a_preview_says_that_the_best_limits_are_unknown_until_they_are_bought(tmp_path):
    """Three rows per person are too few to be worth a word, twenty are not."""
    con = register(tmp_path / "clinic", [5] * 3)
    assert "is unknown: buy it" not in " ".join(con.preview(COSTS, epsilon=1).lines())
    recipe = bind(COSTS, clinic_sql.catalog())
    (words,) = list_limit_notes(recipe, clinic_sql.catalog(), [0])
    assert "20 rows of visits per person" in words
    assert 'unknown: buy it for a tenth of the price, as in limits = con.suggest("limits"' in words
    medians = bind("SELECT MEDIAN(cost) FROM visits", clinic_sql.catalog())
    (others, *_) = list_limit_notes(medians, clinic_sql.catalog(), [0])
    assert 'buy it, as in con.suggest("rows_per_unit", "visits"' in others


def test_an_answer_that_would_be_noise_is_announced(tmp_path):
    """Four people are too few to be told from none at this price."""
    con = register(tmp_path / "clinic", [20] * 4)
    limits = con.suggest("limits", COSTS, epsilon="0.1")
    lines = con.preview(COSTS, epsilon="0.9", limits=limits).lines()
    assert any("would be noise: when its limits were bought" in note for note in lines)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (UnitLimits((UnitClamp("SUM(cost)", Fraction(1), Fraction(0)),)), "swap them"),
        (UnitLimits((UnitClamp("SUM(cost)", 0, float("inf")),)), "the upper end of a clamp"),
        (UnitLimits((UnitClamp("SUM(cost)", 0, "1e99999999"),)), "the upper end of a clamp"),
        (replace(LIMITS, max_groups=0), "max_groups"),
        (replace(LIMITS, max_groups=True), "max_groups"),
        ({"SUM(cost)": 3}, "limits= takes what con.suggest bought"),
    ],
)
def test_limits_that_somebody_made_up_are_checked(limits, words):
    with pytest.raises(ParameterError, match=words):
        read_question(COSTS, epsilon=1, limits=limits)
