"""Vectors of units: the blocked sums against the oracle, the norm of every unit on all neighbours
of tiny tables, independence of other rows, samples, and planted mistakes (rules P15, P16, P37 and
P38 of the review: docs/proofs/unit-vectors.md)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction as F
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dither.audit.naive_vectors import Row, add_vectors, make_unit_vector
from dither.catalog import parse
from dither.data.vectors import add_up, clip, sample, trees
from dither.data.vectors.add_up import EncodedRows, add_unit_vectors, encode_rows
from dither.data.vectors.clip import clip_vectors
from dither.data.vectors.sample import draw_units
from dither.data.vectors.select import list_vector_columns
from dither.errors import RefusedError
from dither.plan import vectors
from dither.plan.algebra import UnitVectors
from dither.plan.analysed_query import AnalysedQuery, Analyses
from dither.plan.encodings import Binned
from dither.plan.vector_functions import FeatureSums, LogisticGradient, has_factors
from tests.case_lists import mark_between
from tests.plan.vector_samples import (
    FEATURES,
    FUNCTIONS,
    ROWS,
    draw_row,
    write_catalog,
)

Numbered = list[tuple[int, Row]]
KEY = bytes(range(32))


def analyse(query: UnitVectors, rows: int = 3, neighbours: str = "add_remove") -> AnalysedQuery:
    analysed = Analyses(parse(write_catalog(rows, neighbours))).analyse_query(query)
    assert analysed.released_rows > 0
    return analysed


def encode(analysed: AnalysedQuery, rows: Numbered, batch: int = 7) -> Iterator[EncodedRows]:
    """The rows as the engine would give them: batches of integers, null above the domain."""
    query = analysed.query
    assert isinstance(query, UnitVectors)
    domains = analysed.rows.columns
    names = list_vector_columns(query, analysed.rows).names
    batches = []
    for start in range(0, len(rows), batch):
        chunk = rows[start : start + batch]
        columns = {
            name: np.array(
                [domains[name].high + 1 if row[name] is None else row[name] for _, row in chunk]
            )
            for name in names
        }
        batches.append((np.array([unit for unit, _ in chunk]), columns))
    return encode_rows(query, analysed.rows, batches)


def measure(
    analysed: AnalysedQuery, rows: Numbered, batch: int = 7, key: bytes | None = None
) -> list[int]:
    assert isinstance(analysed.query, UnitVectors)
    blocks = encode(analysed, rows, batch)
    total = add_unit_vectors(analysed.query, analysed.rows, blocks, key)
    return [int(number) for number in total[:, 0]]


def draw_rows(draws: random.Random, units: int, most_rows: int = 3) -> Numbered:
    return [
        (unit, draw_row(draws)) for unit in range(units) for _ in range(draws.randint(1, most_rows))
    ]


@pytest.mark.parametrize("name", mark_between(FUNCTIONS, step=3))
def test_sums_are_those_of_the_oracle(name: str) -> None:
    draws = random.Random(name)
    for clip_norm, resolution in ((F(1), F(1, 1000)), (F(100), F(1, 7)), (F(1, 3), F(1, 50))):
        query = UnitVectors(ROWS, FEATURES, FUNCTIONS[name], clip_norm, resolution)
        analysed = analyse(query)
        rows = draw_rows(draws, 40)
        expected = add_vectors(
            query, [(str(unit), row) for unit, row in rows], analysed.rows.columns
        )
        assert any(expected)
        for batch in (1, 7, 1000):
            assert measure(analysed, rows, batch) == expected


FAR_EDGES = [
    (F(-(2**63)), F(1)),
    (F(1 - 2**63),),
    (F(1), F(2**63)),
    (F(2**63 - 1), F(2**64 - 1)),
]


@pytest.mark.parametrize("edges", FAR_EDGES, ids=str)
def test_edges_of_more_than_64_bits_make_bins_as_the_oracle_does(edges: tuple[F, ...]) -> None:
    """Edges are public, and checked before the charge: no array of integers may fail on them
    afterwards, nor put a row into another bin."""
    features = (Binned("a", edges), Binned("x", edges))
    query = UnitVectors(ROWS, features, FUNCTIONS["features"], F(9), F(1, 16))
    analysed = analyse(query)
    rows = draw_rows(random.Random(5), 20)
    named = [(str(unit), row) for unit, row in rows]
    assert measure(analysed, rows) == add_vectors(query, named, analysed.rows.columns)


def list_tiny_units() -> list[list[Row]]:
    """Every unit of at most two rows over the extremes of the columns, null included."""
    kinds = [
        {"a": a, "b": b, "x": x, "y": y}
        for a, b, x, y in product((0, 3), (1, None), (-20, None, 50), (0, 9))
    ]
    return [
        list(rows) for count in range(3) for rows in combinations_with_replacement(kinds, count)
    ]


def find_moves(analysed: AnalysedQuery, units: list[list[Row]]) -> NDArray[np.int64]:
    """What each of these units adds to the sum, beside three others."""
    others = [(unit, draw_row(random.Random(unit))) for unit in range(3)]
    alone = np.array(measure(analysed, others))
    return np.array(
        [measure(analysed, [*others, *((9, row) for row in unit)]) - alone for unit in units]
    )


def check_claims(name: str, neighbours: str, units: list[list[Row]]) -> None:
    query = UnitVectors(ROWS, FEATURES, FUNCTIONS[name], F(3, 2), F(1, 16))
    analysed = analyse(query, 2, neighbours)
    claim = analysed.sensitivity
    moves = find_moves(analysed, units)
    if neighbours == "replace":
        # the two units farthest apart: from each, the farthest of all others
        distances = (moves**2).sum(axis=1)[:, None] + (moves**2).sum(axis=1) - 2 * moves @ moves.T
        assert distances.max() <= claim.l2_squared
        return
    sizes = np.abs(moves)
    assert (sizes**2).sum(axis=1).max() <= claim.l2_squared
    assert sizes.sum(axis=1).max() <= claim.l1
    assert sizes.max() <= claim.linf
    for unit, move in zip(units, moves.tolist(), strict=True):
        assert move == make_unit_vector(query, unit, analysed.rows.columns)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("name", mark_between(FUNCTIONS, step=3))
def test_no_neighbour_moves_a_sum_beyond_the_claim(name: str, neighbours: str) -> None:
    """All neighbours over the extremes: 325 units, beside three others."""
    units = list_tiny_units()
    assert len(units) == 325
    check_claims(name, neighbours, units[:: 1 if neighbours == "replace" else 3])


def test_the_claim_is_floor_of_clip_over_resolution_and_twice_that_under_replace() -> None:
    query = UnitVectors(ROWS, FEATURES, FeatureSums(), F(2), F(3, 10))
    single = analyse(query).sensitivity
    double = analyse(query, neighbours="replace").sensitivity
    assert (single.l2_squared, single.linf) == (36, 6)
    assert (double.l2_squared, double.linf) == (144, 12)


def test_the_claim_is_reached_and_a_histogram_counts_whole_units() -> None:
    """One row of a value: a vector of norm exactly 1 stays, and is not shrunk below its step."""
    query = UnitVectors(ROWS, FEATURES[2:3], FeatureSums(), F(1), F(1))
    rows = [(unit, {"a": 0, "b": unit % 3, "x": 0, "y": 0}) for unit in range(10)]
    assert measure(analyse(query, 1), rows) == [4, 3, 3, 0]


# -- a unit's vector depends on its own rows alone (rules P15 and P37)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_vector_is_the_same_whoever_and_how_many_stand_beside_it(name: str) -> None:
    """Byte for byte, at every position, in blocks of every size, with 0 to 40 others."""
    draws = random.Random(5)
    query = UnitVectors(ROWS, FEATURES, FUNCTIONS[name], F(1, 2), F(1, 333))
    analysed = analyse(query, 1)
    mine = (99, draw_row(draws))
    alone = measure(analysed, [mine])
    for others in (1, 2, 7, 8, 9, 40):
        around = draw_rows(draws, others, 1)
        without = measure(analysed, around, 64)
        for position in {0, others // 2, others}:
            everybody = [*around[:position], mine, *around[position:]]
            moved = np.array(measure(analysed, everybody, 64)) - without
            assert moved.tolist() == alone


# -- fine steps: factors of rows are rounded, and sums are products of matrices

FINE = {name: function for name, function in FUNCTIONS.items() if has_factors(function)}
FINE_STEPS = ((F(1), F(1, 1 << 25)), (F(100), F(100, 1 << 32)), (F(1, 3), F(1, 3 << 28)))


@pytest.mark.parametrize("name", FINE)
def test_fine_sums_are_those_of_the_oracle(name: str) -> None:
    """Also of rows whose norm is the clip itself, and of lengths 2**-20 to 2**20 of it."""
    draws = random.Random(name)
    for clip_norm, resolution in FINE_STEPS:
        query = UnitVectors(ROWS, FEATURES, FINE[name], clip_norm, resolution)
        analysed = analyse(query, 1)
        rows = draw_rows(draws, 40, 1)
        named = [(str(unit), row) for unit, row in rows]
        expected = add_vectors(query, named, analysed.rows.columns)
        assert any(expected)
        for batch in (1, 7, 1000):
            assert measure(analysed, rows, batch) == expected


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("name", mark_between(FINE, step=3))
def test_no_neighbour_moves_a_fine_sum_beyond_the_claim(name: str, neighbours: str) -> None:
    units = [unit for unit in list_tiny_units() if len(unit) <= 1]
    check_fine_claims(name, neighbours, units)


def check_fine_claims(name: str, neighbours: str, units: list[list[Row]]) -> None:
    query = UnitVectors(ROWS, FEATURES, FINE[name], F(1, 4), F(1, 1 << 27))
    analysed = analyse(query, 1, neighbours)
    claim = analysed.sensitivity
    assert claim.linf == (1 << 25) * (2 if neighbours == "replace" else 1)
    moves = [[int(number) for number in move] for move in find_moves(analysed, units)]
    if neighbours == "replace":
        pairs = product(moves, moves)
        assert max(square_distance(one, two) for one, two in pairs) <= claim.l2_squared
        return
    assert max(sum(n * n for n in move) for move in moves) <= claim.l2_squared
    assert max(sum(map(abs, move)) for move in moves) <= claim.l1
    for unit, move in zip(units, moves, strict=True):
        assert move == make_unit_vector(query, unit, analysed.rows.columns)


def square_distance(one: list[int], two: list[int]) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("name", FINE)
def test_a_fine_vector_is_the_same_whoever_stands_beside_it(name: str) -> None:
    draws = random.Random(6)
    query = UnitVectors(ROWS, FEATURES, FINE[name], F(1, 2), F(1, 1 << 30))
    analysed = analyse(query, 1)
    mine = (99, draw_row(draws))
    alone = measure(analysed, [mine])
    for others in (1, 7, 8, 40):
        around = draw_rows(draws, others, 1)
        without = measure(analysed, around, 64)
        for position in {0, others // 2, others}:
            everybody = [*around[:position], mine, *around[position:]]
            moved = np.array(measure(analysed, everybody, 64)) - without
            assert moved.tolist() == alone


def test_fine_steps_are_for_one_row_and_for_factors() -> None:
    """Rows of one unit add up before they are clipped: no factor is left. Moments have none."""
    for name, rows in (("logistic", 2), ("moments", 1), ("coordinates", 1), ("leaves", 1)):
        query = UnitVectors(ROWS, FEATURES, FUNCTIONS[name], F(1), F(1, 1 << 25))
        with pytest.raises(RefusedError, match="between 1 and 16,777,216"):
            analyse(query, rows)
    query = UnitVectors(ROWS, FEATURES, FUNCTIONS["logistic"], F(1), F(1, 1 << 33))
    with pytest.raises(RefusedError, match="between 1 and 4,294,967,296"):
        analyse(query, 1)


def round_factors_up(factors: Any, squares: Any, per_step: float, largest: int) -> Any:
    """Factors are rounded away from 0 after shrinking, and the norm is not looked at again."""
    lengths = np.sqrt((factors**2).sum(axis=0) * squares)
    with np.errstate(divide="ignore"):
        return np.sign(factors) * np.ceil(np.abs(factors) * np.minimum(per_step, largest / lengths))


def clip_each_factor(factors: Any, squares: Any, per_step: float, largest: int) -> Any:
    """The longest feature is taken for the length of a row."""
    return clip.clip_factors(factors, np.full_like(squares, 4096.0**2), per_step, largest)


@pytest.mark.parametrize("plant", [round_factors_up, clip_each_factor])
def test_a_planted_clip_of_factors_is_caught(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[..., Any]
) -> None:
    units = [unit for unit in list_tiny_units() if len(unit) <= 1]
    monkeypatch.setattr(add_up, "clip_factors", plant)
    with pytest.raises(AssertionError):
        check_fine_claims("logistic", "add_remove", units)


def test_the_check_of_factors_is_what_keeps_the_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a shrinking that is wrong by a third, every row is still short enough, or zero; and what
    is no number is zero, alone."""
    monkeypatch.setattr(clip, "_BELOW_ONE", 4 / 3)
    draws = np.random.default_rng(4)
    factors = np.trunc(draws.normal(size=(3, 500)) * 65536)
    squares = np.rint(draws.uniform(1, 9, 500) * 4096**2)
    factors[0, :2] = np.nan, np.inf
    whole = clip.clip_factors(factors, squares, 1.0, 1 << 25)
    for column, square in zip(whole.T, squares, strict=True):
        assert sum(int(n) ** 2 for n in column) * int(square) <= 1 << 50
    assert (whole[:, :2] == 0).all() and (whole == 0).all(axis=0).sum() > 2


# -- clipping: the exact norm is what is checked


def test_no_vector_comes_back_longer_than_allowed() -> None:
    """Vectors of all sizes, also where rounding to the nearest would pass the norm for most."""
    draws = np.random.default_rng(3)
    for length, largest in ((1, 1), (5, 3), (100, 64), (5000, 64), (3, 2**24)):
        vectors = np.trunc(draws.normal(size=(length, 200)) * 10.0 ** draws.integers(0, 15, 200))
        clipped = clip_vectors(vectors.copy(), 1.0, largest)
        norms = [sum(int(n) ** 2 for n in column) for column in clipped.T]
        assert max(norms) <= largest**2
        long = (vectors.astype(object) ** 2).sum(axis=0) > largest**2
        # truncation loses less than one step in each number; nothing else is lost
        lost = [norm**0.5 for norm, is_long in zip(norms, long, strict=True) if is_long]
        assert min(lost) >= largest - length**0.5 - 1e-6 * largest


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_what_is_no_number_becomes_the_zero_vector(bad: float) -> None:
    """Alone: the vectors beside it stay."""
    clipped = clip_vectors(np.array([[3.0, bad, 0], [4, 1, 2]]), 1.0, 5)
    assert clipped[:, 0].tolist() == [3, 4] and clipped[:, 2].tolist() == [0, 2]
    assert sum(int(n) ** 2 for n in clipped[:, 1]) <= 25


# -- samples


def test_a_sample_follows_the_coins_of_its_key() -> None:
    """100,000 units at 1/8: within 8 standard deviations (chance below 1e-14), other keys and other
    queries draw others, and rows of one unit stay together."""
    units = np.arange(100_000)
    chosen = draw_units(units, F(1, 8), KEY, "q")
    again = draw_units(np.repeat(units[::-1], 2), F(1, 8), KEY, "q")
    assert abs(int(chosen.sum()) - 12_500) < 8 * 105
    assert (again == np.repeat(chosen[::-1], 2)).all()
    for other in (draw_units(units, F(1, 8), bytes(32), "q"), draw_units(units, F(1, 8), KEY, "r")):
        assert abs(int((chosen & other).sum()) - 1562) < 8 * 40


def find_affine_excess(draw: Callable[..., NDArray[np.bool_]]) -> float:
    """How often d = a + b - c is in the sample when a, b and c are, beside the rate: 0 for coins.

    Over many keys, for quadruples of units. The affine hash of group limits has 0.667 - rate at
    small rates (rule P16).
    """
    hits = trials = 0
    units = np.arange(4000)
    for number in range(40):
        chosen = set(np.flatnonzero(draw(units, F(1, 16), bytes([number]) * 32, "q")).tolist())
        members = sorted(chosen)
        triples = zip(members, members[1:], members[2:], strict=False)
        sums = [a + b - c for a, b, c in triples if 0 <= a + b - c < 4000]
        hits += sum(d in chosen for d in sums)
        trials += len(sums)
    assert trials > 5000
    return hits / trials - 1 / 16


def test_three_members_of_a_sample_say_nothing_about_a_fourth() -> None:
    assert abs(find_affine_excess(draw_units)) < 0.03  # 9 standard deviations


def test_an_affine_hash_in_place_of_the_cipher_is_caught() -> None:
    """Planted bug: the universal hash of group limits, modulo 2**31 - 1."""

    def draw_by_affine_hash(
        units: NDArray[Any], rate: F, key: bytes, query_hash: str
    ) -> NDArray[np.bool_]:
        prime = 2**31 - 1
        factor = int.from_bytes(sample.hashlib.sha256(key).digest()[:8], "big") % prime
        drawn: NDArray[np.bool_] = (units * factor + 12345) % prime < int(rate * prime)
        return drawn

    assert find_affine_excess(draw_by_affine_hash) > 0.2


def test_a_sampled_sum_is_the_sum_of_the_members() -> None:
    draws = random.Random(8)
    query = UnitVectors(ROWS, FEATURES, FUNCTIONS["logistic"], F(1), F(1, 100), F(1, 4))
    analysed = analyse(query)
    rows = draw_rows(draws, 200)
    units = np.array(sorted({unit for unit, _ in rows}))
    members = set(units[draw_units(units, F(1, 4), KEY, query.hash)].tolist())
    expected = add_vectors(
        query,
        [(str(unit), row) for unit, row in rows if unit in members],
        analysed.rows.columns,
    )
    assert 20 < len(members) < 90 and measure(analysed, rows, 13, KEY) == expected


# -- planted mistakes: each lets some unit move the sum beyond the claim


def clip_before_rounding(vectors: Any, per_step: float, largest: int) -> Any:
    """The norm is right before numbers are rounded to the nearest step, and not after."""
    norms = np.sqrt((vectors**2).sum(axis=0))
    with np.errstate(divide="ignore"):
        return np.rint(vectors * np.minimum(per_step, largest / norms))


def leave_out_the_resolution(vectors: Any, per_step: float, largest: int) -> Any:
    """Vectors are clipped in their own units, and then written in finer steps."""
    return clip_vectors(vectors, 16 * per_step, 16 * largest)


@pytest.mark.parametrize(
    "plant", [clip_before_rounding, leave_out_the_resolution], ids=lambda plant: plant.__name__
)
def test_a_planted_clip_is_caught(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[..., Any]
) -> None:
    monkeypatch.setattr(add_up, "clip_vectors", plant)
    with pytest.raises(AssertionError):
        check_claims("logistic", "add_remove", list_tiny_units()[::3])


def test_numbers_that_are_not_cut_off_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: a choice by coordinates over gradients that nothing bounds."""
    monkeypatch.setattr(add_up, "cut_numbers", lambda v, per_step, largest: np.trunc(v * per_step))
    with pytest.raises(AssertionError):
        check_claims("coordinates", "add_remove", list_tiny_units()[::3])


def test_a_norm_claimed_for_numbers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: numbers are cut off at the clip, and the sum is priced as if norms were."""
    monkeypatch.setattr(vectors, "is_cut_by_number", lambda function: False)
    with pytest.raises(AssertionError):
        check_claims("coordinates", "add_remove", list_tiny_units()[::3])


def test_a_split_at_the_mean_of_a_block_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: a row's branch depends on the rows beside it, so one unit moves everybody."""

    def split_at_the_mean(splits: Any, features: Any) -> Any:
        sums = features[slice(*splits[0])].sum(axis=0)
        return (sums > sums.mean()).astype(int)

    check_claims("leaves", "add_remove", list_tiny_units()[::3])
    monkeypatch.setattr(trees, "find_leaves", split_at_the_mean)
    with pytest.raises(AssertionError):
        check_claims("leaves", "add_remove", list_tiny_units()[::3])


def test_clipping_rows_in_place_of_units_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: each row has the norm, so a unit of two rows moves the sum twice as far."""

    def leave_rows_apart(self: Any, vectors: Any, units: Any) -> Any:
        return vectors

    monkeypatch.setattr(add_up._Adder, "_fold_rows", leave_rows_apart)
    with pytest.raises(AssertionError):
        check_claims("logistic", "add_remove", list_tiny_units()[::3])


def test_a_norm_that_other_units_share_in_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: one factor for the whole block, so that a unit moves everybody's vectors."""

    def clip_together(vectors: Any, per_step: float, largest: int) -> Any:
        longest = float(np.sqrt((vectors**2).sum(axis=0)).max(initial=0.0))
        return np.trunc(vectors * min(per_step, largest / max(longest, 1.0)))

    monkeypatch.setattr(add_up, "clip_vectors", clip_together)
    with pytest.raises(AssertionError):
        test_a_vector_is_the_same_whoever_and_how_many_stand_beside_it("logistic")


# -- refusals of the sample's key


def test_a_sample_without_a_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from dither.data.measure import Measurer

    query = UnitVectors(
        ROWS, FEATURES, LogisticGradient("b", 1, (0,) * 10), F(1), F(1, 100), F(1, 4)
    )
    with pytest.raises(RefusedError, match="key that the kernel draws"):
        Measurer.measure(object.__new__(Measurer), query)


def test_the_exact_check_is_what_keeps_the_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a shrinking that is wrong by a third, every vector is still short enough, or zero."""
    monkeypatch.setattr(clip, "_BELOW_ONE", 4 / 3)
    draws = np.random.default_rng(4)
    vectors = np.trunc(draws.normal(size=(20, 500)) * 1000)
    clipped = clip_vectors(vectors, 1.0, 50)
    norms = (clipped**2).sum(axis=0)
    assert norms.max() <= 2500 and (norms == 0).any()
