"""Two hundred random workloads: the mpmath truth lies in the bracket of every engine, and the
brackets intersect."""

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest

from dither import accounting as acc
from dither.accounting.alternatives import alternatives
from dither.accounting.curves import read_delta
from dither.accounting.grid import GridPair
from dither.accounting.grid_steps import grid_step
from dither.accounting.masses import mass_at_infinity
from dither.accounting.routes import Answer, Target, grid_laws, solve
from dither.accounting.workload import DIRECTIONS, build_workload
from tests.case_lists import mark_rest

CASES = json.loads((Path(__file__).parent / "references.json").read_text())


def engine_delta(loss, epsilon, ask):
    """The bracket of one engine, directions joined last and mass at infinity added."""
    (events,) = alternatives(loss)
    found = build_workload(events, loss.neighbours)
    low_mass, high_mass = (float(mass) for mass in mass_at_infinity(events))
    lower = upper = 0.0
    for way in DIRECTIONS:
        bounds = ask(found.upper[way], Target(epsilon=epsilon)).bounds
        lower = max(lower, low_mass + (1 - low_mass) * bounds.lower)
        upper = max(upper, high_mass + (1 - high_mass) * bounds.upper)
    return lower * (1 - 1e-15), upper * (1 + 1e-15)


def coarse_grid(laws, target, resolution=384):
    """The grid engine on a grid of its own, also where an exact lattice exists: a second opinion,
    not the first."""
    if not laws:
        return Answer(acc.Bounds(0.0, 0.0), "nothing")
    upper, lower = grid_laws(laws, "upper"), grid_laws(laws, "lower")
    pair = GridPair(upper, grid_step(upper, resolution), None, float(target.epsilon), lower)
    low, high = float(target.epsilon) * (1 - 1e-15), float(target.epsilon) * (1 + 1e-15)
    return Answer(acc.Bounds(pair.delta(high).lower, pair.delta(low).upper), "grid")


def test_there_are_fifty_of_each_kind():
    counts = {
        kind: sum(case["kind"] == kind for case in CASES)
        for kind in ("discrete", "sampled", "mixed", "infinite")
    }
    assert min(counts.values()) >= 50, counts


@pytest.mark.parametrize("chunk", mark_rest(range(20), quick=2))
def test_truth_lies_in_the_brackets_of_both_engines(chunk):
    for case in CASES[chunk::20]:
        loss, epsilon = acc.parse(case["loss"]), Fraction(case["epsilon"])
        truth = Fraction(case["delta"])
        blur = Fraction(1, 10**15)
        reading = read_delta(loss, epsilon)
        main = reading.bounds
        assert Fraction(main.lower) <= truth * (1 + blur), case
        assert Fraction(main.upper) >= truth * (1 - blur), case
        if not reading.engine.startswith("grid"):
            assert main.upper - main.lower <= 1e-6 * float(truth), (case, main)
        grid = engine_delta(loss, epsilon, coarse_grid)
        assert Fraction(grid[0]) <= truth * (1 + blur), (case, grid)
        assert Fraction(grid[1]) >= truth * (1 - blur), (case, grid)
        assert max(grid[0], main.lower) <= min(grid[1], main.upper)
        assert grid[1] < 1, "an engine that says nothing proves nothing"
        if case["kind"] != "discrete":
            contour = engine_delta(
                loss, epsilon, lambda laws, target: solve(laws, target, engine="contour")
            )
            assert Fraction(contour[0]) <= truth * (1 + blur), (case, contour)
            assert Fraction(contour[1]) >= truth * (1 - blur), (case, contour)


def test_grid_tightens_with_its_resolution():
    loss = acc.PoissonSampled(0.02, acc.Gaussian(1.2)) * 2000
    widths = []
    for resolution in (512, 2048):
        low, high = engine_delta(
            loss, Fraction(2), lambda laws, target, r=resolution: coarse_grid(laws, target, r)
        )
        widths.append(math.log(high / low))
    assert widths[1] < widths[0] / 4
