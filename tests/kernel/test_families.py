"""Unlisted keys, quantiles and several shapes in one request: priced exactly, sent sparingly."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
from scipy.stats import binom

from dither import RefusedError, steward
from dither.plan.algebra import (
    Cells,
    Column,
    Compare,
    Count,
    CountDistinct,
    CountUnits,
    Filter,
    Group,
    Join,
    Keys,
    LimitGroups,
    Named,
    PerUnit,
    Project,
    Quantiles,
    SampleUnits,
    Scan,
    Sum,
)
from dither.plan.sensitivity import Reach
from dither.privacy.charges.rules import Rule, charge_pure
from dither.privacy.kernel import calibrate as calibrate_module
from dither.privacy.kernel.calibrate import loss_of
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.randomise import randomise
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.ledger import charge
from dither.privacy.ledger.reports import Reports
from dither.privacy.losses import BoundedRange
from dither.privacy.mechanisms.quantile_families import choose_ranges, root_down
from dither.privacy.noise import SystemSource
from dither.state import State
from tests.datasets import hospital
from tests.kernel.calibrating import calibrate

VISITS = Scan("visits")
ONE_EACH = LimitGroups(VISITS, ("diag",), 1)
PURPOSE = {
    "question": "How many visits are there by diagnosis?",
    "population": "All residents of the county.",
    "recipient": "The board of the hospital.",
}


def steps(*queries, family="laplace"):
    kinds = {
        "laplace": {Cells: "laplace", Keys: "geometric_keys", Quantiles: "exponential"},
        "gaussian": {Cells: "gaussian", Keys: "gaussian_keys", Quantiles: "exponential"},
    }[family]
    return tuple(Step(query, kinds[type(query)], F(1)) for query in queries)


def request(*queries, epsilon=None, rho=None, family="laplace"):
    return Request(steps(*queries, family=family), Price(epsilon, rho), "total")


KEYS = Keys(VISITS, ("diag",))
BY_DIAG = Cells(VISITS, ("diag",), (Count(),))
MEDIAN = Quantiles(VISITS, (), "cost", (F(1, 2),))
QUARTILES = Quantiles(VISITS, ("score",), "cost", (F(1, 4), F(1, 2), F(3, 4)))
COUNT = Cells(VISITS, (), (Count(),))
CLOSE = 1 - F(1, 2**17)


class TestPrices:
    @pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
    @pytest.mark.parametrize(
        "queries", [(KEYS, BY_DIAG), (MEDIAN,), (QUARTILES, COUNT), (KEYS, BY_DIAG, MEDIAN)]
    )
    def test_an_epsilon_is_met_and_not_passed(self, queries, neighbours):
        catalog = hospital.catalog(neighbours__add_remove=f"neighbours: {neighbours}")
        delta = F(1, 10**6)
        found = calibrate(request(*queries, epsilon=F(1)), catalog, delta)
        paid = charge(loss_of(found), Rule("approx", delta=F(1, 10**4), delta_per_question=delta))
        assert CLOSE < paid.amount <= 1
        assert paid.delta <= delta and (paid.delta > 0) == any(
            isinstance(query, Keys) for query in queries
        )

    @pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
    @pytest.mark.parametrize(
        "queries", [(KEYS, BY_DIAG), (MEDIAN,), (QUARTILES, COUNT), (KEYS, BY_DIAG, MEDIAN)]
    )
    def test_a_rho_is_met_and_not_passed(self, queries, neighbours):
        catalog = hospital.catalog(neighbours__add_remove=f"neighbours: {neighbours}")
        delta = F(1, 10**6)
        found = calibrate(request(*queries, rho=F(1, 10), family="gaussian"), catalog, delta)
        paid = charge(
            loss_of(found), Rule("zcdp", delta_conversion=delta, delta_selection=F(1, 10**4))
        )
        assert F(1, 10) * (1 - F(1, 500)) < paid.amount <= F(1, 10)
        assert paid.delta <= delta

    @pytest.mark.parametrize(
        "queries", [(COUNT,), (KEYS, BY_DIAG), (QUARTILES, COUNT), (KEYS, BY_DIAG, MEDIAN)]
    )
    def test_an_epsilon_buys_gaussian_noise_at_the_delta_of_the_question(self, queries):
        delta = F(1, 10**6)
        found = calibrate(
            request(*queries, epsilon=F(1), family="gaussian"), hospital.catalog(), delta
        )
        paid = charge(loss_of(found), Rule("approx", delta=F(1, 10**4), delta_per_question=delta))
        assert F(9, 10) < paid.amount <= 1 and paid.delta == delta

    @pytest.mark.parametrize("ends", [None, (F(19, 20), F(1, 8))])
    def test_a_median_in_every_cell_of_a_person_is_for_all_of_the_persons_rows(self, ends):
        """Three rows in up to three cells: their ranges add up. Planted: the rows of one cell,
        charged once."""
        query = replace(QUARTILES, ends=ends)
        (each,) = calibrate(request(query, epsilon=F(3)), hospital.catalog())
        assert each.copies == 1 and each.cells == 12 and each.mechanism.rows_per_unit == 3
        assert charge_pure(each.loss()) == 3
        (once,) = calibrate(request(replace(query, keys=()), epsilon=F(3)), hospital.catalog())
        assert once.mechanism.rows_per_unit == each.mechanism.rows_per_unit

    def test_of_the_two_ways_the_one_with_less_noise_is_taken(self):
        measures = ("epsilon", "rho")
        ways = {(r.rows, r.cells, r.rows_per_cell): [choose_ranges(r,
            measure) for measure in measures] for r in (
            Reach(10, 10, 10), Reach(10, 10, 1), Reach(12, 3, 4), Reach(20, 1, 10))}  # fmt: skip
        assert ways[10, 10, 10] == [(10, 1), (10, 1)]
        assert ways[10, 10, 1] == [(10, 1), (1, 10)]
        assert ways[12, 3, 4] == [(12, 1), (4, 3)]
        assert ways[20, 1, 10] == [
            (10, 1),
            (10, 1),
        ]  # one cell under replace: rows that leave and come are paired

    def test_one_median_of_one_row_per_person_is_one_bounded_range(self):
        salaries = Quantiles(Scan("patients"), (), "salary", (F(1, 2),))
        (each,) = calibrate(request(salaries, epsilon=F(1)), hospital.catalog())
        assert each.loss() == BoundedRange(1, neighbours="add_remove", unit="person")
        assert each.mechanism.rows_per_unit == 1

    def test_roots_round_down(self):
        for x in (F(1, 10**30), F(2), F(10**20, 7), F(1, 3)):
            assert root_down(x) ** 2 <= x < (root_down(x) * (1 + F(1, 2**50))) ** 2


class TestRefusals:
    """What a request may not say, whoever wrote it."""

    @pytest.mark.parametrize(
        ("queries", "words"),
        [
            ((BY_DIAG,), "needs a selection"),
            (
                (Keys(ONE_EACH, ("diag",)), BY_DIAG),
                "needs a selection",
            ),  # a selection over other rows
            ((Quantiles(VISITS, ("diag",), "cost", (F(1, 2),)),), "needs a selection"),
            ((KEYS, KEYS, BY_DIAG), "twice"),
            ((Keys(VISITS, ("score",)),), "never selected"),
            ((Keys(VISITS, ("diag", "score")),), "never selected"),
            ((Keys(VISITS, ()),), "never selected"),
            ((Keys(VISITS, ("note",)),), "never selected"),
            ((Keys(VISITS, ("visit",)),), "never selected"),
            ((Quantiles(VISITS, (), "note", (F(1, 2),)),), "is no number"),
            ((Quantiles(VISITS, (), "visit", (F(1, 2),)),), "is no number"),
            ((Quantiles(VISITS, (), "cost", ()),), "shares"),
            ((Quantiles(VISITS, (), "cost", (F(0),)),), "shares"),
            ((Quantiles(Scan("patients"), ("salary",), "salary", (F(1, 2),)),), "at most 10000"),
            ((KEYS, Cells(VISITS, ("diag", "day", "score"), (Count(),))), "Group by fewer"),
            ((Keys(Group(VISITS, ("diag",), (Named("n", Count()),)), ("diag",)),), "owners"),
        ],
    )
    def test_refused_for_free(self, queries, words):
        with pytest.raises(RefusedError, match=words):
            calibrate(request(*queries, epsilon=F(1)), hospital.catalog(), F(1, 10**6))

    def test_work_is_bounded_before_data_is_read(self):
        """A filter that one person meets and thousands of aggregates: memory would tell whether the
        person is there."""
        many = Cells(VISITS, ("diag", "score"), (Sum("cost"), Count()) * 600)
        with pytest.raises(RefusedError, match="at most 1000"):
            calibrate(request(KEYS, many, epsilon=F(1)), hospital.catalog(), F(1, 10**6))
        wide = Cells(Scan("patients"), ("salary",), (Count(),) * 90)
        with pytest.raises(RefusedError, match="numbers in one answer"):
            calibrate(request(wide, epsilon=F(1)), hospital.catalog(), F(1, 10**6))

    def test_what_one_unit_holds_is_bounded(self):
        """A ten-fold self-join gives one person 59,049 rows; fifty distinct counts of them would
        show in the memory."""
        plan = VISITS
        for place in range(9):
            other = Project(VISITS, (Named(f"c{place}", Column("score")),))
            plan = Join(plan, other, (), "inner")
        one = Cells(plan, (), (Count(),))
        assert calibrate(request(one, epsilon=F(1)), hospital.catalog())
        many = Cells(plan, (), (CountDistinct("cost"),) * 50)
        with pytest.raises(RefusedError, match="rows of one unit"):
            calibrate(request(many, epsilon=F(1)), hospital.catalog())

    def test_only_cells_with_rows_are_held_for_a_key(self):
        with hospital.registered(hospital.random_people(10)) as both:
            found = both.measurer.measure(Cells(VISITS, ("diag", "day"), (Count(),)))
            assert all(len(cells) <= 30 for cells in found.values())

    def test_families_fit_their_queries_and_one_measure(self):
        for family in ("laplace", "gaussian", "exponential"):
            asked = Request((Step(KEYS, family, F(1)),), Price(F(1)), "total")
            with pytest.raises(RefusedError):
                calibrate(asked, hospital.catalog(), F(1, 10**6))
        mixed = Request((*steps(COUNT), *steps(COUNT, family="gaussian")), Price(F(1)), "total")
        with pytest.raises(RefusedError, match="families"):
            calibrate(mixed, hospital.catalog(), F(1, 10**6))

    def test_a_pot_without_delta_refuses_unlisted_keys_and_says_what_to_do(self):
        with pytest.raises(RefusedError, match="delta-per-question"):
            calibrate(request(KEYS, BY_DIAG, epsilon=F(1)), hospital.catalog())


class TestRandomised:
    def test_only_selected_keys_leave_and_sorted(self):
        steps_ = calibrate(request(KEYS, BY_DIAG, epsilon=F(200)), hospital.catalog(), F(1, 10**6))
        owners = {("zeta",): 500, ("alpha",): 500, (None,): 500, ("rare",): 1}
        cells = {key: {0: (count,)} for key, count in owners.items()}
        keys, values = randomise(steps_, [owners, cells], SystemSource())
        assert keys == (("alpha",), ("zeta",), (None,))
        assert len(values) == 3 and all(abs(value - 500) < 20 for value in values)

    def test_no_key_at_all_is_an_empty_answer(self):
        steps_ = calibrate(request(KEYS, BY_DIAG, epsilon=F(1)), hospital.catalog(), F(1, 10**6))
        assert randomise(steps_, [{}, {}], SystemSource()) == ((), ())

    def test_a_lone_owner_is_shown_as_often_as_delta_says(self):
        """One person in three keys, each alone there: shown with chance delta / 3 each; with delta
        0.3 that is seen."""
        found = calibrate(request(KEYS, epsilon=F(1)), hospital.catalog(), F(3, 10))
        owners = {("a",): 1, ("b",): 1, ("c",): 1}
        shown = sum(len(randomise(found, [owners], SystemSource())[0]) for _ in range(3000))
        assert binom.ppf(1e-10, 9000, 0.1) <= shown <= binom.isf(1e-10, 9000, 0.1)

    def test_quantiles_stand_by_key_then_cell_then_share(self):
        asked = Quantiles(VISITS, ("diag", "urgent"), "cost", (F(1, 4), F(3, 4)))
        found = calibrate(request(KEYS, asked, epsilon=F(10**6)), hospital.catalog(), F(1, 10**6))
        low, high = (
            (np.array([1000]), np.array([400])),
            (np.array([1000, 51000]), np.array([400, 400])),
        )
        histograms = {("flu",): {0: low, 1: high, 2: low}, ("gout",): {0: high, 1: low, 2: high}}
        owners = {("flu",): 10**6, ("gout",): 10**6}
        keys, values = randomise(found, [owners, histograms], SystemSource())
        assert keys == (("flu",), ("gout",))
        assert values == (0, 0, 0, 50000, 0, 0, 0, 50000, 0, 0, 0, 50000)


def register(folder, rows, *, dev=False, **pot):
    file = folder / "hospital.yaml"
    file.write_text(hospital.CATALOG)
    known = hospital.catalog()
    for table in known.tables:
        hospital.write_csv(folder / table.source_name, table.column_names, rows[table.name])
    place = State.beside(file)
    steward.register(file, state=place, dev=dev)
    steward.open_pot(place, known, "total", purpose=PURPOSE, **pot)
    return place


class TestReleased:
    @pytest.mark.parametrize(
        "rows",
        [hospital.raws(), hospital.raws([hospital.patient("p")], [hospital.visit("v", "p")])],
    )
    def test_an_empty_table_and_a_single_row_are_answered_like_any_other(self, tmp_path, rows):
        """Rule one-failure-text: a failure after the charge that depends on rows would be an answer
        about them."""
        terms = {"rule": "approx", "delta": "0.01", "delta_per_question": "0.0001"}
        kernel = Kernel(register(tmp_path, rows, epsilon="1000", ceiling="1000", **terms))
        nobody = Filter(VISITS, Compare("score", ">", F(4)))
        for plan in (VISITS, nobody):
            keys = Keys(plan, ("diag",))
            asked = (
                (keys, Cells(plan, ("diag", "score"), (Count(), Sum("cost")))),
                (keys, Quantiles(plan, ("diag", "urgent"), "cost", (F(1, 2),))),
                (
                    Quantiles(plan, (), "cost", (F(1, 2),)),
                    Quantiles(plan, ("score",), "cost", (F(1, 4), F(1, 2))),
                ),
                (
                    Cells(plan, (), (Count(), Sum("cost"), CountUnits())),
                    Cells(plan, ("county",), (Count(),)),
                ),
            )
            for queries in asked:
                for family in ("laplace", "gaussian"):
                    values = kernel.release(request(*queries, epsilon=F(1), family=family)).values
                    assert [len(each) for each in values][1:] or values
        assert Reports.from_ledger(kernel.ledger).incidents_open() == ()

    def test_keys_medians_and_rollups_in_one_release_and_again_for_free(self, tmp_path):
        place = register(
            tmp_path,
            hospital.random_people(300),
            epsilon="100",
            ceiling="100",
            rule="approx",
            delta="0.01",
            delta_per_question="0.0001",
        )
        kernel = Kernel(place)
        by_county = Cells(VISITS, ("county",), (Count(), CountUnits()))
        asked = request(KEYS, BY_DIAG, by_county, COUNT, QUARTILES, epsilon=F(50))
        release = kernel.release(asked)
        keys, counts, counties, (total,), quartiles = release.values
        assert len(keys) == len(counts) and (None,) in keys and len(keys) <= len(hospital.DIAGNOSES)
        assert len(counties) == 5 * 2 and len(quartiles) == 12 * 3
        truth = kernel.connect(kernel.version).measure(COUNT)[0, 0]
        assert abs(total - truth) < 30 and abs(sum(counts) - truth) < 120
        assert all(quartiles[i] <= quartiles[i + 1] <= quartiles[i + 2] for i in range(0, 36, 3))
        again = kernel.answer(asked)
        assert again.repeated and again.values == release.values and again.charged == 0

    def test_public_lists_and_joins_are_answered(self, tmp_path):
        place = register(tmp_path, hospital.random_people(50), epsilon="1000", ceiling="1000")
        joined = Join(VISITS, Scan("counties"), (("county", "county"),), "inner")
        asked = request(Cells(joined, ("region",), (Count(),)), epsilon=F(500))
        kernel = Kernel(place)
        (regions,) = kernel.release(asked).values
        exact = kernel.connect(kernel.version).measure(Cells(joined, ("region",), (Count(),)))
        assert [abs(a - int(b[0])) < 3 for a, b in zip(regions, exact, strict=True)] == [True, True]

    def test_facts_that_are_not_the_registered_ones_are_refused(self, tmp_path):
        place = register(tmp_path, hospital.random_people(5), epsilon="1", ceiling="1")
        stored = place.version(1) / "facts.json"
        stored.chmod(0o600)
        stored.write_text(
            stored.read_text().replace('"rows":1', '"rows":0').replace('"ash"', '"asp"')
        )
        with pytest.raises(RefusedError, match="not the registered one"):
            Kernel(place)

    def test_samples_are_drawn_afresh_for_each_release_once_for_all_steps(self, tmp_path):
        place = register(tmp_path, hospital.random_people(60), epsilon="100000", ceiling="100000")
        half = SampleUnits(Scan("patients"), F(1, 2))
        kernel = Kernel(place)
        counts = set()
        for _ in range(12):
            asked = request(
                Cells(half, (), (Count(),)), Cells(half, (), (CountUnits(),)), epsilon=F(5000)
            )
            (one,), (two,) = kernel.release(asked).values
            assert one == two
            counts.add(one)
        assert len(counts) > 1 and all(5 < count < 55 for count in counts)

    def test_a_zcdp_pot_takes_a_hundredth_of_its_selection_delta(self, tmp_path):
        place = register(
            tmp_path,
            hospital.random_people(100),
            rule="zcdp",
            rho="1000",
            ceiling="1000",
            delta_conversion="1e-6",
            delta_selection="1e-4",
        )
        kernel = Kernel(place)
        release = kernel.release(request(KEYS, BY_DIAG, rho=F(100), family="gaussian"))
        (taken,) = release.charges.values()
        assert 0 < taken.delta <= F(1, 10**6) and taken.amount <= 100


def test_planted_selection_that_is_not_charged_is_seen(monkeypatch):
    """The count used for thresholding costs: drop its step from the loss and the claim no longer
    meets the law."""
    asked = request(KEYS, BY_DIAG, epsilon=F(1))
    honest = calibrate(asked, hospital.catalog(), F(1, 10**6))
    cheat = tuple(each for each in honest if not isinstance(each.step.query, Keys))
    rule = Rule("approx", delta=F(1, 10**4), delta_per_question=F(1, 10**6))
    assert charge(loss_of(cheat), rule).amount < charge(loss_of(honest), rule).amount
    assert charge(loss_of(cheat), rule).delta == 0 < charge(loss_of(honest), rule).delta
    assert (
        calibrate_module.check_keys
    )  # the kernel's own way in has no such door: every step is in loss_of
    per_unit = PerUnit(VISITS, (), (Named("n", Count()),))
    (each,) = calibrate(
        request(Quantiles(per_unit, (), "n", (F(1, 2),)), epsilon=F(1)), hospital.catalog()
    )
    assert each.mechanism.rows_per_unit == 1 and each.copies == 1
