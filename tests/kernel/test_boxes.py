"""Counts and sums of the same rows and keys under one noise: what a unit moves, what it costs, what
leaves."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from scipy.stats import binom

from dither import RefusedError
from dither.answer import draws
from dither.answer.arrange import _divide
from dither.answer.draws import make_noise_law
from dither.answer.sums import find_sum_bound
from dither.laws import find_error_law
from dither.plan import of_catalog
from dither.plan.algebra import (
    Cells,
    Count,
    CountDistinct,
    CountUnits,
    CountValues,
    Keys,
    LimitGroups,
    Quantiles,
    Scan,
    Sum,
)
from dither.plan.norms import Sensitivity
from dither.plan.of_catalog import box
from dither.plan.sensitivity import Box
from dither.privacy.charges.rules import charge_pure
from dither.privacy.kernel.calibrate import loss_of
from dither.privacy.kernel.randomise import randomise
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.mechanisms import IntegerBox, IntegerLaplace
from dither.privacy.noise import SystemSource
from tests import neighbours
from tests.case_lists import mark_rest
from tests.datasets import hospital
from tests.kernel.calibrating import calibrate
from tests.neighbours import check_claim, in_boxes, measured

VISITS = Scan("visits")
BOTH = Cells(VISITS, ("county",), (Count(), Sum("cost")))
FOUR = Cells(VISITS, ("county",), (Count(), Sum("cost"), CountUnits(), CountDistinct("score")))
ALL = Cells(VISITS, (), (Count(), Sum("cost")))
COUNTIES = ("ash", "elm", "oak")


def visits(person: str, *where: str, cost: str = "500") -> list[hospital.Raw]:
    return [
        hospital.visit(f"{person}-{i}", person, county=county, cost=cost)
        for i, county in enumerate(where)
    ]


def change(query: Cells, before, after, neighbours: str):
    """Both databases measured, the claim checked; the change and the catalog."""
    facts = hospital.catalog(
        hospital.CATALOG.replace("neighbours: add_remove", f"neighbours: {neighbours}")
    )
    people = [hospital.patient("a"), hospital.patient("b")]
    found = []
    for rows in (before, after):
        with hospital.registered(hospital.raws(people, rows), facts) as both:
            found.append(measured(both, query))
            known = both.facts
    check_claim(query, *found, facts, known)
    return found[0] - found[1], facts, known


class TestClaims:
    """Every test of a claim in tests/ checks the boxes too, on all plans; here the claims are
    reached."""

    @pytest.mark.parametrize(
        "where", mark_rest([["ash"] * 3, ["ash", "ash", "oak"], list(COUNTIES)], quick=1)
    )
    @pytest.mark.parametrize("query", [BOTH, FOUR])
    def test_the_rows_of_a_unit_are_the_claim(self, query, where):
        others = visits("b", "elm")
        moved, facts, known = change(query, others + visits("a", *where), others, "add_remove")
        assert in_boxes(moved, box(query, facts, known).sides) == box(query, facts, known).rows == 3

    def test_who_is_replaced_leaves_and_comes(self):
        moved, facts, known = change(
            BOTH, visits("a", *["ash"] * 3), visits("a", *["oak"] * 3), "replace"
        )
        assert in_boxes(moved, box(BOTH, facts, known).sides) == box(BOTH, facts, known).rows == 6

    def test_sides_are_what_a_row_can_add(self):
        query = Cells(
            VISITS,
            (),
            (Sum("cost"), Count(), CountValues("cost"), CountDistinct("score"), CountUnits()),
        )
        assert box(query, hospital.catalog()) == Box((50_000, 1, 1, 1, 1), 3)
        few = LimitGroups(VISITS, ("urgent",), 1)
        assert box(Cells(few, ("urgent",), (Count(), Sum("cost"))), hospital.catalog()).rows == 3
        salaries = Cells(Scan("patients"), ("sex",), (Count(), Sum("salary")))
        assert box(salaries, hospital.catalog()) == Box((1, 300_000), 1)

    @pytest.mark.parametrize(
        ("planted", "why"),
        mark_rest(
            [
                (lambda known: Box(known.sides, known.rows - 1), "a row forgotten"),
                (lambda known: Box(known.sides[::-1], known.rows), "the sides of other numbers"),
                (
                    lambda known: Box((known.sides[0], 2 * known.sides[1]), known.rows // 2),
                    "a row moves only the sum",
                ),
            ],
            quick=1,
        ),
    )
    def test_slips_are_caught(self, monkeypatch, planted, why):
        monkeypatch.setattr(neighbours, "box", lambda *given: planted(of_catalog.box(*given)))
        with pytest.raises(AssertionError):
            change(BOTH, visits("a", *COUNTIES), [], "add_remove")

    def test_without_twice_the_rows_a_replaced_unit_is_caught(self, monkeypatch):
        monkeypatch.setattr(neighbours, "box", lambda *given: Box(of_catalog.box(*given).sides, 3))
        with pytest.raises(AssertionError):
            change(BOTH, visits("a", *["ash"] * 3), visits("a", *["oak"] * 3), "replace")

    def test_what_has_no_rule_has_no_box(self):
        with pytest.raises(RefusedError):
            box(Cells(VISITS, (), (Count(), CountDistinct("visit"))), hospital.catalog())


def request(*steps, epsilon=None, rho=None):
    return Request(
        tuple(Step(query, family, F(1)) for query, family in steps), Price(epsilon, rho), "total"
    )


class TestCalibration:
    @pytest.mark.parametrize("epsilon", [F(1, 1000), F(1, 3), F(1), F(355, 113), F(40)])
    def test_the_loss_is_at_most_the_price_and_nearly_all_of_it(self, epsilon):
        query = Cells(VISITS, ("urgent",), FOUR.columns)
        (found,) = calibrate(request((query, "box"), epsilon=epsilon), hospital.catalog())
        assert isinstance(found.mechanism, IntegerBox) and found.mechanism.rows == 3
        taken = charge_pure(loss_of((found,)))
        assert (
            taken == 3 / found.mechanism.scale and epsilon * (1 - F(1, 2**19)) <= taken <= epsilon
        )

    def test_boxes_and_keys_and_quantiles_share_one_price(self):
        by = Cells(VISITS, ("diag",), (Count(), Sum("cost")))
        asked = request(
            (Keys(VISITS, ("diag",)), "geometric_keys"), (by, "box"), (ALL, "box"),
            (ALL, "laplace"),
            (Quantiles(VISITS, (), "cost", (F(1, 2),)), "permute_and_flip"), epsilon=F(1),
        )  # fmt: skip
        steps = calibrate(asked, hospital.catalog(), F(1, 10**6))
        taken = sum(
            charge_pure(each.loss()) for each in steps if each.step.family != "geometric_keys"
        )
        assert F(4, 5) * F("0.99999") < taken <= F(4, 5)

    @pytest.mark.parametrize(
        "asked",
        [
            request((Cells(VISITS, (), (Count(),)), "box"), epsilon=F(1)),
            request((Cells(VISITS, (), (Count(),) * 5), "box"), epsilon=F(1)),
            request((Quantiles(VISITS, (), "cost", (F(1, 2),)), "box"), epsilon=F(1)),
            request((Keys(VISITS, ("diag",)), "box"), epsilon=F(1)),
            request((ALL, "box"), rho=F(1)),
            request((ALL, "box"), (ALL, "gaussian"), epsilon=F(1)),
        ],
        ids=["one number", "five", "a quantile", "keys", "rho", "beside Gaussian noise"],
    )
    def test_what_no_box_is_for_is_refused(self, asked):
        with pytest.raises(RefusedError):
            calibrate(asked, hospital.catalog(), F(1, 10**6))


def near_law(box: IntegerBox, reach: int) -> float:
    """P(max |z_i| / side_i <= reach) by summing the law over the lattice, two sides, the second of
    1."""
    first, second = (
        np.arange(-60 * side * int(box.scale), 60 * side * int(box.scale) + 1) for side in box.sides
    )
    norm = np.maximum(np.abs(first)[:, None] / box.sides[0], np.abs(second)[None, :] / box.sides[1])
    weights = np.exp(-norm / float(box.scale))
    return float(weights[norm <= reach].sum() / weights.sum())


class TestRandomised:
    QUERY = Cells(VISITS, ("urgent",), (CountValues("cost"), Count()))

    def released(self, query: Cells, cells, times: int = 4000):
        (each,) = calibrate(request((query, "box"), epsilon=F(1)), hospital.catalog())
        source = SystemSource()
        found = [
            randomise((each,), [{(): np.array(cells, object)}], source)[0] for _ in range(times)
        ]
        return each.mechanism, np.array(found).reshape(times, -1, 2)

    def test_numbers_of_a_cell_have_one_noise_and_cells_their_own(self):
        """Inside the box of 3 scales or not: by the law for one cell, independent for two
        (binomials, 1e-9)."""
        mechanism, found = self.released(self.QUERY, [[0, 0], [0, 0], [7, 10**6]])
        found[:, 2] -= [7, 10**6]
        reach = 3 * int(mechanism.scale)
        inside = np.abs(found).max(axis=2) <= reach
        share = near_law(mechanism, reach)
        for cell in range(3):
            assert (
                binom.ppf(1e-10, 4000, share)
                <= inside[:, cell].sum()
                <= binom.isf(1e-10, 4000, share)
            )
        together = (inside[:, 0] & inside[:, 1]).sum()
        assert binom.ppf(1e-10, 4000, share**2) <= together <= binom.isf(1e-10, 4000, share**2)

    def test_independent_noise_of_the_same_scale_is_caught(self):
        """Two Laplaces of the box's scale are inside far more often: that would be twice the
        price."""
        mechanism, _ = self.released(self.QUERY, [[0, 0]] * 3, 1)
        drawn = IntegerLaplace(mechanism.scale, Sensitivity.of()).release(
            np.zeros((4000, 2), np.int64)
        )
        reach = 3 * int(mechanism.scale)
        inside = (np.abs(drawn).max(axis=1) <= reach).sum()
        assert inside > binom.isf(1e-10, 4000, near_law(mechanism, reach))

    def test_no_cell_no_number(self):
        by = Cells(VISITS, ("diag",), (Count(), Sum("cost")))
        asked = request((Keys(VISITS, ("diag",)), "geometric_keys"), (by, "box"), epsilon=F(1))
        steps = calibrate(asked, hospital.catalog(), F(1, 10**6))
        assert randomise(steps, [{}, {}], SystemSource()) == ((), ())
        keys, numbers = randomise(
            steps, [{("flu",): 10**6}, {("flu",): {0: (10**6, 10**9)}}], SystemSource()
        )
        assert (
            keys == (("flu",),)
            and abs(numbers[0] - 10**6) < 10**4
            and abs(numbers[1] - 10**9) < 10**8
        )


class TestIntervals:
    """Intervals of sums of numbers of one box, which are not independent."""

    BOX = IntegerBox(F(20), (1, 1, 50), 1)
    WEIGHTS = np.array([1.0, -1.0, 0.05])

    def laws(self, joint):
        found = [make_noise_law(find_error_law(self.BOX, column)) for column in range(3)]
        return tuple(type(law)(law.error, law.deviation, joint(i)) for i, law in enumerate(found))

    @pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
    def test_points_have_the_joint_law(self, level):
        """The half-width at points holds the noise of real releases as often as said (binomial,
        1e-9), and no oftener than a little."""
        half = draws.find_size_quantile(
            draws.draw_noise(self.laws(lambda _: 0), 1 << 14) @ self.WEIGHTS, level
        )
        sums = self.BOX.release(np.zeros((60_000, 3), np.int64)) @ self.WEIGHTS
        inside = int((np.abs(sums) <= half).sum())
        assert (
            binom.ppf(1e-10, 60_000, level)
            <= inside
            <= binom.isf(1e-10, 60_000, 1 - 0.9 * (1 - level))
        )

    def test_points_of_independent_numbers_are_caught(self):
        """Taken for independent, the numbers would seem to cancel more often than they do: at 0.99
        that misses."""
        half = draws.find_size_quantile(
            draws.draw_noise(self.laws(lambda i: i), 1 << 14) @ self.WEIGHTS, 0.99
        )
        sums = self.BOX.release(np.zeros((60_000, 3), np.int64)) @ self.WEIGHTS
        assert int((np.abs(sums) <= half).sum()) < binom.ppf(1e-10, 60_000, 0.99)

    def test_beyond_the_points_every_number_keeps_a_bound_of_its_own(self):
        laws, level = self.laws(lambda _: 0), 1 - F(1, 10**9)
        each = 1 - F(1, 3 * 10**9)
        wanted = sum(
            abs(w) * law.half_width(each) for w, law in zip(self.WEIGHTS, laws, strict=True)
        )
        assert find_sum_bound(laws, tuple(self.WEIGHTS), level) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("count", "parts"), [(1, [1]), (2, [2]), (4, [4]), (5, [3, 2]), (6, [3, 3]), (9, [3, 3, 3])]
)
def test_many_numbers_are_as_few_boxes_as_there_can_be(count, parts):
    found = _divide(list(range(count)))
    assert [len(part) for part in found] == parts and [
        place for part in found for place in part
    ] == list(range(count))
