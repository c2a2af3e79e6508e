"""How quantiles are built from a share of the price.

By the exponential mechanism, or by permute-and-flip.

The choices in all cells together are one mechanism for all rows of a unit; or one for the rows in a
cell, counted for each of the unit's g cells; or the same in rho, counted for as many cells as the
unit's rows fill. The one that errs least is taken (`choose_ranges`, `choose_row_ranges`). m
quantiles are `levels` bounded ranges of epsilon / levels each: rho = epsilon^2 / (8 levels). A part
of the share buys the ends of intervals, where asked for: two more bounded ranges for each quantile.
Proof: docs/proofs/kernel.md#calibration.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import NamedTuple

from dither.errors import RefusedError
from dither.plan.algebra import Quantiles
from dither.plan.sensitivity import Reach
from dither.privacy.mechanisms.quantile import (
    FlippedQuantile,
    Quantile,
    rank_sensitivity,
    row_range,
)
from dither.privacy.mechanisms.quantile_ends import QuantilesWithEnds
from dither.privacy.mechanisms.quantiles import JointQuantiles
from dither.privacy.mechanisms.step_terms import Built, Measure, StepTerms
from dither.rules import PrivacyRule


class RowRanges(NamedTuple):
    """How the rows of one unit are counted: rows of one mechanism, and how often it counts.

    `by_rows`: rows that leave and rows that come, one by one; else pairs of them, under replace.
    `copies` is a fraction only in rho, which it multiplies.
    """

    rows: int
    copies: int | Fraction
    by_rows: bool = False


def build_by_exponential(terms: StepTerms) -> Built:
    """Build one quantile by the exponential mechanism, or several by the joint one, in each
    cell."""
    return _choose_by_exponential(terms, RowRanges(*choose_ranges(_reach(terms), terms.measure)))


def build_by_permute_and_flip(terms: StepTerms) -> Built:
    """One quantile by permute-and-flip in each cell; its share is an epsilon."""
    return _choose_by_permute_and_flip(
        terms, RowRanges(*choose_ranges(_reach(terms), terms.measure))
    )


def build_by_exponential_rows(terms: StepTerms) -> Built:
    """The same, where rows may be counted one by one."""
    return _choose_by_exponential(terms, choose_row_ranges(terms))


def build_by_permute_and_flip_rows(terms: StepTerms) -> Built:
    """The same, where rows may be counted one by one."""
    return _choose_by_permute_and_flip(terms, choose_row_ranges(terms))


def _choose_by_exponential(terms: StepTerms, ranges: RowRanges) -> Built:
    query = terms.query
    assert isinstance(query, Quantiles)
    rows, copies, by_rows = ranges
    share = _share_of_points(query, terms.share / copies)
    epsilon = epsilon_of_ranges(share, len(query.shares).bit_length(), terms.measure)
    point: Quantile | JointQuantiles = (
        Quantile(query.shares[0], epsilon, rows, *terms.adjacency, by_rows)
        if len(query.shares) == 1
        else JointQuantiles(query.shares, epsilon, rows, *terms.adjacency, by_rows)
    )
    return Built(_with_ends(terms, point, copies), copies)


def _choose_by_permute_and_flip(terms: StepTerms, ranges: RowRanges) -> Built:
    """Build one quantile by permute-and-flip in each cell; its share is an epsilon.

    Raises RefusedError for several.
    """
    query = terms.query
    assert isinstance(query, Quantiles)
    rows, copies, by_rows = ranges
    if len(query.shares) > 1:
        raise RefusedError("permute-and-flip chooses one quantile", rule=PrivacyRule.NO_RULE)
    share = _share_of_points(query, terms.share / copies)
    quantile = FlippedQuantile(query.shares[0], share, rows, *terms.adjacency, by_rows)
    return Built(_with_ends(terms, quantile, copies), copies)


def _share_of_points(query: Quantiles, share: Fraction) -> Fraction:
    """Return the part of a share that is left for the quantiles themselves, without their ends."""
    return share if query.ends is None else share * (1 - query.ends[1])


def _with_ends(
    terms: StepTerms, point: Quantile | JointQuantiles, copies: int | Fraction
) -> Quantile | JointQuantiles | QuantilesWithEnds:
    """Add two ends to each quantile, out of the part of the share that is for them."""
    query = terms.query
    assert isinstance(query, Quantiles)
    if query.ends is None:
        return point
    level, for_ends = query.ends
    share_of_end = terms.share / copies * for_ends / (2 * len(query.shares))
    epsilon = epsilon_of_ranges(share_of_end, 1, terms.measure)
    return QuantilesWithEnds(point, epsilon, level, terms.analysed.points.count)


def _reach(terms: StepTerms) -> Reach:
    return terms.analysed.reach


def choose_row_ranges(terms: StepTerms) -> RowRanges:
    """The way to count rows that has the smaller noise for one price.

    All rows together, one by one, those that leave and those that come. Or cell by cell: under
    replace as pairs of one row that leaves and one that comes. In rho, cells with fewer rows count
    less: all cells count as often as the rows of one cell go into all rows. Several quantiles
    double for pairs; one of the share a/b moves by b.
    """
    query = terms.query
    assert isinstance(query, Quantiles)
    reach = _reach(terms)
    is_single = len(query.shares) == 1
    row = row_range(query.shares[0]) if is_single else 2
    pair = 2 * rank_sensitivity(query.shares[0], "replace") if is_single else 4
    is_replaced = terms.analysed.neighbours == "replace"
    power = 2 if terms.measure == "rho" else 1
    most = min(reach.rows, reach.rows_per_cell * (2 if is_replaced else 1))
    ways = {
        RowRanges(reach.rows, 1, by_rows=True): reach.rows * row,
        RowRanges(reach.rows_per_cell, reach.cells, by_rows=not is_replaced): reach.rows_per_cell
        * (pair if is_replaced else row),
    }
    if terms.measure == "rho":
        ways[RowRanges(most, Fraction(reach.rows, most), by_rows=True)] = most * row
    return min(ways, key=lambda way: ways[way] ** power * way.copies)


def choose_ranges(reach: Reach, measure: Measure) -> tuple[int, int]:
    """Choose (rows per unit, copies) of the exponential mechanism with the smaller noise for one
    price.

    Ranges of cells add up, and each is in proportion to the rows of the unit there: together they
    are one range for all of its rows. Or g cells with at most r rows each. Noise goes with rows *
    copies in epsilon, rows^2 * copies in rho.
    """
    power = 2 if measure == "rho" else 1
    together = (reach.rows, 1)
    cell_by_cell = (reach.rows_per_cell, reach.cells)
    return min(together, cell_by_cell, key=lambda pair: pair[0] ** power * pair[1])


def epsilon_of_ranges(share: Fraction, levels: int, measure: Measure) -> Fraction:
    """The epsilon of `levels` bounded ranges: rho = epsilon^2 / (8 levels)."""
    return root_down(8 * share * levels) if measure == "rho" else share


def root_down(x: Fraction) -> Fraction:
    """Compute a rational at most sqrt(x), to about 60 bits.

    >>> root_down(Fraction(9)), root_down(Fraction(2)) ** 2 < 2
    (Fraction(3, 1), True)
    """
    shift = 64 + max(0, x.denominator.bit_length() - x.numerator.bit_length())
    return Fraction(isqrt((x.numerator << (2 * shift)) // x.denominator), 1 << shift)
