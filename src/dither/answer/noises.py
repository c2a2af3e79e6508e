"""The noises of released numbers: laws and positions of all atoms of a grouping set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dither.answer.draws import NoiseLaw, make_noise_law
from dither.answer.interval_shapes import BaseFacts
from dither.answer.quantile_intervals import NO_BANDS, Bands
from dither.laws import AdditiveErrorLaw, HasErrorTerms, find_error_law
from dither.question.recipe import Atom, Recipe
from dither.question.shapes import Affine


@dataclass(frozen=True)
class Noises:
    """The noise of every atom of one grouping set; None for what is not additive (quantiles).

    `positions` tells atoms apart: two with the same position are the same released number.
    """

    atoms: tuple[Atom, ...]
    laws: tuple[NoiseLaw | None, ...]
    positions: tuple[tuple[int, int], ...]
    bands: Bands = NO_BANDS

    @classmethod
    def from_mechanisms(
        cls,
        atoms: Sequence[Atom],
        mechanisms: Sequence[HasErrorTerms],
        positions: Sequence[tuple[int, int]],
        bands: Bands = NO_BANDS,
    ) -> Noises:
        """Collect the noise laws of the atoms, from one mechanism for each query.

        `positions` has (query, column) of each atom. Errors that are not additive have no law:
        None.
        """
        laws: list[NoiseLaw | None] = []
        for query, column in positions:
            error = find_error_law(mechanisms[query], column)
            law = make_noise_law(error) if isinstance(error, AdditiveErrorLaw) else None
            laws.append(
                replace(law, joint=query) if law is not None and law.error.is_joint else law
            )
        return cls(tuple(atoms), tuple(laws), tuple(positions), bands)

    @cached_property
    def base_facts(self) -> BaseFacts:
        """What decides which inner values have intervals of their own."""
        quantiles = frozenset(atom for atom, law in enumerate(self.laws) if law is None)
        return BaseFacts(quantiles, lambda whole: find_noise_deviation(whole, self))


def list_noises(
    recipe: Recipe, mechanisms: Sequence[HasErrorTerms], bands: Bands = NO_BANDS
) -> list[Noises]:
    """List the noises of every grouping set."""
    return [
        Noises.from_mechanisms(recipe.atoms, mechanisms, grouping_set.positions, bands)
        for grouping_set in recipe.sets
    ]


def weigh_positions(
    linear_form: Affine, noises: Noises
) -> dict[tuple[int, int], tuple[float, NoiseLaw]]:
    """Map (query, column) to (weight in grid steps, law) of the numbers an affine function reads.

    Atoms at the same position are one number, so their weights add up.
    """
    by_position: dict[tuple[int, int], tuple[float, NoiseLaw]] = {}
    for atom, weight in linear_form.weights:
        law = noises.laws[atom]
        assert law is not None
        position = noises.positions[atom]
        step = float(weight * noises.atoms[atom].unit)
        by_position[position] = (by_position.get(position, (0.0, law))[0] + step, law)
    return by_position


def find_noise_deviation(linear_form: Affine, noises: Noises) -> float:
    """Compute the standard deviation of the noise of an affine function of atoms."""
    squares = [
        (weight * law.deviation) ** 2
        for weight, law in weigh_positions(linear_form, noises).values()
    ]
    return math.sqrt(sum(squares))
