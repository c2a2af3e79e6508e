"""Intervals of quantiles: two more private quantiles for each one asked for, aimed a public number
of rows away.

The exponential mechanism's rank error is public (rows), but how far that is in values depends on
the data, so no interval follows from the mechanism alone. A part of the quantile's price, an eighth
by default, buys two ends that hold the exact quantile between them at the stated level, whatever
the data and however small the group: one with too few rows to say anything has the bounds of the
column for ends. `quantile_intervals=False` buys none: both ends are null, and the rank error is
said in words. Proof: docs/proofs/quantiles.md#ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dither.canonical import Number, exact, number_text
from dither.errors import ParameterError
from dither.laws import RankErrorLaw, find_error_law
from dither.laws.ranks import write_ties
from dither.plan.algebra import Quantiles
from dither.plan.analysed_query import Analyses
from dither.question.recipe import Recipe

_USUAL = Fraction(95, 100)  # ends are bought at least at this level: a lower one is then free
EIGHTH = Fraction(1, 8)
OF_QUANTILES = "a private quantile: "
"""How every note on the interval of a quantile begins."""
"""The share of a quantile's price that pays for its ends.

In ranks the quantile itself then errs by a seventh more than without ends.
"""


@dataclass(frozen=True)
class Ends:
    """The ends that a question asks for.

    Their level, and the share of the price of quantiles that buys them.
    """

    level: Fraction
    price_share: Fraction = EIGHTH


def read_ends(how: bool | Number, level: Fraction) -> Ends | None:
    """Read `quantile_intervals=`: which share of the price of quantiles buys their ends.

    True is an eighth, False is none; a number is the share itself.

    >>> read_ends(True, Fraction(9, 10)), read_ends(False, Fraction(9, 10))
    (Ends(level=Fraction(9, 10), price_share=Fraction(1, 8)), None)
    >>> read_ends("1/3", Fraction(9, 10)).price_share
    Fraction(1, 3)
    """
    if isinstance(how, bool):
        return Ends(level) if how else None
    price_share = exact(how, "quantile_intervals")
    if not 0 < price_share < 1 or price_share.denominator > 1_000_000:
        raise ParameterError(
            f"quantile_intervals is True, False, or a part of the price inside (0, 1), got "
            f"{number_text(price_share)}"
        )
    return Ends(level, price_share)


@dataclass(frozen=True)
class Band:
    """The atoms that are the ends of a quantile atom.

    At the level they hold the quantile between them.
    """

    low: int
    high: int
    level: Fraction
    price_share: Fraction


@dataclass(frozen=True)
class Bands:
    """What is known about the quantile atoms of a recipe: the cells of their grids, and their ends
    if they have any.

    `coarse` is how far a value may lie above the grid point that stands for it, in its own units.
    """

    cells: tuple[tuple[int, int], ...] = ()
    ends: tuple[tuple[int, Band], ...] = ()
    coarse: tuple[tuple[int, Fraction], ...] = ()

    def is_quantile(self, atom: int) -> bool:
        return atom in dict(self.cells)

    def get(self, atom: int) -> Band | None:
        return dict(self.ends).get(atom)

    def note(
        self, atom: int, level: Fraction, laws: Sequence[RankErrorLaw], is_bound: bool = True
    ) -> str:
        """Write what a reader must know about the interval of a quantile; empty for other atoms.

        `laws` are those of all quantiles that the column reads. `is_bound`: whether the ends of the
        quantile bound it.
        """
        cells = dict(self.cells).get(atom)
        if cells is None:
            return ""
        rank = (
            f"with {float(level) * 100:.4g}% confidence the rank is off by at most "
            f"{write_rank_rows(laws, cells, level)}"
        )
        band = self.get(atom)
        if band is None:
            return f"{OF_QUANTILES}{rank}; no interval in values was bought"
        if not is_bound:
            return f"{OF_QUANTILES}{rank}; its own interval does not bound this column"
        away = max((law.aimed_rows for law in laws), default=0)
        how = "two more private quantiles" if level <= band.level else "null, and known up to"
        how += (
            ""
            if level <= band.level
            else f" {float(band.level) * 100:.4g}%: two more private quantiles"
        )
        return (
            f"{OF_QUANTILES}{rank}; its interval, in values, is {how}, aimed {away:,} rows below "
            f"and above and at most {2 * away:,} rows away, for {band.price_share} of its price "
            "(quantile_intervals=False leaves them out)"
        )


NO_BANDS = Bands()


def list_quantile_atoms(recipe: Recipe) -> tuple[int, ...]:
    """List the atoms that are quantiles, in any grouping set."""
    return tuple(
        atom
        for atom in range(len(recipe.atoms))
        if any(
            isinstance(recipe.queries[grouping_set.positions[atom][0]], Quantiles)
            for grouping_set in recipe.sets
        )
    )


def read_quantile_grids(recipe: Recipe, analyses: Analyses) -> Bands:
    """Read the grids of the quantiles that a recipe asks for."""
    cells = []
    coarse = []
    for atom in list_quantile_atoms(recipe):
        query = recipe.queries[recipe.sets[0].positions[atom][0]]
        assert isinstance(query, Quantiles)
        points = analyses.analyse_query(query).points
        cells.append((atom, points.count))
        coarse.append((atom, (points.step - 1) * recipe.atoms[atom].unit))
    return Bands(tuple(cells), coarse=tuple(coarse))


def list_rank_laws(mechanism: Any) -> list[RankErrorLaw]:
    """The error laws of all quantiles that a mechanism chooses.

    None where it chooses no quantiles.
    """
    if not isinstance(find_error_law(mechanism), RankErrorLaw):
        return []
    return [find_error_law(mechanism, column) for column in range(len(mechanism.shares))]


def count_rank_rows(mechanism: Any, cells: int, level: Fraction) -> int:
    """Count the rows by which the rank of any answer is off at most.

    This holds over all choices at once, at this level.
    """
    return max(law.rows(cells, level) for law in list_rank_laws(mechanism))


def write_rank_rows(laws: Sequence[RankErrorLaw], cells: int, level: Fraction) -> str:
    """Write by how many rows ranks are off at most, and what ties add to that."""
    rows = max((law.rows(cells, level) for law in laws), default=0)
    tied_share = max((law.tied_share for law in laws), default=Fraction(0))
    return f"{rows:,} rows{write_ties(tied_share)}"


def find_bought_level(ends: Ends) -> Fraction:
    """Find the level at which ends are bought: the one asked for or 95 %, whichever is higher."""
    return max(ends.level, _USUAL)


def add_quantile_ends(
    recipe: Recipe, plain: Bands, ends: Ends, usable: frozenset[int] | None = None
) -> tuple[Recipe, Bands]:
    """Add two ends to every quantile of a query with a usable one; None: all are usable."""
    level = find_bought_level(ends)
    price_share = ends.price_share
    chosen = [atom for atom in list_quantile_atoms(recipe) if usable is None or atom in usable]
    paid = {grouping_set.positions[atom][0] for grouping_set in recipe.sets for atom in chosen}
    queries = tuple(
        replace(query, ends=(level, price_share))
        if index in paid and isinstance(query, Quantiles)
        else query
        for index, query in enumerate(recipe.queries)
    )
    atoms = list(recipe.atoms)
    positions = [list(grouping_set.positions) for grouping_set in recipe.sets]
    bands = []
    for atom in list_quantile_atoms(recipe):
        if all(grouping_set.positions[atom][0] not in paid for grouping_set in recipe.sets):
            continue
        bands.append((atom, Band(len(atoms), len(atoms) + 1, level, price_share)))
        atoms += [recipe.atoms[atom]] * 2
        for into in positions:
            query, share = into[atom]
            quantile_query = queries[query]
            assert isinstance(quantile_query, Quantiles)
            into += [
                (query, share + len(quantile_query.shares)),
                (query, share + 2 * len(quantile_query.shares)),
            ]
    sets = tuple(
        replace(grouping_set, positions=tuple(into))
        for grouping_set, into in zip(recipe.sets, positions, strict=True)
    )
    return replace(recipe, queries=queries, atoms=tuple(atoms), sets=sets), replace(
        plain, ends=tuple(bands)
    )
