"""How the marginals of a synthetic table are selected and measured, out of one lease.

Every method measures single columns first, puts rare values together, and fits a graphical model.
They differ in which larger marginals are measured: none (independent), the whole table (histogram),
a tree of pairs (mst), the worst fitted pair again and again (aim, mwem), or each column with up to
two earlier ones (privbayes). Selection is by scores with a bound for every number of rows: L1
distances of counts from public vectors. Proof: docs/proofs/synthetic-tables.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import prod, sqrt
from typing import TypeAlias

import numpy as np

from dither.errors import ParameterError
from dither.synth.choice_bounds import CandidateBound, bound_candidates, bound_gaps
from dither.synth.columns import SynthColumn
from dither.synth.contraction import Table
from dither.synth.deadline import check_deadline
from dither.synth.estimate import (
    Measurement,
    estimate_total,
    fit_model,
    fit_tree,
    merge_measurements,
    project_counts,
)
from dither.synth.fitted import FittedTable
from dither.synth.groupings import ValueGrouping, group_ordered, group_rare, keep_all
from dither.synth.junction_tree import Clique, count_model_cells
from dither.synth.model import GraphicalModel
from dither.synth.steps import MadeChoice, MarginalCandidate, TableSteps
from dither.synth.warm_start import PublicTable, find_public_potentials

MOST_MODEL_CELLS = 100_000
"""Cells of all maximal cliques together; checked before a marginal is chosen."""
MOST_HISTOGRAM_CELLS = 4096
MOST_BINS = 32
SINGLES_SHARE = Fraction(1, 5)
CHOICE_SHARE = Fraction(1, 10)
ROUND_STEPS = 30
FINAL_STEPS = 300
_RARE = 3.0
"""Groups aim at no fewer than this many standard errors of rows."""
_ERRORS_A_ROUND = 16.0
"""A table of t standard errors of rows gets t / 16 rounds: with more noise fewer, dearer ones."""
_MOST_CANDIDATE_CELLS = 200_000
_IMPOSSIBLE = 60.0
"""The logarithm by which a cell that no row can have lies below the largest one."""


@dataclass
class FitState:
    """A fit under way: what was measured over groups, and the model of it."""

    steps: TableSteps
    groupings: list[ValueGrouping]
    singles: list[Table]
    total: float
    measured: dict[Clique, Measurement]
    model: GraphicalModel
    bounds: dict[Clique, CandidateBound] = field(default_factory=dict)
    single_counts: tuple[Measurement, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many groups every attribute has."""
        return tuple(grouping.size for grouping in self.groupings)

    def add(self, measurement: Measurement, steps: int) -> None:
        """Take a measurement in, and fit again from where the model stands."""
        clique = measurement.clique
        earlier = [self.measured[clique]] if clique in self.measured else []
        self.measured |= merge_measurements([*earlier, measurement])
        self.refit(steps)

    def refit(self, steps: int) -> None:
        """Fit the model to what was measured, starting from the present one."""
        start = forbid_cells(self.model.potentials, self.steps, self.groupings)
        self.model = fit_model(self.sizes, self.measured, self.total, start=start, steps=steps)

    def bound(self, choices: list[MadeChoice], measured: Mapping[Clique, Measurement]) -> None:
        """Bound the candidates of choices by the first measurement of each chosen candidate."""
        checked = [choice for choice in choices if choice.chosen.clique in measured]
        self.bounds = {}
        for choice in checked:
            fresh = measured[choice.chosen.clique]
            found = bound_candidates(
                choice, fresh, len(checked), is_gaussian=self.steps.is_gaussian
            )
            for clique, bound in found.items():
                if clique not in self.bounds or bound.distance < self.bounds[clique].distance:
                    self.bounds[clique] = bound

    def finish(self) -> FittedTable:
        """The fitted table, after a last long fit."""
        self.refit(FINAL_STEPS)
        return FittedTable(
            self.model,
            tuple(self.groupings),
            tuple(self.singles),
            tuple(self.measured.values()),
            bound_gaps(self.bounds, self.model, self.measured),
            self.single_counts,
        )


def forbid_cells(
    potentials: Mapping[Clique, Table], steps: TableSteps, groupings: list[ValueGrouping]
) -> dict[Clique, Table]:
    """Potentials with next to nothing in cells that no row can have.

    A cell of groups stays where any of its values is possible. Rules that would make the model too
    large are left to drawing.
    """
    forbidden = dict(potentials)
    sizes = tuple(grouping.size for grouping in groupings)
    for clique, zeros in steps.zeros.items():
        if count_model_cells(sizes, [*forbidden, clique]) > MOST_MODEL_CELLS:
            continue
        possible = (~zeros).astype(float)
        for axis, attribute in enumerate(clique):
            grouped = np.tensordot(groupings[attribute].matrix, possible, axes=(1, axis))
            possible = np.moveaxis(grouped, 0, axis)
        table = forbidden.get(clique, np.zeros(possible.shape))
        forbidden[clique] = np.where(possible > 0, table, table.max() - _IMPOSSIBLE)
    return forbidden


Method: TypeAlias = Callable[[TableSteps, tuple[SynthColumn, ...]], FittedTable]


def _start(
    steps: TableSteps, columns: tuple[SynthColumn, ...], price: Fraction, *, is_grouped: bool = True
) -> FitState:
    """Measure all single columns for one price together; group their values by what came out."""
    whole = [keep_all(column.size) for column in columns]
    prices = split_price(price, [column.size for column in columns])
    noisy = [steps.measure((a,), [whole[a]], prices[a]) for a in range(len(columns))]
    total, _ = estimate_total(noisy)
    singles = [project_counts(measurement.counts, total) for measurement in noisy]
    groupings = whole
    if is_grouped:
        groupings = [
            _group(column, single, sqrt(float(measurement.variance[0])))
            for column, single, measurement in zip(columns, singles, noisy, strict=True)
        ]
    measured: dict[Clique, Measurement] = {
        (a,): Measurement(
            (a,),
            groupings[a].matrix @ noisy[a].counts,
            groupings[a].matrix @ noisy[a].variance,
        )
        for a in range(len(columns))
    }
    sizes = tuple(grouping.size for grouping in groupings)
    model = GraphicalModel(sizes, total, fit_tree(sizes, measured))
    state = FitState(steps, groupings, singles, total, measured, model, single_counts=tuple(noisy))
    state.refit(ROUND_STEPS)
    return state


def split_price(price: Fraction, sizes: list[int]) -> list[Fraction]:
    """Shares of one price for the single columns: columns with many values get more.

    The errors of all counts add up to a multiple of sum(size / sqrt(share)) with Gaussian noise,
    which is least where the shares are as size^(2/3). Sizes are public.

    >>> [round(float(share), 3) for share in split_price(Fraction(1), [2, 16])]
    [0.2, 0.8]
    """
    weights = [max(1, round(1000 * size ** (2 / 3))) for size in sizes]
    return [price * weight / sum(weights) for weight in weights]


def _group(column: SynthColumn, single: Table, error: float) -> ValueGrouping:
    """Groups of about equal counts for ordered columns, one group of rare labels for others; nulls
    stay apart."""
    values = single[:-1] if column.has_null else single
    if column.is_ordered:
        grouping = group_ordered(values, MOST_BINS, _RARE * error)
    else:
        grouping = group_rare(values, _RARE * error)
    if not column.has_null:
        return grouping
    return ValueGrouping((*grouping.labels, grouping.size))


def fit_independent(steps: TableSteps, columns: tuple[SynthColumn, ...]) -> FittedTable:
    """All columns apart: right where nothing depends on anything, and the baseline elsewhere."""
    return _start(steps, columns, steps.left, is_grouped=False).finish()


def fit_histogram(steps: TableSteps, columns: tuple[SynthColumn, ...]) -> FittedTable:
    """The whole table at once, for few cells."""
    sizes = tuple(column.size for column in columns)
    whole = [keep_all(size) for size in sizes]
    everything = tuple(range(len(columns)))
    measurement = steps.measure(everything, whole, steps.left)
    total, _ = estimate_total([measurement])
    table = project_counts(measurement.counts, total)
    floor = 1e-12 * total
    potentials = forbid_cells({everything: np.log(table + floor)}, steps, whole)
    model = GraphicalModel(sizes, total, potentials)
    singles = tuple(model.find_marginal((attribute,)) for attribute in everything)
    return FittedTable(model, tuple(whole), singles, (measurement,))


def fit_aim(steps: TableSteps, columns: tuple[SynthColumn, ...]) -> FittedTable:
    """The worst fitted pair again and again, less what its noise would cost (McKenna, Mullins,
    Sheldon and Miklau, VLDB 2022)."""
    state = _start(steps, columns, steps.left * SINGLES_SHARE)
    return _run_rounds(state, columns, rounds=_count_rounds(state), is_penalised=True)


def _count_rounds(state: FitState) -> int:
    """One to two rounds a column, by how far the table stands out of the noise of its columns."""
    columns = len(state.groupings)
    singles = [s for s in state.steps.released if s.kind == "counts" and len(s.columns) == 1]
    error = sqrt(len(singles) / sum(1 / single.error**2 for single in singles))
    rounds = int(state.total / (_ERRORS_A_ROUND * error))
    return min(2 * columns, max(columns, rounds))


def fit_from_earlier(
    steps: TableSteps, columns: tuple[SynthColumn, ...], earlier: FittedTable
) -> FittedTable:
    """Rounds of aim on top of what an earlier lease measured: its single columns are not paid for
    again."""
    measured = {measurement.clique: measurement for measurement in earlier.measurements}
    state = FitState(
        steps,
        list(earlier.groupings),
        list(earlier.singles),
        earlier.model.total,
        measured,
        earlier.model,
        single_counts=earlier.single_counts,
    )
    return _run_rounds(state, columns, rounds=len(columns), is_penalised=True)


def fit_from_public(
    steps: TableSteps, columns: tuple[SynthColumn, ...], public: PublicTable
) -> FittedTable:
    """Like aim, from a model in which columns depend on each other as in a public table."""
    state = _start(steps, columns, steps.left * SINGLES_SHARE)
    start = find_public_potentials(public, columns, state.groupings)
    cells = count_model_cells(state.sizes, [*state.measured, *start])
    if cells <= MOST_MODEL_CELLS:
        potentials = {**state.model.potentials, **start}
        state.model = GraphicalModel(state.sizes, state.total, potentials)
        state.refit(ROUND_STEPS)
    return _run_rounds(state, columns, rounds=_count_rounds(state), is_penalised=True)


def fit_child(steps: TableSteps, columns: tuple[SynthColumn, ...], links: Clique) -> FittedTable:
    """Like aim, with the columns of the parent in one clique, so that rows can be drawn given
    them."""
    state = _start(steps, columns, steps.left * SINGLES_SHARE)
    if len(links) > 1:
        own = [state.groupings[attribute] for attribute in links]
        state.add(steps.measure(links, own, steps.left / 10), ROUND_STEPS)
    return _run_rounds(state, columns, rounds=_count_rounds(state), is_penalised=True)


def fit_mwem(steps: TableSteps, columns: tuple[SynthColumn, ...]) -> FittedTable:
    """The worst fitted pair again and again, whatever its noise; half of each round chooses (Hardt,
    Ligett and McSherry, NeurIPS 2012, with a graphical model for the weights)."""
    state = _start(steps, columns, steps.left * SINGLES_SHARE)
    return _run_rounds(
        state, columns, rounds=len(columns), is_penalised=False, choice=Fraction(1, 2)
    )


def _run_rounds(
    state: FitState,
    columns: tuple[SynthColumn, ...],
    *,
    rounds: int,
    is_penalised: bool,
    choice: Fraction = CHOICE_SHARE,
) -> FittedTable:
    """Choose, measure and fit while the lease lasts; rounds cost the same, the last one what is
    left.

    A pair that is chosen again says that all others are too noisy at this price: it doubles then.
    """
    if len(columns) == 1:
        return state.finish()
    price = state.steps.left / rounds
    while state.steps.left > 0:
        if state.steps.left < 2 * price:
            price = state.steps.left
        candidates = _list_pairs(state, price * (1 - choice), is_penalised=is_penalised)
        if not candidates:
            break
        chosen = candidates[state.steps.choose(candidates, state.groupings, price * choice)]
        own = [state.groupings[attribute] for attribute in chosen.clique]
        rest = min(price * (1 - choice), state.steps.left)
        is_repeated = chosen.clique in state.measured
        fresh = state.steps.measure(chosen.clique, own, rest)
        state.bound(state.steps.choices[-1:], {fresh.clique: fresh})
        state.steps.choices.clear()  # targets are large, and the last choice says most
        state.add(fresh, ROUND_STEPS)
        if state.steps.left < price / 1000:
            break
        if is_repeated and is_penalised:
            price *= 2
    return state.finish()


def _list_pairs(state: FitState, price: Fraction, *, is_penalised: bool) -> list[MarginalCandidate]:
    """The pairs that keep the model small enough, with what the model says of them."""
    candidates = []
    for clique, table in state.model.find_pairs().items():
        if not _fits(state, clique):
            continue
        penalty = 0.0
        if is_penalised:
            penalty = state.steps.find_error(clique, price) * table.size
        candidates.append(MarginalCandidate(clique, table, -penalty))
    return candidates


def _fits(state: FitState, clique: Clique) -> bool:
    """Whether a model with one more clique stays within its size; from public numbers alone."""
    check_deadline()
    if any({*clique} <= {*larger} for larger in state.model.tree.cliques):
        return True
    cells = count_model_cells(state.sizes, [*state.model.potentials, *state.measured, clique])
    return cells <= MOST_MODEL_CELLS


def fit_mst(steps: TableSteps, columns: tuple[SynthColumn, ...]) -> FittedTable:
    """A spanning tree of the pairs that are farthest from independent (McKenna, Miklau and Sheldon,
    2021): one third singles, one third choices, one third pairs."""
    third = steps.left / 3
    state = _start(steps, columns, third)
    groups = {attribute: attribute for attribute in range(len(columns))}
    tables = state.model.find_pairs()
    chosen: list[Clique] = []
    for _ in range(len(columns) - 1):
        candidates = [
            MarginalCandidate(clique, table)
            for clique, table in tables.items()
            if groups[clique[0]] != groups[clique[1]]
        ]
        position = steps.choose(candidates, state.groupings, third / (len(columns) - 1))
        clique = candidates[position].clique
        chosen.append(clique)
        merged = groups[clique[1]]
        groups = {a: groups[clique[0]] if g == merged else g for a, g in groups.items()}
    for count, clique in enumerate(chosen):
        own = [state.groupings[attribute] for attribute in clique]
        price = steps.left / (len(chosen) - count)
        measurement = steps.measure(clique, own, price)
        state.measured[clique] = measurement
    state.bound(steps.choices, {clique: state.measured[clique] for clique in chosen})
    state.model = GraphicalModel(state.sizes, state.total, fit_tree(state.sizes, state.measured))
    return state.finish()


def fit_privbayes(steps: TableSteps, columns: tuple[SynthColumn, ...]) -> FittedTable:
    """Each column with up to two earlier ones (Zhang et al., SIGMOD 2014). The score is not mutual
    information, which one row moves without bound: it is the L1 distance of the counts from what
    independence of the released singles says."""
    if len(columns) == 1:
        return fit_independent(steps, columns)
    state = _start(steps, columns, steps.left * SINGLES_SHARE)
    choices = (steps.left * 3 / 10) / (len(columns) - 1)
    chosen: list[Clique] = []
    placed: list[int] = []
    for _ in range(len(columns) - 1):
        candidates = _list_parents(state, placed)
        position = steps.choose(candidates, state.groupings, choices)
        steps.choices.clear()  # targets of three columns are large
        chosen.append(candidates[position].clique)
        placed += [a for a in chosen[-1] if a not in placed]
        if len(placed) == len(columns):
            break
    for count, clique in enumerate(chosen):
        own = [state.groupings[attribute] for attribute in clique]
        measurement = steps.measure(clique, own, steps.left / (len(chosen) - count))
        state.measured |= merge_measurements([measurement])
    state.model = GraphicalModel(state.sizes, state.total, fit_tree(state.sizes, state.measured))
    return state.finish()


def _list_parents(state: FitState, placed: list[int]) -> list[MarginalCandidate]:
    """The next column with one or two of those placed; at the start every pair."""
    everything = range(len(state.groupings))
    cliques: list[Clique] = list(combinations(everything, 2))
    if placed:
        free = [attribute for attribute in everything if attribute not in placed]
        parents = [*combinations(sorted(placed), 1), *combinations(sorted(placed), 2)]
        cliques = [(*sorted((attribute, *parent)),) for attribute in free for parent in parents]
    return [
        MarginalCandidate(clique, state.model.find_marginal(clique))
        for clique in cliques
        if len(clique) == 2 or _is_small(state, clique)
    ]


def _is_small(state: FitState, clique: Clique) -> bool:
    values = prod(state.groupings[attribute].values for attribute in clique)
    return values <= _MOST_CANDIDATE_CELLS and _fits(state, clique)


METHODS: dict[str, Method] = {
    "independent": fit_independent,
    "histogram": fit_histogram,
    "mst": fit_mst,
    "aim": fit_aim,
    "mwem": fit_mwem,
    "privbayes": fit_privbayes,
}


def choose_method(name: str, columns: tuple[SynthColumn, ...]) -> str:
    """Choose the method of a table, from the catalog alone.

    `auto` is histogram, the whole table at once, where that has few cells, and aim otherwise. A
    single column has no pairs, so every method is independent there.
    """
    cells = prod(column.size for column in columns)
    if name == "auto":
        name = "histogram" if cells <= MOST_HISTOGRAM_CELLS // 16 else "aim"
    if name not in METHODS:
        raise ParameterError(f"no method {name!r}: there are auto, {', '.join(METHODS)}")
    if name == "histogram" and cells > MOST_HISTOGRAM_CELLS:
        raise ParameterError(
            f"the whole table has {cells:,} cells: a histogram takes at most "
            f"{MOST_HISTOGRAM_CELLS:,}. Choose method='aim', or fewer columns"
        )
    return "independent" if len(columns) == 1 else name
