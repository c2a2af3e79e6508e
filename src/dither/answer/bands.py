"""Intervals of quantiles: two more private quantiles around each one asked for.

The exponential mechanism's rank error is public (rows), but how far that is in values depends on the data, so no
interval follows from the mechanism alone. Where a group size n is stated, the question asks for the shares q - h and
q + h too, for the same price, with h n at least the rank error of both. If all choices on the way keep their rank error
(chance at least the level), the answer at q - h has at most q n rows below it and the answer at q + h at most (1 - q) n
above it: the exact quantile lies between them, in every group of at least n rows. Where the question also counts the
group's rows, a group whose noisy count does not show it to be that large gets no bound. Without a group size quantiles
have no interval: both ends are null, and the rank error is said in words. Proof: docs/proofs/intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dither.answer.recipe import Recipe
from dither.catalog import Catalog
from dither.plan.algebra import Cells, Count, CountValues, Quantiles
from dither.plan.analyse import analyse
from dither.plan.facts import NO_FACTS, Facts
from dither.plan.grids import points_of
from dither.privacy.mechanisms import JointQuantiles, Quantile

_STEP = 200  # h is a multiple of half a percent
_SPREAD = 64  # places that JointQuantiles spreads the rows of a cell over
_FOR_RANKS = Fraction(9, 10)  # of the miss; the rest for the noisy count


@dataclass(frozen=True)
class Band:
    """The atoms beside a quantile atom, and from which group size on they cover, at which level."""

    low: int | None
    high: int | None
    reach: Fraction
    size: int
    level: Fraction
    count: int | None


@dataclass(frozen=True)
class Bands:
    """What is known about the quantile atoms of a recipe: the cells of their grids, and bands where there are some.

    `coarse` is how far a value may lie above the grid point that stands for it, in its own units.
    """

    cells: tuple[tuple[int, int], ...] = ()
    of: tuple[tuple[int, Band], ...] = ()
    coarse: tuple[tuple[int, Fraction], ...] = ()
    never_null: tuple[int, ...] = ()
    needed: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether some quantile has neither end."""
        return any(band.low is None and band.high is None for _, band in self.of)

    def get(self, atom: int) -> Band | None:
        return dict(self.of).get(atom)

    def note(self, atom: int, level: Fraction, mechanisms: Sequence[Any]) -> str:
        """What a reader must know about the interval of a quantile; empty for other atoms."""
        cells = dict(self.cells).get(atom)
        if cells is None:
            return ""
        rows = max((rank_rows(each, cells, level) for each in mechanisms if _is_quantile(each)), default=0)
        rank = f"with {float(level) * 100:.4g}% confidence the rank is off by at most {rows:,} rows"
        band = self.get(atom)
        if band is None:
            how = "group_size= buys an interval in values"
            if self.needed is not None:
                how = f"an interval in values needs groups of about {self.needed:,} rows, or a higher price"
            return f"a private quantile: {rank}; {how}"
        shown = "checked against the noisy count" if band.count is not None else "as stated"
        return (
            f"a private quantile: {rank}; the interval is the quantiles {float(band.reach) * 100:.4g} points below and "
            f"above, and covers in groups of at least {band.size:,} rows ({shown})"
        )


NO_BANDS = Bands()


def _is_quantile(mechanism: Any) -> bool:
    return isinstance(mechanism, (Quantile, JointQuantiles))


def quantile_atoms(recipe: Recipe) -> tuple[int, ...]:
    """Atoms that are quantiles, whichever set they are answered in."""
    return tuple(
        atom
        for atom in range(len(recipe.atoms))
        if any(isinstance(recipe.queries[of.places[atom][0]], Quantiles) for of in recipe.sets)
    )


def without_bands(recipe: Recipe, catalog: Catalog, facts: Facts = NO_FACTS) -> Bands:
    """The grids of the quantiles asked for."""
    found, coarse, never_null = [], [], []
    for atom in quantile_atoms(recipe):
        query = recipe.queries[recipe.sets[0].places[atom][0]]
        assert isinstance(query, Quantiles)
        points = points_of(query, catalog, facts)
        found.append((atom, points.count))
        coarse.append((atom, (points.step - 1) * recipe.atoms[atom].unit))
        if not analyse(query.plan, catalog, facts).columns[query.column].nullable:
            never_null.append(atom)
    return Bands(tuple(found), coarse=tuple(coarse), never_null=tuple(never_null))


def rank_rows(mechanism: Any, cells: int, level: Fraction) -> int:
    """By how many rows the rank of any answer is off at most, all choices on the way counted, at this level."""
    if isinstance(mechanism, Quantile):
        return mechanism.error().rows(cells, level)
    misses = math.log(float(cells * _SPREAD * 2 * mechanism.levels / (1 - level)))
    return math.ceil(max(_path(mechanism, mechanism.shares, Fraction(0), Fraction(1))) * misses)


def _path(mechanism: JointQuantiles, shares: tuple[Fraction, ...], start: Fraction, end: Fraction) -> list[float]:
    """For each share the sum of scales (in rows) of the choices that lead to it, as the mechanism halves."""
    if not shares:
        return []
    middle = len(shares) // 2
    within = (shares[middle] - start) / (end - start)
    here = float(mechanism.scale(within) / within.denominator)
    below = _path(mechanism, shares[:middle], start, shares[middle])
    above = _path(mechanism, shares[middle + 1 :], shares[middle], end)
    return [*(here + each for each in below), here, *(here + each for each in above)]


def widened(recipe: Recipe, plain: Bands, reach: Fraction, size: int, level: Fraction) -> tuple[Recipe, Bands]:
    """The recipe with two more shares around every quantile, `reach` away, where they lie inside (0, 1)."""
    queries = list(recipe.queries)
    for i, query in enumerate(queries):
        if isinstance(query, Quantiles):
            around = {share + side * reach for share in query.shares for side in (-1, 0, 1)}
            queries[i] = replace(query, shares=tuple(sorted(share for share in around if 0 < share < 1)))
    atoms, places = list(recipe.atoms), [list(of.places) for of in recipe.sets]
    found = []
    for atom in quantile_atoms(recipe):
        ends: list[int | None] = []
        for side in (-1, 1):
            spots = [_spot(recipe, queries, of.places[atom], side * reach) for of in recipe.sets]
            if any(spot is None for spot in spots):
                ends.append(None)
                continue
            ends.append(len(atoms))
            atoms.append(recipe.atoms[atom])
            for into, spot in zip(places, spots, strict=True):
                assert spot is not None
                into.append(spot)
        found.append((atom, Band(ends[0], ends[1], reach, size, level, _count(recipe, atom, atom in plain.never_null))))
    for of, into in zip(recipe.sets, places, strict=True):
        for atom in quantile_atoms(recipe):
            spot = _spot(recipe, queries, of.places[atom], Fraction(0))
            assert spot is not None
            into[atom] = spot
    sets = tuple(replace(of, places=tuple(into)) for of, into in zip(recipe.sets, places, strict=True))
    wide = replace(recipe, queries=tuple(queries), atoms=tuple(atoms), sets=sets)
    return wide, replace(plain, of=tuple(found))


def _spot(recipe: Recipe, queries: Sequence[Any], place: tuple[int, int], shift: Fraction) -> tuple[int, int] | None:
    query, share = place
    asked = recipe.queries[query]
    assert isinstance(asked, Quantiles)
    wanted = asked.shares[share] + shift
    return (query, queries[query].shares.index(wanted)) if wanted in queries[query].shares else None


def _count(recipe: Recipe, atom: int, never_null: bool) -> int | None:
    """An atom that counts the rows with a value of the quantile's column, in the same cells."""
    places = recipe.sets[0].places
    asked = recipe.queries[places[atom][0]]
    assert isinstance(asked, Quantiles)
    for other, (query, column) in enumerate(places):
        beside = recipe.queries[query]
        if isinstance(beside, Cells) and (beside.plan, beside.keys) == (asked.plan, asked.keys):
            aggregate = beside.columns[column]
            if aggregate == CountValues(asked.column) or (never_null and isinstance(aggregate, Count)):
                return other
    return None


def reach_for(mechanisms: Sequence[Any], plain: Bands, size: int, level: Fraction) -> Fraction:
    """The least h, in half percents, whose h * size is at least the rank error of all quantiles."""
    cells = max(cells for _, cells in plain.cells)
    kept = 1 - (1 - level) * _FOR_RANKS
    rows = max(rank_rows(each, cells, kept) for each in mechanisms if _is_quantile(each))
    return max(Fraction(1), Fraction(math.ceil(Fraction((rows + 1) * _STEP, size)))) / _STEP


def count_level(level: Fraction) -> Fraction:
    """The level at which a noisy count must show the group to be large enough."""
    return 1 - (1 - level) * (1 - _FOR_RANKS)
