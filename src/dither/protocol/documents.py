"""Requests, pots, facts, releases and errors as documents of the protocol, and back.

The curator reads requests here, so reading is strict: nodes of plans are rebuilt from the closed
set of stored classes, with exactly their fields. The kernel checks them once more.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from math import lcm
from typing import Any, get_args

from dither import errors, wire
from dither.canonical import MOST_RATIO_DIGITS, digest, exact, fraction_text
from dither.catalog import storage
from dither.errors import DitherError, ParameterError, QueryError, RefusedError, UnavailableError
from dither.plan.algebra import (
    Aggregate,
    Cells,
    Condition,
    Expression,
    JointScores,
    Keys,
    Linear,
    Named,
    Plan,
    Quantiles,
    Query,
    Scores,
)
from dither.plan.encodings import Feature
from dither.plan.facts import Facts
from dither.plan.network_functions import NetworkLayer
from dither.plan.operators import (
    MOST_PRODUCTS,
    Kronecker,
    LinearOperator,
    Stack,
    ToeplitzHankel,
    check_operator,
    count_columns,
    count_rows,
)
from dither.plan.scores import check_members
from dither.plan.tree_functions import ScoredTree
from dither.plan.utilities import DistanceCandidate, Distances, Utility
from dither.plan.vector_functions import VectorFunction
from dither.privacy.charges.rules import Charge, Rule, charge_from_amounts
from dither.privacy.kernel.release import Priced, Release, Values, Version
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.ledger import Pot
from dither.protocol.errors import (
    AccessError,
    BusyError,
    FaultError,
    ProtocolError,
    TokenError,
)
from dither.protocol.messages import (
    ErrorDocument,
    PotDocument,
    PriceDocument,
    PublicFacts,
    ReleasedAnswer,
    RequestDocument,
    RuleDocument,
    StepDocument,
)
from dither.rules import PrivacyRule
from dither.stored import stored


@stored("query", query="query")
@dataclass(frozen=True)
class QueryDocument:
    """A query by itself; the reader knows from here which classes may stand at its top."""

    query: Query


@stored("rows", plan="plan")
@dataclass(frozen=True)
class RowsDocument:
    """The rows that a job reads, by themselves."""

    plan: Plan


_NODES = (
    QueryDocument,
    RowsDocument,
    Named,
    *(
        node
        for union in (
            Aggregate,
            Condition,
            Expression,
            Feature,
            LinearOperator,
            Plan,
            Query,
            Utility,
            VectorFunction,
        )
        for node in get_args(union)
    ),
    DistanceCandidate,
    NetworkLayer,
    ScoredTree,
)
MOST_OPERATOR_NUMBERS = 10_000_000
"""Cells and numbers of all operators of one request: their norms are computed to price it."""
MOST_REPEATED_CHARACTERS = 1 << 25
"""Characters of queries that several steps name, counted for each step. The most that a question in
SQL has are nine million."""
_CHECKED_TIMES = 8
"""So many times longer than counts and sums take operators, utilities and functions of vectors,
which are checked for every step."""


def write_request(request: Request) -> RequestDocument:
    """The document of a request. Steps over the same query share it, as in the request."""
    queries = {step.measured.hash: step.measured for step in request.steps}
    positions = {query_hash: position for position, query_hash in enumerate(queries)}
    return RequestDocument(
        queries=[wire.write(QueryDocument(query)) for query in queries.values()],
        steps=[
            StepDocument(
                query=positions[step.measured.hash],
                columns=None if step.columns is None else list(step.columns),
                family=step.family,
                weight=fraction_text(step.weight),
            )
            for step in request.steps
        ],
        price=PriceDocument(**{request.price.name: fraction_text(request.price.value)}),
        pot=request.pot,
    )


def write_rows(plan: Plan) -> dict[str, Any]:
    """The document of the rows that a job reads."""
    document: dict[str, Any] = wire.write(RowsDocument(plan))
    return document


def read_rows(document: Mapping[str, Any]) -> Plan:
    """The rows of a document; ParameterError where it describes none."""
    return wire.read(document, RowsDocument, _NODES).plan


def write_price(price: Price | None) -> PriceDocument | None:
    """The document of a price; None where it is not on record."""
    return None if price is None else PriceDocument(**{price.name: fraction_text(price.value)})


def read_price(document: PriceDocument | None) -> Price | None:
    """The price of a document."""
    if document is None:
        return None
    amounts = document.model_dump(exclude_none=True)
    return Price(**{name: read_number(text) for name, text in amounts.items()})


def read_request(document: RequestDocument) -> Request:
    """The request of a document; ParameterError where it is none."""
    queries = [wire.read(tree, QueryDocument, _NODES).query for tree in document.queries]
    if any(step.query >= len(queries) for step in document.steps):
        raise ParameterError("a step of a request names a query that it does not hold")
    steps = tuple(
        Step(
            queries[step.query],
            step.family,
            read_number(step.weight),
            None if step.columns is None else tuple(step.columns),
        )
        for step in document.steps
    )
    _check_common_denominator(steps)
    _check_repeated(document, queries)
    _check_operators(steps)
    price = document.price
    return Request(
        steps,
        Price(
            None if price.epsilon is None else read_number(price.epsilon),
            None if price.rho is None else read_number(price.rho),
        ),
        document.pot,
    )


def _check_common_denominator(steps: Sequence[Step]) -> None:
    """Refuse shares whose sum would be a fraction without end in sight.

    A sum of n fractions can have n times their digits, and every later one is reduced at that
    length: a thousand shares of a few hundred digits would hold the curator for half a minute.
    """
    common = 1
    for step in steps:
        common = lcm(common, step.weight.denominator)
        if common >= 10**MOST_RATIO_DIGITS:
            raise ParameterError(
                f"the shares of a request have a common denominator of more than "
                f"{MOST_RATIO_DIGITS:,} digits: round them, as in 0.5 or 1/3"
            )


def _check_repeated(document: RequestDocument, queries: Sequence[Query]) -> None:
    """Refuse many steps over one long query.

    On the wire it stands once. Each step writes it again into what is hashed, stored and bounded: a
    thousand steps over half a million characters would take gigabytes.
    """
    characters = 0
    for position, steps in Counter(step.query for step in document.steps).items():
        if steps > 1:
            times = 1 if isinstance(queries[position], (Cells, Keys, Quantiles)) else _CHECKED_TIMES
            characters += steps * times * len(json.dumps(document.queries[position]))
    if characters > MOST_REPEATED_CHARACTERS:
        raise ParameterError(
            "the steps of this request repeat long queries too often to be priced at once: send "
            "fewer steps, or shorter queries"
        )


def _check_operators(steps: Sequence[Step]) -> None:
    """Refuse operators that together would hold the curator long, before anything is computed."""
    numbers = 0
    products = 0
    for step in steps:
        for operator in _list_operators(step.measured):
            check_operator(operator)
            numbers += count_columns(operator) + count_rows(operator)
            products += _find_widest_toeplitz(operator) * count_columns(operator)
    if products > MOST_PRODUCTS:
        raise ParameterError(
            f"the Toeplitz-Hankel matrices of a request take {products:,} products together, at "
            f"most {MOST_PRODUCTS:,} are priced at once: send fewer steps"
        )
    if numbers > MOST_OPERATOR_NUMBERS:
        raise ParameterError(
            f"the operators of a request have {numbers:,} cells and numbers together, at most "
            f"{MOST_OPERATOR_NUMBERS:,} are priced at once: send fewer steps"
        )


def _find_widest_toeplitz(operator: LinearOperator) -> int:
    """The size of the largest Toeplitz-Hankel matrix in a checked operator; 0 without any."""
    if isinstance(operator, ToeplitzHankel):
        return operator.size
    inner = operator.factors if isinstance(operator, Kronecker) else ()
    inner = operator.operators if isinstance(operator, Stack) else inner
    return max(map(_find_widest_toeplitz, inner), default=0)


def _list_operators(query: Query) -> tuple[LinearOperator, ...]:
    """The operators by which a query multiplies cells."""
    if isinstance(query, Linear):
        return (query.operator,)
    if isinstance(query, Scores) and isinstance(query.utility, Distances):
        return tuple(candidate.operator for candidate in query.utility.candidates)
    if isinstance(query, JointScores):
        check_members(query.members)
        return tuple(operator for member in query.members for operator in _list_operators(member))
    return ()


def read_number(text: str) -> Fraction:
    """An exact number from its text p/q."""
    return exact(text, "a number of a message")


def write_pot(pot: Pot) -> PotDocument:
    """The document of a pot."""
    rule = {key: _write_number(value) for key, value in pot.rule.to_body().items()}
    members = {field.name: getattr(pot, field.name) for field in fields(pot)}
    numbers = {name: _write_number(value) for name, value in members.items()}
    return PotDocument(**{**numbers, "rule": RuleDocument(**rule)})


def read_pot(document: PotDocument) -> Pot:
    """The pot of a document."""
    rule = Rule.from_body(document.rule.model_dump(exclude_none=True))
    members: dict[str, Any] = {**document.model_dump(), "rule": rule}
    for name in ("cap", "ceiling", "reissue", "spent", "delta_spent", "reissued"):
        members[name] = read_number(members[name])
    return Pot(**members)


def _write_number(value: Any) -> Any:
    return fraction_text(value) if isinstance(value, Fraction) else value


def read_version(document: PublicFacts) -> Version:
    """The registered version that public facts describe; refused where they contradict it."""
    facts = Facts.from_json(document.facts)
    if digest(document.catalog) != document.catalog_hash:
        raise ProtocolError("the catalog that was sent is not the registered one")
    return Version(
        document.version,
        storage.from_json(document.catalog),
        document.catalog_hash,
        document.context,
        facts,
    )


def write_release(release: Release) -> ReleasedAnswer:
    """What leaves, as a document."""
    return ReleasedAnswer(
        release_id=release.release_id,
        values=write_values(release.values),
        charged=fraction_text(release.charged),
        spent_after=fraction_text(release.spent_after),
        cap=fraction_text(release.cap),
        released_at=release.released_at,
        charges={name: _write_charge(charge) for name, charge in release.charges.items()},
        repeated=release.repeated,
    )


def read_release(document: ReleasedAnswer, priced: Priced) -> Release:
    """The release of a request that was priced here by the same facts."""
    return Release(
        document.release_id,
        priced,
        read_values(document.values),
        read_number(document.charged),
        read_number(document.spent_after),
        read_number(document.cap),
        document.released_at,
        read_charges(document.charges),
        document.repeated,
    )


def write_values(values: Values) -> list[list[int | list[str | None]]]:
    """Released values: a list for each step, of integers or of the labels of keys."""
    return [
        [list(cell) if isinstance(cell, tuple) else int(cell) for cell in cells] for cells in values
    ]


def read_values(document: list[list[int | list[str | None]]]) -> Values:
    """The values that a document holds."""
    return tuple(
        tuple(tuple(cell) if isinstance(cell, list) else cell for cell in cells)
        for cells in document
    )


def _write_charge(charge: Charge) -> list[str]:
    return [fraction_text(charge.amount), fraction_text(charge.delta)]


def read_charges(document: Mapping[str, list[str]]) -> dict[str, Charge]:
    """What each pot paid."""
    return {
        name: charge_from_amounts(read_number(amount), read_number(delta))
        for name, (amount, delta) in document.items()
    }


_ERRORS: dict[str, type[DitherError]] = {
    "TokenError": TokenError,
    "AccessError": AccessError,
    "BudgetError": errors.BudgetError,
    "BusyError": BusyError,
    "FaultError": FaultError,
    "ParameterError": ParameterError,
    "ProtocolError": ProtocolError,
    "DitherError": DitherError,
}
"""Errors that are their message alone; the first that fits names an error, the base comes last."""
_RULES = {rule.value: rule for rule in PrivacyRule}


def write_error(error: DitherError) -> ErrorDocument:
    """An error as a document: nothing of it is lost but what only this process can use."""
    message = str(error.args[0]) if error.args else ""
    if isinstance(error, UnavailableError):
        return ErrorDocument(kind="UnavailableError", message=message)
    if isinstance(error, RefusedError):
        bare = message.removesuffix(f" {error.rule.label}")
        return ErrorDocument(kind="RefusedError", message=bare, rule=error.rule.value)
    if isinstance(error, QueryError):
        return ErrorDocument(kind="QueryError", message=message, start=error.start, end=error.end)
    kind = next(name for name, kind in _ERRORS.items() if isinstance(error, kind))
    return ErrorDocument(kind=kind, message=message)


def read_error(document: ErrorDocument) -> DitherError:
    """The error that a document describes, to be raised here as the curator raised it there."""
    if document.kind == "UnavailableError":
        return UnavailableError()
    if document.kind == "RefusedError" and document.rule in _RULES:
        return _read_refusal(document.message, _RULES[document.rule])
    if document.kind == "QueryError":
        return QueryError(document.message, start=document.start or 0, end=document.end or 0)
    return _ERRORS.get(document.kind, DitherError)(document.message)


def _read_refusal(message: str, rule: PrivacyRule) -> RefusedError:
    """A refusal of the curator, by its own rule; the message may end with the rule's label."""
    kind = RefusedError
    return kind(message.removesuffix(f" {rule.label}"), rule=rule)
