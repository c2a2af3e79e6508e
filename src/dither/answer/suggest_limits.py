"""Buy the limits of a question: noisy histograms of what each person adds, and the best clamp.

Which histograms are bought is in `limit_wishes`. The clamp follows from the released counts alone,
by `choose_limits`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Any

from dither.answer.choose_limits import (
    BoughtHistogram,
    ChosenClamp,
    PeopleAbove,
    choose_limits,
)
from dither.answer.limit_wishes import LimitWish, WiderWish
from dither.answer.noises import Noises, list_noises
from dither.figures import write_figure
from dither.privacy.kernel.kernel import Release
from dither.privacy.kernel.request import Price
from dither.publish.text import render_text
from dither.question.recipe import Recipe
from dither.question.unit_limits import (
    PartLimits,
    UnitClamp,
    UnitLimits,
)
from dither.surfaces import make_rich_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True)
class LimitSuggestion:
    """Bought limits of one question; pass them as `limits=` to `sql` and `preview`."""

    sql: str
    limits: UnitLimits | PartLimits
    provenance: str
    info: dict[str, Any]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from map(make_rich_text, self.lines())

    def lines(self) -> list[str]:
        """The limits in words, one line for each, and where they come from."""
        if isinstance(self.limits, UnitLimits):
            lines = _write_limits(self.limits)
        else:
            lines = [
                f"{name}: {line}"
                for name, limits in self.limits.parts
                for line in (["no limits"] if limits is None else _write_limits(limits))
            ]
        return [*lines, self.provenance, "ask with con.sql(sql, limits=limits)"]

    def __str__(self) -> str:
        return render_text(self)


def _write_limits(limits: UnitLimits) -> list[str]:
    lines = [
        f"{clamp.aggregate}: one person adds {write_figure(float(clamp.low), 6)} to "
        f"{write_figure(float(clamp.high), 6)} to "
        f"{'all groups together' if limits.is_total else 'a group'}"
        + ("" if clamp.size else "; too few people add anything to be told from none")
        for clamp in limits.clamps
    ]
    if limits.max_groups is not None:
        lines.append(f"one person counts in at most {limits.max_groups} groups")
    return lines


def _find_deviation(noises: Noises) -> float:
    """Find the standard deviation of the noise of a histogram's counts."""
    law = noises.laws[0]
    assert law is not None
    return float(law.deviation)


def make_limit_suggestion(
    sql: str,
    wishes: Mapping[str, LimitWish | None],
    recipe: Recipe,
    release: Release,
    price: Price,
    info: dict[str, Any],
) -> LimitSuggestion:
    """Choose limits by the released histograms: those of least error at nine times the price.

    `wishes` are those of the parts of a question, which share that price equally; None for a part
    without limits. One that has no parts is one without a name.
    """
    mechanisms = [step.mechanism for step in release.priced.steps]
    deviations = [_find_deviation(noises) for noises in list_noises(recipe, mechanisms)]
    ninefold = 9 * float(price.value) / len(wishes)
    epsilon = ninefold if price.name == "epsilon" else sqrt(2 * ninefold)
    chosen: dict[str, UnitLimits | None] = {}
    start = 0
    for name, wish in wishes.items():
        end = start + (0 if wish is None else len(wish.all_plans))
        chosen[name] = (
            None
            if wish is None
            else _choose_limits(wish, release.values[start:end], deviations[start:end], epsilon)
        )
        start = end
    whole = chosen.get("")
    limits = PartLimits(tuple(chosen.items())) if whole is None else whole
    paid = f"{price.name} {float(price.value):g}, for one {info['unit']}"
    provenance = f"bought: release {info['release_id']}, {paid}"
    return LimitSuggestion(sql, limits, provenance, info)


def _choose_limits(
    wish: LimitWish, values: Sequence[Sequence[int]], deviations: Sequence[float], epsilon: float
) -> UnitLimits:
    """Choose the limits of one question by its histograms."""
    histograms = [
        BoughtHistogram(edges, tuple(counts), deviation)
        for edges, counts, deviation in zip(wish.edges, values, deviations, strict=False)
    ]
    groups = None
    if wish.group_edges:
        last = len(wish.plans) - 1
        groups = BoughtHistogram(wish.group_edges, tuple(values[last]), deviations[last])
    share = epsilon / sqrt(len(histograms))
    expected: list[PeopleAbove] = []
    if wish.wider is not None:
        start = len(wish.plans)
        expected = _expect_tails(wish.wider, values[start:], deviations[start:])
    averaged = [column in wish.counted_by for column in wish.bought]
    chosen, max_groups = choose_limits(histograms, groups, share, wish.cells, expected, averaged)
    by_column = dict(zip(wish.bought, chosen, strict=True))
    clamps = tuple(
        _make_clamp(wish, aggregate, column, by_column)
        for aggregate, column in zip(wish.aggregates, wish.columns, strict=True)
    )
    return UnitLimits(clamps, max_groups, wish.is_total)


def _expect_tails(
    wider: WiderWish, values: Sequence[Sequence[int]], deviations: Sequence[float]
) -> list[PeopleAbove]:
    """What is expected of a question by the wider one: a public row for every pair of a person and
    a row, so many of them as the condition leaves of the table."""
    pairs = BoughtHistogram(wider.pair_edges, tuple(values[-1]), deviations[-1]).read_tail()
    tails = []
    for edges, counts, deviation in zip(wider.edges, values, deviations, strict=False):
        tail = BoughtHistogram(edges, tuple(counts), deviation).read_tail()
        if tail.points and pairs.points:
            people = pairs.points[0][1]
            tail = tail.scale_people(float(wider.share) * pairs.sum_above(0.0) / people)
        tails.append(tail)
    return tails


def _make_clamp(
    wish: LimitWish, aggregate: str, column: int, chosen: Mapping[int, ChosenClamp]
) -> UnitClamp:
    """Make the clamp of an aggregate in its own units.

    Where no clamp was chosen, it is that of the sum that this one is a part of, or else the most
    that one row can add. What is averaged has the clamp that follows from that of its count.
    """
    unit = wish.units[column]
    counter = wish.counted_by[column]
    own = chosen[column if counter is None else counter]
    rows = wish.row_bounds[column if counter is None else counter]
    whole = wish.wholes[column]
    if own.clamp is None and whole is not None and wish.units[whole] == unit:
        own = replace(own, clamp=chosen[whole].clamp)
    if counter is not None:
        unit *= wish.row_bounds[column]
    high = (rows if own.clamp is None else own.clamp) * unit
    low = -high if wish.has_negatives[column] else Fraction(0)
    return UnitClamp(aggregate, low, high, Fraction(own.total) * unit / wish.cells)
