"""What a method makes of a lease: a model over groups of values, and counts of single values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dither.synth.contraction import Table
from dither.synth.estimate import Measurement
from dither.synth.groupings import ValueGrouping, spread_groups
from dither.synth.junction_tree import Clique
from dither.synth.model import GraphicalModel


@dataclass(frozen=True)
class FittedTable:
    """A model over groups, the groups of every attribute, and the counts of its values, which say
    how a group is spread. `measurements` are the noisy counts over groups that it was fitted to.

    `gaps` bound, for cliques that were not measured, the L1 distance of the source's counts of
    groups from the model's, with 95% confidence. `single_counts` are the noisy counts of single
    values from which the groups were chosen; older files do not have them.
    """

    model: GraphicalModel
    groupings: tuple[ValueGrouping, ...]
    singles: tuple[Table, ...]
    measurements: tuple[Measurement, ...] = ()
    gaps: Mapping[Clique, float] = field(default_factory=dict)
    single_counts: tuple[Measurement, ...] = ()

    def find_marginal(self, clique: Clique) -> Table:
        """The expected counts of the values of some attributes, given in order."""
        return spread_groups(
            self.model.find_marginal(clique),
            [self.groupings[attribute] for attribute in clique],
            [self.singles[attribute] for attribute in clique],
        )
