"""Workloads that grow: a contour that was built is kept, and events that are appended are added at
its nodes.

A contour holds log M of everything at the nodes c + ikh. Events that come later add their own log M
there, and the proof is the same for the longer list (docs/proofs/contour-accounting.md, "contours
that are kept"): any c and any h are sound, and the bound on what lies beyond the last node holds as
it stands. Only sharpness can be lost, as the best c moves: a bracket more than twice as wide as
that of the contour it grew from is thrown away.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import is_
from typing import NamedTuple, get_args

from dither.accounting.bounds import Bounds
from dither.accounting.contour import Contour
from dither.accounting.sampled import Kind, OutOfReach, SampledGaussianFactor
from dither.accounting.sampled import forget as forget_rows
from dither.accounting.transforms import Factor, GaussianFactor, LaplaceFactor

_MOST_KEPT = 16
_MOST_TRIED = 12
_MOST_NEW = 4
_MOST_BOUNDED = 64


_Simple = SampledGaussianFactor | GaussianFactor | LaplaceFactor
_SIMPLE = set(get_args(_Simple))


class Goal(NamedTuple):
    """What the contour is for: a delta, by its logarithm, or an epsilon; and in which direction."""

    log_delta: float | None
    epsilon: float | None
    kind: Kind | None


def goal(factors: Sequence[Factor], log_delta: float | None, epsilon: float | None) -> Goal:
    """The goal of a contour for the factors, which are all of one direction."""
    kinds = (factor.kind for factor in factors if isinstance(factor, SampledGaussianFactor))
    return Goal(log_delta, epsilon, next(kinds, None))


@dataclass
class Grown:
    """A contour, what it holds, the epsilon and slope that were read off it, and the width of a
    fresh one like it."""

    contour: Contour
    factors: Sequence[Factor]
    root: float
    slope: float
    width: float = 0.0
    parent: Grown | None = None

    @cached_property
    def groups(self) -> _FactorGroups:
        return _group_factors(self.factors)

    def sharp(self, bounds: Bounds) -> bool:
        """Whether growing has cost little; a fresh contour sets the measure."""
        return (
            0 < bounds.upper < math.inf
            and bounds.upper - bounds.lower <= max(2 * self.width, 1e-12) * bounds.upper
        )


_kept: OrderedDict[Goal, list[Grown]] = OrderedDict()


def forget() -> None:
    """Drop all that was kept from earlier workloads (a cold start, for measuring)."""
    _kept.clear()
    forget_rows()


def contours(factors: Sequence[Factor], aim: Goal) -> Iterator[Grown]:
    """Yield contours for the factors: one grown from what is kept, if any, then one built
    afresh."""
    for old in reversed(_kept.get(aim, ())):
        more = _find_extra(factors, old, _MOST_NEW)
        if more is None:
            continue
        try:
            near_epsilon = old.contour.near_epsilon if aim.log_delta is None else old.root
            contour = old.contour.extended(more, near_epsilon) if more else old.contour
        except OutOfReach:
            break
        if aim.log_delta is not None:
            # delta falls like e^(level - c epsilon)
            near_epsilon += max(0.0, contour.level - old.contour.level) / contour.c
        yield Grown(contour, factors, near_epsilon, old.slope, old.width, old)
        break
    contour = Contour.build(factors, log_delta=aim.log_delta, epsilon=aim.epsilon)
    yield Grown(contour, factors, contour.near_epsilon, -contour.c)


def is_below(factors: Sequence[Factor], aim: Goal, floor: float) -> bool:
    """Whether delta at `floor` is certainly below the goal, by Chernoff's bound on a contour that
    is kept (T2, C1)."""
    if aim.log_delta is None:
        return False
    for old in reversed(_kept.get(aim, ())):
        more = _find_extra(factors, old, _MOST_BOUNDED)
        if more is None:
            continue
        simple = [factor for factor in more if isinstance(factor, _Simple)]
        for c, level in old.contour.chernoff if len(simple) == len(more) else ():
            if (
                _round_up(level, sum(factor.level_bound(c) for factor in simple), c * floor)
                < aim.log_delta
            ):
                return True
        return False
    return False


def _find_extra(factors: Sequence[Factor], old: Grown, most: int) -> list[Factor] | None:
    """List what the factors hold beyond a contour.

    None if they lack something of it, or have more than `most` beyond it.
    """
    kept = len(old.factors)
    if len(factors) >= kept and all(map(is_, old.factors, factors)):  # appended to
        return list(factors[kept:]) if len(factors) - kept <= most else None
    groups = _group_factors(factors)
    more = _more(groups, old.groups, most)
    return None if more is None else [*more, *groups.others]


def _round_up(level: float, more: float, turn: float) -> float:
    return level + more - turn + 1e-12 * (1 + abs(level) + more + turn)


def keep(grown: Grown, aim: Goal, bounds: Bounds | None, slope: float) -> None:
    """Remember a contour with the answer that it gave, if one was asked for; what it grew from
    before all others."""
    grown_contours = _kept.setdefault(aim, [])
    parent = grown.parent
    _kept.move_to_end(aim)
    if set(map(type, grown.factors)) <= _SIMPLE and (bounds is None or bounds.upper > 0):
        grown.parent = None
        if bounds is not None:
            grown.root = bounds.upper
            grown.slope = slope
            grown.width = grown.width or (bounds.upper - bounds.lower) / bounds.upper
        grown_contours.append(grown)
    if parent is not None and any(candidate is parent for candidate in grown_contours):
        grown_contours[:] = [
            candidate for candidate in grown_contours if candidate is not parent
        ] + [parent]
    del grown_contours[:-_MOST_TRIED]
    while len(_kept) > _MOST_KEPT:
        _kept.popitem(last=False)


class _FactorGroups(NamedTuple):
    sampled: dict[Hashable, SampledGaussianFactor]
    rho: Fraction
    laplaces: LaplaceFactor | None
    others: list[Factor]


def _group_factors(factors: Sequence[Factor]) -> _FactorGroups:
    """Group factors of one kind: sampled Gaussians by their floats, Gaussians as one rho."""
    sampled: dict[Hashable, SampledGaussianFactor] = {}
    rho = Fraction(0)
    laplaces = None
    others = list[Factor]()
    for factor in factors:
        if isinstance(factor, SampledGaussianFactor):
            same = sampled.get(factor.floats_of_kind)
            sampled[factor.floats_of_kind] = (
                factor if same is None else factor.times(same.count + factor.count)
            )
        elif isinstance(factor, GaussianFactor):
            rho = factor.rho if not rho else rho + factor.rho
        elif isinstance(factor, LaplaceFactor):
            laplaces = factor
        else:
            others.append(factor)
    return _FactorGroups(sampled, rho, laplaces, others)


def _counts(laplaces: LaplaceFactor | None) -> dict[Fraction, int]:
    return {} if laplaces is None else dict(zip(laplaces.epsilons, laplaces.counts, strict=True))


def _more(new: _FactorGroups, old: _FactorGroups, most: int) -> list[_Simple] | None:
    """List what the new workload has beyond the old one.

    None if it lacks something, or has more than `most` beyond it.
    """
    if new.rho < old.rho or len(new.sampled) - len(old.sampled) > most:
        return None
    extra: list[_Simple] = []
    for key, factor in old.sampled.items():
        now = new.sampled.get(key)
        if now is None or now.count < factor.count:
            return None
        if now.count > factor.count:
            extra.append(now.times(now.count - factor.count))
    extra += [factor for key, factor in new.sampled.items() if key not in old.sampled]
    if len(extra) > most:
        return None
    if new.laplaces is not None or old.laplaces is not None:
        kept = _counts(old.laplaces)
        now_held = _counts(new.laplaces)
        if any(now_held.get(epsilon, 0) < count for epsilon, count in kept.items()):
            return None
        rest = {epsilon: count - kept.get(epsilon, 0) for epsilon, count in now_held.items()}
        rest = {epsilon: count for epsilon, count in rest.items() if count}
        if rest:
            extra.append(LaplaceFactor(tuple(rest), tuple(rest.values())))
    if new.rho > old.rho:
        extra.append(GaussianFactor(new.rho - old.rho))
    return extra
