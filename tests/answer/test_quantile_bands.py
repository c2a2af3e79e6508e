"""Quantiles with intervals that are themselves private quantiles, and bounds that can be bought."""

from __future__ import annotations

import re
from fractions import Fraction as F

import numpy as np
import pytest
from scipy.stats import binom

from dither import ParameterError, QueryError, connect, steward
from dither.answer.blocks import make_blocks
from dither.answer.choose_mechanism import choose_mechanisms
from dither.answer.evaluate import make_inputs
from dither.answer.intervals import compute_interval
from dither.answer.noises import list_noises
from dither.answer.quantile_intervals import (
    Ends,
    add_quantile_ends,
    count_rank_rows,
    list_rank_laws,
    read_quantile_grids,
    write_rank_rows,
)
from dither.answer.suggest import round_up_to_two_digits
from dither.plan.analysed_query import Analyses
from dither.privacy.charges.rules import charge_pure
from dither.privacy.kernel.request import Price
from dither.privacy.mechanisms import JointQuantiles, Quantile, QuantilesWithEnds
from dither.state import State
from tests.answer import asked, handmade
from tests.case_lists import mark_rest
from tests.datasets import clinic

AGES = [(7 * i * i + 3 * i) % 90 + (i % 5) * 4 for i in range(990)]


def people(ages):
    return [clinic.row(f"v{i}", f"p{i}", age=str(age)) for i, age in enumerate(ages)]


GROUPS = {
    "spread": AGES,
    "two values": [30] * 500 + [31] * 490,
    "an even cut": [20] * 400 + [60] * 400,
    "all at the bound": [110] * 200,
    "three people": [17, 40, 41],
    "one": [63],
}


def covered(folder, ages, shares, repetitions, epsilon):
    """How often the ends hold every way to say the exact quantile between them, of so many
    releases."""
    rows = sorted(ages)
    exact = [
        sorted(
            [
                rows[-(-len(rows) * share.numerator // share.denominator) - 1],
                np.quantile(rows, float(share)),
            ]
        )
        for share in shares
    ]
    with handmade.kernel(folder, people(ages)) as kernel:
        found = choose_mechanisms(
            kernel,
            kernel.view("total"),
            handmade.median(*shares),
            Price(F(epsilon)),
            "total",
            {},
            Ends(F(95, 100)),
        )
        measurer = kernel.prepare(found.priced)
        measured = kernel.measure_with_retries(found.priced, measurer)
        measurer.close()
        (noises,) = list_noises(
            found.recipe, [each.mechanism for each in found.priced.steps], found.bands
        )
        hits = np.zeros(len(shares))
        for _ in range(repetitions):
            (block,) = make_blocks(found.recipe, kernel.randomise(found.priced, measured))
            for i, (least, largest) in enumerate(exact):
                at = make_inputs(found.recipe, block)
                band = found.bands.get(i)
                low, high = compute_interval(handmade.Noisy(i), at, noises, F(95, 100))
                assert low[0] <= at.atoms[band.low][0] and at.atoms[band.high][0] <= high[0]
                hits[i] += at.atoms[band.low][0] <= least and largest <= at.atoms[band.high][0]
    return hits


class TestBands:
    @pytest.mark.parametrize("ages", mark_rest(GROUPS.values(), quick=2), ids=GROUPS)
    def test_they_cover_the_exact_quantile_of_any_group(self, tmp_path, ages):
        """60 releases at 95 %, nothing known of the group's size; false alarm below 1e-9."""
        hits = covered(tmp_path, ages, (F(1, 4), F(1, 2)), 60, 20)
        assert (hits >= binom.ppf(1e-9, 60, 0.95)).all()

    @pytest.mark.soak
    @pytest.mark.parametrize("epsilon", [F(1, 2), 5, 50])
    @pytest.mark.parametrize("ages", GROUPS.values(), ids=GROUPS)
    def test_they_cover_over_500_repetitions(self, tmp_path, ages, epsilon):
        hits = covered(tmp_path, ages, (F(1, 10), F(1, 2), F(3, 4)), 500, epsilon)
        print(f"coverage at epsilon {epsilon}: {hits / 500}")
        assert (hits >= binom.ppf(1e-9, 500, 0.95)).all()

    def test_planted_ends_that_are_aimed_the_wrong_way_are_seen(self, tmp_path, monkeypatch):
        monkeypatch.setattr(QuantilesWithEnds, "rows", lambda self, share: -100)
        hits = covered(tmp_path, AGES, (F(1, 2),), 60, 200)
        assert hits[0] < binom.ppf(1e-9, 60, 0.95)

    def test_small_groups_get_the_bounds_of_the_column_and_large_ones_less(self, tmp_path):
        """At a level of 95 % an end of a small group misses the bound once in twenty times; at this
        level it does so once in 1e10."""
        con = asked.connection(tmp_path / "c", rows=asked.few_rows(40))
        sure = 1 - F(1, 10**10)
        small = con.sql("SELECT MEDIAN(age) AS m FROM patients", epsilon=1, confidence=sure)
        assert (small.to_dict()["m_low"], small.to_dict()["m_high"]) == ([0], [110])
        found = con.sql("SELECT MEDIAN(age) AS m FROM patients", epsilon=2000).to_dict()
        assert 0 < found["m_low"][0] <= found["m"][0] <= found["m_high"][0] < 110

    def test_the_price_is_met_and_the_point_pays_an_eighth_for_its_ends(self, tmp_path):
        recipe = handmade.median(F(1, 2))
        with handmade.kernel(tmp_path, people(AGES)) as kernel:
            view = kernel.view("total")
            plain, ends = (
                choose_mechanisms(kernel, view, recipe, Price(F(4)), "total", {}, ends)
                for ends in (None, Ends(F(9, 10)))
            )
        assert charge_pure(plain.priced.loss) == charge_pure(ends.priced.loss) == 4
        before, after = plain.priced.steps[0].mechanism, ends.priced.steps[0].mechanism
        assert (
            after.point.epsilon == before.epsilon * F(7, 8)
            and after.epsilon_each == before.epsilon / 16
        )
        assert after.level == F(95, 100)  # a lower level is free, and the same release
        assert [step.step.weight for step in plain.priced.steps] == [
            step.step.weight for step in ends.priced.steps
        ]

    def test_other_levels_of_the_same_release(self, tmp_path):
        con = asked.connection(tmp_path / "c", rows=asked.few_rows(40))
        sql = "SELECT MEDIAN(age) AS m FROM patients"
        found = con.sql(sql, epsilon=3)
        spent = con.budget().pots[0].spent
        assert (
            con.sql(sql, epsilon=3, confidence=0.8).to_dict()
            == found.to_dict()
            == found.interval(0.5).to_dict()
        )
        assert con.budget().pots[0].spent == spent
        higher = found.interval(0.99)
        assert (
            higher.to_dict()["m_low"] == [None] and "known up to 95%" in higher.columns[0].notes[0]
        )
        assert con.sql(sql, epsilon=3, confidence=0.99).to_dict()["m_low"] != [None]

    def test_a_part_of_the_price_can_be_said(self, tmp_path):
        con = asked.connection(tmp_path / "c", rows=asked.few_rows(3))
        sql = "SELECT MEDIAN(age) AS m FROM patients"
        eighth, third = (
            con.explain(sql, epsilon=2, quantile_intervals=how) for how in (True, F(1, 3))
        )
        assert "with ends (1/3 of the share)" in third.steps[0].asks
        away = [
            int(re.search(r"aimed ([0-9]+) rows", e.preview.column("m").notes[0])[1])
            for e in (eighth, third)
        ]
        assert away[1] - 1 == pytest.approx((away[0] - 1) * 3 / 8, abs=1)
        for wrong in (1, 0, -1, 2, "x", F(1, 10**7)):
            with pytest.raises(ParameterError, match="quantile_intervals"):
                con.sql(sql, epsilon=2, quantile_intervals=wrong)

    @pytest.mark.parametrize("key", mark_rest(["county", "diagnosis"], quick=1))
    def test_rows_that_are_chosen_by_noise_have_ends_too(self, tmp_path, key):
        con = asked.connection(tmp_path / "c", rows=asked.few_rows(40))
        found = con.sql(
            f"SELECT {key}, MEDIAN(cost) AS m FROM visits GROUP BY {key} ORDER BY m DESC LIMIT 1",
            epsilon=300,
        ).to_dict()
        assert found["m_low"] != [None] and found["m_high"] != [None]

    def test_a_preview_of_quantiles_asks_for_no_group_size(self, tmp_path):
        con = asked.connection(tmp_path / "c", rows=asked.few_rows(3))
        assert "group_size" not in str(
            con.preview("SELECT MEDIAN(age) AS m FROM patients", epsilon=2)
        )

    def test_places_follow_the_shares(self):
        recipe = handmade.median(F(1, 4), F(3, 4))
        plain = read_quantile_grids(recipe, Analyses(clinic.catalog()))
        wide, bands = add_quantile_ends(recipe, plain, Ends(F(99, 100)))
        assert wide.queries[0].shares == (F(1, 4), F(3, 4)) and wide.queries[0].ends == (
            F(99, 100),
            F(1, 8),
        )
        places = wide.sets[0].positions
        assert [places[atom] for atom in (0, 1, 2)] == [(0, 0), (0, 1), (1, 0)]
        assert [(places[bands.get(a).low], places[bands.get(a).high]) for a in (0, 1)] == [
            ((0, 2), (0, 4)),
            ((0, 3), (0, 5)),
        ]

    def test_the_rank_error_is_that_of_all_choices_on_the_way(self):
        """Three shares: two rounds; the outer ones make two choices. 300 draws on distinct rows
        seldom exceed it."""
        mechanism = JointQuantiles((F(2, 5), F(1, 2), F(3, 5)), F(2))
        rows = count_rank_rows(mechanism, 1000, F(9, 10))
        misses = 0
        for _ in range(300):
            low, middle, high = mechanism.release([1] * 1000)
            misses += abs(low - 400) > rows or abs(middle - 500) > rows or abs(high - 600) > rows
        assert misses <= binom.isf(1e-9, 300, 0.1)

    def test_rows_of_one_value_add_to_the_rank_error_of_several(self):
        """Three of five rows share a value: places of earlier choices are in neither part that
        follows. Ranks are then off by more than by noise, and by no more than is said."""
        mechanism = JointQuantiles(tuple(F(place, 16) for place in range(1, 16)), F(2))
        counts = np.repeat([20, 60_000, 20], [999, 1, 999])
        upto = np.cumsum(counts)
        laws = list_rank_laws(mechanism)
        missed = 0
        for _ in range(20):
            for share, law, cell in zip(
                mechanism.shares, laws, mechanism.release(counts), strict=True
            ):
                goal = share * int(upto[-1])
                off = max(upto[cell] - counts[cell] - goal, goal - upto[cell], 0)
                rows = law.rows(len(counts), F(95, 100))
                missed += off > rows
                assert off <= rows + law.tied_share * 60_000 * F(6, 5)
        assert missed > 20
        assert write_rank_rows(laws, 100, F(1, 2)).endswith("by about 3/64 of these)")
        alone = list_rank_laws(Quantile(F(1, 2), F(1)))
        assert write_rank_rows(alone, 100, F(95, 100)) == "8 rows"

    def test_without_intervals_the_rank_error_is_said(self, tmp_path):
        con = asked.connection(tmp_path / "c", rows=asked.few_rows(3))
        found = con.sql(
            "SELECT MEDIAN(age) AS m FROM patients", epsilon=2, quantile_intervals=False
        )
        assert found.to_dict()["m_low"] == [None]
        assert any("the rank is off by at most" in note for note in found.columns[0].notes)

    def test_explain_says_what_the_ends_cost(self, tmp_path):
        con = asked.connection(tmp_path / "c", rows=asked.few_rows(3))
        said = con.sql("EXPLAIN PRIVACY SELECT MEDIAN(age) AS m FROM patients", epsilon=2)
        assert said.steps[0].asks == "quantiles 1/2 of age, with ends (1/8 of the share)"
        assert "for 1/8 of its price" in said.preview.column("m").notes[0]
        without = con.explain(
            "SELECT MEDIAN(age) AS m FROM patients", epsilon=2, quantile_intervals=False
        )
        assert without.steps[0].asks == "quantiles 1/2 of age"


WIDE = clinic.CATALOG.replace(
    "cost:    {type: decimal, bounds: [-10, 500], resolution: 0.01",
    "cost:    {type: decimal, bounds: [0, 1000000000000], resolution: 0.01",
)


class TestSuggest:
    def connection(self, folder, text=clinic.CATALOG, **values):
        rows = [
            clinic.row(f"v{i}", f"p{i}", **{name: str(of(i)) for name, of in values.items()})
            for i in range(900)
        ] + [clinic.row(f"w{i}", "p7", ward="south") for i in range(2)]
        file, place = clinic.register(folder, rows, text)
        clinic.open_total(place, epsilon="100", ceiling="100")
        return connect(file)

    def test_bounds_of_a_column(self, tmp_path):
        con = self.connection(tmp_path, cost=lambda i: i % 100, weight=lambda i: 50)
        bought = con.suggest("bounds", "visits.cost", epsilon=20, keep=0.9)
        assert 85 <= bought.high <= 110 and -10 <= bought.low <= 15
        assert (
            bought.provenance.startswith("bought: release ")
            and "epsilon 20, delta 0, for one person, 90% quantile" in bought.provenance
        )
        assert "bounds: [" in bought.catalog_text and "about 90%" in str(bought)
        assert con.budget().pots[0].spent == 20
        again = con.suggest("bounds", "visits.cost", epsilon=20, keep=0.9)
        assert (again.high, con.budget().pots[0].spent) == (bought.high, 20)

    def test_a_huge_range_is_searched_by_magnitudes(self, tmp_path):
        """On the coarse linear grid of 10^14 points every answer would be a multiple of a
        million."""
        con = self.connection(tmp_path, WIDE, cost=lambda i: 100 + i % 700)
        bought = con.suggest("bounds", "visits.cost", epsilon=10, keep=0.95)
        assert 600 <= bought.high <= 1400

    def test_a_huge_range_on_both_sides_of_zero(self, tmp_path):
        text = WIDE.replace("bounds: [0, 1000000000000]", "bounds: [-1000000000000, 1000000000000]")
        con = self.connection(tmp_path, text, cost=lambda i: -50 + i % 700)
        bought = con.suggest("bounds", "visits.cost", epsilon=20, keep=0.9)
        assert 500 <= bought.high <= 1400 and -100 <= bought.low <= 10

    def test_limits_of_people(self, tmp_path):
        con = self.connection(tmp_path)
        assert con.suggest("rows_per_unit", "visits", epsilon=10, keep=0.9).high == 1
        groups = con.suggest("max_groups", "visits.ward", epsilon=10, keep=0.9)
        assert groups.high == 1 and "groups of about 90% of the people" in str(groups)

    def test_the_catalog_takes_what_was_bought(self, tmp_path):
        con = self.connection(tmp_path / "a", cost=lambda i: i % 100)
        bought = con.suggest("bounds", "visits.cost", epsilon=20, keep=0.9)
        text = clinic.CATALOG.replace(
            "bounds: [-10, 500]", bought.catalog_text.split(", provenance")[0]
        )
        text = text.replace(
            "nulls: keep, provenance: tariff}", f"nulls: keep, provenance: {bought.provenance!r}}}"
        )
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "clinic.yaml").write_text(text)
        clinic.write_csv(tmp_path / "b" / "visits.csv", [])
        place = State.beside(tmp_path / "b" / "clinic.yaml")
        steward.register(tmp_path / "b" / "clinic.yaml", state=place)

    def test_nonsense_is_refused_before_it_costs(self, tmp_path):
        con = self.connection(tmp_path)
        for what, of, keep in (
            ("bounds", "visits.ward", 0.9),
            ("bounds", "visits", 0.9),
            ("bounds", "nowhere.cost", 0.9),
            ("bounds", "visits.cost", 1),
            ("limit", "visits.cost", 0.9),
            ("limits", "SELECT MEDIAN(cost) FROM visits", 0.9),
            ("max_groups", "visits", 0.9),
            ("max_groups", "visits.nothing", 0.9),
        ):
            with pytest.raises(ParameterError):
                con.suggest(what, of, epsilon=1, keep=keep)
        with pytest.raises(QueryError):
            con.suggest("limits", "visits.cost", epsilon=1)
        assert con.budget().pots[0].spent == 0

    def test_rounding_is_outward(self):
        for value in (F(1, 1000), F(7), F(99), F(101), F(123456)):
            assert value <= round_up_to_two_digits(value) <= value * F(11, 10)
