"""Values that noise chose to show: their intervals hold as often as those of rows that HAVING
chose.

The noise is fixed: the quantiles of its law at evenly spaced shares, one for each cell. So every
count below is exact, and no run differs from another.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from types import SimpleNamespace

import numpy as np
import pytest

from dither.answer.alternatives import MOST_ALTERNATIVES, list_alternatives
from dither.answer.draws import make_noise_law
from dither.answer.evaluate import FormulaInputs, evaluate
from dither.answer.result import make_result
from dither.answer.selection import split_pieces
from dither.laws import find_error_law
from dither.plan.norms import Sensitivity
from dither.privacy.mechanisms import IntegerLaplace
from dither.question.expressions import Constant, KeyValue
from dither.question.recipe import Order, Output
from tests.answer import handmade
from tests.answer.handmade import COUNT, VALUES, apply, number
from tests.case_lists import mark_between, mark_rest

LEVEL = F(95, 100)
EXACT, SCALE, CELLS = 100, 20, 367 * 4
INFO = {
    "measure": "epsilon", "charged": "1/1", "pot": "total", "repeated": False, "sql": "SELECT ...",
    "unit": "person",
    "neighbours": "add_remove", "unprotected": ["time"],
}  # fmt: skip
NOTHING = Constant(None)
LARGE = apply(
    "gt", COUNT, number(160)
)  # beyond the plain half-width of 60: only lucky noise gets there
SMALL = apply("lt", VALUES, number(40))


def fixed_noise(seed: int) -> list[int]:
    """One draw for each cell: the law's own quantiles, in an order of their own."""
    shares = (np.arange(CELLS) + 0.5) / CELLS
    drawn = make_noise_law(find_error_law(IntegerLaplace(F(SCALE), Sensitivity.of()))).inverse(
        shares
    )
    return [int(each) for each in np.random.default_rng(seed).permutation(drawn)]


def release(exact: int = EXACT) -> SimpleNamespace:
    values = tuple(tuple(exact + each for each in fixed_noise(seed)) for seed in range(3))
    steps = [SimpleNamespace(mechanism=IntegerLaplace(F(SCALE), Sensitivity.of()), width=2**62)] * 3
    priced = SimpleNamespace(steps=steps)
    version = SimpleNamespace(analyses=None)
    return SimpleNamespace(values=values, priced=priced, version=version)


def ask(formula, level: F = LEVEL, **more):
    recipe = handmade.by_ward(Output("x", formula, "value"), keys=("day", "ward"), **more)
    return make_result(release(), recipe, level, INFO)


def bounded(result) -> list[tuple[float, float, float]]:
    """Values that are shown with both ends."""
    table = result.to_dict()
    rows = zip(table["x"], table["x_low"], table["x_high"], strict=True)
    return [row for row in rows if None not in row]


def held(result, exact: float = EXACT) -> tuple[int, int]:
    """How many intervals hold the exact count, of how many."""
    rows = bounded(result)
    return sum(low <= exact <= high for _, low, high in rows), len(rows)


CHOSEN = {
    "case": apply("case", LARGE, COUNT, NOTHING),
    "case with a constant beside": apply("case", LARGE, COUNT, number(0)),
    "the other way round": apply("case", apply("not", LARGE), NOTHING, COUNT),
    "several conditions": apply(
        "case", apply("le", COUNT, number(150)), NOTHING, LARGE, COUNT, number(-1)
    ),
    "coalesce": apply("coalesce", apply("case", LARGE, COUNT, NOTHING), number(0)),
    "nullif": apply("nullif", apply("case", LARGE, COUNT, number(5)), number(5)),
    "nullif of a cut": apply("nullif", apply("greatest", COUNT, number(160)), number(160)),
    "one of two": apply("case", LARGE, COUNT, SMALL, VALUES, NOTHING),
    "inside arithmetic": apply(
        "divide", apply("multiply", number(2), apply("case", LARGE, COUNT, NOTHING)), number(2)
    ),
    "inside a function": apply("round", apply("case", LARGE, COUNT, NOTHING), number(0)),
    "a choice in a choice": apply(
        "case", apply("gt", COUNT, number(120)), apply("case", LARGE, COUNT, NOTHING), NOTHING
    ),
    "no number above a pole": apply("ln", apply("exp", apply("case", LARGE, COUNT, NOTHING))),
}


@pytest.mark.parametrize("name", mark_between(CHOSEN, step=3))
def test_values_that_noise_chose_are_covered(name):
    """As many as shown, less one in twenty."""
    hits, shown = held(ask(CHOSEN[name]), 160 if name == "nullif of a cut" else EXACT)
    assert shown >= 30 and hits >= float(LEVEL) * shown, (hits, shown)


def test_the_same_rows_by_having_have_the_same_intervals():
    by_case, by_having = ask(CHOSEN["case"]), ask(COUNT, having=LARGE)
    assert sorted(bounded(by_case)) == sorted(bounded(by_having))
    plain_level = [row for row in bounded(ask(COUNT)) if row[0] > 160]
    assert len(plain_level) == len(bounded(by_case))
    assert not any(
        low <= EXACT <= high for _, low, high in plain_level
    )  # what was shown before: none of them holds


def test_how_many_were_chosen_from_how_many_is_said():
    note = ask(CHOSEN["one of two"]).columns[2].notes[0]
    shown = len(bounded(ask(CHOSEN["one of two"])))
    assert note.startswith(
        f"{shown} of {2 * CELLS} values were chosen by noisy values: intervals are widened"
    )
    assert ask(COUNT).columns[2].notes == ()


def test_a_choice_by_keys_widens_nothing():
    """A CASE over a key is public: what it leaves out was no candidate."""
    in_north = apply("eq", KeyValue(1), Constant("north"))
    plain = bounded(ask(COUNT))
    for formula in (
        apply("case", in_north, COUNT, NOTHING),
        apply("case", in_north, COUNT, VALUES),
    ):
        result = ask(formula)
        assert set(bounded(result)) <= {
            (value, value - 60, value + 60) for value, _, _ in bounded(result)
        }
        assert result.columns[2].notes == ()
    assert plain[0][2] - plain[0][0] == 60
    both = ask(apply("case", in_north, apply("case", LARGE, COUNT, NOTHING), NOTHING))
    assert f"of {CELLS // 4} values" in both.columns[2].notes[0]


@pytest.mark.parametrize(
    "formula",
    [
        apply("case", LARGE, number(1), number(0)),
        apply("case", LARGE, number(1), NOTHING),
        apply("coalesce", apply("case", LARGE, number(1), NOTHING), number(0)),
        apply("case", LARGE, KeyValue(1), NOTHING),
    ],
)
def test_a_constant_that_noise_chose_is_no_estimate(formula):
    table = ask(formula).to_dict()
    assert set(table["x_low"]) == set(table["x_high"]) == {None}


def test_ends_are_null_where_the_value_is():
    root = apply("sqrt", apply("subtract", COUNT, number(100)))
    for formula in (
        *CHOSEN.values(),
        root,
        apply("divide", VALUES, apply("subtract", COUNT, number(100))),
    ):
        table = ask(formula).to_dict()
        empty = [row for row, value in enumerate(table["x"]) if value is None]
        assert all(table["x_low"][row] is None and table["x_high"][row] is None for row in empty)
    assert (
        None in ask(root).to_dict()["x"]
    )  # negative under the root: the others are widened as if chosen
    assert "were chosen by noisy values" in ask(root).columns[2].notes[0]


def test_a_count_that_nullif_takes_away_is_null():
    values = ask(apply("nullif", apply("subtract", COUNT, number(100)), number(0))).to_dict()["x"]
    assert None in values and 0 not in values


def test_the_largest_of_several_is_covered():
    """The largest of three equal counts is the luckiest one."""
    largest = apply("greatest", COUNT, handmade.TOTAL, VALUES)
    recipe = handmade.by_ward(Output("x", largest, "value"), keys=("day", "ward"))
    recipe = replace(recipe, atoms=(recipe.atoms[0],) * 3)
    for level in (F(1, 2), F(8, 10), LEVEL):
        hits, shown = held(make_result(release(), recipe, level, INFO))
        assert shown == CELLS and hits >= float(level) * shown


@pytest.mark.parametrize(
    ("formula", "exact"),
    [
        (apply("eq", COUNT, number(EXACT)), True),
        (apply("ne", COUNT, number(EXACT)), False),
        (apply("and", apply("ge", COUNT, number(99)), apply("le", COUNT, number(101))), True),
        (apply("or", apply("lt", COUNT, number(99)), apply("gt", COUNT, number(101))), False),
        (apply("not", apply("eq", COUNT, number(EXACT))), False),
        (apply("gt", COUNT, number(EXACT)), False),
    ],
)
def test_truth_values_are_covered(formula, exact):
    """Noise hits a single number seldom: points around it never said that the exact count may be
    that number."""
    hits, shown = held(ask(formula), exact)
    assert shown == CELLS and hits >= float(LEVEL) * shown


def test_what_is_surely_true_is_said_so():
    table = ask(apply("gt", COUNT, number(0))).to_dict()
    sure = [low for value, low in zip(table["x"], table["x_low"], strict=True) if value]
    assert sum(sure) > 0.9 * CELLS


def test_more_alternatives_than_are_told_apart_have_no_ends():
    conditions = [apply("gt", COUNT, number(each)) for each in range(MOST_ALTERNATIVES)]
    formula = apply("add", *(apply("case", each, COUNT, VALUES) for each in conditions))
    assert list_alternatives(formula) == ()
    result = ask(formula)
    assert set(result.to_dict()["x_low"]) == {None} and None not in result.to_dict()["x"]
    assert "it has no intervals" in result.columns[2].notes[0]
    same = apply("add", *(apply("case", LARGE, COUNT, VALUES) for _ in range(MOST_ALTERNATIVES)))
    assert len(list_alternatives(same)) == 2  # one condition decides all of them


def test_limits_and_choices_multiply():
    """The ten largest, of which those below 200 are hidden: what is shown was chosen twice."""
    largest = {"order": (Order(COUNT, descending=True),), "limit": 10}
    chosen = ask(apply("case", apply("gt", COUNT, number(200)), COUNT, NOTHING), **largest)
    hits, shown = held(chosen)
    assert 0 < shown < 10 and hits >= float(LEVEL) * shown
    assert chosen.columns[2].notes[0].startswith(f"{shown} of {CELLS} values were chosen")


def test_the_type_of_a_column_does_not_tell_what_noise_chose():
    """A sum beyond 64 bits among the alternatives makes the column wide, whether a row shows it or
    not."""
    never = apply("gt", COUNT, number(10**6))
    recipe = handmade.by_ward(
        Output("x", apply("case", never, VALUES, COUNT), "value"), keys=("day", "ward")
    )
    found = release()
    wide = SimpleNamespace(mechanism=found.priced.steps[2].mechanism, width=10**38 - 1)
    found = replace_steps(found, [*found.priced.steps[:2], wide])
    assert (
        str(make_result(found, recipe, LEVEL, INFO).table.schema.field("x").type)
        == "decimal128(38, 0)"
    )


def replace_steps(found: SimpleNamespace, steps: list[SimpleNamespace]) -> SimpleNamespace:
    priced = SimpleNamespace(steps=steps)
    version = SimpleNamespace(analyses=None)
    return SimpleNamespace(values=found.values, priced=priced, version=version)


def random_formula(draw, depth: int):
    """Choices inside arithmetic inside choices, over two noisy numbers and a key."""
    if depth == 0:
        return [COUNT, VALUES, number(3), NOTHING, KeyValue(0)][draw.integers(5)]
    inner = [random_formula(draw, depth - 1) for _ in range(3)]
    condition = apply(str(draw.choice(["gt", "eq", "le"])), *inner[:2])
    made = [
        apply("case", condition, inner[0], inner[2]),
        apply("case", condition, inner[1], apply("is_null", inner[2]), inner[0], inner[2]),
        apply("coalesce", *inner),
        apply("nullif", *inner[:2]),
        apply(str(draw.choice(["add", "divide", "multiply", "least", "greatest"])), *inner[:2]),
        apply("or", condition, apply("is_null", inner[2])),
    ]
    return made[draw.integers(len(made))]


@pytest.mark.parametrize("seed", mark_rest(range(2), quick=1))
def test_pieces_show_what_the_formula_shows(seed):
    draw = np.random.default_rng(seed)
    told_apart = 0
    for _ in range(60):
        formula = random_formula(draw, 3)
        numbers = tuple(draw.integers(-3, 5, 40).astype(float) for _ in range(3))
        at = FormulaInputs(numbers, {0: np.where(draw.random(40) < 0.3, np.nan, 2.0)}, {})
        expected = np.broadcast_to(evaluate(formula, at), (40,))
        shown = np.full(40, -99.0)
        for piece in split_pieces(formula, at, 40):
            rows = np.arange(40) if piece.rows is None else piece.rows
            assert (shown[rows] == -99.0).all()  # every row shows one alternative
            shown[rows] = evaluate(piece.value, piece.select_inputs(at))
        np.testing.assert_array_equal(shown, expected)
        told_apart += len(list_alternatives(formula)) > 1
    assert told_apart > 30
