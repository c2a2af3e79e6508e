"""One sample of everything that is stored under a name of its own: plans, losses, protocols, and
keys of releases."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from dither.local.subjects import EXAMPLES
from dither.plan import algebra as plans
from dither.plan import (
    encodings,
    network_functions,
    tree_functions,
    utilities,
    vector_functions,
)
from dither.plan import operators as ops
from dither.privacy import losses
from dither.privacy.kernel.calibrate import loss_of
from dither.privacy.kernel.release import Version, repeat_key
from dither.privacy.kernel.request import Price, Request, Step
from tests.datasets.clinic import catalog
from tests.kernel.calibrating import calibrate

HALF = Fraction(1, 2)
VISITS = plans.Scan("visits")
AGE = plans.Column("age")
NORTH = plans.Compare("ward", "=", "north")


TOEPLITZ_HANKEL = ops.ToeplitzHankel((3, -1), (0, 2, 1), (1, 5))


def plan_samples() -> list[Any]:
    """Every node of the algebra at least once."""
    call = plans.Call("add", (AGE, plans.Value("number", Fraction(2))))
    conditions = (NORTH, plans.IsNull("age"), plans.Not(NORTH), plans.Holds(call))
    aggregates = (
        plans.Count(),
        plans.CountValues("age"),
        plans.CountDistinct("ward"),
        plans.CountUnits(),
        plans.Sum("age"),
        plans.Minimum("age"),
        plans.Maximum("age"),
    )
    named = tuple(plans.Named(f"n{at}", aggregate) for at, aggregate in enumerate(aggregates))
    return [
        VISITS,
        plans.Filter(VISITS, plans.And((plans.Or(conditions), NORTH))),
        plans.Project(VISITS, (plans.Named("later", call),)),
        plans.Join(VISITS, plans.Scan("wards"), (("ward", "ward"),), "left"),
        plans.UnionAll(VISITS, VISITS),
        plans.Distinct(VISITS, per_unit=True),
        plans.PerUnit(VISITS, ("ward",), named),
        plans.Group(VISITS, ("ward",), named),
        plans.SampleUnits(VISITS, HALF),
        plans.LimitGroups(VISITS, ("ward",), 2),
        plans.Cells(VISITS, ("ward",), aggregates),
        plans.Keys(VISITS, ("ward",)),
        plans.Quantiles(VISITS, ("ward",), "age", (HALF,), (Fraction(19, 20), Fraction(1, 8))),
        plans.Linear(plans.Cells(VISITS, ("ward",), (plans.Count(),)), operator_sample()),
        *(
            plans.Scores(plans.Cells(VISITS, ("ward",), (plans.Count(),)), utility)
            for utility in utility_samples()
        ),
        *vector_samples(),
        plans.Scores(vector_samples()[0], utilities.Coordinates((1, -2))),
        plans.JointScores(
            (plans.Scores(plans.Cells(VISITS, ("ward",), (plans.Count(),)), utility_samples()[1]),)
        ),
        plans.Linear(plans.Cells(VISITS, ("ward",), (plans.Count(),)), TOEPLITZ_HANKEL),
        plans.BlockCounts(
            plans.Cells(VISITS, ("ward",), (plans.Count(),)), "deviation", 3, Fraction(1, 4)
        ),
        plans.Linear(
            plans.Cells(VISITS, ("ward",), (plans.Count(),)), ops.Boxes((2, 2), (0, 1, 1, 1))
        ),
        plans.LimitTotal(VISITS, ("ward",), "age", HALF),
    ]


def vector_samples() -> tuple[plans.UnitVectors, ...]:
    """Every feature and every function of rows, the last one over a sample."""
    features = (
        encodings.Intercept(),
        encodings.Scaled("age"),
        encodings.OneHot("ward"),
        encodings.Binned("age", (Fraction(40), Fraction(65))),
    )
    functions: tuple[vector_functions.VectorFunction, ...] = (
        vector_functions.FeatureSums(),
        vector_functions.SecondMoments("cost"),
        vector_functions.LogisticGradient("ward", 1, (3, -7)),
        vector_functions.HuberGradient("ward", 0, (3, -7)),
        vector_functions.MultinomialGradient("ward", ((1, 2), (3, 4))),
        vector_functions.SquaredGradient("cost", (3, -7)),
        vector_functions.PoissonGradient("age", (3, -7)),
        vector_functions.CoordinateGradient("cost", (3, -7)),
        vector_functions.NearestSums(((1, 2), (3, 4))),
        tree_functions.TreeCounts("ward", 2, ((0, 1),), False),
        tree_functions.TreeGradient(
            "ward", 1, (tree_functions.ScoredTree(((1, 2),), (5, -9)),), ((0, 1),)
        ),
        network_functions.NetworkGradient(
            "ward",
            (
                network_functions.NetworkLayer(((1, 2), (3, -4)), "tanh", True),
                network_functions.NetworkLayer(((1, 2, 3), (4, 5, 6)), "none", False),
            ),
        ),
    )
    return tuple(
        plans.UnitVectors(
            VISITS, features, function, HALF, Fraction(1, 64), HALF if position == 6 else None
        )
        for position, function in enumerate(functions)
    )


def utility_samples() -> tuple[utilities.Utility, ...]:
    """Every utility."""
    candidate = utilities.DistanceCandidate(2, ops.Total(4), (7,))
    return (
        utilities.CellCounts((0, 2)),
        utilities.Distances(3, (candidate,)),
        utilities.RankDistance(HALF),
    )


def operator_sample() -> ops.LinearOperator:
    """Every public operator at least once, but for the Toeplitz-Hankel one."""
    simple = (ops.Identity(4), ops.Total(4), ops.Prefix(4), ops.HaarWavelet(4), ops.Tree(4, 2))
    listed = (ops.Ranges(4, ((0, 1), (2, 3))), ops.Marginal((2, 2), (1,)))
    product = ops.Kronecker((ops.Dense(((1, -2),)), ops.Identity(2)))
    return ops.Stack((*simple, *listed, product))


def loss_samples() -> list[losses.Loss]:
    """Every loss."""
    gaussian = losses.Gaussian("1.1")
    summed = losses.GaussianSum("1.1", 1)
    return [
        losses.Pure(1, unit="person"),
        losses.Approx(1, "1e-6"),
        losses.ZCDP("0.1", "1e-9"),
        losses.RDP(8, "0.5"),
        losses.BoundedRange("0.5"),
        losses.Laplace(2),
        gaussian,
        summed,
        losses.DiscreteLaplace(10, 3),
        losses.DiscreteGaussian(10, 3),
        losses.DiscreteGaussianVector(10, 9),
        losses.RandomizedResponse(1),
        losses.PoissonSampled("0.01", gaussian) * 3,
        losses.SampledWithoutReplacement(100, 10_000, losses.Gaussian("1.1", neighbours="replace")),
        losses.Parallel((losses.Pure(1), losses.Pure("0.5"))),
        losses.Shuffled(1, 1000, theorem="FMT21"),
        losses.Pure(1) + losses.Pure("0.5"),
        losses.RoundedGaussian(10, 9),
        losses.FixedPlan((losses.PoissonSampled("0.01", losses.RoundedGaussian(10, 9)) * 3,)),
        losses.FixedNoise((losses.RoundedGaussian(10, 9), losses.RoundedGaussian(7, 4))),
    ]


def release_keys() -> dict[str, str]:
    """The keys under which releases of each family are stored, on the clinic of the tests."""
    at = Version(1, catalog(), "ab" * 32, "prod")
    count = plans.Cells(VISITS, ("ward",), (plans.Count(),))
    both = plans.Cells(VISITS, ("ward",), (plans.Count(), plans.Sum("age")))
    quantile = plans.Quantiles(VISITS, ("ward",), "age", (HALF,))
    with_ends = plans.Quantiles(
        VISITS, ("ward",), "age", (HALF,), (Fraction(19, 20), Fraction(1, 8))
    )
    two = plans.Quantiles(VISITS, (), "age", (Fraction(1, 4), HALF))
    queries: dict[str, tuple[Any, Any]] = {
        "laplace": (count, "laplace"),
        "gaussian": (count, "gaussian"),
        "box": (both, "box"),
        "exponential": (quantile, "exponential"),
        "with_ends": (with_ends, "exponential"),
        "joint": (two, "exponential"),
        "permute_and_flip": (quantile, "permute_and_flip"),
        "linear_laplace": (plans.Linear(count, ops.HaarWavelet(4)), "linear_laplace"),
        "linear_gaussian": (plans.Linear(count, ops.HaarWavelet(4)), "linear_gaussian"),
        "rounded_gaussian": (count, "rounded_gaussian"),
        "scores_exponential": (plans.Scores(count, utility_samples()[1]), "scores_exponential"),
        "scores_flipped": (plans.Scores(count, utility_samples()[0]), "scores_permute_and_flip"),
        "vectors_gaussian": (vector_samples()[0], "vectors_rounded_gaussian"),
        "vectors_gaussian_sampled": (
            replace(vector_samples()[0], rate=HALF),
            "vectors_rounded_gaussian",
        ),
        "joint_scores": (
            plans.JointScores((plans.Scores(count, utility_samples()[1]),)),
            "joint_scores_exponential",
        ),
        "adaptive_blocks": (plans.BlockCounts(count, "count", 0, HALF), "adaptive_blocks"),
    }
    return {name: _release_key(at, query, family) for name, (query, family) in queries.items()}


def _release_key(at: Version, query: Any, family: Any) -> str:
    price = Price(rho=Fraction(1, 10)) if "gaussian" in family else Price(epsilon=HALF)
    request = Request((Step(query, family, Fraction(1)),), price, "total")
    delta = Fraction(1, 10**9)
    steps = calibrate(request, at.catalog, delta, at.facts)
    return repeat_key(request, steps, loss_of(steps), delta, at)


def stored_texts() -> dict[str, Any]:
    """Everything, as it is stored; by number, since class names may change."""
    return {
        "plans": [plans.to_json(sample) for sample in plan_samples()],
        "losses": [sample.to_json() for sample in loss_samples()],
        "protocols": [sample.document() for sample in EXAMPLES],
        "releases": release_keys(),
    }
