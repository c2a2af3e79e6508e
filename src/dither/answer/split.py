"""One price over several steps: which family answers each query, and with which share.

The error of an output is measured against what one unit could move it, so that counts and sums of
money can be added up. With D_i the sensitivity of atom i in its own units and c_i its importance
(the derivative of the output by it), atom i carries the share s_i = (c_i D_i)^2 / sum_j (c_j D_j)^2
of its output's error, and

    loss = sum over outputs of weight * sum_i s_i (noise_i / D_i)^2.

With A_i = sum over outputs of weight * s_i (over the sets that a query serves) the least loss for
one price has

    Laplace  (noise/D = 1/epsilon_i,    sum epsilon_i = epsilon):  epsilon_i ~ A_i^(1/3)
    Gaussian ((noise/D)^2 ~ 1/rho_i,    sum rho_i = rho):          rho_i ~ A_i^(1/2)

by Lagrange: 2 A_i / epsilon_i^3, or A_i / rho_i^2, is the same for all i. Plain counts and sums get
equal shares; AVG gives its sum and its count what they contribute; in a ratio that a person wrote
both sides count alike. A box of d numbers stands for all of them, times (d+1)(d+2)/6: its variance
against that of Laplace noise at the same epsilon. Quantiles err like 1/epsilon and split like
noise. Key selection takes a quarter of the whole, or more where its counts are asked for and their
demand is more. A weight for a column (`weights={"n": 2}`)
multiplies its error; "keys" that of the selection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dither.answer.arrange import Share
from dither.answer.counts_of_selection import COUNT_COLUMN
from dither.answer.offered_families import choose_family
from dither.canonical import Number, number_text, positive, quote
from dither.errors import ParameterError
from dither.laws import AdditiveErrorLaw, ErrorLaw, KeyThresholdLaw, RankErrorLaw
from dither.plan.algebra import Keys, Query
from dither.plan.norms import Sensitivity
from dither.privacy.kernel.families import FAMILIES
from dither.privacy.kernel.request import Family, Step
from dither.question.expressions import Apply, Formula
from dither.question.recipe import Recipe
from dither.question.shapes import atoms_of

KEYS_SHARE = Fraction(1, 4)
MOST_WEIGHT = 10**30
"""The largest weight of a column; 1 / MOST_WEIGHT is the smallest.

Shares are rounded to 1/10000 anyway.
"""
_DIGITS = 10_000
_NO_DEMAND = 1e-9
"""Of a query that no output reads, such as a selection of keys that gives no count."""


def make_equal_steps(
    queries: Sequence[Query],
    shares: Sequence[Share],
    family: Family = "laplace",
    allow_permute_and_flip: bool = False,
) -> tuple[Step, ...]:
    """Make steps of equal weights.

    Sensitivities are read from them before the weights are known.
    """
    return tuple(
        _make_step(queries, share, family, Fraction(1), allow_permute_and_flip) for share in shares
    )


def _make_step(
    queries: Sequence[Query],
    share: Share,
    family: Family,
    weight: Fraction,
    allow_permute_and_flip: bool,
) -> Step:
    """The step that releases the numbers of one noise, by the family that can."""
    measured = queries[share.query]
    step = Step(measured, family, weight, share.columns)
    chosen = find_family(step.query, family, allow_permute_and_flip)
    return step if chosen == family else replace(step, family=chosen)


def find_family(query: Query, family: Family, allow_permute_and_flip: bool = False) -> Family:
    """Find the family that answers a query where counts and sums are answered by `family`.

    `allow_permute_and_flip`: only epsilons are added up, so that one quantile may be chosen by
    permute-and-flip, which errs less than the exponential mechanism for one epsilon, and has no
    smaller rho.
    """
    noise = FAMILIES[family]
    if noise.serves(query):
        return family
    return choose_family(query, noise.measures[0], allow_permute_and_flip).name


def check_weights(weights: Mapping[str, Number] | None, recipe: Recipe) -> dict[str, Fraction]:
    """Check weights by the name of an output; refused where there is no such column."""
    values = [output.name for output in recipe.outputs if output.role == "value"]
    allowed = {name.lower(): name for name in [*values, "keys"]}
    shares = {}
    if weights is not None and not isinstance(weights, Mapping):
        raise ParameterError(
            f"weights name columns, as in weights={{'n': 2}}, got {type(weights).__name__}"
        )
    for name, weight in (weights or {}).items():
        if not isinstance(name, str) or name.lower() not in allowed:
            raise ParameterError(
                f"weights name the value columns of the question ({', '.join(values)}), got "
                f"{quote(name)}"
            )
        share = positive(weight, f"the weight of {name}", "choose e.g. 2 for half the error")
        if not 1 <= share * MOST_WEIGHT <= MOST_WEIGHT**2:
            raise ParameterError(
                f"the weight of {name} must lie between 1e-30 and 1e30, got {number_text(share)}: "
                f"choose e.g. 2"
            )
        shares[allowed[name.lower()]] = share
    return shares


def weigh_steps(
    queries: Sequence[Query],
    shares: Sequence[Share],
    demands: Sequence[float],
    family: Family,
    weights: Mapping[str, Fraction],
    allow_permute_and_flip: bool = False,
) -> tuple[Step, ...]:
    """Weigh the steps so that the predicted error is least; `demands` has one number a share."""
    power = 1 / (1 + FAMILIES[family].variance_power)
    step_weights = [demand**power for demand in demands]
    selections = [i for i, share in enumerate(shares) if isinstance(queries[share.query], Keys)]
    rest = (
        sum(step_weight for i, step_weight in enumerate(step_weights) if i not in selections) or 1.0
    )
    for i in selections:
        key_weight = float(weights.get("keys", Fraction(1))) ** power
        share_of_keys = rest * float(KEYS_SHARE / (1 - KEYS_SHARE)) / len(selections)
        is_counted = demands[i] > 2 * _NO_DEMAND
        own = max(share_of_keys, step_weights[i]) if is_counted else share_of_keys
        step_weights[i] = key_weight * own
    largest = max(step_weights)
    return tuple(
        _make_step(
            queries,
            share,
            family,
            Fraction(max(1, round(_DIGITS * step_weight / largest)), _DIGITS),
            allow_permute_and_flip,
        )
        for share, step_weight in zip(shares, step_weights, strict=True)
    )


def join_demands(
    demands: Sequence[float], positions: Sequence[tuple[int, int]], family: Family = "box"
) -> list[float]:
    """Join the demands of queries that share a noise into one demand each."""
    joint_demand = FAMILIES[family].joint_demand
    assert joint_demand is not None
    totals = [0.0] * (1 + max(query for query, _ in positions))
    for demand, (query, _) in zip(demands, positions, strict=True):
        totals[query] += demand
    columns_per_query = [
        sum(query == index for query, _ in positions) for index in range(len(totals))
    ]
    return [
        joint_demand(demand, numbers)
        for demand, numbers in zip(totals, columns_per_query, strict=True)
    ]


def compute_demands(
    recipe: Recipe, mechanisms: Sequence[Any], family: Family, weights: Mapping[str, Fraction]
) -> list[float]:
    """Compute the demand of every query: how much its squared noise counts in the error."""
    demands = [0.0] * len(recipe.queries)
    read: set[int] = set()
    formulas = [
        (o.formula, float(weights.get(o.name, Fraction(1))))
        for o in recipe.outputs
        if o.role == "value"
    ]
    for formula, weight in formulas:
        read.update(atoms_of(formula))
        for atoms, error_share in _split_error(formula, recipe, weight):
            for grouping_set in recipe.sets:
                _add_demand(
                    demands, recipe, mechanisms, family, grouping_set.positions, atoms, error_share
                )
    for grouping_set in recipe.sets:  # atoms that only HAVING or ORDER BY reads
        for atom in set(range(len(recipe.atoms))) - read:
            _add_demand(demands, recipe, mechanisms, family, grouping_set.positions, (atom,), 1.0)
    return [demand or _NO_DEMAND for demand in demands]


def _split_error(
    formula: Formula, recipe: Recipe, weight: float
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Split the error of an output over atoms whose errors add up in their own units.

    In a ratio that a person wrote nothing is known of the derivatives: numerator and denominator
    count alike, relative to what one unit can move them. (Of AVG and the like the importances are
    known.)
    """
    if isinstance(formula, Apply) and formula.name in ("divide", "multiply"):
        read = [argument for argument in formula.arguments if atoms_of(argument)]
        if len(read) > 1 and all(recipe.atoms[atom].importance == 1 for atom in atoms_of(read[-1])):
            for argument in read:
                yield from _split_error(argument, recipe, weight / len(read))
            return
    yield atoms_of(formula), weight


def _add_demand(
    demands: list[float],
    recipe: Recipe,
    mechanisms: Sequence[Any],
    family: Family,
    positions: tuple[tuple[int, int], ...],
    atoms: tuple[int, ...],
    weight: float,
) -> None:
    """Add `weight` to the demands of the queries that the atoms come from.

    It is shared out in proportion to the squared sensitivities of the atoms, equally if all are
    0. `positions` has the (query, column) of each atom.
    """
    moved = {
        atom: _square_sensitivity(recipe, mechanisms[positions[atom][0]], atom, family)
        for atom in atoms
    }
    total = sum(square for square in moved.values())
    for atom, square in moved.items():
        demands[positions[atom][0]] += weight * (square / total if total else 1 / len(moved))


def _square_sensitivity(recipe: Recipe, mechanism: Any, atom: int, family: Family) -> float:
    """Compute (importance times sensitivity)^2 of an atom, in its own units.

    It is 1 for a quantile.
    """
    sensitivity = mechanism.column_sensitivity()
    if sensitivity is None:
        return 1.0
    released = recipe.atoms[atom]
    return float(released.importance * released.unit) ** 2 * _square_move(sensitivity, family)


def predict_error(
    demands: Sequence[float], mechanisms: Sequence[Any], laws: Sequence[ErrorLaw]
) -> float:
    """Predict the weighted squared error of an answer, to compare offers of different families.

    Every error is counted in units of its column's L1 sensitivity, that of a quantile in rows.
    There is one of each for every query: `demands` are those of Laplace noise, `mechanisms` know
    the sensitivities, `laws` are those of the noise that answers it, its own or a shared one.
    """
    errors = [
        _square_error(mechanism, law) for mechanism, law in zip(mechanisms, laws, strict=True)
    ]
    return sum(demand * error for demand, error in zip(demands, errors, strict=True))


def _square_error(mechanism: Any, law: ErrorLaw) -> float:
    """The squared error of one number.

    It is noise over the L1 sensitivity, or rows of a quantile. Keys have none, but where their
    selection releases its counts.
    """
    if isinstance(law, AdditiveErrorLaw):
        return _find_variance(law) / max(1.0, float(mechanism.column_sensitivity().l1)) ** 2
    if isinstance(law, KeyThresholdLaw):
        moved = mechanism.column_sensitivity(COUNT_COLUMN)
        return 0.0 if moved is None else _find_variance(law.noise) / float(moved.l1) ** 2
    return float(law.row_scale) ** 2 if isinstance(law, RankErrorLaw) else 0.0


@lru_cache(maxsize=256)
def _find_variance(law: AdditiveErrorLaw) -> float:
    """The variance of a law; that of a box is a sum over thousands of radii."""
    return float(law.variance)


def _square_move(sensitivity: Sensitivity, family: Family) -> float:
    """Square the sensitivity, in the norm that the noise of a family is calibrated to."""
    return float(sensitivity.l1**2 if FAMILIES[family].norm == "l1" else sensitivity.l2_squared)
