"""Bodies that nobody would write: every reply is an answer or a problem, never a fault.

What is refused costs nothing: the ledger holds exactly what the answers say they were charged.
"""

from __future__ import annotations

import json
import os
from fractions import Fraction

import httpx
import pytest

from tests.datasets.served_clinic import BY_WARD, COUNT, running_gateway, serving

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


def check_replies(folder, rounds: int) -> None:
    with serving(folder, "1000") as served, running_gateway(served.socket) as url:
        headers = {"authorization": f"Bearer {served.make_token()}"}
        charged = Fraction(0)
        with httpx.Client(base_url=f"{url}/api/v1/datasets/clinic", timeout=60) as client:
            for _ in range(rounds):
                choices = list(os.urandom(40))
                route = sorted(BODIES)[choices.pop() % len(BODIES)]
                content = json.dumps(mutate(BODIES[route], choices)).encode()
                sent = {**headers, "content-type": "application/json"}
                response = client.post(f"/{route}", content=content, headers=sent)
                document = response.json()
                assert response.status_code < 500, (route, content, document)
                if response.status_code == 200:
                    charged += Fraction(document.get("info", {}).get("charged", 0))
                else:
                    assert document["status"] == response.status_code and document["detail"]
        assert served.read_spent() == charged


def test_a_hundred_mutated_bodies_are_answered_or_refused(tmp_path):
    check_replies(tmp_path, 100)


@pytest.mark.all
def test_four_thousand_mutated_bodies_are_answered_or_refused(tmp_path):
    check_replies(tmp_path, 4000)
