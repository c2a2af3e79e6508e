"""The kernel believes nothing, charges before it reads, and says one thing when it fails."""

from __future__ import annotations

import inspect
import os
import re
import traceback
from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest

from dither import BudgetError, RefusedError, UnavailableError, connect, steward
from dither.data.measure import MeasureError, Measurer
from dither.laws import find_error_law
from dither.plan.algebra import Cells, Compare, Count, Filter, Scan, Sum
from dither.privacy.kernel import kernel as kernel_module
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.ledger import charge_pure
from dither.privacy.ledger.reports import Reports
from dither.privacy.losses import DiscreteLaplace, Pure
from dither.privacy.noise import SystemSource
from tests.case_lists import mark_between
from tests.datasets import clinic

COUNT = Cells(Scan("visits"), (), (Count(),))


def request(*queries: Cells, epsilon: str = "1", weights=None, pot: str = "total") -> Request:
    weights = weights or [1] * len(queries)
    steps = tuple(
        Step(query, "laplace", Fraction(w)) for query, w in zip(queries, weights, strict=True)
    )
    return Request(steps, Price(Fraction(epsilon)), pot)


@pytest.fixture
def clinic_kernel(tmp_path):
    file, place = clinic.register(tmp_path, [clinic.row(f"v{i}", f"p{i}") for i in range(50)])
    clinic.open_total(place)
    return file, place, Kernel(place)


class TestPrices:
    def test_the_charge_is_exact_and_never_above_the_price(self, clinic_kernel):
        _, _, kernel = clinic_kernel
        for epsilon in ("1", "0.1", "1/3", "0.0001", "7"):
            for queries in ([COUNT], [COUNT, Cells(Scan("visits"), (), (Sum("cost"),))]):
                priced = kernel.price(request(*queries, epsilon=epsilon))
                charged = charge_pure(priced.loss)
                assert charged <= Fraction(epsilon)
                assert charged > Fraction(epsilon) * (1 - Fraction(1, 2**18))

    def test_scales_follow_sensitivity_weight_and_price(self, clinic_kernel):
        _, _, kernel = clinic_kernel
        sums = Cells(Scan("visits"), (), (Sum("cost"),))
        priced = kernel.price(request(COUNT, sums, epsilon="1", weights=[1, 3]))
        assert [each.mechanism.scale for each in priced.steps] == [3 * 4, 3 * 50000 * 4 / 3]

    def test_one_cell_costs_its_lattice_law_and_many_cells_a_pure_epsilon(self, clinic_kernel):
        _, _, kernel = clinic_kernel
        towards = {"neighbours": "add_remove", "unit": "person"}
        assert kernel.price(request(COUNT)).loss == DiscreteLaplace(3, 3, **towards)
        by_ward = Cells(Scan("visits"), ("ward",), (Count(),))
        assert kernel.price(request(by_ward)).loss == Pure(1, **towards)

    def test_pricing_reads_no_data_and_spends_nothing(self, clinic_kernel, monkeypatch):
        _, place, kernel = clinic_kernel
        monkeypatch.setattr(Measurer, "measure", lambda *_: pytest.fail("read data"))
        for file in place.version(1).glob("data.duckdb"):
            file.unlink()
        kernel.price(request(COUNT))
        assert kernel.ledger.pot("total").spent == 0


class TestBelievesNothing:
    @pytest.mark.parametrize(
        "query",
        mark_between(
            [
                Cells(Scan("visits"), ("patient",), (Count(),)),
                Cells(Scan("visits"), ("visit",), (Count(),)),
                Cells(Scan("visits"), (), (Sum("patient"),)),
                Cells(Scan("visits"), (), (Sum("ward"),)),
                Cells(Filter(Scan("visits"), Compare("patient", "=", "p1")), (), (Count(),)),
                Cells(Filter(Scan("visits"), Compare("ward", "=", "nowhere")), (), (Count(),)),
                Cells(Filter(Scan("visits"), Compare("age", "=", "40")), (), (Count(),)),
                Cells(Filter(Scan("visits"), Compare("nothing", "=", Fraction(1))), (), (Count(),)),
                Cells(Filter(Scan("visits"), "age = 40"), (), (Count(),)),
                Cells(
                    Filter(Scan("visits"), Compare("age", ">= 0 OR 1 =", Fraction(1))),
                    (),
                    (Count(),),
                ),
                Cells(
                    Filter(Scan("visits"), Compare("age", "IS NOT DISTINCT FROM", Fraction(1))),
                    (),
                    (Count(),),
                ),
                Cells(
                    Filter(Scan("visits"), Compare("ward", "= 0 OR 0 =", "north")), (), (Count(),)
                ),
                Cells(Filter(Scan("visits"), Compare("age", "=", 1.5)), (), (Count(),)),
                Cells(Scan("visits"), (), ("count(*)",)),
                Cells("visits", (), (Count(),)),
                Cells(Scan("nothing"), (), (Count(),)),
                Cells(Scan("visits"), ("nothing",), (Count(),)),
                Cells(Scan("visits"), (), (Sum("nothing"),)),
                Cells(Scan("visits"), (), ()),
            ],
            step=3,
        ),
        ids=str,
    )
    def test_a_plan_without_a_rule_is_refused_before_anything_is_spent(self, clinic_kernel, query):
        _, _, kernel = clinic_kernel
        with pytest.raises(RefusedError):
            kernel.release(request(query))
        assert kernel.ledger.pot("total").spent == 0

    def test_a_column_in_other_letters_is_refused_not_left_unclamped(self, clinic_kernel):
        """Narrowing looks for declared names: a plan that spells them otherwise must not slip past
        it."""
        _, _, kernel = clinic_kernel
        query = Cells(
            Filter(Scan("visits"), Compare("COST", "<=", Fraction(1))), (), (Sum("cost"),)
        )
        with pytest.raises(RefusedError, match="write cost"):
            kernel.price(request(query))

    def test_there_is_no_way_to_hand_the_kernel_randomness_a_scale_or_a_sensitivity(self):
        names = set()
        for thing in (
            Kernel.__init__,
            Kernel.release,
            Kernel.price,
            Kernel.randomise,
            Request,
            Step,
            Price,
        ):
            names |= set(inspect.signature(thing).parameters)
        assert not names & {
            "source",
            "seed",
            "rng",
            "random_state",
            "scale",
            "sensitivity",
            "noise",
        }

    def test_every_release_draws_from_a_system_source_of_its_own(self, clinic_kernel, monkeypatch):
        _, _, kernel = clinic_kernel
        made = []

        def counted():
            made.append(SystemSource())
            return made[-1]

        monkeypatch.setattr(kernel_module, "SystemSource", counted)
        kernel.release(request(COUNT, epsilon="0.1"))
        kernel.release(request(COUNT, epsilon="0.1"))
        assert len(made) == 2
        assert type(made[0]) is SystemSource

    def test_an_edited_catalog_does_not_lower_a_sensitivity(self, clinic_kernel):
        """Rule registered-catalog: rows_per_unit 3 -> 1 in the YAML must not cut the noise to a
        third."""
        file, _, _ = clinic_kernel
        file.write_text(clinic.CATALOG.replace("rows_per_unit: 3", "rows_per_unit: 1"))
        with pytest.raises(
            RefusedError, match="catalog changed since version 1: run 'dither register"
        ):
            connect(file)

    def test_a_tampered_stored_catalog_is_refused(self, clinic_kernel):
        _, place, _ = clinic_kernel
        stored = place.version(1) / "catalog.json"
        stored.write_text(stored.read_text().replace('"rows_per_unit":3', '"rows_per_unit":1'))
        with pytest.raises(RefusedError, match="not the registered one"):
            Kernel(place)

    def test_context_comes_from_the_lineage(self, clinic_kernel):
        _, _, kernel = clinic_kernel
        assert kernel.release(request(COUNT)).version.context == "prod"
        asked = request(COUNT)
        with pytest.raises(RefusedError, match="dry run"):
            kernel.release(Request(asked.steps, asked.price, "total", "dry_run"))


class TestFailure:
    """Free before reserve; after it one constant response, charge kept, incident, suspension.

    Rules charge-before-read, one-failure-text and incidents-capped.
    """

    def test_a_dead_engine_before_reserve_is_free(self, clinic_kernel):
        _, place, kernel = clinic_kernel
        (place.version(1) / "data.duckdb").rename(place.root / "away")
        with pytest.raises(MeasureError):
            kernel.release(request(COUNT))
        assert kernel.ledger.pot("total").spent == 0
        assert Reports.from_ledger(kernel.ledger).incidents_open() == ()

    def test_a_failure_after_reserve_never_answers_with_the_empty_table(
        self, clinic_kernel, monkeypatch
    ):
        """The victim whose row kills the engine: the charge stays, the response is constant, the
        dataset stops."""
        _, place, kernel = clinic_kernel
        tries = []
        measure = Measurer.measure

        def killed(self, query, key=None):
            tries.append(query)
            raise duckdb.OutOfMemoryException("could not allocate for patient p7 with 12 visits")

        monkeypatch.setattr(Measurer, "measure", killed)
        with pytest.raises(UnavailableError) as caught:
            kernel.release(request(COUNT))
        assert str(caught.value) == UnavailableError.TEXT
        shown = "".join(traceback.format_exception(caught.value))
        assert "p7" not in shown and "allocate" not in shown
        assert caught.value.__cause__ is None and caught.value.__context__ is None
        assert len(tries) == 3
        assert kernel.ledger.pot("total").spent == 1
        assert len(Reports.from_ledger(kernel.ledger).incidents_open()) == 1
        monkeypatch.setattr(Measurer, "measure", measure)
        with pytest.raises(RefusedError, match="suspended"):
            kernel.release(request(COUNT))
        steward.clear_incidents(place, "the engine ran out of memory, which was doubled")
        kernel.release(request(COUNT))

    def test_a_passing_fault_is_tried_again_and_answered(self, clinic_kernel, monkeypatch):
        _, _, kernel = clinic_kernel
        honest, tries = Measurer.measure, []

        def flaky(self, query, key=None):
            tries.append(query)
            if len(tries) < 3:
                raise MeasureError("the engine failed")
            return honest(self, query, key)

        monkeypatch.setattr(Measurer, "measure", flaky)
        kernel.release(request(COUNT))
        assert len(tries) == 3

    @pytest.mark.parametrize("step", ["randomise", "commit"])
    def test_every_cause_has_the_same_response(self, clinic_kernel, monkeypatch, step):
        _, _, kernel = clinic_kernel

        def broken(self, *_):
            raise RuntimeError("true count 50")

        monkeypatch.setattr(Kernel, step, broken)
        with pytest.raises(UnavailableError) as caught:
            kernel.release(request(COUNT))
        assert str(caught.value) == UnavailableError.TEXT
        shown = "".join(traceback.format_exception(caught.value))
        assert "50" not in re.sub(r"line \d+", "", shown)  # a line may have this number
        assert kernel.ledger.pot("total").spent == 1

    def test_a_forked_process_connects_anew_and_pays_nothing_for_being_told_so(self, clinic_kernel):
        _, _, kernel = clinic_kernel
        kernel.release(request(COUNT))
        child = os.fork()
        if child == 0:
            try:
                kernel.release(request(COUNT))
            except RefusedError:
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert kernel.ledger.pot("total").spent == 1

    def test_refusal_is_free(self, clinic_kernel):
        _, _, kernel = clinic_kernel
        with pytest.raises(BudgetError):
            kernel.release(request(COUNT, epsilon="10.01"))
        assert kernel.ledger.pot("total").spent == 0


class TestReleases:
    def test_what_is_stored_is_what_was_sent(self, clinic_kernel):
        _, _, kernel = clinic_kernel
        by_ward = Cells(Scan("visits"), ("ward",), (Count(),))
        release = kernel.release(request(by_ward))
        stored = Reports.from_ledger(kernel.ledger).release(
            Reports.from_ledger(kernel.ledger).number_of(release.release_id)
        )
        assert pa.ipc.open_stream(stored.arrow_bytes).read_all().column(0).to_pylist() == [
            list(release.values[0])
        ]
        assert (
            len(release.values[0]) == 4
        )  # north, south, other, NULL: all declared keys, present or not

    def test_ten_questions_at_a_tenth_fit_a_pot_of_one_exactly(self, tmp_path):
        """'exceeds by 6e-17' never happens; scale 3/0.1 = 30 needs no rounding."""
        file, place = clinic.register(tmp_path, [])
        clinic.open_total(place, "1", "1")
        con = connect(file)
        for _ in range(10):
            con.sql("SELECT COUNT(*) FROM visits", epsilon=0.1, fresh=True)
        assert con.budget().pots[0].left == 0
        with pytest.raises(BudgetError):
            con.sql("SELECT COUNT(*) FROM visits", epsilon=0.0001, fresh=True)

    def test_nothing_exact_is_left_in_the_state_folder_but_the_copy_and_the_stewards_log(
        self, clinic_kernel
    ):
        _, place, kernel = clinic_kernel
        kernel.release(request(COUNT))
        names = {file.name for file in place.root.rglob("*") if file.is_file()}
        assert names <= {
            "ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "id", "key", "lock",
            "source", "steward.log",
            "catalog.json", "facts.json", "data.duckdb",
        }  # fmt: skip

    def test_noise_has_the_claimed_scale(self, clinic_kernel):
        """2,000 releases of one count: the variance is that of scale 3 / 10 within seven standard
        errors (< 1e-9)."""
        _, place, kernel = clinic_kernel
        measurer = Measurer(place.version(1) / "data.duckdb", kernel.catalog)
        priced = kernel.price(request(COUNT, epsilon="0.1"))
        exact = kernel.measure(priced, measurer)
        drawn = [kernel.randomise(priced, exact)[0][0] - 50 for _ in range(2000)]
        variance = sum(z * z for z in drawn) / len(drawn)
        expected = find_error_law(priced.steps[0].mechanism).variance
        assert priced.steps[0].mechanism.scale == 30
        assert abs(variance / expected - 1) < 7 * (5 / 2000) ** 0.5

    def test_the_steward_can_verify(self, clinic_kernel):
        _, place, kernel = clinic_kernel
        kernel.release(request(COUNT))
        assert steward.verify_ledger(place).ok
