"""Repeats that a gateway kept: handed out when the curator says so, and noted each time."""

from __future__ import annotations

import threading

import httpx
import pytest

from dither import steward
from dither.curator.dataset import ServedDataset
from dither.identity import AccessLog
from dither.identity.access_log import Access
from dither.protocol.errors import AccessError
from dither.protocol.repeat_messages import RepeatStored, StillStored
from tests.curator.test_other_pots import apart
from tests.datasets.served_clinic import COUNT, running_gateway, serving

__all__ = ["apart"]


@pytest.fixture
def calls(monkeypatch) -> list[str]:
    """The kinds of calls that the curator serves, in order."""
    kinds: list[str] = []
    serve = ServedDataset.serve

    def serve_and_note(dataset, call, *arguments):
        kinds.append(call.kind)
        return serve(dataset, call, *arguments)

    monkeypatch.setattr(ServedDataset, "serve", serve_and_note)
    return kinds


@pytest.fixture
def served(tmp_path):
    with serving(tmp_path, "1000") as clinic:
        yield clinic


@pytest.fixture
def client(served):
    with running_gateway(served.socket) as url, httpx.Client(base_url=url, timeout=60) as opened:
        yield opened


def ask(client: httpx.Client, token: str, **terms) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}"}
    body = {"sql": COUNT, "epsilon": 1, **terms}
    return client.post("/api/v1/datasets/clinic/sql", json=body, headers=headers)


def test_a_third_ask_is_one_call_with_the_same_bytes(served, client, calls):
    token = served.make_token()
    ask(client, token)
    second = ask(client, token)
    calls.clear()
    third = ask(client, token)
    assert calls == ["repeat"] and third.content == second.content
    assert third.json()["info"]["repeated"] and served.read_spent() == 1
    for header in ("cache-control", "content-type"):
        assert third.headers[header] == second.headers[header]


def test_every_repeat_is_in_the_access_log(served, client):
    token = served.make_token()
    for _ in range(4):
        ask(client, token)
    log = AccessLog(served.home)
    entries = log.read_page("clinic", 0, 100)
    assert [entry.act for entry in entries] == ["release", "repeat", "repeat", "repeat"]
    assert len({(entry.question, entry.release, entry.token) for entry in entries}) == 1
    assert log.verify("clinic") == 4
    log.close()


def test_balances_are_those_of_now(served, client, calls):
    token = served.make_token()
    for _ in range(3):
        ask(client, token)
    ask(client, token, epsilon=3)
    calls.clear()
    answer = ask(client, token)
    assert calls == ["repeat"] and answer.json()["info"]["pot_spent_after"] == "4/1"


def test_who_is_revoked_is_handed_nothing(served, client):
    token = served.make_token()
    for _ in range(3):
        ask(client, token)
    served.tokens.revoke_token(served.tokens.list_tokens()[-1].token_id)
    assert ask(client, token).status_code == 401


def test_another_token_has_no_part_in_what_is_kept(served, client, calls):
    token = served.make_token()
    for _ in range(3):
        ask(client, token)
    calls.clear()
    eve = served.make_token("eve", pots=("other",))
    assert ask(client, eve, pot="total").status_code == 403
    assert ask(client, "dither-unknown").status_code == 401
    assert "repeat" not in calls


def test_a_fresh_answer_takes_the_place_of_the_kept_one(served, client):
    token = served.make_token()
    first = [ask(client, token).json() for _ in range(3)][-1]
    fresh = ask(client, token, fresh=True).json()
    again = [ask(client, token).json() for _ in range(3)]
    newest = fresh["info"]["release_id"]
    assert newest != first["info"]["release_id"]
    assert {answer["info"]["release_id"] for answer in again} == {newest}
    assert served.read_spent() == 2


def test_a_fresh_ask_under_another_key_is_bought(served, client):
    token = served.make_token()

    def buy(key: str) -> str:
        headers = {"authorization": f"Bearer {token}", "idempotency-key": key}
        body = {"sql": COUNT, "epsilon": 1, "fresh": True}
        answer = client.post("/api/v1/datasets/clinic/sql", json=body, headers=headers)
        return answer.json()["info"]["release_id"]

    first, again, other = buy("the-first-key"), buy("the-first-key"), buy("another-key")
    assert first == again != other and served.read_spent() == 2


def test_a_new_version_is_asked_anew(served, client):
    token = served.make_token()
    for _ in range(3):
        ask(client, token)
    steward.register(served.file, state=served.state)
    answer = ask(client, token).json()["info"]
    assert answer["version"] == 2 and not answer["repeated"] and served.read_spent() == 2


def test_a_new_question_is_one_call_and_a_newer_version_is_found_for_free(served, client, calls):
    token = served.make_token()
    ask(client, token)
    calls.clear()
    ask(client, token, epsilon=2)
    assert calls == ["release"] and served.read_spent() == 3
    steward.register(served.file, state=served.state)
    calls.clear()
    answer = ask(client, token, epsilon=3).json()["info"]
    assert answer["version"] == 2 and calls == ["release", "facts", "view", "release"]
    assert served.read_spent() == 6


@pytest.mark.parametrize("terms", [{"dry_run": True}, {"fresh": True}, {"certificate": True}])
def test_what_is_no_plain_repeat_is_not_kept(served, client, calls, terms):
    token = served.make_token()
    for _ in range(4):
        assert ask(client, token, **terms).status_code == 200
    assert "repeat" not in calls


def test_a_hostile_gateway_gets_by_its_key_only_what_the_pot_paid_for(apart):
    """The key of another group's answer can be computed by all; its values are for payers."""
    ann = apart.make_token("ann", pots=("board",))
    answer = apart.connect(ann, "board").sql(COUNT, epsilon=1)
    release = answer._release
    call = RepeatStored(pot="board", key=release.priced.key, release_id=release.release_id)
    assert apart.make_transport(ann).call(call, StillStored).spent_after == "1/1"
    eve = apart.make_transport(apart.make_token("eve", pots=("press",)))
    for pot in ("press", "board"):
        with pytest.raises((AccessError, Exception), match="stored|granted"):
            eve.call(call.model_copy(update={"pot": pot}), StillStored)
    assert apart.read_spent("press") == 0


def test_entries_that_wait_share_a_transaction_and_stay_one_chain(tmp_path):
    """Sixteen threads, one writer at a time, every entry on the disk when its thread goes on."""
    log = AccessLog(tmp_path)
    commits = []
    log._database.set_trace_callback(lambda text: commits.append(text == "COMMIT"))
    start = threading.Barrier(16)

    def record(number: int) -> None:
        start.wait()
        for step in range(5):
            draft = Access("clinic", 0, "2026-01-01T00:00:00+00:00", "a", "t", "repeat", "total",
                           None, f"{number}-{step}")  # fmt: skip
            assert log.record(draft).release == draft.release

    threads = [threading.Thread(target=record, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log._database.set_trace_callback(None)
    assert log.verify("clinic") == 80 and 0 < sum(commits) <= 80
    log.close()


def test_a_log_that_cannot_be_written_hands_out_nothing(served, client, monkeypatch):
    token = served.make_token()
    for _ in range(3):
        ask(client, token)

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(AccessLog, "_link", fail)
    response = ask(client, token)
    assert response.status_code == 500 and "space" not in response.text
