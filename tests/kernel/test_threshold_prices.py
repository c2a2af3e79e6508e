"""Key selection by a threshold beside noise that is priced in epsilon: what it costs, by the pot's
own charge and by the exact law of all that leaves."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction as F

import numpy as np
import pytest

from dither import RefusedError
from dither.plan.algebra import Cells, Count, Keys, Quantiles, Scan, Sum
from dither.privacy.charges.rules import Rule, charge
from dither.privacy.kernel import calibrate as calibration
from dither.privacy.kernel.calibrate import Calibrated, loss_of
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.mechanisms.gaussian_keys import CountedKeys, ThresholdKeys
from tests.datasets.clinic import catalog
from tests.kernel.calibrating import calibrate

VISITS = Scan("visits")
OPEN = {"values__[north, south], other__keep": "values: undeclared, width: 8"}
OTHER = {"values__[a, b], other__drop": "values: undeclared, width: 8"}
KEYS = Keys(VISITS, ("ward",))
COUNT = Cells(VISITS, ("ward",), (Count(),))
BOTH = Cells(VISITS, ("ward",), (Count(), Sum("cost")))
MEDIAN = Quantiles(VISITS, ("ward",), "age", (F(1, 2),))
DELTA = F(1, 10**6)


def request(*steps: tuple[object, str, object], epsilon: object = F(1)) -> Request:
    made = tuple(Step(query, family, F(weight)) for query, family, weight in steps)
    return Request(made, Price(F(epsilon)), "total")


MIXED = {
    "laplace": request((KEYS, "threshold_keys", 1), (COUNT, "laplace", 3)),
    "box": request((KEYS, "threshold_keys", 1), (BOTH, "box", 3), epsilon=F(1, 10)),
    "quantile": request((KEYS, "threshold_keys", 2), (MEDIAN, "permute_and_flip", 1), epsilon=4),
    "counts of the selection": request((KEYS, "counted_keys", 1), (COUNT, "laplace", 3)),
    "two selections": request(
        (KEYS, "threshold_keys", 1),
        (COUNT, "laplace", 3),
        (Keys(VISITS, ("kind",)), "threshold_keys", 2),
    ),
    "both rules": request(
        (KEYS, "threshold_keys", 1),
        (COUNT, "laplace", 3),
        (Keys(VISITS, ("kind",)), "geometric_keys", 1),
    ),
}


def charge_of(asked: Request, steps: tuple[Calibrated, ...], delta: F = DELTA) -> tuple[F, F]:
    taken = charge(loss_of(steps), Rule("approx", delta=F(1, 2), delta_per_question=delta))
    return taken.amount, taken.delta


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("name", MIXED)
def test_the_pot_takes_at_most_the_price_and_the_stated_delta(name, neighbours):
    asked = MIXED[name]
    facts = catalog(**OPEN, **OTHER, neighbours__add_remove=f"neighbours: {neighbours}")
    epsilon, delta = charge_of(asked, calibrate(asked, facts, DELTA))
    assert asked.price.epsilon * F(9, 10) < epsilon <= asked.price.epsilon
    assert delta == DELTA


def test_noise_beside_a_threshold_keeps_its_share():
    """Three quarters of the price for the counts, whatever selects the keys."""
    (_, beside_threshold), (_, beside_geometric) = (
        calibrate(request((KEYS, family, 1), (COUNT, "laplace", 3)), catalog(**OPEN), DELTA)
        for family in ("threshold_keys", "geometric_keys")
    )
    assert beside_threshold.mechanism == beside_geometric.mechanism


def test_a_rho_shared_by_all_steps_stays_what_it_was():
    """Families that all have a rho are priced in rho, as they were."""
    asked = request((KEYS, "threshold_keys", 1), (COUNT, "gaussian", 1))
    old = request((KEYS, "gaussian_keys", 1), (COUNT, "gaussian", 1))
    new_steps, old_steps = (calibrate(each, catalog(**OPEN), DELTA) for each in (asked, old))
    assert new_steps[1].mechanism == old_steps[1].mechanism
    assert new_steps[0].mechanism.threshold == old_steps[0].mechanism.threshold


def test_a_price_in_rho_buys_no_laplace_noise_beside_a_threshold():
    steps = (Step(KEYS, "threshold_keys", F(1)), Step(COUNT, "laplace", F(1)))
    with pytest.raises(RefusedError, match="no rule for the families"):
        calibrate(Request(steps, Price(rho=F(1)), "total"), catalog(**OPEN), DELTA)


def test_without_a_delta_there_is_no_threshold():
    with pytest.raises(RefusedError, match="needs a delta"):
        calibrate(MIXED["laplace"], catalog(**OPEN))


def find_chance(keys: ThresholdKeys, owners: int) -> float:
    """The chance of a key to be shown: owners + Z >= threshold, by summing the law of Z."""
    if not owners:
        return 0.0
    reach = math.ceil(40 * keys.sigma) + keys.threshold
    weights = {z: math.exp(-z * z / (2 * float(keys.sigma) ** 2)) for z in range(-reach, reach)}
    shown = [weight for z, weight in weights.items() if owners + z >= keys.threshold]
    return math.fsum(shown) / math.fsum(weights.values())


def list_key_atoms(
    keys: ThresholdKeys, scale: float, before: int, after: int
) -> list[tuple[float, float]]:
    """The law of one key and its noisy count, on both databases: hidden, or shown with a count.

    The ratio of Laplace noise of two counts a row apart takes two values: one on either side.
    """
    shown = [find_chance(keys, n) for n in (before, after)]
    higher = 1 / (1 + math.exp(-1 / scale))
    counts = [(higher, 1 - higher), (1 - higher, higher)]
    if 0 in (before, after):
        counts = [(1.0, 1.0)]
    atoms = [(shown[0] * p, shown[1] * q) for p, q in counts]
    return [(1 - shown[0], 1 - shown[1]), *atoms]


def find_worst_delta(steps: tuple[Calibrated, ...], epsilon: F) -> float:
    """The largest hockey-stick divergence over all neighbours: a unit with one row in each of three
    keys, which 0 to 3 other people have, or as many as pass the threshold."""
    keys, cells = (step.mechanism for step in steps)
    crowds = (0, 1, 3, keys.threshold - 1, keys.threshold + 4)
    worst = 0.0
    for others in itertools.combinations_with_replacement(crowds, 3):
        moves = [(n, n + 1) for n in others]
        for pairs in (moves, [(b, a) for a, b in moves]):
            atoms = [list_key_atoms(keys, float(cells.scale), *pair) for pair in pairs]
            delta = 0.0
            for combination in itertools.product(*atoms):
                p = math.prod(atom[0] for atom in combination)
                q = math.prod(atom[1] for atom in combination)
                delta += max(0.0, p - math.exp(epsilon) * q)
            worst = max(worst, delta)
    return worst


@pytest.mark.parametrize("epsilon", [F(1, 2), F(2)])
def test_no_set_of_keys_and_counts_exceeds_the_price(epsilon):
    """A tenth for delta, so that the threshold is low and every term counts."""
    asked = request((KEYS, "threshold_keys", 1), (COUNT, "laplace", 1), epsilon=epsilon)
    steps = calibrate(asked, catalog(**OPEN), F(1, 10))
    assert charge_of(asked, steps, F(1, 10))[0] <= epsilon
    assert find_worst_delta(steps, epsilon) <= 0.1


def list_counted_atoms(
    keys: CountedKeys, scale: float, before: int, after: int
) -> tuple[np.ndarray, np.ndarray]:
    """As `list_key_atoms`, where every count that the selection releases is an outcome of its own:
    hidden, or shown with v = owners + Z from the threshold on, beside the other noisy count."""
    reach = keys.threshold + math.ceil(9 * keys.sigma) + 8
    noise = np.arange(-2 * reach, 2 * reach)
    weights = np.exp(-(noise**2) / (2 * float(keys.sigma) ** 2))
    weights /= weights.sum()
    values = np.arange(keys.threshold, reach)
    laws = []
    higher = 1 / (1 + math.exp(-1 / scale))
    ratios = (higher, 1 - higher)
    for owners, beside in ((before, ratios), (after, ratios[::-1])):
        shown = weights[values - owners + 2 * reach] if owners else np.zeros(len(values))
        halves = (1.0,) if 0 in (before, after) else beside
        laws.append(np.append(np.multiply.outer(shown, halves).ravel(), 1 - shown.sum()))
    return laws[0], laws[1]


def find_worst_counted_delta(keys: CountedKeys, scale: float, epsilon: F) -> float:
    """The largest hockey-stick divergence over all neighbours of a unit with two keys."""
    crowds = (0, 1, 3, keys.threshold - 1, keys.threshold + 4)
    worst = 0.0
    for others in itertools.combinations_with_replacement(crowds, 2):
        for moves in ([(n, n + 1) for n in others], [(n + 1, n) for n in others]):
            atoms = [list_counted_atoms(keys, scale, *move) for move in moves]
            p, q = (np.multiply.outer(atoms[0][side], atoms[1][side]) for side in (0, 1))
            excess = p - math.exp(epsilon) * q
            worst = max(worst, float(excess[excess > 0].sum()))
    return worst


@pytest.mark.parametrize("epsilon", [F(1, 2), F(2)])
def test_no_set_of_keys_and_counts_of_the_selection_exceeds_the_price(epsilon):
    """By the exact law of all that leaves, on all neighbours; what the kernel charges is at most
    epsilon at a tenth."""
    asked = request((KEYS, "counted_keys", 1), (COUNT, "laplace", 1), epsilon=epsilon)
    (keys, cells) = calibrate(asked, catalog(**OPEN), F(1, 10))
    assert charge_of(asked, (keys, cells), F(1, 10))[0] <= epsilon
    scale = float(cells.mechanism.scale)
    assert find_worst_counted_delta(keys.mechanism, scale, epsilon) <= 0.1


def test_a_selection_that_counts_at_half_its_noise_is_caught():
    """Planted: the counts of the selection with twice the rho that is charged, and more."""
    asked = request((KEYS, "counted_keys", 1), (COUNT, "laplace", 1), epsilon=F(1, 2))
    (keys, cells) = calibrate(asked, catalog(**OPEN), F(1, 10))
    mechanism = keys.mechanism
    planted = CountedKeys(mechanism.sigma / 4, mechanism.threshold, 3)
    scale = float(cells.mechanism.scale)
    assert find_worst_counted_delta(planted, scale, F(1, 2)) > 0.1


def test_a_threshold_that_pays_for_one_key_of_three_is_caught():
    """Planted: delta, and then rho, of a unit with one key."""
    asked = request((KEYS, "threshold_keys", 1), (COUNT, "laplace", 1), epsilon=F(1, 2))
    (keys, cells) = calibrate(asked, catalog(**OPEN), F(1, 10))
    alone = ThresholdKeys.for_rho(3 * keys.mechanism.loss().rho, F(1, 10), groups=1)
    planted = (Calibrated(keys.step, alone, 0), cells)
    assert find_worst_delta(planted, F(1, 2)) > 0.1


def test_a_rho_that_the_whole_price_buys_would_be_noticed(monkeypatch):
    """Planted: the threshold converts the whole price, and the counts take their share again."""
    plain = calibration.rho_within
    monkeypatch.setattr(calibration, "rho_within", lambda epsilon, delta: plain(4 * epsilon, delta))
    with pytest.raises(AssertionError):
        test_the_pot_takes_at_most_the_price_and_the_stated_delta("laplace", "add_remove")
