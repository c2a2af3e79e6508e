"""Features: public encodings of columns as integers, of which the vectors of units are made.

A feature lies between -1 and 1 in steps of 2**-12; the integer is the number of steps. What an
encoding means follows from the request and the catalog alone, so that a row's features depend on
that row and nothing else. Proof: docs/proofs/unit-vectors.md#features.

>>> age = Domain("number", True, 0, 100)
>>> bins = Binned("age", (Fraction(40), Fraction(60)))
>>> [resolve_feature(feature, {"age": age}).width for feature in (Scaled("age"), bins)]
[1, 4]
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any, TypeAlias

from dither.errors import RefusedError
from dither.plan.domain import Columns, Domain, is_stored
from dither.plan.keys import bounds_in, list_keys
from dither.rules import PrivacyRule
from dither.stored import stored

FEATURE_SCALE = 1 << 12
"""So many steps are the feature 1."""
MOST_FEATURES = 4096
MOST_VALUE = 1 << 50
"""Values of a column beyond this have no exact float."""


@stored("intercept")
@dataclass(frozen=True)
class Intercept:
    """The feature 1 in every row."""


@stored("scaled", column="column")
@dataclass(frozen=True)
class Scaled:
    """A number, moved from the bounds of its column to [-1, 1]; null is 0."""

    column: str


@stored("onehot", column="column")
@dataclass(frozen=True)
class OneHot:
    """A feature for every listed value of a column, in the order of GROUP BY; null is the last."""

    column: str


@stored("binned", column="column", edges="edges")
@dataclass(frozen=True)
class Binned:
    """A feature for every bin of a number: below the first edge, from each edge to the next one,
    and null where the column has nulls."""

    column: str
    edges: tuple[Fraction, ...]


Feature: TypeAlias = Intercept | Scaled | OneHot | Binned


@dataclass(frozen=True)
class ResolvedFeature:
    """A feature with the public facts of its column, in integers of the column's grid.

    `edges` are the first integers of the bins but the first one: of listed values too.
    """

    column: str | None
    width: int
    low: int = 0
    high: int = 0
    null: int | None = None
    edges: tuple[int, ...] | None = None


def resolve_features(features: Any, columns: Columns) -> tuple[ResolvedFeature, ...]:
    """All features, each with the facts of its column; refused where there are too many."""
    check_features(features)
    resolved = tuple(resolve_feature(feature, columns) for feature in features)
    if sum(feature.width for feature in resolved) > MOST_FEATURES:
        raise RefusedError(
            f"more than {MOST_FEATURES:,} features: use fewer columns or bins",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    return resolved


def check_features(features: Any) -> None:
    """Refuse what is no list of features, before it is walked."""
    is_sound = type(features) is tuple and 1 <= len(features) <= MOST_FEATURES
    if not is_sound or not all(map(_is_feature, features)):
        raise RefusedError(
            "features are a tuple of Intercept, Scaled, OneHot and Binned, with increasing edges",
            rule=PrivacyRule.NO_RULE,
        )


def _is_feature(feature: Any) -> bool:
    if type(feature) is Intercept:
        return True
    if type(feature) not in (Scaled, OneHot, Binned) or type(feature.column) is not str:
        return False
    return type(feature) is not Binned or _is_increasing(feature.edges)


def _is_increasing(edges: Any) -> bool:
    if type(edges) is not tuple or not 1 <= len(edges) <= MOST_FEATURES:
        return False
    return all(map(is_short, edges)) and all(low < high for low, high in pairwise(edges))


def is_short(number: Any) -> bool:
    """Whether it is an exact number of at most 64 bits above and below the line."""
    return type(number) is Fraction and max(abs(number.numerator), number.denominator) < 1 << 64


def resolve_feature(feature: Feature, columns: Columns) -> ResolvedFeature:
    """One feature with the facts of its column; refused where the column has no such values."""
    if isinstance(feature, Intercept):
        return ResolvedFeature(None, 1)
    domain = find_values(feature.column, columns)
    null = domain.high + 1 if domain.nullable else None
    if isinstance(feature, Scaled):
        bounds = bounds_in(feature.column, columns)
        return ResolvedFeature(feature.column, 1, bounds.low, bounds.high, null)
    if isinstance(feature, OneHot):
        listed = list_keys(feature.column, domain)
        if listed.size > MOST_FEATURES:
            raise RefusedError(
                f"{feature.column} has {listed.size:,} values: put them into bins",
                rule=PrivacyRule.BOUNDED_WORK,
            )
        starts = tuple(range(listed.first + 1, listed.first + listed.size))
    else:
        bounds_in(feature.column, columns)
        # edges beyond the bounds cut off nothing more than the bounds do, and fit 64 bits there
        starts = tuple(
            min(max(ceil(edge / domain.step), domain.low), domain.high + 1)
            for edge in feature.edges
        )
    width = 1 + len(starts) + domain.nullable
    return ResolvedFeature(feature.column, width, domain.low, domain.high, null, starts)


def find_values(column: str, columns: Columns) -> Domain:
    """The domain of a column of bounded integers; refused where it is none."""
    domain = columns.get(column)
    if domain is None or not is_stored(domain):
        raise RefusedError(
            f"{column} is no number or category of these rows: name a column with bounds or "
            f"listed values",
            rule=PrivacyRule.BOUNDS,
        )
    if domain.largest >= MOST_VALUE:
        raise RefusedError(
            f"{column} has values of more than 50 bits: round it, or narrow its bounds",
            rule=PrivacyRule.WIDTHS,
        )
    return domain
