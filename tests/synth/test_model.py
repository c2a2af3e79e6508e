"""The graphical model against whole tables: marginals, pairs, counts, estimation and rows."""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
import pytest

from dither.synth.draw_rows import draw_rows, draw_uniform, sort_rows
from dither.synth.estimate import (
    Measurement,
    estimate_total,
    fit_model,
    fit_tree,
    merge_measurements,
    project_counts,
)
from dither.synth.junction_tree import build_tree, count_model_cells
from dither.synth.model import GraphicalModel
from tests.synth.brute_force import add_up_joint, write_joint

SIZES = (2, 3, 2, 4, 3, 2)
STRUCTURES = {
    "unconnected": ((0,), (1,), (2, 3), (5,)),
    "chain": ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5)),
    "star": ((0, 3), (1, 3), (2, 3), (3, 4), (3, 5)),
    "cycle": ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)),
    "triples": ((0, 1, 2), (2, 3, 4), (1, 4), (5,)),
    "one table": ((0, 1, 2, 3, 4, 5),),
}


def make_model(cliques: tuple[tuple[int, ...], ...], seed: int = 1) -> GraphicalModel:
    """A model with potentials between -2 and 2."""
    generator = np.random.default_rng(seed)
    potentials = {
        clique: generator.uniform(-2, 2, [SIZES[attribute] for attribute in clique])
        for clique in cliques
    }
    return GraphicalModel(SIZES, 500.0, potentials)


def measure(joint: np.ndarray, cliques: tuple[tuple[int, ...], ...]) -> dict:
    """Measurements without noise."""
    return {
        clique: Measurement(clique, counts := add_up_joint(joint, clique), np.ones_like(counts))
        for clique in cliques
    }


@pytest.mark.parametrize("cliques", STRUCTURES.values(), ids=STRUCTURES)
def test_every_marginal_and_count_is_that_of_the_whole_table(cliques) -> None:
    model = make_model(cliques)
    joint = write_joint(model)
    for length in range(len(SIZES) + 1):
        for kept in combinations(range(len(SIZES)), length):
            expected = add_up_joint(joint, kept)
            np.testing.assert_allclose(model.find_marginal(kept), expected, rtol=1e-9)
    pairs = model.find_pairs()
    assert {*pairs} == {*combinations(range(len(SIZES)), 2)}
    for kept, table in pairs.items():
        np.testing.assert_allclose(table, add_up_joint(joint, kept), rtol=1e-9)
    counted = model.count_rows({0: [1], 3: [0, 2], 4: [1]})
    assert counted == pytest.approx(joint[1][:, :, [0, 2]][:, :, :, 1].sum(), rel=1e-9)


@pytest.mark.parametrize("cliques", STRUCTURES.values(), ids=STRUCTURES)
def test_a_junction_tree_holds_every_clique_and_runs_through_every_attribute(cliques) -> None:
    """The running intersection: cliques with an attribute hang together, so that edges with it are
    one fewer than cliques with it."""
    tree = build_tree(SIZES, cliques)
    for clique in cliques:
        assert any({*clique} <= {*larger} for larger in tree.cliques)
    for attribute in range(len(SIZES)):
        nodes = sum(attribute in clique for clique in tree.cliques)
        edges = sum(attribute in tree.separator(edge) for edge in tree.edges)
        assert nodes == edges + 1
    assert len(tree.edges) == len(tree.cliques) - 1
    reached = {0}
    for parent, child in tree.edges:
        assert parent in reached and child not in reached
        reached.add(child)


def test_the_size_of_a_cycle_of_six_is_four_triangles() -> None:
    """Min-fill adds three chords to a six-cycle: four triangles of 2^3 cells."""
    cycle = tuple(tuple(sorted((a, (a + 1) % 6))) for a in range(6))
    assert count_model_cells((2,) * 6, cycle) == 4 * 8


def test_elimination_takes_the_least_fill_of_all_at_every_step() -> None:
    """Ranks that are kept from step to step are those counted anew, by the definition: missing
    edges among the neighbours, then cells, then the number."""
    draws = np.random.default_rng(11)
    for _ in range(100):
        sizes = tuple(draws.integers(1, 9, 14).tolist())
        pairs = [tuple(sorted(draws.choice(14, 2, replace=False).tolist())) for _ in range(20)]
        edges = {frozenset(pair) for pair in pairs}
        left = {*range(14)}
        cells = []
        while left:
            near = {a: {b for b in left if frozenset((a, b)) in edges} for a in left}
            missing = {
                a: [{b, c} for b, c in combinations(near[a], 2) if c not in near[b]] for a in left
            }
            table = {a: sizes[a] * prod(sizes[b] for b in near[a]) for a in left}
            chosen = min(left, key=lambda a: (len(missing[a]), table[a], a))
            edges |= {frozenset(pair) for pair in missing[chosen]}
            cells.append(frozenset({chosen} | near[chosen]))
            left.remove(chosen)
        maximal = [own for own in cells if not any(own < larger for larger in cells)]
        expected = sum(prod(sizes[a] for a in own) for own in maximal)
        assert count_model_cells(sizes, pairs) == expected


@pytest.mark.parametrize("name", ["chain", "star", "cycle", "triples"])
def test_exact_marginals_come_out_again(name: str) -> None:
    """Marginals of a model of these cliques determine it: most entropy is that model (exponential
    family, Wainwright and Jordan 2008, theorem 3.4)."""
    cliques = STRUCTURES[name]
    joint = write_joint(make_model(cliques))
    model = fit_model(SIZES, measure(joint, cliques), 500.0, steps=4000)
    assert np.abs(write_joint(model) - joint).sum() < 0.5


@pytest.mark.parametrize("name", ["chain", "star"])
def test_the_closed_form_is_exact_on_trees_of_consistent_tables(name: str) -> None:
    cliques = STRUCTURES[name]
    joint = write_joint(make_model(cliques))
    model = GraphicalModel(SIZES, 500.0, fit_tree(SIZES, measure(joint, cliques)))
    np.testing.assert_allclose(write_joint(model), joint, atol=1e-4)


def test_product_data_is_found_to_be_independent() -> None:
    single = [np.array([3.0, 5.0]), np.array([2.0, 4.0])]
    joint = np.multiply.outer(*single)
    measured = measure(joint, ((0,), (1,), (0, 1)))
    model = fit_model((2, 2), measured, joint.sum(), steps=2000)
    np.testing.assert_allclose(write_joint(model), joint, rtol=1e-3)


def test_repeated_measurements_are_averaged_by_inverse_variance() -> None:
    first = Measurement((0,), np.array([10.0, 0.0]), np.array([1.0, 1.0]))
    second = Measurement((0,), np.array([20.0, 4.0]), np.array([1.0, 3.0]))
    merged = merge_measurements([first, second])[0,]
    np.testing.assert_allclose(merged.counts, [15.0, 1.0])
    np.testing.assert_allclose(merged.variance, [0.5, 0.75])
    total, variance = estimate_total([first, second])
    assert total == pytest.approx((10 / 2 + 24 / 4) / (1 / 2 + 1 / 4))
    assert variance == pytest.approx(4 / 3)


def test_counts_are_projected_to_the_nearest_table_without_negative_numbers() -> None:
    """Karush, Kuhn, Tucker: (5, 2, -4) of total 5 is (4, 1, 0); one number is taken off those
    above 0, and the others lie below it."""
    np.testing.assert_allclose(project_counts(np.array([5.0, 2.0, -4.0]), 5.0), [4, 1, 0])


@pytest.mark.parametrize("name", ["chain", "cycle", "triples"])
def test_rows_have_the_counts_of_the_model_up_to_rounding(name: str) -> None:
    """Systematic sampling is within one of the expected count in every group; an attribute with g
    groups of given values is off by at most g plus what its given attributes are off."""
    model = make_model(STRUCTURES[name])
    rows = draw_rows(model, 20_000, bytes(32))
    for attribute, size in enumerate(SIZES):
        drawn = np.bincount(rows[:, attribute], minlength=size) / 20_000
        expected = model.find_marginal((attribute,)) / model.total
        assert np.abs(drawn - expected).max() < 500 / 20_000
    again = draw_rows(model, 20_000, bytes(32))
    assert (rows == again).all()
    assert (rows != draw_rows(model, 20_000, bytes(31) + b"1")).any()


def test_the_stream_of_a_key_is_fixed_and_even() -> None:
    """SHAKE-256 of a fixed key: the mean of 10^5 numbers is fixed too, so this cannot flake."""
    numbers = draw_uniform(bytes(32), "x", 100_000)
    assert abs(numbers.mean() - 0.5) < 0.005
    assert (numbers == draw_uniform(bytes(32), "x", 100_000)).all()


@pytest.mark.parametrize(
    "sizes", [(), (3, 4), (1 << 20, 1 << 20, 50), (1 << 31, 1 << 31, 1 << 31)], ids=str
)
def test_rows_are_ordered_as_by_a_sort_of_one_column_after_the_other(
    sizes: tuple[int, ...],
) -> None:
    """np.lexsort is the oracle; codes within 64 bits, beyond them, and with equal points."""
    draws = np.random.default_rng(4)
    codes = [draws.integers(0, size, 999) // max(1, size // 7) * (size // 7) for size in sizes]
    points = draws.random(999)
    points[::5] = points[3]
    for own in (points, draws.random(999)):
        expected = np.lexsort((own, *reversed(codes)))
        assert sort_rows(own, codes).tolist() == expected.tolist()
