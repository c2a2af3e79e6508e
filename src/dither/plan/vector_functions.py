"""Functions of rows whose sums are learnt from: gradients, moments, sums of features, trees.

A closed set. Every function makes of one row with features x (integers, steps of 2**-12) the outer
product of x with a few integers, the *factors* of the row: residuals of a model in steps of 2**-16.
`theta` is public, in steps of 2**-16. Linear and ridge regression share `SquaredGradient`: a
penalty depends on theta alone, and is added after the release. A row whose label is null has the
factors 0. Proof: docs/proofs/unit-vectors.md#functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from dither.errors import RefusedError
from dither.plan.domain import Columns
from dither.plan.encodings import (
    FEATURE_SCALE,
    MOST_FEATURES,
    OneHot,
    find_values,
    resolve_feature,
)
from dither.plan.keys import bounds_in
from dither.plan.network_functions import NetworkGradient, count_weights, is_network
from dither.plan.tree_functions import (
    TreeCounts,
    TreeGradient,
    are_splits,
    count_leaves,
    is_forest,
    list_splits,
)
from dither.rules import PrivacyRule
from dither.stored import stored

THETA_SCALE = 1 << 16
FACTOR_SCALE = 1 << 16
"""So many steps are the residual 1."""
MOST_FACTOR = 1 << 28
"""Residuals are cut off here: 4,096."""
MOST_CLASSES = 256
MOST_EXACT = 1 << 53
"""Integers of this size and below are exact floats."""


@stored("featuresums")
@dataclass(frozen=True)
class FeatureSums:
    """The features themselves: histograms, and counts of bins."""


@stored("secondmoments", label="label")
@dataclass(frozen=True)
class SecondMoments:
    """All products of two of (x, y): X'X, X'y and y'y, the upper triangle row by row."""

    label: str


@stored("logisticgradient", label="label", positive="positive", theta="theta")
@dataclass(frozen=True)
class LogisticGradient:
    """(sigmoid(x theta) - y) x, where y is 1 for the listed value number `positive`, else 0."""

    label: str
    positive: int
    theta: tuple[int, ...]


@stored("hubergradient", label="label", positive="positive", theta="theta")
@dataclass(frozen=True)
class HuberGradient:
    """The gradient of a support vector machine whose hinge is rounded from 1/2 to 3/2."""

    label: str
    positive: int
    theta: tuple[int, ...]


@stored("multinomialgradient", label="label", theta="theta")
@dataclass(frozen=True)
class MultinomialGradient:
    """(softmax(x theta) - y) x: theta has one row for each listed value of the label."""

    label: str
    theta: tuple[tuple[int, ...], ...]


@stored("squaredgradient", label="label", theta="theta")
@dataclass(frozen=True)
class SquaredGradient:
    """(x theta - y) x, with y moved from the bounds of its column to [-1, 1]."""

    label: str
    theta: tuple[int, ...]


@stored("poissongradient", label="label", theta="theta")
@dataclass(frozen=True)
class PoissonGradient:
    """(exp(x theta) - y) x, with exponents up to 8."""

    label: str
    theta: tuple[int, ...]


@stored("coordinategradient", label="label", theta="theta")
@dataclass(frozen=True)
class CoordinateGradient:
    """(x theta - y) x as in `SquaredGradient`, for choices by coordinates: every number of a unit's
    vector is cut off at the clip, in place of its norm."""

    label: str
    theta: tuple[int, ...]


@stored("nearestsums", theta="theta")
@dataclass(frozen=True)
class NearestSums:
    """The features of the rows that score highest in each row of theta; the first wins a tie.

    A centre c with the weights c, and -|c|^2 / 2 for the intercept, scores highest where it is
    nearest.
    """

    theta: tuple[tuple[int, ...], ...]


VectorFunction: TypeAlias = (
    FeatureSums
    | SecondMoments
    | LogisticGradient
    | HuberGradient
    | MultinomialGradient
    | SquaredGradient
    | PoissonGradient
    | CoordinateGradient
    | NearestSums
    | TreeCounts
    | TreeGradient
    | NetworkGradient
)
_BINARY = (LogisticGradient, HuberGradient, TreeGradient)
_NUMERIC = (SecondMoments, SquaredGradient, PoissonGradient, CoordinateGradient)
_UNLABELLED = (FeatureSums, NearestSums)
_COUNTED = (FeatureSums, NearestSums, TreeCounts)
"""Functions whose vectors are features as they are."""
_FACTORED = (
    FeatureSums,
    NearestSums,
    LogisticGradient,
    HuberGradient,
    MultinomialGradient,
    SquaredGradient,
    PoissonGradient,
)


def list_thetas(function: VectorFunction) -> tuple[tuple[int, ...], ...]:
    """The rows of theta, one for each factor; none where the function has no theta."""
    theta = getattr(function, "theta", ())
    if isinstance(function, (MultinomialGradient, NearestSums)):
        return function.theta
    return (theta,) if theta else ()


def is_cut_by_number(function: VectorFunction) -> bool:
    """Whether the clip bounds every number of a vector, in place of its L2 norm."""
    return isinstance(function, CoordinateGradient)


def has_factors(function: VectorFunction) -> bool:
    """Whether a row's vector is all products of its features with a few factors, the norm of which
    is clipped."""
    return isinstance(function, _FACTORED)


def vector_scale(function: VectorFunction) -> int:
    """So many steps of a vector are the number 1."""
    if isinstance(function, _COUNTED):
        return FEATURE_SCALE
    if isinstance(function, TreeGradient):
        return FACTOR_SCALE
    if isinstance(function, SecondMoments):
        return FEATURE_SCALE**2
    return FACTOR_SCALE * FEATURE_SCALE


def vector_length(function: VectorFunction, features: int) -> int:
    """How many numbers a vector has."""
    if isinstance(function, SecondMoments):
        return (features + 1) * (features + 2) // 2
    if isinstance(function, TreeGradient):
        return 2 * count_leaves(function.splits)
    if isinstance(function, TreeCounts):
        width = 1 if function.is_leaf else features
        return count_leaves(function.splits) * function.classes * width
    if isinstance(function, NetworkGradient):
        return count_weights(function.layers)
    return max(1, len(list_thetas(function))) * features


def largest_step(function: VectorFunction) -> int:
    """The largest number of the vector of one row, in steps."""
    if isinstance(function, _COUNTED):
        return FEATURE_SCALE
    if isinstance(function, TreeGradient):
        return FACTOR_SCALE
    if isinstance(function, SecondMoments):
        return FEATURE_SCALE**2
    return MOST_FACTOR * FEATURE_SCALE


def check_function(function: Any) -> None:
    """Refuse what is no function, or has a theta of other integers, before it is walked."""
    if type(function) not in VectorFunction.__args__:
        raise _refuse(f"no rule for the function {type(function).__name__}")
    if type(function) is FeatureSums:
        return
    if type(function) not in _UNLABELLED and type(function.label) is not str:
        raise _refuse("a label is the name of a column")
    if type(function) in _BINARY and (type(function.positive) is not int or function.positive < 0):
        raise _refuse("the positive value of a label is its number among the listed values")
    if type(function) in (TreeCounts, TreeGradient):
        _check_trees(function)
        return
    if type(function) is NetworkGradient:
        if not is_network(function.layers):
            raise _refuse(
                "a network is a tuple of layers of integers that fit together: the activations "
                "none, relu and tanh, up to 8 layers of up to 256 outputs, and a last layer of "
                "scores"
            )
        return
    if type(function) in (MultinomialGradient, NearestSums):
        fewest = 1 if type(function) is NearestSums else 2
        if type(function.theta) is not tuple or not fewest <= len(function.theta) <= MOST_CLASSES:
            raise _refuse(f"theta has a row for each of up to {MOST_CLASSES} classes or centres")
        thetas = function.theta
    else:
        thetas = (function.theta,) if type(function) is not SecondMoments else ()
    if not all(map(_is_theta, thetas)):
        raise _refuse("theta is a tuple of integers in steps of 2**-16: 65536 is 1")


def _check_trees(function: TreeCounts | TreeGradient) -> None:
    """Refuse trees that are not complete, or have other numbers."""
    if not are_splits(function.splits):
        raise _refuse("splits are those of a complete tree: ranges (first, stop) of features")
    if isinstance(function, TreeGradient):
        if not is_forest(function.forest):
            raise _refuse("a forest has trees with an integer score for every leaf")
    elif type(function.classes) is not int or not 2 <= function.classes <= MOST_CLASSES:
        raise _refuse(f"a label has 2 to {MOST_CLASSES} classes")
    elif type(function.is_leaf) is not bool:
        raise _refuse("is_leaf is a truth value")


def _is_theta(theta: Any) -> bool:
    return (
        type(theta) is tuple
        and 1 <= len(theta) <= MOST_FEATURES
        and {*map(type, theta)} == {int}
        and sum(map(abs, theta)) * FEATURE_SCALE < MOST_EXACT
    )


def check_label(function: VectorFunction, features: int, columns: Columns) -> None:
    """Refuse a checked function whose theta or label does not fit these features and columns."""
    if any(len(theta) != features for theta in list_thetas(function)):
        raise _refuse(f"theta has one number for each of the {features:,} features")
    if isinstance(function, (TreeCounts, TreeGradient)) and any(
        stop > features for _, stop in list_splits(function)
    ):
        raise _refuse(f"splits are ranges of the {features:,} features")
    if isinstance(function, NetworkGradient) and len(function.layers[0].weights[0]) != features:
        raise _refuse(f"the first layer has a weight for each of the {features:,} features")
    if isinstance(function, _UNLABELLED):
        return
    domain = find_values(function.label, columns)
    if isinstance(function, _NUMERIC):
        bounds_in(function.label, columns)
        return
    # as the sum resolves it, so that a label that has too many values is refused before the charge
    classes = resolve_feature(OneHot(function.label), columns).width - domain.nullable
    if isinstance(function, _BINARY) and function.positive >= classes:
        raise _refuse(f"{function.label} has {classes} listed values, numbered from 0")
    if isinstance(function, TreeCounts) and function.classes != classes:
        raise _refuse(f"{function.label} has {classes} listed values")
    if isinstance(function, MultinomialGradient) and len(function.theta) != classes:
        raise _refuse(f"theta has a row for each of the {classes} listed values of the label")
    if isinstance(function, NetworkGradient) and len(function.layers[-1].weights) != classes:
        raise _refuse(f"the last layer has a score for each of the {classes} listed values")


def _refuse(why: str) -> RefusedError:
    return RefusedError(why, rule=PrivacyRule.NO_RULE)
