"""Requests are rebuilt by the kernel: objects that lie are refused, or what they say is lost."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from pathlib import Path

import pytest

from dither.errors import DitherError, RefusedError
from dither.plan.algebra import (
    Cells,
    Compare,
    Count,
    CountUnits,
    Filter,
    Named,
    PerUnit,
    Scan,
    Scores,
    Sum,
    UnitVectors,
)
from dither.plan.encodings import Intercept
from dither.plan.utilities import Coordinates
from dither.plan.vector_functions import LogisticGradient
from dither.privacy.kernel.calibrate import calibrate_request
from dither.privacy.kernel.copying import copy_request
from dither.privacy.kernel.kernel import Kernel, delta_of_path
from dither.privacy.kernel.request import Price, Request, Step
from tests.datasets import hospital
from tests.datasets.regional_clinic import Clinic
from tests.kernel.calibrating import calibrate

SOURCE = Path(__file__).parents[2] / "src" / "dither"
VISITS = Scan("visits")
WIDE = Cells(VISITS, (), (Count(), Sum("cost")))
COUNT = Cells(VISITS, (), (Count(),))
SUM = Cells(VISITS, (), (Sum("cost"),))


def request(*steps: Step) -> Request:
    return Request(steps, Price(F(1)), "total")


def narrow_queries(asked: Request) -> list[Cells]:
    return [step.query for step in copy_request(asked).steps]


def test_an_honest_request_is_the_same_and_made_anew():
    asked = request(Step(WIDE, "laplace", F(1), (0,)), Step(WIDE, "laplace", F(1, 2), (1,)))
    copied = copy_request(asked)
    assert copied == asked and copied.hash == asked.hash
    assert copied.steps[0].measured is not WIDE
    assert copied.steps[0].measured is copied.steps[1].measured  # shared nodes stay shared


class LyingGradient(LogisticGradient):
    """Shows one theta to whoever checks it first, and another one afterwards."""


class LyingVectors(UnitVectors):
    """A query of our own type by `isinstance` alone."""


class LyingFraction(F):
    """A number that could say anything."""


HONEST = UnitVectors(VISITS, (Intercept(),), LogisticGradient("kind", 0, (5,)), F(1), F(1, 8))


@pytest.mark.parametrize(
    "query",
    [
        replace(HONEST, function=LyingGradient("kind", 0, (5,))),
        LyingVectors(VISITS, (Intercept(),), HONEST.function, F(1), F(1, 8)),
        replace(HONEST, clip=LyingFraction(1)),
        replace(HONEST, rate=LyingFraction(1, 2)),
        replace(HONEST, features=(type("Intercept", (Intercept,), {})(),)),
        replace(HONEST, function=LogisticGradient(type("str", (str,), {})("kind"), 0, (5,))),
        Scores(replace(HONEST, clip=LyingFraction(1)), Coordinates((1,))),
    ],
    ids=["function", "query", "clip", "rate", "feature", "label", "below scores"],
)
def test_vectors_of_subclasses_are_refused(query):
    honest = Step(HONEST, "vectors_rounded_gaussian", F(1))
    assert copy_request(Request((honest,), Price(rho=F(1)), "total")).steps[0].query == HONEST
    step = Step(query, "vectors_rounded_gaussian", F(1))
    with pytest.raises(RefusedError):
        copy_request(Request((step,), Price(rho=F(1)), "total"))


def test_a_hash_that_the_caller_wrote_is_lost():
    """Rows of a lease are kept under the hash of the kernel's own copy of the plan."""
    plan = Scan("visits")
    query = replace(HONEST, plan=plan)
    plan.__dict__["hash"] = "0" * 64
    copied = (
        copy_request(
            Request((Step(query, "vectors_rounded_gaussian", F(1)),), Price(rho=F(1)), "total")
        )
        .steps[0]
        .query
    )
    assert copied.plan.hash == VISITS.hash and copied.hash == HONEST.hash


def test_columns_that_can_change_are_refused():
    step = Step(WIDE, "laplace", F(1), [0])  # type: ignore[arg-type]
    assert step.query == COUNT
    step.columns[0] = 1  # type: ignore[index]
    with pytest.raises(RefusedError):
        copy_request(request(step, Step(WIDE, "laplace", F(1), (0,))))


def test_what_was_written_into_an_object_is_left_behind():
    step = Step(SUM, "laplace", F(1))
    vars(step)["query"] = COUNT
    assert narrow_queries(request(step)) == [SUM]
    plan = Filter(VISITS, Compare("cost", ">", F(1)))
    vars(plan)["hash"] = VISITS.hash
    (copied,) = narrow_queries(request(Step(Cells(plan, (), (Count(),)), "laplace", F(1))))
    assert copied.plan.hash == Filter(VISITS, Compare("cost", ">", F(1))).hash != VISITS.hash


def plant_hash(kernel: Kernel) -> None:
    """Has one row per patient analysed, under the hash of the scan of up to eight rows each."""
    plan = PerUnit(VISITS, (), (Named("rows", Count()),))
    vars(plan)["hash"] = VISITS.hash
    assert kernel.version.analyses.analyse_rows(plan).node.rows == 1
    query = Cells(plan, (), (Count(),))
    calibrate_request(
        request(Step(query, "laplace", F(1))), kernel.version.analyses, delta_of_path(())
    )
    kernel.price(request(Step(query, "laplace", F(1))))


def test_a_planted_hash_changes_neither_price_nor_release_of_another_plan(visits: Clinic):
    """By analysis of the planted plan, a scan would get an eighth of its noise, and its statement
    would count patients: 400, not 1,200."""
    visits.open()
    kernel = visits.kernel()
    plant_hash(kernel)
    release = kernel.release(request(Step(COUNT, "laplace", F(1))))
    assert release.priced.steps[0].mechanism.scale == 8
    measurer = kernel.connect(kernel.version)
    assert kernel.measure(release.priced, measurer)[0][()].tolist() == [[1200]]


def test_only_the_kernel_reads_its_own_analyses():
    """Whoever else could hand it a plan, or change what it holds."""
    readers = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if "kernel_analyses" in path.read_text()
    }
    kernel = ("kernel.py", "online_lease.py", "release.py")
    assert readers == {f"privacy/kernel/{name}" for name in kernel}


class LyingStep(Step):
    query = COUNT  # type: ignore[assignment]


class LyingTuple(tuple):
    def __getitem__(self, index):
        return Count()


class LyingText(str):
    def __hash__(self) -> int:
        return hash("urgent")

    def __eq__(self, other: object) -> bool:
        return other == "urgent"


class TwoAggregates(CountUnits, Count):
    __stored_name__ = "two"
    __stored_keys__ = {}


@pytest.mark.parametrize(
    "step",
    [
        LyingStep(SUM, "laplace", F(1)),
        Step(Cells(VISITS, (), LyingTuple((Sum("cost"),))), "laplace", F(1), (0,)),
        Step(Cells(VISITS, (), (Sum(LyingText("cost")),)), "laplace", F(1)),
        Step(Cells(VISITS, (), (TwoAggregates(),)), "laplace", F(1)),
        Step(Cells(VISITS, (), [Count()]), "laplace", F(1)),  # type: ignore[arg-type]
        Step(COUNT, "laplace", 1.0),  # type: ignore[arg-type]
    ],
    ids=["step", "tuple", "text", "aggregate", "list", "float"],
)
def test_objects_of_other_types_are_refused(step):
    with pytest.raises(RefusedError):
        copy_request(request(step))


def test_requests_of_other_types_and_nested_ones_are_refused():
    class Lying(Request):
        pass

    with pytest.raises(RefusedError):
        copy_request(Lying((Step(COUNT, "laplace", F(1)),), Price(F(1)), "total"))
    with pytest.raises(RefusedError):
        copy_request(Request([Step(COUNT, "laplace", F(1))], Price(F(1)), "total"))  # type: ignore[arg-type]
    with pytest.raises(RefusedError):
        copy_request(request(7))  # type: ignore[arg-type]


def test_a_column_that_no_step_answers_is_refused():
    with pytest.raises(DitherError, match="no step answers"):
        calibrate(request(Step(WIDE, "laplace", F(1), (0,))), hospital.catalog())
    assert len(calibrate(request(Step(WIDE, "laplace", F(1))), hospital.catalog())) == 1
