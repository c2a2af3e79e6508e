"""Draws noisy averages of small groups towards the average of all groups.

A condition on rows may compare with an average of each group, as in `quantity < (SELECT 0.2 *
AVG(quantity) FROM lines WHERE part = part_id)`. The noisy average of thirty rows is mostly noise,
and the condition would choose rows by it. What is written into the condition instead is the best
linear prediction of each group's average from all released counts and sums: with n rows and a sum s
of distances to the middle of the public bounds [L, U] in a group,

    m = the sum of s over the sum of n, drawn to 0 (the middle) by its own noise
    r = s - m n, whose noise has the variance v
    prediction = middle + m + (n^2 t / (n^2 t + v)) (r / n), moved into [L, U]

where t is how much the averages of groups vary around that of all: as much as the residuals r vary
beyond their noise, if that stands out of chance, and at least P / n. P = (U - L)^2 / 12 is the
variance of values that are spread evenly between their bounds, so P / n is what chance does to the
average of n rows. In a large group the weight of its own average is close to 1; where groups differ
by more than their noise, t is large and the weight is too.

Everything is computed from released numbers and public facts, in fractions: the same release gives
the same numbers. A function of what was released loses no more privacy than the release did.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from dither.answer.average_bounds import find_average_bounds, read_average
from dither.answer.blocks import make_blocks
from dither.answer.noises import Noises, list_noises
from dither.answer.result import Result
from dither.question.recipe import Output, Recipe

STABILISED = (
    "conditions on rows: the average of each group was drawn towards the average of all groups, "
    "the more the larger its noise is beside what groups differ by; result.answers has them as "
    "released"
)
_SURPRISE = 4 * 5
"""Groups are said to differ where the squares of their residuals exceed those of noise by two
deviations of their sum. The square of Laplace noise of variance v has the variance 5 v^2; of all
our noises it has the longest tail."""


@dataclass(frozen=True)
class NoisyGroups:
    """Released numbers of groups, and the variances of their noise.

    Sums are of distances to the middle of the values' bounds, which lie `half` away from it.
    """

    counts: tuple[Fraction, ...]
    sums: tuple[Fraction, ...]
    count_variance: Fraction
    sum_variance: Fraction
    half: Fraction


def can_be_stabilised(answer: Result) -> bool:
    """Whether an answer has averages of groups, within public bounds, beside additive noise."""
    return bool(_list_averages(answer))


def stabilise_averages(answer: Result) -> pa.Table:
    """The table of an answer, with the averages of its groups drawn towards that of all groups.

    Groups without a key are left as they are, and so is every other column.
    """
    table = answer.table
    block = make_blocks(answer._recipe, answer._release.values)[0]
    keyed = [
        row
        for row in range(block.rows)
        if all(values[row] is not None for values in block.keys.values())
    ]
    for output, low, high in _list_averages(answer):
        average = read_average(output.formula)
        assert average is not None
        noises = _list_noises(answer)
        middle = (low + high) / 2
        counted, summed = (answer._recipe.atoms[atom] for atom in (average.count, average.total))
        counts, sums = (
            [atom.unit * int(block.atoms[position][row]) for row in keyed]
            for atom, position in ((counted, average.count), (summed, average.total))
        )
        shift = average.middle - middle
        groups = NoisyGroups(
            tuple(counts),
            tuple(total + shift * count for total, count in zip(sums, counts, strict=True)),
            _find_variance(noises, average.count),
            _find_variance(noises, average.total)
            + shift**2 * _find_variance(noises, average.count),
            (high - low) / 2,
        )
        values = table.column(output.name).to_pylist()
        for row, distance in zip(keyed, predict_distances(groups), strict=True):
            values[row] = float(middle + distance)
        position = table.column_names.index(output.name)
        table = table.set_column(position, output.name, pa.array(values, pa.float64()))
    return table


def predict_distances(groups: NoisyGroups) -> list[Fraction]:
    """The average distance to the middle in each group, predicted from the numbers of all.

    >>> alike = NoisyGroups((Fraction(30),) * 2, (Fraction(90), Fraction(-30)), Fraction(100),
    ...     Fraction(10000), Fraction(10))
    >>> [round(float(distance), 2) for distance in predict_distances(alike)]
    [1.05, 0.69]
    """
    size = len(groups.counts)
    if not size:
        return []
    spread = groups.half**2 / 3
    counts = _predict_counts(groups)
    overall = _predict_overall(groups)
    variance = groups.sum_variance + overall**2 * groups.count_variance
    residuals = [
        total - overall * count for total, count in zip(groups.sums, groups.counts, strict=True)
    ]
    excess = sum((residual**2 for residual in residuals), Fraction(0)) - size * variance
    between = Fraction(0)
    if excess > 0 and excess**2 > _SURPRISE * size * variance**2:
        between = excess / sum(count**2 for count in counts)
    distances = []
    for count, residual in zip(counts, residuals, strict=True):
        varies = count**2 * max(between, spread / count)
        own = varies / (varies + variance) * residual / count
        distances.append(max(-groups.half, min(overall + own, groups.half)))
    return distances


def _predict_counts(groups: NoisyGroups) -> list[Fraction]:
    """How many rows each group has, at least one, by the same principle: counts are drawn to their
    mean as far as noise, and not size, makes them differ."""
    size = len(groups.counts)
    mean = sum(groups.counts, Fraction(0)) / size
    squares = sum(((count - mean) ** 2 for count in groups.counts), Fraction(0))
    between = max(Fraction(0), squares / max(1, size - 1) - groups.count_variance)
    total = between + groups.count_variance
    weight = between / total if total else Fraction(1)
    return [max(Fraction(1), mean + weight * (count - mean)) for count in groups.counts]


def _predict_overall(groups: NoisyGroups) -> Fraction:
    """The average distance to the middle over all groups, drawn to 0 by its noise."""
    size = len(groups.counts)
    rows = max(Fraction(1), sum(groups.counts, Fraction(0)))
    overall = sum(groups.sums, Fraction(0)) / rows
    overall = max(-groups.half, min(overall, groups.half))
    noise = size * (groups.sum_variance + overall**2 * groups.count_variance) / rows**2
    spread = groups.half**2 / 3
    return overall * spread / (spread + noise)


def _list_averages(answer: Result) -> list[tuple[Output, Fraction, Fraction]]:
    """The outputs of an answer that are averages of groups within public bounds, with these."""
    recipe = answer._recipe
    if answer._changed is not None:
        return []
    is_plain = len(recipe.sets) == 1 and recipe.sets[0].keys and recipe.sets[0].selection is None
    if not is_plain or _chooses_rows(recipe):
        return []
    averages = []
    analyses = answer._release.version.analyses
    noises = _list_noises(answer)
    for output in recipe.outputs:
        average = read_average(output.formula)
        bounds = find_average_bounds(output.formula, recipe, analyses)
        if average is None or bounds is None or bounds[0] >= bounds[1]:
            continue
        if noises.laws[average.count] is not None and noises.laws[average.total] is not None:
            averages.append((output, *bounds))
    return averages


def _chooses_rows(recipe: Recipe) -> bool:
    """Whether the rows of the table are others than the groups in their order."""
    return bool(recipe.having or recipe.order or recipe.offset) or recipe.limit is not None


def _list_noises(answer: Result) -> Noises:
    mechanisms = [step.mechanism for step in answer._release.priced.steps]
    return list_noises(answer._recipe, mechanisms)[0]


def _find_variance(noises: Noises, atom: int) -> Fraction:
    """The variance of the noise of a number, in its own unit. Six digits of its deviation are
    taken, so that another machine computes the same."""
    law = noises.laws[atom]
    assert law is not None
    return (noises.atoms[atom].unit * Fraction(f"{law.deviation:.6g}")) ** 2
