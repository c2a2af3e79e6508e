"""How the interval of a formula is put together: which inner values have intervals of their own.

A *base* is an inner value with an interval that covers by itself: an affine function of released
numbers, a ratio of two, or a statistic whose coverage was measured (variance, covariance, slope,
correlation). Everything around bases is interval arithmetic. Bases whose noise is the same hold or
miss together, so they are counted once.

>>> from dither.question.expressions import Noisy
>>> count = Noisy(0)
>>> square = Apply("multiply", (count, count))
>>> [len(list_base_events(formula, BaseFacts())) for formula in (square, Apply("least", (count,
...     Noisy(1))))]
[1, 2]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction

from dither.answer.interval_arithmetic import COMPARISONS
from dither.question.expressions import Apply, Constant, Formula
from dither.question.shapes import Affine, affine, atoms_of, ratio

_LEAST_LINEAR_NOISE = 0.5
_TWO = Constant(Fraction(2))


@dataclass(frozen=True)
class BaseFacts:
    """The facts that decide what a base is: which atoms are quantiles, and how large noises are.

    Without `deviation` (before anything is priced) every statistic counts as one of the measured.
    """

    quantiles: frozenset[int] = frozenset()
    deviation: Callable[[Affine], float] | None = None


def is_base(formula: Formula, base_facts: BaseFacts) -> bool:
    """Whether the formula has an interval of its own."""
    if affine(formula) is not None:
        return True
    if base_facts.quantiles & set(atoms_of(formula)):
        return False
    return ratio(formula) is not None or is_measured(formula, base_facts)


def list_base_events(formula: Formula, base_facts: BaseFacts) -> frozenset[Hashable]:
    """List the noises whose bounds must hold at once. Each gets an equal share of the miss."""
    if not atoms_of(formula):
        return frozenset()
    if is_base(formula, base_facts):
        whole = affine(formula)
        return frozenset([formula if whole is None else whole.weights])
    return frozenset().union(
        *(list_base_events(inner, base_facts) for inner in list_inner_values(formula))
    )


def find_base_level(formula: Formula, base_facts: BaseFacts, level: Fraction) -> Fraction:
    """Find the level that each base of a formula needs for all to hold at once (union bound)."""
    return 1 - (1 - level) / max(1, len(list_base_events(formula, base_facts)))


def list_inner_values(formula: Formula) -> tuple[Formula, ...]:
    """List the inner values from whose ends the ends of a formula follow."""
    if not isinstance(formula, Apply):
        return ()
    if formula.name in COMPARISONS:
        return (Apply("subtract", formula.arguments),)
    for read in (read_remainder, read_determination):
        inner = read(formula)
        if inner is not None:
            return inner
    truncated = read_truncation(formula)
    return formula.arguments if truncated is None else (truncated,)


def read_remainder(formula: Formula) -> tuple[Formula, Formula] | None:
    """Read `x % m`, written as x - m trunc(x / m): return x and m; None for any other formula.

    The divisor m must be public.
    """
    match formula:
        case Apply("subtract", (left, Apply("multiply", (right, whole)))) if not atoms_of(right):
            if read_truncation(whole) == Apply("divide", (left, right)):
                return left, right
    return None


def read_truncation(formula: Formula) -> Formula | None:
    """Read sign(x) floor(|x|), which cuts decimals off; return x, None for other formulas."""
    match formula:
        case Apply(
            "multiply", (Apply("sign", (value,)), Apply("floor", (Apply("abs", (same,)),)))
        ) if value == same:
            return value
    return None


def read_determination(formula: Formula) -> tuple[Formula, Formula] | None:
    """Read REGR_R2 = b b / (s t): return the correlation b / sqrt(s t) and the exponent 2.

    None for any other formula.
    """
    match formula:
        case Apply(
            "divide",
            (Apply("multiply", (first, second)), Apply("multiply", (left, right)) as spreads),
        ):
            if first == second and all(
                _read_central_moment(moment) for moment in (first, left, right)
            ):
                return Apply("divide", (first, Apply("sqrt", (spreads,)))), _TWO
    return None


# -- which formulas have ends
# ------------------------------------------------------------------------------------


def has_interval(formula: Formula, base_facts: BaseFacts, covered: frozenset[int]) -> bool:
    """Whether the formula's ends are bounded by the ends of its bases; `covered` are the quantiles
    that have ends."""
    if not atoms_of(formula):
        return True
    if is_base(formula, base_facts):
        quantiles = base_facts.quantiles & set(atoms_of(formula))
        return not quantiles or (len(atoms_of(formula)) == 1 and quantiles <= covered)
    if not _has_rule(formula):
        return False
    noisy = [inner for inner in list_inner_values(formula) if atoms_of(inner)]
    bounded = [has_interval(inner, base_facts, covered) for inner in noisy]
    match formula:
        case Apply("least" | "greatest" | "and" | "or" | "not", _):
            return any(bounded)
    return all(bounded)


def list_quantiles_used(formula: Formula, base_facts: BaseFacts) -> frozenset[int]:
    """List the quantiles from whose ends the ends of a formula follow."""
    if not has_interval(formula, base_facts, base_facts.quantiles):
        return frozenset()
    if is_base(formula, base_facts):
        return base_facts.quantiles & frozenset(atoms_of(formula))
    return frozenset().union(
        *(list_quantiles_used(inner, base_facts) for inner in list_inner_values(formula))
    )


def _has_rule(formula: Formula) -> bool:
    """Whether interval arithmetic bounds the function.

    It bounds neither noisy decimals nor noisy powers of noisy numbers.
    """
    match formula:
        case Apply("round", (_, decimals)):
            return not atoms_of(decimals)
        case Apply("power", (base, exponent)):
            return not atoms_of(base) or not atoms_of(exponent)
        case Apply("is_null", _):
            return False
    return True


# -- statistics with measured coverage
# ---------------------------------------------------------------------------


def is_measured(formula: Formula, base_facts: BaseFacts) -> bool:
    """Whether this is a variance, a covariance, a slope or a correlation.

    Its noise must be as it was measured.
    """
    moments = _list_moments(formula)
    return bool(moments) and all(_is_led_by_linear_noise(moment, base_facts) for moment in moments)


_Moment = tuple[Affine, Affine, Affine, Affine]


def _list_moments(formula: Formula) -> tuple[_Moment, ...]:
    """List the central moments that a statistic is made of; none for other formulas."""
    alone = _read_central_moment(formula)
    if alone is not None:
        return (alone,)
    match formula:
        case Apply("divide", (above, Apply("sqrt", (Apply("multiply", (left, right)),)))):
            return _list_all_moments(above, left, right)
        case Apply("divide", (above, below)):
            whole = affine(below)
            return _list_all_moments(above, below) if whole is None else _list_all_moments(above)
    return ()


def _list_all_moments(*formulas: Formula) -> tuple[_Moment, ...]:
    moments = [_read_central_moment(formula) for formula in formulas]
    return tuple(moment for moment in moments if moment is not None) if all(moments) else ()


def _read_central_moment(formula: Formula) -> _Moment | None:
    """Read a - b c / n, as in SUM(xy) - SUM(x) SUM(y) / n: return the four affine terms.

    None for any other formula. All but a must be noisy, and a must read a number that the others do
    not.
    """
    match formula:
        case Apply("subtract", (sums, Apply("divide", (Apply("multiply", (left, right)), count)))):
            first, second, third, fourth = (affine(term) for term in (sums, left, right, count))
            if first is None or second is None or third is None or fourth is None:
                return None
            other_atoms = {*atoms_of(left), *atoms_of(right), *atoms_of(count)}
            is_noisy = all(term.weights for term in (second, third, fourth))
            return (
                (first, second, third, fourth)
                if is_noisy and set(atoms_of(sums)) - other_atoms
                else None
            )
    return None


def _is_led_by_linear_noise(moment: _Moment, base_facts: BaseFacts) -> bool:
    """Whether the noise of a is at least half that of b times c, over that of n."""
    if base_facts.deviation is None:
        return True
    sums, left, right, count = (base_facts.deviation(term) for term in moment)
    return math.isfinite(sums * count) and sums * count >= _LEAST_LINEAR_NOISE * left * right
