"""Losses as data: exact, frozen, told towards whom, equal in any order, read back for ever."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither import ParameterError
from dither.canonical import dumps
from dither.privacy import losses
from dither.privacy.loss_documents import read_loss
from dither.privacy.losses import (
    RDP,
    ZCDP,
    Approx,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteGaussianVector,
    DiscreteLaplace,
    Gaussian,
    GaussianSum,
    Laplace,
    Loss,
    Parallel,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    Repeated,
    RoundedGaussian,
    SampledWithoutReplacement,
    compose,
)
from tests.case_lists import mark_rest, run_examples
from tests.kernel_losses import list_kernel_losses

LEAVES = [
    Pure(1),
    Approx(1, Fraction(1, 10**6)),
    Laplace(10),
    Gaussian(10),
    DiscreteLaplace(10, 1),
    DiscreteGaussian(10, 1),
    DiscreteGaussianVector(10, 3),
    RoundedGaussian(10, 3),
    GaussianSum(10, 3),
    BoundedRange(1),
    ZCDP(Fraction(1, 2)),
    RDP(2, 1),
]
WRAPPED = [
    PoissonSampled(0.01, Gaussian(1.1)),
    SampledWithoutReplacement(10, 100, Pure(1)),
    Repeated(Pure(1), 3),
    Composed((Pure(1), Pure(2))),
    losses.FixedPlan((Pure(1), Pure(2))),
    losses.FixedNoise((losses.RoundedGaussian(2, 1),)),
    Parallel((Pure(1), Pure(2))),
    RandomizedResponse(1),
    losses.Shuffled(1, 100, theorem="FMT21"),
]

towards = st.fixed_dictionaries(
    {
        "neighbours": st.sampled_from(["add_remove", "replace"]),
        "unit": st.sampled_from(["unit", "person", "Zeile"]),
    }
)
positives = st.fractions(min_value=Fraction(1, 10**9), max_value=10**12)
integers = st.integers(1, 10**9)


def leaves(who: dict) -> st.SearchStrategy[Loss]:
    return st.one_of(
        st.builds(lambda e: Pure(e, **who), positives),
        st.builds(
            lambda e, d: Approx(e, d, **who), positives, st.fractions(0, Fraction(999, 1000))
        ),
        st.builds(lambda s, d: Laplace(s, d, **who), positives, positives),
        st.builds(lambda s, d: Gaussian(s, d, **who), positives, positives),
        st.builds(lambda s, d: DiscreteLaplace(s, d, **who), positives, integers),
        st.builds(lambda s, d: DiscreteGaussian(s, d, **who), positives, integers),
        st.builds(lambda s, d: DiscreteGaussianVector(s, d, **who), positives, integers),
        st.builds(lambda s, d: RoundedGaussian(s, d, **who), positives, integers),
        st.builds(lambda e: RandomizedResponse(e, **who), positives),
        st.builds(lambda e: BoundedRange(e, **who), positives),
        st.builds(lambda r, d: ZCDP(r, d, **who), positives, st.fractions(0, Fraction(1, 2))),
        st.builds(lambda a, e: RDP(1 + a, e, **who), positives, positives),
    )


trees = towards.flatmap(
    lambda who: st.recursive(
        leaves(who),
        lambda inner: st.one_of(
            st.builds(PoissonSampled, st.fractions(Fraction(1, 1000), 1), inner),
            st.builds(
                lambda k, more, loss: SampledWithoutReplacement(k, k + more, loss),
                integers,
                integers,
                inner,
            ),
            st.builds(Repeated, inner, integers),
            st.builds(
                lambda parts: Composed(tuple(parts)), st.lists(inner, min_size=1, max_size=3)
            ),
            st.builds(
                lambda parts: Parallel(tuple(parts)), st.lists(inner, min_size=1, max_size=3)
            ),
        ),
        max_leaves=4,
    )
)


@pytest.mark.parametrize("examples", mark_rest([20, 100], quick=1))
def test_a_loss_survives_json_and_its_text_is_canonical(examples):
    run_examples(check_json_of_loss, examples, {"loss": trees})


def check_json_of_loss(loss):
    text = json.dumps(loss.to_json())
    back = read_loss(json.loads(text))
    assert back == loss and hash(back) == hash(loss)
    assert back.canonical == loss.canonical == dumps(json.loads(loss.canonical))
    assert (back.neighbours, back.unit) == (loss.neighbours, loss.unit)
    assert read_loss(json.loads(loss.canonical)) == loss


@settings(max_examples=25, deadline=None)
@given(trees, st.data())
def test_a_composition_is_equal_in_any_order(loss, data):
    parts = [loss, loss * 2, Repeated(loss, 3)]
    shuffled = data.draw(st.permutations(parts))
    assert compose(*parts) == compose(*shuffled)
    assert Parallel(tuple(parts)) == Parallel(tuple(shuffled))
    assert compose(*parts) != compose(*parts, loss)


def test_a_composition_is_flat_however_it_was_built():
    a, b, c = Pure(1), Pure(2), Pure(3)
    assert (
        a + b + c
        == a + (b + c)
        == Composed((Composed((a, b)), c))
        == Composed([a, b, c])
        == compose(c, b, a)
    )
    assert (a + b + c).losses == (a, b, c)


def test_every_type_of_the_module_has_an_example_here_and_survives_json():
    kinds = {type(loss) for loss in LEAVES + WRAPPED}
    assert kinds == list_kernel_losses()
    for loss in LEAVES + WRAPPED:
        assert read_loss(loss.to_json()) == loss
        assert loss.to_json()["v"] == 1


@pytest.mark.parametrize("loss", LEAVES + WRAPPED, ids=lambda loss: loss.type)
def test_a_loss_is_frozen_and_shows_neighbours_and_unit(loss):
    assert f"neighbours={loss.neighbours!r}, unit={loss.unit!r})" in repr(loss)
    with pytest.raises(dataclasses.FrozenInstanceError):
        loss.unit = "row"


def test_the_meaning_of_stored_text_never_changes():
    # golden: what version 1 wrote; a change here breaks every ledger
    assert (PoissonSampled(0.01, Gaussian(1.1)) * 10).canonical == (
        '{"count":10,"loss":{"loss":{"neighbours":"add_remove","sensitivity":"1/1","sigma":"11/10","type":"gaussian",'
        '"unit":"unit","v":1},"neighbours":"add_remove","q":"1/100","type":"poisson_sampled","unit":"unit","v":1},'
        '"neighbours":"add_remove","type":"repeated","unit":"unit","v":1}'
    )
    assert DiscreteLaplace(2.5, 3, unit="person").canonical == (
        '{"neighbours":"add_remove","scale":"5/2","sensitivity":3,"type":"discrete_laplace","unit":"person","v":1}'
    )


@pytest.mark.parametrize(
    "other", [Pure(1, neighbours="replace"), Pure(1, unit="row"), RandomizedResponse(1)]
)
@pytest.mark.parametrize(
    "mix", [lambda a, b: a + b, lambda a, b: Parallel((a, b)), lambda a, b: Composed((a, b))]
)
def test_losses_towards_different_neighbours_or_units_refuse_to_mix(mix, other):
    with pytest.raises(ParameterError, match="different"):
        mix(Pure(1), other)


def test_a_wrapper_takes_neighbours_and_unit_from_its_part_and_refuses_others():
    inner = Pure(1, neighbours="replace", unit="person")
    assert (inner * 5).neighbours == "replace" and PoissonSampled(0.1, inner).unit == "person"
    with pytest.raises(ParameterError, match="different unit"):
        Repeated(inner, 2, unit="row")


def test_randomised_response_is_about_replacement_and_all_others_about_addition_or_removal():
    assert RandomizedResponse(1).neighbours == "replace"
    assert {loss.neighbours for loss in LEAVES} == {"add_remove"}


def test_a_float_means_its_decimal_text():
    assert Pure(0.1).epsilon == Fraction(1, 10) != Fraction(0.1)
    assert Pure(0.1) == Pure("0.1") == Pure(Fraction(1, 10)) == Pure(Decimal("0.1"))
    assert sum((Pure(0.1).epsilon for _ in range(10)), Fraction(0)) == 1
    assert Pure(0.1).epsilon * 10 == 1


BAD = [
    lambda: Pure(-1),
    lambda: Pure(float("nan")),
    lambda: Pure(float("inf")),
    lambda: Pure(True),
    lambda: Pure("a lot"),
    lambda: Pure("1/0"),
    lambda: Pure(None),
    lambda: Approx(1, 1),
    lambda: Approx(1, -0.1),
    lambda: Laplace(0),
    lambda: Gaussian(-1),
    lambda: DiscreteLaplace(1, 0),
    lambda: DiscreteLaplace(1, 1.5),
    lambda: DiscreteGaussian(0, 1),
    lambda: DiscreteGaussianVector(1, -1),
    lambda: RandomizedResponse(0),
    lambda: RDP(1, 1),
    lambda: ZCDP(-1),
    lambda: ZCDP(1, 1),
    lambda: PoissonSampled(0, Pure(1)),
    lambda: PoissonSampled(1.1, Pure(1)),
    lambda: PoissonSampled(0.1, "gaussian"),
    lambda: SampledWithoutReplacement(11, 10, Pure(1)),
    lambda: Repeated(Pure(1), 0),
    lambda: Pure(1) * 0,
    lambda: Composed(()),
    lambda: Parallel((1, 2)),
    lambda: Pure(1, neighbours="anyone"),
    lambda: Pure(1, unit=""),
]


@pytest.mark.parametrize("build", BAD)
def test_parameters_that_no_theorem_covers_are_refused(build):
    with pytest.raises(ParameterError):
        build()


def test_losses_add_to_losses_only():
    with pytest.raises(TypeError):
        Pure(1) + 1
    with pytest.raises(TypeError):
        Pure(1) * 1.5


def stored(**changes):
    return {**Pure(1).to_json(), **changes}


@pytest.mark.parametrize(
    "tree",
    [
        stored(type="pure2"),
        stored(type=["pure"]),
        stored(v=2),
        stored(v=True),
        stored(v=1.0),
        stored(v=None),
        stored(note="extra"),
        stored(epsilon=0.5),
        stored(epsilon="many"),
        stored(epsilon=True),
        stored(neighbours=None),
        stored(unit=5),
        {key: value for key, value in stored().items() if key != "unit"},
        {**(Pure(1) * 2).to_json(), "loss": "pure"},
        {**(Pure(1) + Pure(2)).to_json(), "losses": []},
        "pure",
        None,
        [],
    ],
)
def test_unknown_types_versions_and_keys_are_refused(tree):
    with pytest.raises(ParameterError):
        read_loss(tree)
