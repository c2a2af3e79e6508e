"""Documents: requests, pots and errors are the same after the way; forged ones are refused."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from fractions import Fraction
from typing import get_args

import pytest

import dither
from dither import errors
from dither.answer.choose_mechanism import Pricer
from dither.canonical import MOST_RATIO_DIGITS, dumps
from dither.errors import DitherError, ParameterError, QueryError, RefusedError
from dither.plan.algebra import (
    BlockCounts,
    Cells,
    Count,
    JointScores,
    Linear,
    Named,
    Project,
    Query,
    Scan,
    Scores,
    UnitVectors,
)
from dither.plan.expressions import Call, Column
from dither.plan.operators import (
    Boxes,
    Dense,
    HaarWavelet,
    Identity,
    Kronecker,
    LinearOperator,
    Marginal,
    Prefix,
    Ranges,
    Stack,
    ToeplitzHankel,
    Total,
    Tree,
)
from dither.plan.utilities import (
    CellCounts,
    Coordinates,
    DistanceCandidate,
    Distances,
    RankDistance,
    Utility,
)
from dither.plan.vector_functions import VectorFunction
from dither.privacy.charges.rules import Rule
from dither.privacy.kernel.copying import copy_request
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.kernel.statements import statements
from dither.privacy.ledger.pots import opened
from dither.protocol import documents
from dither.protocol.errors import AccessError, BusyError, FaultError, ProtocolError, TokenError
from dither.protocol.frames import read_document
from dither.protocol.messages import ErrorDocument, PotDocument, RequestDocument
from dither.protocol.problems import STATUSES, Problem, describe_error, read_problem
from dither.rules import PrivacyRule
from tests.datasets import clinic
from tests.stored_samples import vector_samples

QUESTIONS = [
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT ward, COUNT(*) AS n, AVG(cost) AS m, SUM(score) AS s FROM visits GROUP BY ward",
    "SELECT ward, MEDIAN(age) AS m FROM visits WHERE urgent GROUP BY ward",
    "SELECT COUNT(DISTINCT patient) AS n FROM visits WHERE kind = 'a' AND age BETWEEN 3 AND 50",
    "SELECT kind, COUNT(*) FILTER (WHERE cost > 10.5) / COUNT(*) AS r FROM visits GROUP BY kind",
    "SELECT EXTRACT(MONTH FROM day) AS m, COUNT(*) AS n FROM visits GROUP BY 1",
    "SELECT COUNT(*) AS n FROM (SELECT patient, COUNT(*) AS k FROM visits GROUP BY patient) p "
    "WHERE k > 1",
    "SELECT ward, kind, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward, kind)",
    "SELECT CASE WHEN age < 18 THEN 'young' ELSE 'old' END AS a, COUNT(*) AS n FROM visits "
    "GROUP BY 1",
    "SELECT " + "+".join(["age"] * 30) + " AS a, COUNT(*) AS n FROM visits GROUP BY 1",
]


@pytest.fixture(scope="module")
def connection(tmp_path_factory) -> dither.Connection:
    file, state = clinic.register(tmp_path_factory.mktemp("clinic"), [clinic.row("1", "1")])
    clinic.open_total(state)
    return dither.connect(file)


def send(document: RequestDocument) -> RequestDocument:
    """A document after the way over a stream."""
    tree = read_document(dumps(document.model_dump()).encode())
    return RequestDocument.model_validate(tree)


@pytest.mark.parametrize("sql", QUESTIONS)
def test_a_request_is_the_same_after_the_way(connection, sql):
    try:
        request = connection.request(sql, epsilon=1)
    except DitherError as refusal:
        pytest.fail(f"a question of this list is refused: {refusal}")
    received = documents.read_request(send(documents.write_request(request)))
    assert copy_request(received).to_json() == request.to_json()
    kernel: Pricer = connection._kernel
    here = kernel.price_at(request)
    there = kernel.price_at(received)
    assert here.key == there.key
    assert [query.hash for query in statements(here)] == [query.hash for query in statements(there)]


def make_document(connection) -> dict:
    return documents.write_request(connection.request(QUESTIONS[1], epsilon=1)).model_dump()


def refuse(tree: dict) -> None:
    """Neither the model nor the reader nor the kernel's own copy takes the tree."""
    with pytest.raises((ValueError, DitherError)):
        copy_request(documents.read_request(RequestDocument.model_validate(tree)))


def test_shares_whose_sum_has_no_end_in_sight_are_refused_before_they_are_added(connection):
    """The denominators are Fermat numbers: no two have a common factor (Goldbach 1730)."""
    tree = make_document(connection)
    step = tree["steps"][0]
    denominators = [2 ** (2**exponent) + 1 for exponent in range(13)]
    digits = len(str(math.prod(denominators)))
    assert digits == len(str(2 ** (2**13) - 1)) < MOST_RATIO_DIGITS
    tree["steps"] = [{**step, "weight": f"1/{number}"} for number in denominators]
    documents.read_request(RequestDocument.model_validate(tree))
    tree["steps"].append({**step, "weight": f"1/{2 ** (2**13) + 1}"})
    with pytest.raises(ParameterError, match="common denominator"):
        documents.read_request(RequestDocument.model_validate(tree))


@pytest.mark.parametrize(
    "change",
    [
        {"pot": ""},
        {"pot": 7},
        {"scale": "1/1"},
        {"queries": []},
        {"steps": []},
        {"price": {}},
        {"price": {"epsilon": "1/1", "rho": "1/1"}},
        {"price": {"epsilon": "-1/1"}},
        {"price": {"epsilon": "1/0"}},
        {"price": {"epsilon": "0.5"}},
        {"price": {"epsilon": 1.5}},
        {"price": {"epsilon": "9" * 9000 + "/1"}},
    ],
)
def test_a_forged_request_is_refused(connection, change):
    refuse({**make_document(connection), **change})


@pytest.mark.parametrize(
    "change",
    [
        {"query": 99},
        {"query": -1},
        {"query": True},
        {"columns": [True]},
        {"columns": [0, 0]},
        {"columns": [99]},
        {"weight": "0/1"},
        {"weight": "-1/2"},
        {"family": ""},
        {"sensitivity": 0},
        {"mechanism": "none"},
    ],
)
def test_a_forged_step_is_refused(connection, change):
    tree = make_document(connection)
    tree["steps"] = [{**tree["steps"][0], **change}]
    refuse(tree)


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"type": "query"},
        {"type": "query", "query": {"type": "scan", "table": "visits"}},
        {"type": "query", "query": {"type": "request"}},
        {"type": "query", "query": {"type": "preview"}},
        {"type": "scan", "table": "visits"},
        {
            "type": "query",
            "query": {
                "type": "cells",
                "plan": {"type": "scan", "table": "visits", "rows": 0},
                "keys": [],
                "columns": [{"type": "count"}],
            },
        },
        {
            "type": "query",
            "query": {
                "type": "cells",
                "plan": {"type": "limitgroups", "source": {"type": "scan", "table": "visits"}}
                | {"keys": ["ward"], "groups": True},
                "keys": [],
                "columns": [{"type": "count"}],
            },
        },
    ],
)
def test_a_forged_query_is_refused(connection, query):
    refuse({**make_document(connection), "queries": [query]})


def test_nothing_of_a_request_says_how_it_is_answered():
    """No scale, sensitivity, loss or SQL: the kernel solves and derives them itself."""
    names = set(RequestDocument.model_fields)
    assert names == {"queries", "steps", "price", "pot"}


def test_a_pot_is_the_same_after_the_way():
    rule = Rule("approx", delta=Fraction(1, 10**6), delta_per_question=Fraction(1, 10**9))
    terms = clinic.PURPOSE
    pot = opened("total", 3, 5, neighbours="replace", unit="person", rule=rule, **terms)
    pot = replace(
        pot, spent=Fraction(1, 3), delta_spent=Fraction(1, 10**9), relations={"a": "same"}
    )
    tree = read_document(dumps(documents.write_pot(pot).model_dump()).encode())
    assert documents.read_pot(PotDocument.model_validate(tree)) == pot


def test_a_document_of_a_pot_has_every_field_of_a_pot():
    assert set(PotDocument.model_fields) == {field.name for field in fields(dither_pot())}


def dither_pot() -> object:
    from dither.privacy.ledger import Pot

    return Pot


EVERY_ERROR = [
    ParameterError("epsilon must be positive"),
    QueryError("no column x", start=7, end=8),
    errors.BudgetError("the pot cannot pay"),
    RefusedError("no rule for this", rule=PrivacyRule.NO_RULE),
    errors.UnavailableError(),
    DitherError("nothing is registered"),
    AccessError("not for this pot"),
    TokenError("not accepted"),
    BusyError("too many wait"),
    ProtocolError("no message"),
    FaultError(),
]


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
def test_an_error_is_raised_there_as_it_was_here(error):
    document = documents.write_error(error)
    over_frames = documents.read_error(
        ErrorDocument.model_validate(read_document(dumps(document.model_dump()).encode()))
    )
    problem = describe_error(error, "urn:x").model_dump_json(exclude_none=True)
    over_http = read_problem(Problem.model_validate_json(problem).model_dump())
    for received in (over_frames, over_http):
        assert type(received) is type(error)
        assert str(received) == str(error)
        for name in ("rule", "start", "end"):
            assert getattr(received, name, None) == getattr(error, name, None)


def test_a_subclass_arrives_as_the_nearest_kind_that_readers_know():
    class SpecialBudgetError(errors.BudgetError):
        pass

    assert documents.write_error(SpecialBudgetError("no")).kind == "BudgetError"
    assert type(documents.read_error(ErrorDocument(kind="Newer", message="x"))) is DitherError


def test_every_kind_of_error_has_a_status_of_its_own_kind():
    assert {describe_error(error, "urn:x").status for error in EVERY_ERROR} == {
        status for _, status, _ in STATUSES
    }


CELLS = Cells(Scan("visits"), ("ward",), (Count(),))
OPERATORS = [
    *(Identity(4), Total(4), Prefix(4), Tree(4, 2), HaarWavelet(4), Ranges(4, ((0, 1), (2, 3)))),
    *(Dense(((1, 0, -1, 2),)), Kronecker((Total(2), Prefix(2))), Stack((Total(4), Identity(4)))),
    *(Marginal((2, 2), (0,)), ToeplitzHankel((1, 0, 0, 0), (0,) * 7, (1, 2, 3, 4))),
    Boxes((2, 2), (0, 1, 1, 1)),
]
UTILITIES = [
    CellCounts((0, 2)),
    RankDistance(Fraction(1, 3)),
    Distances(2, (DistanceCandidate(3, Total(4), (9,)), DistanceCandidate(1, Prefix(4), (1,) * 4))),
    Coordinates((1, -2)),
]
QUERIES = [
    *(Linear(CELLS, operator) for operator in OPERATORS),
    *(Scores(CELLS, utility) for utility in UTILITIES[:-1]),
    *vector_samples(),
    Scores(vector_samples()[0], UTILITIES[-1]),
    JointScores((Scores(CELLS, UTILITIES[2]),)),
    BlockCounts(CELLS, "deviation", 3, Fraction(1, 4)),
]


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_a_query_over_cells_is_the_same_after_the_way(query):
    step = Step(query, "linear_laplace", Fraction(1, 3))
    request = Request((step, Step(CELLS, "laplace", Fraction(1))), Price(Fraction(1)), "total")
    received = documents.read_request(send(documents.write_request(request)))
    assert copy_request(received).to_json() == request.to_json()


def test_every_operator_and_utility_is_in_this_list():
    assert {type(operator) for operator in OPERATORS} == set(get_args(LinearOperator))
    assert {type(utility) for utility in UTILITIES} == set(get_args(Utility))
    functions = {type(query.function) for query in QUERIES if isinstance(query, UnitVectors)}
    assert functions == set(get_args(VectorFunction))


def test_many_wide_toeplitz_matrices_are_refused_before_their_norms_are_computed():
    """One of 16,384 cells takes 2**28 products, two of them more than is priced at once."""
    size = 1 << 14
    wide = ToeplitzHankel((1,) * size, (0,) * (2 * size - 1), (1,) * size)
    candidate = DistanceCandidate(1, Kronecker((wide,)), (0,) * size)
    twice = Scores(CELLS, Distances(1, (candidate, candidate)))
    request = Request(
        (Step(twice, "scores_exponential", Fraction(1)),), Price(Fraction(1)), "total"
    )
    with pytest.raises(ParameterError, match="send fewer steps"):
        documents.read_request(documents.write_request(request))


@pytest.mark.parametrize(
    "operator",
    [
        Tree(4, 1),
        Prefix(10**12),
        Kronecker((Prefix(1000),) * 8),
        Identity(-1),
        Marginal((2,), (5,)),
    ],
    ids=repr,
)
def test_an_operator_that_is_none_is_refused_before_it_is_counted(operator):
    step = Step(Linear(CELLS, operator), "linear_laplace", Fraction(1))
    request = Request((step,), Price(Fraction(1)), "total")
    with pytest.raises(RefusedError):
        documents.read_request(send(documents.write_request(request)))


def test_operators_that_are_large_together_are_refused_before_pricing():
    query = Linear(CELLS, Prefix(10**6))
    steps = tuple(Step(query, "linear_laplace", Fraction(1)) for _ in range(6))
    documents.read_request(documents.write_request(Request(steps[:5], Price(Fraction(1)), "total")))
    with pytest.raises(ParameterError, match="send fewer steps"):
        documents.read_request(documents.write_request(Request(steps, Price(Fraction(1)), "total")))


def name_repeated(query: Query, family: str, count: int) -> Request:
    steps = tuple(Step(query, family, Fraction(1)) for _ in range(count))
    return Request(steps, Price(Fraction(1)), "total")


def test_many_steps_over_one_long_query_are_refused_before_pricing():
    """A thousand steps over three thousand columns, 660 kB, took a minute and 5 GB; over one matrix
    of 65,000 entries, 200 kB, twenty seconds."""
    labels = tuple(Named(f"x{n}", Call("upper", (Column("ward"),))) for n in range(600))
    wide = Cells(Project(Scan("visits"), labels), (), (Count(),))
    matrix = Linear(CELLS, Dense(((1, 0, -1, 2),) * 1000))
    for query, family, most in ((wide, "laplace", 300), (matrix, "linear_laplace", 200)):
        documents.read_request(send(documents.write_request(name_repeated(query, family, most))))
        with pytest.raises(ParameterError, match="shorter queries"):
            many = name_repeated(query, family, 1000)
            documents.read_request(send(documents.write_request(many)))
