"""Requests for vectors of units: what is refused before any data is read, and stated memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

from dither.catalog import parse
from dither.data.vectors.add_up import add_unit_vectors, encode_rows
from dither.errors import RefusedError
from dither.plan import vector_functions as functions
from dither.plan.algebra import Cells, Count, Distinct, Scores, UnitVectors
from dither.plan.analysed_query import Analyses
from dither.plan.encodings import Binned, Intercept, OneHot, Scaled
from dither.plan.utilities import CellCounts, Coordinates
from dither.plan.vectors import kept_bytes, vector_bytes
from tests.plan.vector_samples import FEATURES, FUNCTIONS, ROWS, THETA, write_catalog

SOUND = UnitVectors(ROWS, FEATURES, FUNCTIONS["logistic"], F(1), F(1, 100))
LOGISTIC = functions.LogisticGradient
REFUSED: dict[str, UnitVectors] = {
    "no features": replace(SOUND, features=()),
    "a list of features": replace(SOUND, features=[Intercept()]),  # type: ignore[arg-type]
    "no feature": replace(SOUND, features=("x",)),  # type: ignore[arg-type]
    "an unknown column": replace(SOUND, features=(Scaled("nothing"),)),
    "the owner": replace(SOUND, features=(OneHot("pid"),)),
    "undeclared labels": replace(SOUND, features=(OneHot("word"),)),
    "a scaled category": replace(SOUND, features=(Scaled("b"),)),
    "a number of 57 bits": replace(SOUND, features=(Scaled("long"),)),
    "edges that fall": replace(SOUND, features=(Binned("a", (F(2), F(1))),)),
    "a float edge": replace(SOUND, features=(Binned("a", (0.5,)),)),  # type: ignore[arg-type]
    "a long edge": replace(SOUND, features=(Binned("a", (F(1, 2**64),)),)),
    "too many bins": replace(
        SOUND, features=tuple(Binned("x", tuple(F(n) for n in range(999))) for _ in range(5))
    ),
    "no function": replace(SOUND, function="logistic"),  # type: ignore[arg-type]
    "a short theta": replace(SOUND, function=LOGISTIC("b", 1, THETA[1:])),
    "a float theta": replace(SOUND, function=LOGISTIC("b", 1, (0.5,) * 10)),  # type: ignore[arg-type]
    "a theta of truths": replace(SOUND, function=LOGISTIC("b", 1, (True,) * 10)),
    "a large theta": replace(SOUND, function=LOGISTIC("b", 1, (2**40,) * 10)),
    "no such class": replace(SOUND, function=LOGISTIC("b", 3, THETA)),
    "a negative class": replace(SOUND, function=LOGISTIC("b", -1, THETA)),
    "a label that is no number": replace(SOUND, function=functions.SquaredGradient("b", THETA)),
    "an unknown label": replace(SOUND, function=LOGISTIC("nothing", 0, THETA)),
    "classes too few": replace(SOUND, function=functions.MultinomialGradient("b", (THETA, THETA))),
    "no clip": replace(SOUND, clip=F(0)),
    "a float clip": replace(SOUND, clip=0.5),  # type: ignore[arg-type]
    "a clip below one step": replace(SOUND, clip=F(1, 101)),
    "too many steps": replace(SOUND, resolution=F(1, 2**25)),
    "rate 1": replace(SOUND, rate=F(1)),
    "a rate that is not dyadic": replace(SOUND, rate=F(1, 100)),
    "a float rate": replace(SOUND, rate=0.25),  # type: ignore[arg-type]
    "rows without an owner": replace(SOUND, plan=Distinct(ROWS, False)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_rule_is_refused(name: str) -> None:
    analyses = Analyses(parse(write_catalog()))
    assert analyses.analyse_query(SOUND).released_rows == 10
    with pytest.raises(RefusedError):
        _ = analyses.analyse_query(REFUSED[name]).released_rows


@pytest.mark.parametrize("gradient", [LOGISTIC, functions.HuberGradient])
def test_a_label_of_too_many_values_is_refused_before_the_charge(gradient: Any) -> None:
    """A number can be a label while its values can be told apart, of which 4,096 are the most: the
    sum itself would refuse it, when it is paid."""
    analyses = Analyses(parse(write_catalog().replace("[0, 9]", "[0, 9999]")))
    with pytest.raises(RefusedError, match="y has 10,000 values"):
        _ = analyses.analyse_query(replace(SOUND, function=gradient("y", 0, THETA))).released_rows


def test_a_sample_under_replace_is_refused() -> None:
    """Amplification is proved for add/remove; under replace nothing relates the two samples."""
    sampled = replace(SOUND, rate=F(1, 4))
    assert Analyses(parse(write_catalog())).analyse_query(sampled).released_rows == 10
    with pytest.raises(RefusedError, match="add_remove"):
        _ = Analyses(parse(write_catalog(3, "replace"))).analyse_query(sampled).released_rows


def test_more_rows_of_a_unit_than_sum_up_exactly_are_refused() -> None:
    """2**40 steps a row, and 2**53 are exact: 8,191 rows pass, 8,192 do not."""
    for rows, is_refused in ((8191, False), (8192, True)):
        catalog = write_catalog(rows).replace("max_rows: 1000", "max_rows: 100000")
        analysed = Analyses(parse(catalog)).analyse_query(SOUND)
        if is_refused:
            with pytest.raises(RefusedError, match="limit the rows"):
                _ = analysed.released_rows
        else:
            assert analysed.released_rows == 10


@pytest.mark.parametrize(
    "query",
    [
        Scores(SOUND, CellCounts((0,))),
        Scores(Cells(ROWS, ("a",), (Count(),)), Coordinates((1,))),
        Scores(SOUND, Coordinates((11,))),
        Scores(SOUND, Coordinates((-11,))),
        Scores(SOUND, Coordinates((0,))),
        Scores(SOUND, Coordinates(())),
        Scores(SOUND, Coordinates((True,))),
        Scores(replace(SOUND, rate=F(1, 2)), Coordinates((1,))),
        Scores(replace(SOUND, clip=F(0)), Coordinates((1,))),
    ],
    ids=[
        "counts of vectors",
        "coordinates of cells",
        "a number too many",
        "its negative",
        "number 0",
        "no candidates",
        "a truth value",
        "a sample",
        "no clip",
    ],
)
def test_a_choice_that_does_not_fit_its_vectors_is_refused(query: Scores) -> None:
    with pytest.raises(RefusedError):
        _ = Analyses(parse(write_catalog())).analyse_query(query).released_rows


def test_the_stated_memory_is_enough() -> None:
    """The peak of a pass over twice as many rows as one batch holds, for short and long vectors."""
    columns = ("a", "b", "x", "y")
    for function, most_rows in (
        (functions.FeatureSums(), 1),
        (functions.SecondMoments("x"), 1),
        (functions.SecondMoments("x"), 2),
    ):
        text = write_catalog(most_rows).replace("max_rows: 1000", "max_rows: 1000000")
        catalog = parse(text)
        query = replace(SOUND, function=function)
        rows = Analyses(catalog).analyse_query(query).rows
        units = np.arange(65536) // most_rows
        batches = ((units, {name: np.zeros(65536, np.int64) for name in columns}) for _ in range(2))
        tracemalloc.start()
        add_unit_vectors(query, rows, encode_rows(query, rows, batches))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= vector_bytes(query, rows) < 2**28
        assert kept_bytes(query, rows) == 10**6 * (2 * 10 + 8 + 8)
