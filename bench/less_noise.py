"""Less noise for the same price: each theorem of issue 33 as one line, from the mechanisms alone.

ours: what the mechanism does that a question gets now. base: what it did before the theorem. No
data is read and no time is taken; the target is the ratio that the theorem promises. Proofs:
docs/proofs/key-selection.md, box-noise.md, fixed-plans.md, quantiles.md.
"""

from __future__ import annotations

from fractions import Fraction

from common import line, options, report

from dither.laws import find_error_law
from dither.plan.norms import Sensitivity
from dither.privacy.charges.gaussian_curve import find_gaussian_epsilon
from dither.privacy.charges.logarithms import epsilon_up
from dither.privacy.kernel.rho_within import rho_on_curve, rho_within
from dither.privacy.losses import Adjacency
from dither.privacy.mechanisms import IntegerBox, IntegerGaussian, IntegerLaplace
from dither.privacy.mechanisms.box import UnitBox
from dither.privacy.mechanisms.gaussian_keys import CountedKeys, GaussianKeys, ThresholdKeys
from dither.privacy.mechanisms.key_selection import TruncatedGeometricKeys
from dither.privacy.mechanisms.quantile import Quantile, rank_sensitivity
from dither.privacy.mechanisms.quantiles import JointQuantiles
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian

EPSILON = Fraction(1)
DELTA = Fraction(1, 10**6)
MEDIAN = Fraction(1, 2)
REPLACE = Adjacency("replace")


def main() -> None:
    chosen = options(__doc__ or "")
    lines = [*list_selections(), *list_boxes(), *list_gaussians(), *list_quantiles()]
    report("less_noise", lines, (), as_json=chosen.json)


def list_selections() -> list[dict[str, object]]:
    """Owners that a key needs to be shown every other time."""
    lines = []
    for groups, promised in ((5, 56), (10, 81), (20, 116)):
        rho = rho_within(EPSILON, DELTA / 2)
        ours = ThresholdKeys.for_rho(rho, DELTA / 2, groups=groups)
        base = TruncatedGeometricKeys(EPSILON, DELTA, groups)
        owners, before = (find_error_law(rule).size_shown(MEDIAN) for rule in (ours, base))
        name = f"owners of a key that is shown every other time, {groups} keys a person"
        lines.append(line(name, owners, before, promised / before, unit="owners"))
    lines += list_counts()
    rho, groups = Fraction(1, 20), 10
    both = [
        law.for_rho(rho, DELTA, groups=groups, adjacency=REPLACE).threshold
        for law in (ThresholdKeys, GaussianKeys)
    ]
    lines.append(line("threshold under replace, 10 keys", *both, 76 / 77, unit="owners"))
    return lines


def list_counts() -> list[dict[str, object]]:
    """COUNT(DISTINCT person) by an undeclared key, ten keys a person: the selection's own count,
    and one that is bought with three quarters of the price."""
    ours = CountedKeys.for_rho(rho_within(EPSILON, DELTA / 2), DELTA / 2, groups=10)
    base = IntegerLaplace.for_epsilon(EPSILON * 3 / 4, Sensitivity.of(cells=10))
    before = ThresholdKeys.for_rho(rho_within(EPSILON / 4, DELTA / 2), DELTA / 2, groups=10)
    deviations = [
        float(law.variance) ** 0.5 for law in (find_error_law(ours, 1), find_error_law(base))
    ]
    owners = [find_error_law(rule).size_shown(MEDIAN) for rule in (ours, before)]
    return [
        line("deviation of the people of a key, 10 keys", *deviations, 0.79, unit="people"),
        line("owners of a key shown every other time beside them", *owners, 0.3, unit="owners"),
    ]


def list_boxes() -> list[dict[str, object]]:
    """COUNT(DISTINCT person) beside COUNT(*), three rows a person; and a replaced row."""
    box = UnitBox.for_epsilon(EPSILON, (1, 3), 1)
    halves = [
        [find_error_law(box, column).interval(0.95) for column in (0, 1)],
        [
            find_error_law(
                IntegerLaplace.for_epsilon(EPSILON / 2, Sensitivity.of(largest=side))
            ).interval(0.95)
            for side in (1, 3)
        ],
    ]
    names = ("people", "visits of people with three each")
    lines = [
        line(f"half-width at 95%, {name}", ours, base, 2 / 3, unit="rows")
        for name, ours, base in zip(names, *halves, strict=True)
    ]
    replaced = [
        float(find_error_law(kind.for_epsilon(EPSILON, (1, 1), rows, REPLACE)).variance)
        for kind, rows in ((UnitBox, 1), (IntegerBox, 2))
    ]
    return [*lines, line("variance, a replaced row in one cell", *replaced, 0.26, unit="rows^2")]


def list_gaussians() -> list[dict[str, object]]:
    """Gaussian noise alone in a question, in a pot of rule approx."""
    rho = rho_within(EPSILON, DELTA)
    move = Sensitivity.of(cells=20)
    ours = IntegerRoundedGaussian.for_rho(rho_on_curve(EPSILON, DELTA), move).sigma
    base = IntegerGaussian.for_rho(rho, move).sigma
    epsilons = float(find_gaussian_epsilon(2 * rho, DELTA)), float(epsilon_up(rho, DELTA))
    return [
        line("sigma of Gaussian noise alone", float(ours), float(base), 0.94, unit="rows"),
        line("epsilon of the same Gaussian noise", *epsilons, 0.94, unit="epsilon"),
    ]


def list_quantiles() -> list[dict[str, object]]:
    """Scales of ranks, in rows."""
    k = 10
    by_rows = float(Quantile(MEDIAN, EPSILON, 2 * k, "replace", by_rows=True).scale)
    pairs = float(4 * k * rank_sensitivity(MEDIAN, "replace") / EPSILON)
    shares = (Fraction(1, 4), MEDIAN, Fraction(3, 4))
    joint = float(JointQuantiles(shares, EPSILON, 2 * k, "replace", by_rows=True).scale(MEDIAN))
    twice = float(JointQuantiles(shares, EPSILON, 2 * k, "replace").scale(MEDIAN))
    least = [float(Quantile(Fraction(0), EPSILON, k, by_rows=kind).scale) for kind in (True, False)]
    rows, in_group = 100, 10
    return [
        line("scale of medians by group, replace", by_rows, pairs, 0.5, unit="rows"),
        line("scale of quartiles by group, replace", joint, twice, 0.5, unit="rows"),
        line("scale of the least value", *least, 0.5, unit="rows"),
        line(
            "rows of noise in rho, 100 rows a person, 10 in a group",
            (rows * in_group) ** 0.5,
            float(rows),
            0.32,
            unit="rows",
        ),
    ]


if __name__ == "__main__":
    main()
