"""Whatever is asked, and with whatever parameters, is answered or refused with an error of dither,
and returns."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dither import DitherError
from dither.builder import avg, count, quantile, sum
from tests.answer.extreme import (
    NUMBERS,
    PIECES,
    PRICES,
    SHAPES,
    changed_question,
    connections,
    extreme_terms,
)
from tests.case_lists import mark_between, mark_rest
from tests.time_guard import time_guard

TERMS = (
    "epsilon",
    "rho",
    "confidence",
    "group_size",
    "quantile_intervals",
    "weights",
    "max_groups",
)


@pytest.fixture(scope="module")
def pots(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("xdg")))
        yield connections(tmp_path_factory.mktemp("pots"))


def answers(door: Any, *arguments: Any, **terms: Any) -> bool:
    """Whether the door answers; refusals say something, and nothing else may come out of it."""
    with time_guard():
        try:
            str(door(*arguments, **terms))
        except DitherError as error:
            assert str(error)
            return False
    return True


@pytest.mark.parametrize("rule", mark_rest(["approx", "zcdp", "pure", "rdp"], quick=2))
def test_every_price_from_every_pot_is_answered_or_refused(rule, pots):
    """Half of the prices for a count, and the others in turn for the other shapes; all of them in
    the soak."""
    answered = 0
    for place, (shape, sql) in enumerate(SHAPES.items()):
        for price in PRICES[::2] if shape == "count" else PRICES[5 * place % 12 :][:1]:
            answered += answers(pots[rule].preview, sql, epsilon=price)
            answered += answers(pots[rule].preview, sql, rho=price)
    assert answered > 3


@pytest.mark.soak
@pytest.mark.parametrize("rule", ["pure", "approx", "zcdp", "rdp"])
def test_every_price_for_every_shape_from_every_pot(rule, pots):
    for sql in SHAPES.values():
        for price in PRICES:
            for terms in (
                {"epsilon": price},
                {"rho": price},
                {"within": price, "group_size": 1000},
            ):
                answers(pots[rule].preview, sql, **terms)


@pytest.mark.parametrize("value", mark_between(NUMBERS, step=3), ids=range(len(NUMBERS)))
def test_a_parameter_of_any_size_is_taken_or_refused(value, pots):
    con = pots["pure"]
    for name in (*TERMS, "within"):
        price = {} if name in ("epsilon", "rho", "within") else {"epsilon": "0.5"}
        answers(con.preview, SHAPES["count"], **price, **{name: value})
    answers(con.suggest, "bounds", "visits.cost", epsilon="0.5", keep=value)
    answers(con.suggest, value, value, epsilon=value)
    answers(con.preview, value, epsilon="0.5")


@pytest.mark.parametrize("piece", mark_between(PIECES, step=3), ids=range(len(PIECES)))
def test_an_extreme_piece_anywhere_in_a_question_is_read_or_refused(piece, pots):
    con = pots["pure"]
    for sql in (
        piece,
        f"SELECT {piece} FROM visits",
        f"SELECT COUNT(*) AS n FROM visits WHERE cost > {piece}",
        f"SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward {piece}",
        f"SELECT SUM(cost * {piece}) AS n FROM visits",
    ):
        answers(con.preview, sql, epsilon="0.5")


VALUES = (*NUMBERS[::3], *PIECES[::3])
BUILT = (
    lambda value: sum("cost") * value,
    lambda value: quantile("cost", value),
    lambda value: count(value),
    lambda value: count().where(value),
    lambda value: avg(value) + value,
)


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_a_built_question_takes_or_refuses_any_value(value, pots):
    table = pots["pure"].table("visits").agg(n=count())
    for make in BUILT:
        answers(
            lambda make=make: pots["pure"].table("visits").agg(n=make(value)).preview(epsilon="0.5")
        )
    for step in (table.limit, table.where, table.group_by, table.having, table.order_by):
        answers(lambda step=step: step(value).preview(epsilon="0.5"))
    answers(lambda: table.join(value, using=value).preview(epsilon="0.5"))
    answers(lambda: pots["pure"].table(value))


def ask_changed_questions(pots: dict[str, Any], seed: int, tries: int) -> int:
    """Mutated questions with extreme parameters at every door; how many were answered."""
    draw = random.Random(seed)
    texts = list(SHAPES.values())
    answered = 0
    for _ in range(tries):
        con = pots[draw.choice(list(pots))]
        sql = changed_question(draw, texts)
        door = draw.choice([con.preview, con.preview, con.explain, con.sql])
        terms = extreme_terms(draw, TERMS if door == con.sql else (*TERMS, "within"))
        if door == con.sql:
            terms["dry_run"] = draw.random() < 0.5
        answered += answers(door, sql, **terms)
    return answered


def test_changed_questions_with_extreme_parameters(pots):
    assert ask_changed_questions(pots, 44, 25) > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_many_changed_questions_with_extreme_parameters(seed, pots):
    assert ask_changed_questions(pots, 1000 + seed, 2_000) > 0
