"""Which questions are answered by one noise for all their counts and sums, from which pots, and
what that is worth."""

from __future__ import annotations

import json
from fractions import Fraction as F

import pytest

from dither.answer.arrange import arrange_alone
from dither.answer.choose_mechanism import choose_mechanisms
from dither.answer.split import compute_demands, make_equal_steps, weigh_steps
from dither.laws import find_error_law
from dither.privacy.kernel.request import Price, Request
from tests.answer import asked
from tests.case_lists import mark_between

BOTH = "SELECT ward, COUNT(*) AS n, SUM(score) AS s FROM visits GROUP BY ward"


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("heads")))
        yield asked.connection(
            tmp_path_factory.mktemp("boxes") / "c", rows=asked.few_rows(3), rule="pure"
        )


def families(con, sql: str, **price) -> list[tuple[str, int]]:
    """(family, numbers) of the steps of a question."""
    return [
        (step.family, len(getattr(step.query, "columns", "1")))
        for step in con.request(sql, **price).steps
    ]


CONVERTED = {"epsilon": None, "ceiling": 1000, "delta_conversion": "1e-6"}
FIVE = "SELECT " + ", ".join(f"COUNT_IF(score > {i}) AS c{i}" for i in range(5)) + " FROM visits"
POTS = {
    "pure": ({"rule": "pure"}, "box"),
    "approx": ({"rule": "approx", "delta": "1e-2", "delta_per_question": "1e-9"}, "box"),
    "zcdp": ({"rule": "zcdp", "rho": 1000, **CONVERTED}, "laplace"),
    "rdp": ({"rule": "rdp", "renyi": 1000, "alpha": 16, **CONVERTED}, "laplace"),
}


@pytest.mark.parametrize("name", mark_between(POTS, step=2))
def test_pots_that_add_up_epsilons_get_boxes(tmp_path, name):
    """One Pure(1) costs twice the rho of two Pure(1/2): where rhos add up, a box would take more
    for the same price."""
    terms, family = POTS[name]
    con = asked.connection(tmp_path / "c", rows=asked.few_rows(3), **terms)
    assert {each for each, _ in families(con, BOTH, epsilon=F(1, 100))} == {family}


@pytest.mark.parametrize(
    ("sql", "wanted"),
    mark_between(
        [
            ("SELECT COUNT(*) FROM visits", [("laplace", 1)]),
            (BOTH, [("box", 2)]),
            (
                "SELECT COUNT(*), AVG(cost) FROM visits",
                [("box", 3)],
            ),  # the average is over the rows with a cost
            ("SELECT AVG(score) FROM visits", [("box", 2)]),
            ("SELECT VARIANCE(score) FROM visits", [("box", 3)]),
            (
                "SELECT COUNT(*), MEDIAN(score), AVG(score) FROM visits",
                [("box", 3), ("permute_and_flip", 1)],
            ),
            (FIVE, [("box", 3), ("box", 2)]),
        ],
        step=3,
    ),
)
def test_numbers_of_the_same_rows_and_keys_share_a_box(con, sql, wanted):
    assert sorted(families(con, sql, epsilon=1)) == sorted(wanted)


def test_numbers_of_different_keys_have_noises_of_their_own(con):
    rollup = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP(ward)"
    assert families(con, rollup, epsilon=1) == [("laplace", 1), ("laplace", 1)]
    both = "SELECT ward, COUNT(*) AS n, AVG(score) AS m FROM visits GROUP BY ROLLUP(ward)"
    assert families(con, both, epsilon=1) == [("box", 3), ("box", 3)]


@pytest.mark.parametrize(
    "sql",
    [
        BOTH,
        "SELECT AVG(score) AS a, COUNT(*) AS n FROM visits",
        "SELECT VARIANCE(score) FROM visits",
    ],
)
def test_every_number_errs_less_than_with_its_share_of_the_price(con, sql):
    recipe, price = con.bind(sql), Price(F(1))
    boxed = choose_mechanisms(con._kernel, con._kernel.view("total"), recipe, price, "total", {})
    arranged = arrange_alone(recipe)
    equal = con._kernel.price(
        Request(make_equal_steps(recipe.queries, arranged.shares), price, "total")
    )
    wanted = compute_demands(
        arranged.recipe, [each.mechanism for each in equal.steps], "laplace", {}
    )
    steps = weigh_steps(recipe.queries, arranged.shares, wanted, "laplace", {})
    alone = con._kernel.price(Request(steps, price, "total"))
    for one, other in zip(
        arranged.recipe.sets[0].positions, boxed.recipe.sets[0].positions, strict=True
    ):
        before, after = (
            find_error_law(priced.steps[query].mechanism, column).variance
            for priced, (query, column) in ((alone, one), (boxed.priced, other))
        )
        assert after < 0.9 * before


def test_the_answer_is_stored_and_found_again(con):
    first = con.sql(BOTH, epsilon=1)
    again = con.sql(BOTH, epsilon=1)
    assert again.info["repeated"] and again.to_dict() == first.to_dict()
    assert first.certificate()["body"]["mechanisms"][0]["sensitivity"] == {
        "rows": 20,
        "sides": [1, 5],
    }


@pytest.mark.parametrize("epsilon", [1, 50, 300, 2000])
def test_averages_have_ends_at_any_price(con, epsilon):
    """Noise so small that its deviation is 1e-130 left the angles of a ratio no digits."""
    sql = "SELECT AVG(score) AS a, COUNT(*) AS n FROM visits"
    shown = con.preview(sql, epsilon=epsilon, group_size=10_000).column("a")
    assert shown.half_width is not None and 0 <= shown.half_width <= 0.2 / epsilon
    assert con.preview(sql, within={"a": F(1, 50)}, group_size=10_000).price < 50


PEOPLE_AND_ROWS = "SELECT COUNT(DISTINCT patient) AS people, COUNT(*) AS n FROM visits"


def test_people_and_their_rows_share_a_box_of_what_one_person_moves(tmp_path, monkeypatch):
    """Two Laplaces have 95% half-widths 6 and 18 at epsilon 1, the box 4 and 12."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    con = asked.connect_small_clinic(tmp_path)
    assert families(con, PEOPLE_AND_ROWS, epsilon=1) == [("unit_box", 2)]
    shown = con.preview(PEOPLE_AND_ROWS, epsilon=1)
    assert [column.half_width for column in shown.columns] == [4, 12]
    arranged = arrange_alone(con.bind(PEOPLE_AND_ROWS))
    steps = make_equal_steps(con.bind(PEOPLE_AND_ROWS).queries, arranged.shares)
    alone = con._kernel.price(Request(steps, Price(F(1)), "total")).steps
    assert [find_error_law(step.mechanism).interval(F(95, 100)) for step in alone] == [6, 18]


def test_where_people_are_replaced_one_cell_has_half_the_noise(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    con = asked.connect_small_clinic(tmp_path, "replace", 1)
    sql = "SELECT COUNT(*) AS n, SUM(age) AS s FROM visits"
    (step,) = con._kernel.price(con.request(sql, epsilon=1)).steps
    assert (step.step.family, step.mechanism.rows, step.mechanism.scale) == ("unit_box", 1, 1)
    assert step.mechanism.describe_sensitivity() == "1 cells by at most (1, 110)"
    assert "UnitBox" in json.dumps(con.sql(sql, epsilon=1).certificate())


@pytest.mark.parametrize("sql", [BOTH, "SELECT AVG(score) FROM visits"])
def test_where_a_person_moves_as_much_by_rows_the_stored_law_stays(con, sql):
    assert {family for family, _ in families(con, sql, epsilon=1)} == {"box"}
