"""Sums of wide layers in integers: exact, with a unit's rounding within what is paid for. On a CUDA
device they are the rule; here their twins in whole-array operations are tried."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from dither.learn.deep import contributions, gram_sums, integer_sums
from dither.learn.deep.clipping import clip_flat, find_weights
from dither.learn.deep.contributions import CANCELLATION, OuterProducts
from dither.learn.deep.float_error import SLACK, bound_roundings, find_step_bits
from dither.learn.deep.integer_sums import add_products, find_factors
from dither.learn.deep.precision import wide_sums
from tests.learn.deep.test_contributions import CLIP, EXTREMES, measure

pytestmark = pytest.mark.all
LIMIT = CANCELLATION * CLIP


def make_operands(units: int, positions: int = 9, a: float = 1.0, g: float = 1.0) -> OuterProducts:
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn((units, positions, 40), generator=generator) * a
    gradients = torch.randn((units, positions, 33), generator=generator) * g
    return OuterProducts(inputs, gradients, (33, 40))


def add_up(outer: OuterProducts, weights: Tensor) -> Tensor:
    return add_products(outer.inputs, outer.gradients, outer.squared_lengths, weights, LIMIT)


def list_integers(outer: OuterProducts, weights: Tensor) -> tuple[list, list]:
    """The integers of all positions by Python's own arithmetic."""
    bits = find_step_bits(LIMIT)
    factors = find_factors(outer.squared_lengths, weights, bits).tolist()
    rounded = []
    for values, scales in zip((outer.inputs, outer.gradients), factors, strict=True):
        rows = zip(values.flatten(0, 1).tolist(), scales, strict=True)
        rounded.append([[math.floor(x * scale + 0.5) for x in row] for row, scale in rows])
    return rounded[0], rounded[1]


def test_sums_are_those_of_the_integers_exactly() -> None:
    outer = make_operands(6)
    weights = find_weights(outer.lengths(), CLIP)
    inputs, gradients = list_integers(outer, weights)
    assert max(abs(q) for row in inputs + gradients for q in row) < 0.85 * 2**23
    total = add_up(outer, weights) * 4.0 ** find_step_bits(LIMIT)
    for i, j in ((0, 0), (32, 39), (7, 21)):
        exact = sum(g[i] * a[j] for g, a in zip(gradients, inputs, strict=True))
        assert int(total[i, j]) == exact


def test_a_unit_moves_the_sum_by_its_own_vector_whatever_the_others_are() -> None:
    """Planted: sums of the same products in float32 do not add up that way."""
    outer = make_operands(200)
    weights = find_weights(outer.lengths(), CLIP)
    without = weights.clone()
    without[77] = 0
    alone = weights - without
    assert torch.equal(add_up(outer, weights) - add_up(outer, without), add_up(outer, alone))

    def add_floats(scales: Tensor) -> Tensor:
        scaled = outer.gradients * scales.float()[:, None, None]
        return torch.mm(scaled.flatten(0, 1).t(), outer.inputs.flatten(0, 1))

    difference = add_floats(weights) - add_floats(without)
    assert not torch.equal(difference, add_floats(alone))


@pytest.mark.parametrize("a", EXTREMES)
@pytest.mark.parametrize("g", EXTREMES)
def test_rounding_moves_a_unit_by_no_more_than_is_paid(monkeypatch, a: float, g: float) -> None:
    monkeypatch.setattr(contributions, "can_add_integers", lambda device: True)
    outer = make_operands(1, a=a, g=g)
    paid = float(bound_roundings([9 * 73], CANCELLATION))
    with wide_sums(LIMIT):
        clipped = clip_flat({"w": outer}, CLIP, torch.ones(1), 1).sums
    assert measure(clipped) <= CLIP * (1 + (1 + CANCELLATION) * float(SLACK) + paid)
    lengths = outer.lengths()
    weights = find_weights(lengths, CLIP)
    if bool(lengths.is_sane):
        scaled = outer.gradients[0].double() * weights
        exact = scaled.t() @ outer.inputs[0].double()
        assert float((clipped["w"] - exact).norm()) <= CLIP * paid


def test_fewer_bits_are_seen(monkeypatch) -> None:
    """Planted: operands with 15 bits are off by more than is paid."""
    outer = make_operands(1)
    weights = find_weights(outer.lengths(), CLIP)
    exact = (outer.gradients[0].double() * weights).t() @ outer.inputs[0].double()
    paid = CLIP * float(bound_roundings([9 * 73], CANCELLATION))
    assert float((add_up(outer, weights) - exact).norm()) <= paid
    monkeypatch.setattr(integer_sums, "find_step_bits", lambda limit: find_step_bits(limit) - 9)
    assert float((add_up(outer, weights) - exact).norm()) > paid


def test_units_that_are_no_numbers_or_absent_add_nothing() -> None:
    outer = make_operands(5)
    weights = find_weights(outer.lengths(), CLIP)
    weights[2:4] = 0
    expected = add_up(outer, weights)
    outer.inputs[2] = float("nan")
    outer.gradients[3] = float("inf")
    again = OuterProducts(outer.inputs, outer.gradients, outer.shape)
    assert torch.equal(add_up(again, weights), expected)
    with wide_sums(LIMIT):
        lengths = again.lengths()
        assert lengths.is_sane.tolist() == [True, True, False, False, True]


def test_many_rows_are_added_up_in_pieces(monkeypatch) -> None:
    outer = make_operands(50)
    weights = find_weights(outer.lengths(), CLIP)
    whole = add_up(outer, weights)
    monkeypatch.setattr(integer_sums, "_MOST_ROWS", 100)
    assert torch.equal(add_up(outer, weights), whole)


def test_units_that_int64_has_no_room_for_are_added_up_in_floats(monkeypatch) -> None:
    """Every unit's clipped vector is at most a clip norm, 2**41 steps squared: 2**22 of one
    direction would wrap around."""
    monkeypatch.setattr(contributions, "can_add_integers", lambda device: True)
    most = integer_sums.MOST_UNITS
    assert most * 2**45 <= 2**63
    for units in (most, most + 1):
        outer = OuterProducts(torch.zeros(units, 2, 1), torch.zeros(units, 2, 1), (1, 1))
        assert bool(outer.shape_of_sum(1, 1).rounded) == (units == most)


def test_terms_stay_where_a_recorded_graph_reads_them() -> None:
    """Planted: terms that are dropped once there are many, and their memory used for others."""
    device = torch.device("cpu")
    terms = [gram_sums.find_terms(width, 1, 2) for width in range(1, 300)]
    places = [gram_sums._load_terms(some, device).data_ptr() for some in terms]
    assert [gram_sums._load_terms(some, device).data_ptr() for some in terms] == places
    assert len(set(places)) == len(places)


if find_spec("triton") is not None:

    def test_one_unit_is_a_number_like_others() -> None:
        """Triton makes a constant of a number that is 1, and the kernel did not compile for it."""
        from dither.learn.deep.triton_sums import _gram_kernel

        assert [p.name for p in _gram_kernel.params if p.do_not_specialize] == ["units"]

    def test_the_kernels_give_the_numbers_of_their_twins() -> None:
        """The kernels' own code, by Triton's interpreter."""
        program = (
            "import torch\n"
            "from dither.learn.deep import gram_sums as g, integer_sums as i, triton_sums as t\n"
            "values = torch.randn(6, 7, 70)\n"
            "weights = torch.rand(6, dtype=torch.float64)\n"
            "weights[3] = 0\n"
            "values[3] = float('nan')\n"
            "lengths = tuple(torch.rand(2, 6, 7, dtype=torch.float64))\n"
            "lengths[0][3] = float('nan')\n"
            "factors = i.find_factors(lengths, weights, 9)\n"
            "again = torch.ones_like(factors)\n"
            "t.launch_factors(lengths, weights, 9, again)\n"
            "assert torch.equal(factors, again) and not bool(factors[:, 21:28].any())\n"
            "for scales in factors:\n"
            "    first = torch.zeros(3, 80, 48, dtype=torch.int8)\n"
            "    second = first + 1\n"
            "    i.split_twin(values.flatten(0, 1), scales, first)\n"
            "    t.launch_split(values.flatten(0, 1), scales, second)\n"
            "    assert torch.equal(first, second) and bool(first.any())\n"
            "products = torch.randint(-2**30, 2**30, (3 * 80, 3 * 48), dtype=torch.int32)\n"
            "totals = torch.randint(-2**40, 2**40, (70, 40))\n"
            "again = totals.clone()\n"
            "i.combine_twin(products, totals)\n"
            "t.launch_combine(products, again)\n"
            "assert torch.equal(totals, again)\n"
            "for positions in (7, 49, 130):\n"
            "    a, b = torch.randn(2, 5, positions, 30)\n"
            "    b[2, 1] = float('inf')\n"
            "    products = torch.bmm(a, a.mT), torch.bmm(b, b.mT)\n"
            "    terms = g.find_terms(30, 30, positions)\n"
            "    lengths = torch.empty(2, 5, positions, dtype=torch.float64)\n"
            "    results = torch.empty(3, 5, dtype=torch.float64)\n"
            "    numbers = torch.tensor(terms, dtype=torch.float64)\n"
            "    t.launch_gram(*products, lengths, results, numbers)\n"
            "    twin = g.reduce_twin(*products, terms)\n"
            "    assert results[2].tolist() == twin.insane.tolist() == [0, 0, 1, 0, 0]\n"
            "    sane = results[2] == 0\n"
            "    ours = (lengths[0], lengths[1], results[0], results[1])\n"
            "    for mine, theirs in zip(ours, twin[:4]):\n"
            "        assert torch.allclose(mine[sane], theirs[sane], rtol=1e-12)\n"
        )
        environment = os.environ | {"TRITON_INTERPRET": "1"}
        subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=300)
