"""Bound how far the model is off in pairs that were not measured, by a choice among them.

A choice takes about the worst fitted candidate. Once that candidate is measured, it is known how
badly it fitted, and no other candidate can have fitted much worse (McKenna, Mullins, Sheldon and
Miklau, AIM, PVLDB 2022, section 5). Everything here follows from released numbers. Proof:
docs/proofs/synthetic-tables.md#what-is-known-of-the-error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from dither.synth.contraction import Table
from dither.synth.estimate import Measurement
from dither.synth.junction_tree import Clique
from dither.synth.model import GraphicalModel
from dither.synth.quality import bound_square
from dither.synth.steps import SCALE, MadeChoice

_CHANCE = 0.0125
"""The chance of each of two errors, over all choices together: that noise took a candidate which
fits too well, and that the noise of a measurement misleads."""


@dataclass(frozen=True)
class CandidateBound:
    """The largest L1 distance of exact counts from a target, in rows, with 97.5% confidence for all
    candidates of a choice together."""

    target: Table
    distance: float


def bound_candidates(
    choice: MadeChoice, fresh: Measurement, choices: int = 1, *, is_gaussian: bool = False
) -> dict[Clique, CandidateBound]:
    """Bound every candidate of a choice by a later measurement of the chosen candidate.

    `choices` says how many choices are used, which share the chance of an error. The score of the
    chosen candidate is at most `slack` below the largest. Targets and offsets are rounded to
    eighths of a row, which adds a sixteenth for each cell of the two targets and for each offset.
    """
    chosen = choice.chosen
    chance = _CHANCE / choices
    slack = choice.scale * log(len(choice.candidates) / chance)
    variance = float(fresh.variance.flat[0])
    square = bound_square(fresh.counts, chosen.target, variance, chance, is_gaussian=is_gaussian)
    worst = sqrt(chosen.target.size * square)
    return {
        candidate.clique: CandidateBound(
            candidate.target,
            max(0.0, worst + chosen.offset - candidate.offset + slack)
            + (candidate.target.size + chosen.target.size + 2) / (2 * SCALE),
        )
        for candidate in choice.candidates
    }


def bound_gaps(
    bounds: Mapping[Clique, CandidateBound],
    model: GraphicalModel,
    measured: Mapping[Clique, object],
) -> dict[Clique, float]:
    """Bound the L1 distance of counts of groups from the final model's, for cliques that were not
    measured. Bounds that say nothing, twice the rows and more, are left out."""
    gaps = {}
    for clique, bound in bounds.items():
        if clique in measured:
            continue
        moved = float(np.abs(model.find_marginal(clique) - bound.target).sum())
        if bound.distance + moved < 2 * model.total:
            gaps[clique] = bound.distance + moved
    return gaps
