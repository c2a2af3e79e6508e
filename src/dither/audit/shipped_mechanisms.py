"""Every shipped mechanism as a subject of the tester: what it claims, and extreme neighbours to try
it on.

None may ever be accused (beyond the stated rate), which is the other half of showing that the
tester works. The mechanisms run as they are, from fresh randomness; only their outputs are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from dither import local
from dither import mechanisms as m
from dither.audit.black_box import test
from dither.audit.verdict import Budget, Verdict
from dither.plan.apply_operator import apply_operator
from dither.plan.norms import Sensitivity
from dither.plan.operator_norms import largest_norms
from dither.plan.operators import Boxes, HaarWavelet, LinearOperator
from dither.privacy.losses import Adjacency, Loss
from dither.privacy.mechanisms.rounded_gaussian import SampledRoundedGaussian
from dither.privacy.mechanisms.threshold_epoch import ThresholdEpoch
from dither.privacy.noise import SystemSource, Words

ONE = Sensitivity.of(largest=1)


@dataclass(frozen=True)
class Subject:
    """One mechanism, one pair of neighbours, one claim."""

    name: str
    mechanism: Callable[..., Any] = field(repr=False)
    pair: tuple[Any, Any]
    claim: Loss
    delta: float = 0.0
    vectorised: bool = True

    def audit(self, runs: int, alpha: float, *, progress: bool = False) -> Verdict:
        """Test the whole curve of the claim on this pair."""
        return test(
            self.mechanism,
            *self.pair,
            None,
            self.delta,
            claim=self.claim,
            budget=Budget(runs, alpha),
            name=self.name,
            vectorised=self.vectorised,
            progress=progress,
        )


def _run_cells(mechanism: Any) -> Callable[..., Any]:
    """Make a function that runs a mechanism on `size` copies of a vector of cells at once."""

    def run(values: list[int], size: int) -> Any:
        cells = np.array(values, np.int64)
        released = mechanism.release(np.broadcast_to(cells, (size, len(cells))).copy())
        return np.asarray(released[:, 0] if len(values) == 1 else released).astype(np.int64)

    return run


def _run_samples(mechanism: SampledRoundedGaussian) -> Callable[..., Any]:
    """Make a function that adds up samples of the units' numbers, and noise, `size` times at once.

    Each unit is in each sample by a coin of its own, as the sampler of the data room promises; that
    room is none that an audit may read, and `tests/data/test_sampled_sums.py` audits its own coins.
    """

    def run(units: list[int], size: int) -> Any:
        coins = SystemSource().words(size * len(units)).reshape(size, len(units))
        is_in_sample = coins < np.uint64(int(mechanism.rate * 2**64))
        return mechanism.release(is_in_sample @ np.array(units, np.int64)).astype(np.int64)

    return run


def _run_boxes(mechanism: m.IntegerBox) -> Callable[..., Any]:
    """Make a function that runs a box on `size` copies of some cells at once.

    The numbers of the cells stand one after the other.
    """

    def run(values: list[int], size: int) -> Any:
        released = mechanism.release(
            np.tile(np.array(values, np.int64), size).reshape(-1, len(mechanism.sides))
        )
        return released.reshape(size, -1).astype(np.int64)

    return run


def _run_products(operator: LinearOperator, mechanism: Any) -> Callable[..., Any]:
    """Vectorised: noise on the product of a public operator with some cells."""

    def run(values: list[int], size: int) -> Any:
        products = apply_operator(operator, np.array(values, object), sum(map(abs, values)) + 1)
        return _run_cells(mechanism)(products.tolist(), size)

    return run


def _run_epoch(epoch: ThresholdEpoch) -> Callable[[Any], Any]:
    """Make a function that compares sums with the estimate 0 up to the first hit, as a lease does.

    It gives the position of the hit and its noisy answer; the number of sums and 0 without one.
    """

    def run(sums: list[int]) -> list[int]:
        source = SystemSource()
        noisy_threshold = epoch.draw_threshold(1, source)
        for position, exact in enumerate(sums):
            if epoch.is_hit(abs(exact), noisy_threshold, source):
                return [position, epoch.answer_hit(exact, source)]
        return [len(sums), 0]

    return run


def _run_once(mechanism: Any) -> Callable[[Any], Any]:
    return lambda data: mechanism.release(data)


def _run_keys(rule: Any, release: Callable[[Any], Any]) -> Callable[..., Any]:
    """Make a function that runs a rule for keys on `size` copies of the counts at once.

    Such rules treat every key on its own, so the copies are one long list.
    """

    def run(counts: list[int], size: int) -> Any:
        """Release `size` copies of the counts at once, one row of kept keys for each copy."""
        return (
            np.asarray(release(np.tile(np.array(counts, np.int64), size)))
            .reshape(size, -1)
            .astype(np.int64)
        )

    return run


def _run_local(protocol: local.Protocol) -> Callable[..., Any]:
    def run(value: Any, size: int) -> Any:
        return protocol.randomise(np.repeat(np.asarray(value)[None], size, axis=0), SystemSource())

    return run


def _selection_run(source: Words) -> tuple[int, int]:
    noise = int(m.IntegerLaplace(Fraction(1), ONE).release(0, source=source)[0])
    return noise, noise


def list_central() -> list[Subject]:
    """The mechanisms of `dither.privacy.mechanisms`."""
    laplace = m.IntegerLaplace.for_epsilon(1, ONE)
    wide = m.IntegerLaplace.for_epsilon(1, Sensitivity.of(cells=3, largest=1))
    box = m.IntegerBox.for_epsilon(1, sides=(1, 3), rows=1)
    two_rows = m.IntegerBox.for_epsilon(1, sides=(1, 3), rows=2)
    gaussian = m.IntegerGaussian.for_rho(Fraction(1, 2), ONE)
    spread = m.IntegerGaussian.for_rho(Fraction(1, 2), Sensitivity.of(cells=3, largest=1))
    rounded = m.IntegerRoundedGaussian.for_rho(Fraction(1, 2), ONE)
    sampled = SampledRoundedGaussian(
        Fraction(1), Sensitivity.of(largest=2), rate=Fraction(1, 4), unit="unit"
    )
    norms = largest_norms(haar := HaarWavelet(4))
    linear = m.IntegerLaplace.for_epsilon(1, Sensitivity(*norms))
    boxes = Boxes((2, 2), (0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0))
    boxed = m.IntegerLaplace.for_epsilon(1, Sensitivity(*largest_norms(boxes)))
    truncated = m.TruncatedGeometric.for_epsilon(1, low=0, high=8)
    stairs = m.Staircase.for_epsilon(2, Sensitivity.of(largest=10))
    best = m.ExponentialMechanism(Fraction(1), Fraction(1))
    flip = m.PermuteAndFlip(Fraction(1), Fraction(1))
    noisy = m.ReportNoisyMax(Fraction(1), Fraction(1))
    scores = m.ScoreSelection(Fraction(1), 2)
    flipped_scores = m.FlippedScoreSelection(Fraction(1), 2)
    blocks = m.AdaptiveBlocks.for_epsilon(
        Fraction(1), Fraction(1, 2), 1, (4,), "deviation", threshold=2
    )
    top = m.TopK.for_epsilon(1, k=2, sensitivity=1)
    keys = m.TruncatedGeometricKeys(Fraction(1), Fraction(1, 100), groups=1)
    many = m.GaussianKeys.for_rho(Fraction(1, 4), Fraction(1, 100), groups=2)
    replaced = m.ThresholdKeys.for_rho(
        Fraction(1, 4), Fraction(1, 100), groups=1, adjacency=Adjacency("replace")
    )
    counted = m.CountedKeys.for_rho(Fraction(1, 4), Fraction(1, 100), groups=2)
    median = m.Quantile(Fraction(1, 2), Fraction(1))
    flipped = m.FlippedQuantile(Fraction(1, 2), Fraction(1))
    quartiles = m.JointQuantiles(tuple(Fraction(i, 4) for i in (1, 2, 3)), Fraction(1))
    ends = m.QuantilesWithEnds(median, Fraction(1, 2), Fraction(4, 5), 4)
    tree = m.TreeCounter.for_epsilon(1, steps=4)
    svt = m.SparseVector.for_epsilon(1, hits=2)
    values = m.SparseVector.for_epsilon(1, hits=1, values=True)
    epoch = ThresholdEpoch.for_epsilon(Fraction(1), 1)
    graph = m.GraphCount.for_epsilon(1, "edges", cap=2)
    degrees = m.DegreeHistogram.for_epsilon(1, cap=2)
    answer = m.RandomisedResponse(Fraction(1), categories=4)
    tuned = m.PrivateSelection(Fraction(1), Fraction(1, 4))
    moments = m.ClippedMoments.for_epsilon(1, low=0, high=10)
    histogram = m.IntegerLaplace.for_epsilon(1, m.histogram_sensitivity(most_cells=2, most_each=1))

    def limited(units: list[list[int]], size: int) -> Any:
        counts = m.bounded_histogram(units, cells=3, most_cells=2, most_each=1)
        return _run_cells(histogram)(counts, size)

    def tuning(lifted: int) -> int:
        """Run the private selection with `lifted` added to score and output; return the output."""

        def run(source: Words) -> tuple[int, int]:
            score, output = _selection_run(source)
            return score + lifted, output + lifted

        return tuned.release(run)[1]

    def shown(released: Any) -> Any:
        return np.where(released[0], released[1], -1)

    return [
        Subject("IntegerLaplace", _run_cells(laplace), ([10], [11]), laplace.loss()),
        Subject("IntegerLaplace, 3 cells", _run_cells(wide), ([0, 0, 0], [1, 1, 1]), wide.loss()),
        Subject("IntegerBox, a corner", _run_boxes(box), ([0, 0], [1, -3]), box.loss()),
        Subject(
            "IntegerBox, 2 cells",
            _run_boxes(two_rows),
            ([0, 0, 0, 0], [1, 3, -1, 3]),
            two_rows.loss(),
        ),
        Subject("IntegerGaussian", _run_cells(gaussian), ([10], [11]), gaussian.loss(), 1e-3),
        Subject(
            "IntegerGaussian, 3 cells",
            _run_cells(spread),
            ([0, 0, 0], [1, 1, 1]),
            spread.loss(),
            1e-3,
        ),
        Subject("IntegerRoundedGaussian", _run_cells(rounded), ([10], [11]), rounded.loss(), 1e-3),
        Subject(
            "SampledRoundedGaussian",
            _run_samples(sampled),
            ([2, 2, 2], [2, 2]),
            sampled.loss(),
            1e-3,
        ),
        Subject(
            "IntegerLaplace on Haar products",
            _run_products(haar, linear),
            ([0, 0, 0, 0], [0, 0, 1, 0]),
            linear.loss(),
        ),
        Subject(
            "IntegerLaplace on overlapping boxes",
            _run_products(boxes, boxed),
            ([0, 0, 0, 0], [1, 0, 0, 0]),
            boxed.loss(),
        ),
        Subject("TruncatedGeometric", _run_cells(truncated), ([0], [1]), truncated.loss()),
        Subject("Staircase", _run_cells(stairs), ([0], [10]), stairs.loss()),
        Subject(
            "ExponentialMechanism",
            _run_once(best),
            ([0, 0, 0], [1, -1, -1]),
            best.loss(),
            0.0,
            False,
        ),
        Subject(
            "PermuteAndFlip", _run_once(flip), ([0, 0, 0], [1, -1, -1]), flip.loss(), 0.0, False
        ),
        Subject(
            "ReportNoisyMax", _run_once(noisy), ([0, 0, 0], [1, -1, -1]), noisy.loss(), 0.0, False
        ),
        Subject(
            "ScoreSelection, distances",
            _run_once(scores),
            ([4, 4, 0], [2, 6, 2]),
            scores.loss(),
            0.0,
            False,
        ),
        Subject(
            "FlippedScoreSelection, distances",
            _run_once(flipped_scores),
            ([4, 4, 0], [2, 6, 2]),
            flipped_scores.loss(),
            0.0,
            False,
        ),
        Subject(
            "AdaptiveBlocks",
            _run_once(blocks),
            ([9, 0, 0, 0], [8, 0, 0, 0]),
            blocks.loss(),
            0.0,
            False,
        ),
        Subject("TopK", _run_once(top), ([0, 0, 0, 0], [1, -1, -1, -1]), top.loss(), 0.0, False),
        Subject(
            "TruncatedGeometricKeys",
            _run_keys(keys, keys.release),
            ([2, 0, 3], [2, 1, 3]),
            keys.loss(),
            0.02,
        ),
        Subject(
            "GaussianKeys",
            _run_keys(many, lambda c: shown(many.release(c))),
            ([2, 0, 5], [2, 1, 6]),
            many.loss(),
            0.02,
        ),
        Subject(
            "ThresholdKeys",
            _run_keys(replaced, lambda c: shown(replaced.release(c))),
            ([1, 0, 5], [0, 1, 5]),
            replaced.loss(),
            0.02,
        ),
        Subject(
            "CountedKeys",
            _run_keys(counted, lambda c: counted.release_exact(c, SystemSource())),
            ([2, 0, 5], [2, 1, 6]),
            counted.loss(),
            0.02,
        ),
        Subject(
            "Quantile", _run_once(median), ([1, 0, 0, 1], [1, 0, 0, 2]), median.loss(), 0.0, False
        ),
        Subject(
            "FlippedQuantile",
            _run_once(flipped),
            ([1, 0, 0, 1], [1, 0, 0, 2]),
            flipped.loss(),
            0.0,
            False,
        ),
        Subject(
            "JointQuantiles",
            _run_once(quartiles),
            ([1, 0, 2], [1, 0, 3]),
            quartiles.loss(),
            0.0,
            False,
        ),
        Subject(
            "QuantilesWithEnds",
            _run_once(ends),
            ([1, 0, 0, 1], [1, 0, 0, 2]),
            ends.loss(),
            0.0,
            False,
        ),
        Subject(
            "TreeCounter", _run_once(tree), ([0, 0, 0, 0], [1, 0, 0, 0]), tree.loss(), 0.0, False
        ),
        Subject(
            "SparseVector", _run_once(svt), ([0, 0, 1, 1], [1, 1, 0, 0]), svt.loss(), 0.0, False
        ),
        Subject(
            "SparseVector, values",
            _run_once(values),
            ([0, 0, 1], [1, 1, 0]),
            values.loss(),
            0.0,
            False,
        ),
        Subject(
            "ThresholdEpoch", _run_epoch(epoch), ([0, 0, 2], [1, 1, 1]), epoch.loss(), 0.0, False
        ),
        Subject(
            "GraphCount",
            _run_once(graph),
            ([(1, 2), (3, 4)], [(1, 2), (3, 4), *((0, node) for node in range(1, 5))]),
            graph.loss(),
            0.0,
            False,
        ),
        Subject(
            "DegreeHistogram",
            _run_once(degrees),
            ([(1, 2), (3, 4)], [(1, 2), (3, 4), *((0, node) for node in range(1, 5))]),
            degrees.loss(),
            0.0,
            False,
        ),
        Subject("RandomisedResponse", _run_cells(answer), ([0], [1]), answer.loss()),
        Subject("PrivateSelection", tuning, (0, 1), tuned.loss(), 0.0, False),
        Subject(
            "ClippedMoments", _run_once(moments), ([3, 12], [3, 12, 99]), moments.loss(), 0.0, False
        ),
        Subject("bounded_histogram", limited, ([[0]], [[0], [0, 1, 1, 2]]), histogram.loss()),
    ]


def list_local() -> list[Subject]:
    """List the local randomisers to audit; any two values are neighbours."""
    chosen: list[tuple[local.Protocol, Any, Any]] = [
        (local.Direct(Fraction(1), 4), 0, 3),
        (local.SymmetricUnary(Fraction(1), 4), 0, 3),
        (local.OptimisedUnary(Fraction(1), 4), 0, 3),
        (local.Hadamard(Fraction(1), 5), 0, 3),
        (local.Subset(Fraction(1), 6), 0, 3),
        (local.LocalHash(Fraction(1), 4, 2, 3), 0, 3),
        (local.BitFlip(Fraction(1), 4, 2), 0, 3),
        (local.OneBit(Fraction(1)), -1.0, 1.0),
        (local.Piecewise(Fraction(1), cells=64), -1.0, 1.0),
        (local.SquareWave(Fraction(1), buckets=16), -1.0, 1.0),
    ]
    return [
        Subject(f"local.{type(p).__name__}", _run_local(p), (first, second), p.loss())
        for p, first, second in chosen
    ]


def subjects() -> list[Subject]:
    """All shipped mechanisms, central and local, and workloads in steps."""
    from dither.audit.step_workloads import list_step_workloads

    return [*list_central(), *list_local(), *list_step_workloads()]
