"""What the tester sees of an output: all of it, or the verdict says what it could not open."""

import json
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dither import audit
from dither.audit.canonical_outputs import MOST_ELEMENTS, read_output
from dither.audit.outputs import Reader
from dither.audit.report import Section, to_html
from dither.audit.verdict import LIMITS
from dither.errors import ParameterError
from dither.privacy.noise import bernoulli, discrete_laplace
from tests.case_lists import mark_between, mark_rest

FEW = audit.Budget(400, 1e-9)


def noise(count):
    return [int(draw) for draw in discrete_laplace(9, count)]


@dataclass
class Answer:
    noise: list
    secret: int


class Plain:
    """An object without a repr of its own."""

    def __init__(self, secret):
        self.noise = noise(4)
        self.secret = secret


class Slotted:
    __slots__ = ("noise", "secret")

    def __init__(self, secret):
        self.noise = noise(4)
        self.secret = secret


BUFFER = []


def fill_buffer(secret):
    BUFFER[:] = [*noise(3), secret]
    return BUFFER


def fail_sometimes(secret):
    if bernoulli(0.5):
        return 0
    raise ValueError(f"{noise(1)[0]} rows, {secret} of them hers, {noise(1)[0]} in all")


def leave(secret):
    if secret:
        raise SystemExit(2)
    return 0


EXACT_RELEASES = {
    "JSON": lambda secret: json.dumps({"noise": noise(4), "n": secret}),
    "words of a text": lambda secret: f"{noise(1)[0]} {'Ada' if secret else 'Bob'} {noise(1)[0]}",
    "bytes": lambda secret: f"{noise(1)[0]};{secret};{noise(1)[0]}".encode(),
    "polars rows": lambda secret: pl.DataFrame({"v": [*noise(15), secret, *noise(15)]}),
    "polars column": lambda secret: pl.Series([*noise(15), secret, *noise(15)]),
    "pandas rows of one index": lambda secret: pd.DataFrame(
        {"v": [*noise(2), secret, 0]}, index=[0, 1, 2, 2]
    ),
    "Arrow columns of one name": lambda secret: pa.table(
        [pa.array(noise(2)), pa.array([secret, 0]), pa.array([0, 0])], names=["a", "b", "b"]
    ),
    "masked array": lambda secret: np.ma.array([*noise(3), secret], mask=[0, 0, 0, 1]),
    "generator": lambda secret: (value for value in [*noise(3), secret]),
    "map": lambda secret: map(int, [*noise(3), secret]),
    "dataclass": lambda secret: Answer(noise(4), secret),
    "object": Plain,
    "slots": Slotted,
    "set": lambda secret: {1000 + secret, noise(1)[0]},
    "True against 1": lambda secret: {"noise": noise(4), "n": True if secret else 1},
    "1 against 1.0": lambda secret: [*noise(3), 1 if secret else 1.0],
    "types of numpy": lambda secret: [*noise(3), np.int32(1) if secret else np.int64(1)],
    "list against tuple": lambda secret: (list if secret else tuple)(noise(3)),
    "digits beyond a float": lambda secret: [*noise(3), 0.5, 2**60 + secret],
    "integer of 5,000 digits": lambda secret: [10**5000 + secret, noise(1)[0]],
    "key of a dict": lambda secret: {"noise": noise(4), f"key {secret}": 0},
    "leaf 100 of 101": lambda secret: {"noise": noise(100), "n": secret},
    "a list that is used again": fill_buffer,
    "message of an error": fail_sometimes,
    "exit": leave,
}


@pytest.mark.parametrize("kind", mark_between(EXACT_RELEASES, step=3))
def test_an_exact_release_inside_noise_is_seen(kind):
    """The output tells the input with certainty, somewhere beside noise."""
    verdict = audit.test(EXACT_RELEASES[kind], 0, 1, epsilon=0.3, budget=FEW)
    assert verdict.violated, verdict


def release_column(position, values):
    def mechanism(secret, size):
        rows = values(discrete_laplace(9, (size, 100)))
        rows[:, position] = secret
        return rows

    return mechanism


@pytest.mark.parametrize("position", mark_rest([99, 70, 0, 50], quick=2))
@pytest.mark.parametrize("values", [np.asarray, lambda rows: rows / 7], ids=["integers", "floats"])
def test_no_column_is_left_unseen(position, values):
    verdict = audit.test(release_column(position, values), 0, 1, epsilon=0.3, budget=FEW)
    assert verdict.violated and any("more columns were compared" in line for line in verdict.limits)


@pytest.mark.all
def test_small_moves_of_many_columns_are_seen_together():
    """200 columns that move by 1 each under noise of scale 5: one shows 1/5, all show 40."""

    def histogram(count, size):
        return count + discrete_laplace(5, (size, 200))

    verdict = audit.test(histogram, 0, 1, epsilon=0.5, budget=audit.Budget(4_000, 1e-9))
    assert verdict.violated


def test_an_event_of_ones_own_gets_all_columns():
    widths = []

    def remember(rows):
        widths.append(rows.shape[1])
        return rows[:, 99] > 0

    own = audit.event("last column", remember)
    audit.test(release_column(0, np.asarray), 0, 1, epsilon=0.3, budget=FEW, events=[own])
    assert set(widths) == {100}


class Opaque:
    __slots__ = ()


@pytest.mark.parametrize(
    ("output", "named"),
    [(lambda: 0, "function"), (Opaque(), "Opaque"), ([object()], "object"), (print, "builtin")],
)
def test_what_cannot_be_opened_acquits_nobody(output, named):
    verdict = audit.test(lambda data: (discrete_laplace(2), output), 0, 1, epsilon=1, budget=FEW)
    assert verdict.outcome == "inconclusive" and verdict.ceiling > 1
    assert any(named in kind for kind in verdict.unexamined)
    assert len(verdict.limits) > len(LIMITS) and named in verdict.limits[-1]
    assert named in str(verdict) and verdict.to_json()["unexamined"]
    assert "is not acquitted" in to_html("Audit", [Section("one", verdicts=(verdict,))])


def test_what_comes_late_or_endlessly_is_named_as_well():
    def endless(data):
        return iter(int, 1)

    assert read_output(endless(0)).unread == (
        f"callable_iterator (after {MOST_ELEMENTS:,} elements)",
    )
    calls = []

    def late(data):
        calls.append(data)
        return (lambda: data) if len(calls) > 700 else 0

    assert audit.test(late, 0, 1, epsilon=1, budget=FEW).unexamined


def test_a_text_has_all_of_content_and_types():
    """Pairwise different outputs have pairwise different texts; equal ones have equal texts."""
    nested = []
    nested.append(nested)
    outputs = [True, 1, 1.0, np.int64(1), np.int32(1), np.float64(1), np.bool_(True), "1", b"1"]
    outputs += [None, "None", 1 + 0j, Fraction(1), [1], (1,), {1}, frozenset({1}), {1: 1}, [[1]]]
    outputs += [np.array([1]), np.array([1.0]), np.array([[1]]), range(1), range(2), -0.0, 0.0]
    outputs += [Answer([], 1), Answer([], 2), {"a": 1, "b": 2}, {"b": 2, "a": 1}, nested]
    outputs += [pl.Series([1]), pd.Series([1]), pa.array([1]), pa.array([1], pa.int8())]
    texts = [read_output(output).text for output in outputs]
    assert len(set(texts)) == len(outputs)
    assert texts == [read_output(output).text for output in outputs]
    assert read_output({3, 1, 2}).text == read_output({2, 3, 1}).text


def test_numbers_of_another_type_than_the_first_are_read_apart():
    read = Reader.of([1, 2], [2, 3])
    first = read([1, 2])
    assert first.rows.tolist() == [[1], [2]] and first.whole.tolist() == [1, 2]
    assert len({int(read([value]).whole[0]) for value in (1, 1.0, True, np.int64(1))}) == 4
    assert Reader.of([1, 2], [1.0, 2.0]).signature is None
    assert Reader.of(np.zeros(3), np.zeros(3, np.int64)).signature is None


def test_every_run_gets_a_copy_of_its_input():
    """A mechanism that empties its input would show the audit an empty one ever after."""

    def count_and_clear(rows):
        count = len(rows)
        rows.clear()
        return count

    def count_and_clear_many(rows, size):
        return [count_and_clear(rows)] * size

    first = [1, 2]
    for mechanism in (count_and_clear, count_and_clear_many):
        assert audit.test(mechanism, first, [1], epsilon=0.3, budget=FEW).violated
        assert first == [1, 2]


@pytest.mark.parametrize(
    "make", [lambda: iter([1]), lambda: (i for i in [1]), lambda: map(int, "1")]
)
def test_inputs_that_one_run_uses_up_are_refused(make):
    with pytest.raises(ParameterError, match="pass a list"):
        audit.test(lambda rows: sum(rows), make(), [1], epsilon=1, budget=FEW)
    with pytest.raises(ParameterError, match="cannot be copied"):
        audit.test(lambda rows: 0, [(i for i in [1])], [1], epsilon=1, budget=FEW)


def test_what_keeps_its_claim_is_not_refuted_through_any_reader():
    """Right mechanisms with outputs of several kinds; all false alarms together: 4e-9 at most."""

    def wide(count, size):
        return count * np.eye(1, 100, dtype=np.int64) + discrete_laplace(2, (size, 100))

    def text(count):
        return f"{int(count + discrete_laplace(2))} of many"

    for mechanism, runs in ((wide, 4_000), (text, 600)):
        spend = audit.Budget(runs, 1e-9)
        assert audit.test(mechanism, 0, 1, epsilon=0.5, budget=spend).outcome == "not refuted"
