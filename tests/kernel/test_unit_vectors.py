"""Vectors of units through the kernel: price, loss, exact sums of registered rows, samples, choices
by coordinates, repeats and refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

from dither.answer.explain import describe_query
from dither.audit.exact import judge
from dither.audit.naive_vectors import Row, add_vectors
from dither.data import measure as data_measure
from dither.data.vectors.sample import draw_units
from dither.errors import RefusedError
from dither.plan.algebra import Compare, Filter, Query, Scan, Scores, UnitVectors
from dither.plan.encodings import Binned, Intercept, OneHot, Scaled
from dither.plan.utilities import Coordinates
from dither.plan.vector_functions import FeatureSums, LogisticGradient, SquaredGradient
from dither.privacy.charges.measures import zcdp
from dither.privacy.charges.rules import Rule, charge
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.losses import BoundedRange, PoissonSampled, RoundedGaussian
from tests.datasets.regional_clinic import GAUSSIAN, TRUE_COUNT, Clinic

FEATURES = (Intercept(), OneHot("ward"), Scaled("q0"))
THETA = (3000, *range(-20_000, 20_000, 5000), 700)
GRADIENT = LogisticGradient("q1", 0, THETA)
VECTORS = UnitVectors(Scan("visits"), FEATURES, GRADIENT, F(2), F(1, 512))
SAMPLED = replace(VECTORS, rate=F(1, 4))
KEY = bytes(range(32))


def ask(query: Query, family: str = "vectors_rounded_gaussian", **price: Any) -> Request:
    prices = {name: F(str(value)) for name, value in price.items()}
    return Request((Step(query, family, F(1)),), Price(**prices), "total")


@pytest.fixture
def kernel(visits: Clinic) -> Kernel:
    visits.open(**(GAUSSIAN | {"rho": 10**9, "ceiling": 10**9}))
    return visits.kernel()


def list_visits() -> list[tuple[int, Row]]:
    """The rows of `write_sources`: visit i is of patient i mod 400, in ward i mod 8, all yes."""
    answers = {f"q{number}": 1 for number in range(16)}
    return [(i % TRUE_COUNT, {"ward": i % 8, **answers}) for i in range(3 * TRUE_COUNT)]


def measure(kernel: Kernel, query: UnitVectors, key: bytes | None = None) -> list[int]:
    measurer = kernel.connect(kernel.version)
    try:
        measurer.prepare(query)
        return [int(number) for number in measurer.measure(query, key)[:, 0]]
    finally:
        measurer.close()


def test_the_loss_is_that_of_noise_on_the_clipped_norm(kernel: Kernel) -> None:
    """Whatever the rows: clip 2 in steps of 1/512 is a norm of 1,024."""
    loss = kernel.price(ask(VECTORS, rho="0.5")).loss
    assert isinstance(loss, RoundedGaussian) and loss.l2_squared == 1024**2
    assert F("0.499") < zcdp(loss)[0] <= F(1, 2)


def test_a_sample_is_priced_by_its_amplified_loss(kernel: Kernel) -> None:
    loss = kernel.price(ask(SAMPLED, rho="0.5")).loss
    assert isinstance(loss, PoissonSampled) and loss.q == F(1, 4)
    assert loss.loss == kernel.price(ask(VECTORS, rho="0.5")).loss


@pytest.mark.parametrize(
    "query",
    [
        VECTORS,
        replace(VECTORS, function=SquaredGradient("q2", THETA), resolution=F(1, 100)),
        replace(VECTORS, function=FeatureSums(), features=(Intercept(),), clip=F(3)),
        replace(
            VECTORS,
            plan=Filter(Scan("visits"), Compare("ward", "=", "c")),
            features=(Binned("q3", (F(1),)), OneHot("ward")),
            function=FeatureSums(),
        ),
    ],
    ids=["gradient", "squares", "no column", "a filter"],
)
def test_sums_of_registered_rows_are_those_of_the_oracle(
    kernel: Kernel, query: UnitVectors
) -> None:
    """Eight rows of a patient at most, three here, that the engine brings together."""
    columns = kernel.version.analyses.analyse_query(query).rows.columns
    is_filtered = isinstance(query.plan, Filter)
    rows = [(str(unit), row) for unit, row in list_visits() if not is_filtered or row["ward"] == 2]
    expected = add_vectors(query, rows, columns)
    assert any(expected) and measure(kernel, query) == expected


def test_batches_of_the_engine_are_as_small_as_stated_and_no_unit_is_cut(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory that is stated counts on it. Units of three rows lie across batches of 100."""
    expected = measure(kernel, VECTORS)
    sizes: list[int] = []
    read = data_measure.read_batches

    def note(*arguments: Any) -> Any:
        for units, columns in read(*arguments):
            sizes.append(len(units))
            yield units, columns

    monkeypatch.setattr(data_measure, "read_batches", note)
    monkeypatch.setattr(data_measure, "count_batch_rows", lambda *_: 100)
    assert measure(kernel, VECTORS) == expected
    assert max(sizes) == 100 and sum(sizes) == 3 * TRUE_COUNT


def test_a_sample_of_registered_units_has_whole_units(kernel: Kernel) -> None:
    """One key, one sample; other keys draw others. With the intercept alone, clipped to 3 rows of
    1 step each, the sum is three times the members."""
    counting = replace(
        VECTORS, features=(Intercept(),), function=FeatureSums(), clip=F(3), resolution=F(1),
        rate=F(1, 4),
    )  # fmt: skip
    (first,) = measure(kernel, counting, KEY)
    (again,) = measure(kernel, counting, KEY)
    others = {measure(kernel, counting, bytes([n]) * 32)[0] for n in range(8)}
    assert first == again and first % 3 == 0 and len(others) > 1
    assert all(abs(total / 3 - 100) < 8 * 8.7 for total in others)  # 8 standard deviations
    units = np.arange(10**4)
    assert draw_units(units, F(1, 4), KEY, counting.hash).any()


def test_noise_lies_on_the_exact_sum_and_a_repeat_is_free(kernel: Kernel) -> None:
    """At rho 1e9 noise of 1/44 is never drawn (a chance below 1e-100)."""
    request = ask(VECTORS, rho="1000000000")
    released = kernel.answer(request)
    assert list(released.values[0]) == measure(kernel, VECTORS)
    again = kernel.answer(request)
    assert again.repeated and again.values == released.values and again.charged == 0


def test_the_steepest_coordinate_is_chosen(kernel: Kernel) -> None:
    """All labels are 1, so the gradient's intercept is below 0: its negative is the steepest."""
    vectors = replace(VECTORS, features=FEATURES[:2], function=LogisticGradient("q1", 1, (0,) * 9))
    numbers = measure(kernel, vectors)
    signed = (*range(1, 10), *range(-9, 0))
    query = Scores(vectors, Coordinates(signed))
    (step,) = kernel.price(ask(query, "scores_exponential", rho="1")).steps
    assert step.mechanism.parameters["scale"] > 2 * 1024 / 8**0.5 * 0.999  # factor 2, norm 1,024
    assert isinstance(step.loss(), BoundedRange)
    ((chosen,),) = kernel.answer(ask(query, "scores_exponential", rho="1000000")).values
    best = max(range(18), key=lambda i: numbers[abs(signed[i]) - 1] * (1 if signed[i] > 0 else -1))
    assert chosen == best and signed[best] == -1


def test_a_lease_keeps_its_rows_and_mixes_no_labels(kernel: Kernel) -> None:
    """The second query reads no rows again; one with another label over the same columns does."""
    features = (Scaled("q0"), Scaled("q1"))
    first = replace(VECTORS, features=features, function=LogisticGradient("q0", 1, (1, 2)))
    second = replace(first, function=LogisticGradient("q0", 1, (9, 9)))
    third = replace(first, function=LogisticGradient("q1", 0, (9, 9)))
    measurer = kernel.connect(kernel.version)
    measurer.keeps_rows = True
    numbers = [measurer.measure(query).tolist() for query in (first, second)]
    kept = measurer._kept
    numbers.append(measurer.measure(third).tolist())
    assert kept is not None and measurer._kept is not kept
    measurer.close()
    assert measurer._kept is None
    for query, sums in zip((first, second, third), numbers, strict=True):
        assert [number for (number,) in sums] == measure(kernel, query)


REFUSED: dict[str, Request] = {
    "epsilon buys no Gaussian noise without a delta": ask(VECTORS, epsilon=1),
    "noise of another family": ask(VECTORS, "linear_rounded_gaussian", rho=1),
    "vectors for noise on cells": ask(VECTORS, "gaussian", rho=1),
    "a sample with a second step": Request(
        (
            Step(SAMPLED, "vectors_rounded_gaussian", F(1)),
            Step(SAMPLED, "vectors_rounded_gaussian", F(1)),
        ),
        Price(rho=F(1)),
        "total",
    ),
    "a choice by a sample": ask(Scores(SAMPLED, Coordinates((1,))), "scores_exponential", rho=1),
    "a theta too short": ask(replace(VECTORS, function=LogisticGradient("q1", 0, (1,))), rho=1),
    "a function of another type": ask(replace(VECTORS, function=len), rho=1),  # type: ignore[arg-type]
    "sigma above the sampler's": ask(VECTORS, rho="1e-20"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_rule_is_refused_before_any_charge(
    visits: Clinic, kernel: Kernel, name: str
) -> None:
    with pytest.raises((RefusedError, ValueError)):
        kernel.answer(REFUSED[name])
    assert visits.spent() == {"total": 0}


def test_explain_names_function_sample_and_clip() -> None:
    assert describe_query(VECTORS) == "LogisticGradient summed over all units, clipped to 2"
    assert "a sample of units at rate 1/4" in describe_query(SAMPLED)
    chosen = describe_query(Scores(VECTORS, Coordinates((1, -1))))
    assert chosen == "the best Coordinates over " + describe_query(VECTORS)


def list_law(sigma: float, centre: int, share: float) -> dict[int, float]:
    """Rounded Gaussian noise on 0, or with this share on `centre`: differences of Phi."""

    def mass(z: int, middle: int) -> float:
        scale = sigma * 2**0.5
        return (math.erf((z - middle + 0.5) / scale) - math.erf((z - middle - 0.5) / scale)) / 2

    return {z: (1 - share) * mass(z, 0) + share * mass(z, centre) for z in range(-8000, 9024)}


def test_the_exact_law_of_a_sample_keeps_its_charge_and_without_the_sample_breaks_it(
    kernel: Kernel,
) -> None:
    """The farthest neighbour: one unit of norm B = 1,024 among nobody, in the sample or not,
    probability by probability. Planted bug: the unit is always in."""
    loss = kernel.price(ask(SAMPLED, rho="0.5")).loss
    assert isinstance(loss, PoissonSampled) and isinstance(loss.loss, RoundedGaussian)
    rule = Rule("approx", delta=F(1, 1000), delta_per_question=F(1, 1000))
    paid = charge(loss, rule)
    sigma = float(loss.loss.sigma)
    empty = list_law(sigma, 1024, 0.0)
    for claim in (list_law(sigma, 1024, 0.25), list_law(sigma, -1024, 0.25)):
        verdict = judge(empty, claim, epsilon=paid.amount, delta=float(paid.delta))
        assert verdict.outcome == "holds on this pair"
    always = judge(empty, list_law(sigma, 1024, 1.0), epsilon=paid.amount, delta=float(paid.delta))
    assert always.outcome == "violated"
