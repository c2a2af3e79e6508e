"""Quantiles with intervals that are themselves private quantiles, and bounds that can be bought."""

from __future__ import annotations

from fractions import Fraction as F

import asked
import handmade
import numpy as np
import pytest
from scipy.stats import binom

import clinic
from dither import ParameterError, connect, steward
from dither.answer.bands import rank_rows, reach_for, widened, without_bands
from dither.answer.blocks import blocks
from dither.answer.evaluate import given
from dither.answer.intervals import interval
from dither.answer.offer import offer
from dither.answer.result import noises_of
from dither.answer.suggest import rounded_up
from dither.privacy.mechanisms import JointQuantiles
from dither.privacy.request import Price
from dither.state import State

AGES = [(7 * i * i + 3 * i) % 90 + (i % 5) * 4 for i in range(990)]


def people(ages):
    return [clinic.row(f"v{i}", f"p{i}", age=str(age)) for i, age in enumerate(ages)]


class TestBands:
    @pytest.mark.parametrize("ages", [AGES, [30] * 500 + [31] * 490], ids=["spread", "two values"])
    def test_they_cover_the_exact_quantile(self, tmp_path, ages):
        """250 releases at 80 %: the discrete quantile of the registered rows lies inside; false alarm below 1e-9."""
        exact = [sorted(ages)[-(-len(ages) * n // 4) - 1] for n in (1, 2)]
        recipe = handmade.median(F(1, 4), F(1, 2))
        with handmade.kernel(tmp_path, people(ages)) as kernel:
            found = offer(kernel, recipe, Price(F(20)), "total", {}, group_size=900, level=F(4, 5))
            assert found.bands.of and found.bands.get(0).count == 2
            assert found.bands.get(0).reach <= F(1, 5)
            measurer = kernel.prepare(found.priced)
            rows = kernel.measured(found.priced, measurer)
            measurer.close()
            (noises,) = noises_of(found.recipe, [each.mechanism for each in found.priced.steps], found.bands)
            hits, unbounded = np.zeros(2), 0
            for _ in range(250):
                (block,) = blocks(found.recipe, kernel.randomise(found.priced, rows))
                for i in (0, 1):
                    low, high = interval(handmade.Noisy(i), given(found.recipe, block), noises, F(4, 5))
                    unbounded += int(np.isnan(low[0]))
                    hits[i] += not (low[0] > exact[i] or high[0] < exact[i])
        assert (hits >= binom.ppf(1e-9, 250, 0.8)).all()
        assert unbounded < 250

    def test_a_group_that_may_be_smaller_gets_no_bound(self, tmp_path):
        recipe = handmade.median(F(1, 2))
        with handmade.kernel(tmp_path, people(AGES)) as kernel:
            found = offer(kernel, recipe, Price(F(20)), "total", {}, group_size=5000)
            release = kernel.answer(found.priced.request)
        (noises,) = noises_of(found.recipe, [each.mechanism for each in found.priced.steps], found.bands)
        (block,) = blocks(found.recipe, release.values)
        low, high = interval(handmade.Noisy(0), given(found.recipe, block), noises, F(95, 100))
        assert np.isnan([low[0], high[0]]).all()

    def test_nothing_is_spent_on_bands_that_cannot_hold(self, tmp_path):
        recipe = handmade.median(F(1, 2))
        with handmade.kernel(tmp_path, people([40] * 20)) as kernel:
            found = offer(kernel, recipe, Price(F(1, 10)), "total", {}, group_size=20)
        assert found.recipe == recipe and found.bands.needed > 20
        note = found.bands.note(0, F(95, 100), [each.mechanism for each in found.priced.steps])
        assert "an interval in values needs groups of about" in note

    def test_places_follow_the_shares(self):
        recipe = handmade.median(F(1, 4), F(3, 4))
        wide, bands = widened(recipe, without_bands(recipe, clinic.catalog()), F(1, 10), 100, F(9, 10))
        shares = wide.queries[0].shares
        assert shares == (F(3, 20), F(1, 4), F(7, 20), F(13, 20), F(3, 4), F(17, 20))
        places = wide.sets[0].places
        for atom, share in ((0, F(1, 4)), (1, F(3, 4))):
            band = bands.get(atom)
            assert shares[places[atom][1]] == share
            assert shares[places[band.low][1]] == share - F(1, 10)
            assert shares[places[band.high][1]] == share + F(1, 10)
        assert places[2] == (1, 0)

    def test_the_rank_error_is_that_of_all_choices_on_the_way(self):
        """Three shares: two rounds; the outer ones make two choices. 2,000 draws on distinct rows never exceed it."""
        mechanism = JointQuantiles((F(2, 5), F(1, 2), F(3, 5)), F(2))
        rows = rank_rows(mechanism, 1000, F(9, 10))
        misses = 0
        for _ in range(300):
            low, middle, high = mechanism.release([1] * 1000)
            misses += abs(low - 400) > rows or abs(middle - 500) > rows or abs(high - 600) > rows
        assert misses <= binom.isf(1e-9, 300, 0.1)
        assert reach_for([mechanism], without_bands(handmade.median(F(1, 2)), clinic.catalog()), 10**6, F(9, 10)) > 0

    def test_without_a_group_size_the_rank_error_is_said(self, tmp_path):
        con = asked.connection(tmp_path / "c", rows=asked.few_rows(3))
        found = con.sql("SELECT MEDIAN(age) AS m FROM patients", epsilon=2)
        assert found.to_dict()["m_low"] == [None]
        assert any("the rank is off by at most" in note for note in found.columns[0].notes)


WIDE = clinic.CATALOG.replace(
    "cost:    {type: decimal, bounds: [-10, 500], resolution: 0.01",
    "cost:    {type: decimal, bounds: [0, 1000000000000], resolution: 0.01",
)


class TestSuggest:
    def connection(self, folder, text=clinic.CATALOG, **values):
        rows = [
            clinic.row(f"v{i}", f"p{i}", **{name: str(of(i)) for name, of in values.items()}) for i in range(900)
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
        """On the coarse linear grid of 10^14 points every answer would be a multiple of a million."""
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
        text = clinic.CATALOG.replace("bounds: [-10, 500]", bought.catalog_text.split(", provenance")[0])
        text = text.replace("nulls: keep, provenance: tariff}", f"nulls: keep, provenance: {bought.provenance!r}}}")
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "clinic.yaml").write_text(text)
        clinic.write_csv(tmp_path / "b" / "visits.csv", [])
        place = State.beside(tmp_path / "b" / "clinic.yaml")
        steward.register(tmp_path / "b" / "clinic.yaml", state=place)

    @pytest.mark.parametrize(
        ("what", "of", "keep"),
        [
            ("bounds", "visits.ward", 0.9),
            ("bounds", "visits", 0.9),
            ("bounds", "nowhere.cost", 0.9),
            ("bounds", "visits.cost", 1),
            ("limits", "visits.cost", 0.9),
            ("max_groups", "visits", 0.9),
            ("max_groups", "visits.nothing", 0.9),
        ],
    )
    def test_nonsense_is_refused_before_it_costs(self, tmp_path, what, of, keep):
        con = self.connection(tmp_path)
        with pytest.raises(ParameterError):
            con.suggest(what, of, epsilon=1, keep=keep)
        assert con.budget().pots[0].spent == 0

    def test_rounding_is_outward(self):
        for value in (F(1, 1000), F(7), F(99), F(101), F(123456)):
            assert value <= rounded_up(value) <= value * F(11, 10)
