"""How the families of key selection build their mechanisms for the share of one step."""

from __future__ import annotations

from dither.privacy.mechanisms.gaussian_keys import CountedKeys, GaussianKeys, ThresholdKeys
from dither.privacy.mechanisms.key_selection import TruncatedGeometricKeys
from dither.privacy.mechanisms.step_terms import Built, StepTerms


def build_geometric_keys(terms: StepTerms) -> Built:
    """Build the optimal key selection at epsilon_i and delta_i, the shares of this step."""
    return Built(
        TruncatedGeometricKeys(terms.share, terms.delta, _keys_per_unit(terms), *terms.adjacency)
    )


def build_gaussian_keys(terms: StepTerms) -> Built:
    """Build a key selection by Gaussian noise at rho_i and delta_i, by the law of release 0.1."""
    return Built(_build_threshold(GaussianKeys, terms))


def build_threshold_keys(terms: StepTerms) -> Built:
    """Build a key selection by Gaussian noise at rho_i and delta_i."""
    return Built(_build_threshold(ThresholdKeys, terms))


def build_counted_keys(terms: StepTerms) -> Built:
    """The same, with the counts of the keys that are shown."""
    return Built(_build_threshold(CountedKeys, terms))


def _build_threshold(law: type[GaussianKeys], terms: StepTerms) -> GaussianKeys:
    return law.for_rho(
        terms.share, terms.delta, groups=_keys_per_unit(terms), adjacency=terms.adjacency
    )


def _keys_per_unit(terms: StepTerms) -> int:
    """Return how many keys one unit can have; the mechanism itself doubles them under replace."""
    cells = terms.analysed.reach.cells
    return -(-cells // 2) if terms.analysed.neighbours == "replace" else cells
