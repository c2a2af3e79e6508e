"""Bodies that nobody would write: every reply is an answer or a problem, never a fault.

Bodies are mutated, questions are made by a grammar and damaged, and schemathesis makes requests
from the OpenAPI document. What is refused costs nothing: the ledger holds what the answers say
they were charged, added up as the ledger adds: each sum is rounded up to a multiple of 1e-60.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from random import Random

import httpx
import pytest

from dither.privacy.ledger.pots import GRID, on_grid
from tests.datasets.served_clinic import BY_WARD, COUNT, running_gateway, serving
from tests.gateway.sql_grammar import make_question

BODIES = {
    "sql": {"sql": BY_WARD, "epsilon": "0.01", "weights": {"n": 2}, "params": None, "fresh": False},
    "preview": {"sql": COUNT, "within": {"n": 50}, "group_size": 10},
    "explain": {"sql": COUNT, "epsilon": 1, "confidence": 0.9},
    "suggest": {"what": "bounds", "of": "visits.cost", "epsilon": "0.01", "keep": 0.9},
}
JUNK = [
    None,
    True,
    -1,
    0,
    1e308,
    2**70,
    "",
    "1/0",
    "nan",
    "\u202e\u0000",
    "\ud800",
    "x" * 2000,
    [],
    {},
    [[]],
    {"": ""},
    "SELECT",
    "SELECT COUNT(*) FROM visits; SELECT 1",
    "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
    "SELECT pg_sleep(10) FROM visits",
    "EXPLAIN PRIVACY " + COUNT,
    "(" * 500,
]
WORDS = ["COUNT(*)", "FROM", "visits", "WHERE", "age", ">", "3", "GROUP BY", "ward", ",", "(", ")"]


def mutate(body: dict, choices: list[int]) -> dict:
    """A body with one member replaced, removed, added, or its words shuffled."""
    keys = sorted(body)
    key = keys[choices.pop() % len(keys)]
    act = choices.pop() % 4
    if act == 0:
        return {name: value for name, value in body.items() if name != key}
    if act == 1:
        return {**body, "unknown": JUNK[choices.pop() % len(JUNK)]}
    if act == 2 and "sql" in body:
        words = [WORDS[choices.pop() % len(WORDS)] for _ in range(choices.pop() % 12)]
        return {**body, "sql": "SELECT " + " ".join(words)}
    return {**body, key: JUNK[choices.pop() % len(JUNK)]}


def list_charges(info: dict) -> list[Fraction]:
    """What an answer was charged; of one over other answers, what each of those was."""
    if "answers" in info:
        return [charged for answer in info["answers"] for charged in list_charges(answer)]
    return [Fraction(info.get("charged", 0))]


class Charges:
    """Adds up what answers say they were charged; a fault fails the test."""

    def __init__(self) -> None:
        self.total = Fraction(0)
        self.plain_total = Fraction(0)
        self.codes: set[int] = set()

    def check(self, spent: Fraction) -> None:
        assert spent == self.total

    def add(self, response, sent: object) -> None:
        document = response.json()
        self.codes.add(response.status_code)
        assert response.status_code < 500, (sent, document)
        if response.status_code == 200:
            for charged in list_charges(document.get("info", {})):
                self.total = on_grid(self.total + charged)
                self.plain_total += charged
        else:
            assert document["status"] == response.status_code and document["detail"]


class Asker:
    """A client that posts bodies; a reply that does not come in time fails the test."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.charges = Charges()

    def post(self, route: str, body: dict) -> None:
        content = json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        response = self._client.post(f"/{route}", content=content, headers=headers)
        self.charges.add(response, (route, content))


@contextmanager
def asking(folder) -> Iterator[Asker]:
    """An asker at a served clinic; at the end the ledger has what the answers say."""
    with serving(folder, "1000") as served, running_gateway(served.socket) as url:
        headers = {"authorization": f"Bearer {served.make_token()}"}
        base = f"{url}/api/v1/datasets/clinic"
        with httpx.Client(base_url=base, headers=headers, timeout=60) as client:
            asker = Asker(client)
            yield asker
        asker.charges.check(served.read_spent())


def check_mutated_bodies(folder, rounds: int) -> None:
    with asking(folder) as asker:
        for _ in range(rounds):
            choices = list(os.urandom(40))
            route = sorted(BODIES)[choices.pop() % len(BODIES)]
            asker.post(route, mutate(BODIES[route], choices))


def test_a_hundred_mutated_bodies_are_answered_or_refused(tmp_path):
    check_mutated_bodies(tmp_path, 100)


@pytest.mark.all
def test_four_thousand_mutated_bodies_are_answered_or_refused(tmp_path):
    check_mutated_bodies(tmp_path, 4000)


def check_made_questions(folder, seeds: range) -> None:
    """Each seed makes a question; one of four is asked, the others are previewed."""
    with asking(folder) as asker:
        for seed in seeds:
            body = {"sql": make_question(Random(seed)), "epsilon": "0.001"}
            asker.post("preview" if seed % 4 else "sql", body)
    assert asker.charges.total > 0 and {200, 422} <= asker.charges.codes


def test_a_hundred_questions_of_a_grammar_are_answered_or_refused(tmp_path):
    check_made_questions(tmp_path, range(100))


def test_charges_without_a_common_denominator_are_added_up_as_the_ledger_does(tmp_path):
    """Charges have denominators of six digits: past ten of them sums have more than 60, and are
    rounded up."""
    with asking(tmp_path) as asker:
        for number in range(16):
            asker.post("sql", {"sql": COUNT, "epsilon": f"0.1{2 * number + 11}"})
    assert 0 < asker.charges.total - asker.charges.plain_total < Fraction(16, GRID)


@pytest.mark.all
def test_twenty_thousand_questions_of_a_grammar_are_answered_or_refused(tmp_path):
    check_made_questions(tmp_path, range(1_000_000, 1_020_000))


@pytest.mark.all
def test_requests_that_schemathesis_makes_are_answered_as_the_document_says(tmp_path):
    """Every route of the OpenAPI document, with bodies that fit it and bodies that do not.

    Statuses, types and shapes of all replies are documented ones. That a question is empty or a
    number is a word is no part of the document: such requests fit it, and are refused.
    """
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    checked = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    with serving(tmp_path, "1000") as served, running_gateway(served.socket) as url:
        headers = {"authorization": f"Bearer {served.make_token()}"}
        document = schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")
        charges = Charges()
        operations = [operation.ok() for operation in document.get_all_operations()]
        assert len(operations) >= 12
        for operation in operations:

            @settings(
                max_examples=100,
                derandomize=True,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def send(case):
                if "dataset" in case.path_parameters:
                    case.path_parameters["dataset"] = "clinic"
                response = case.call(headers=headers, timeout=60)
                case.validate_response(response, checks=checked)
                charges.add(response, case)

            send()
        charges.check(served.read_spent())
