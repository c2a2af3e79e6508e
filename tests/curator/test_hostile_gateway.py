"""A gateway that was taken over: it forges, replays, reorders, floods and reads what it may.

It can ask with the tokens that pass through it, and so spend the dataset's total. It gets nothing
beyond that, whatever it sends: every noisy value that it holds was charged.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from contextlib import ExitStack, suppress
from typing import get_args

import pytest

from dither.canonical import dumps
from dither.errors import BudgetError
from dither.identity import ROLES
from dither.protocol import documents, messages
from dither.protocol.errors import AccessError, TokenError
from dither.protocol.frames import MOST_CALL_BYTES, receive_frame, write_frame
from tests.datasets.served_clinic import BY_WARD, COUNT, ServedClinic

REFUSED = ("AccessError", "TokenError", "ProtocolError", "ParameterError", "RefusedError")


def open_stream(served: ServedClinic) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(60)
    stream.connect(str(served.socket))
    return stream


def exchange(served: ServedClinic, document: object) -> dict:
    with open_stream(served) as stream:
        stream.sendall(write_frame(document, MOST_CALL_BYTES))
        return receive_frame(stream, 10**8)


def write_call(token: str, call: dict, **changes) -> dict:
    return {"v": 1, "number": 1, "token": token, "dataset": "clinic", "call": call, **changes}


def write_release(served: ServedClinic, token: str, epsilon=1, **changes) -> dict:
    con = served.connect(token)
    priced = con._kernel.price_at(con.request(COUNT, epsilon=epsilon))
    request = documents.write_request(priced.request).model_dump()
    call = {"kind": "release", "request": request, "rules": 2, "key": priced.key}
    return write_call(token, {**call, "fresh": True, "remark": None, **changes})


# -- forged principals


@pytest.mark.parametrize("role", ROLES)
def test_a_message_that_claims_a_principal_is_no_message(shared, role):
    """The principal comes from the token alone; there is no field to claim one in."""
    token = shared.make_token()
    for forged in (
        {"principal": {"name": "root", "role": role, "pots": ["total"]}},
        {"role": role},
        {"user": "root"},
        {"pots": ["total", "board"]},
    ):
        reply = exchange(shared, write_call(token, {"kind": "facts"}, **forged))
        assert reply["result"] is None and reply["error"]["kind"] == "ProtocolError"
        reply = exchange(shared, write_call(token, {"kind": "facts", **forged}))
        assert reply["result"] is None and reply["error"]["kind"] == "ProtocolError"


def test_no_guess_at_a_token_is_accepted(shared):
    token = shared.make_token()
    guesses = ["", token[:-1], token.upper(), token + "0", "dither-" + "0" * 64, "' OR 1=1 --"]
    guesses += [token.replace(token[10], "0" if token[10] != "0" else "1", 1), "*", "%"]
    for guess in guesses:
        reply = exchange(shared, write_call(guess, {"kind": "budget"}))
        assert reply["error"]["kind"] == "TokenError", guess
    answers = {
        dumps(exchange(shared, write_call(guess, {"kind": "budget"}))["error"]) for guess in guesses
    }
    assert len(answers) == 1


def test_a_token_asks_from_its_own_pots_alone(served):
    token = served.make_token(pots=("press",))
    call = write_release(served, served.make_token())
    call["token"] = token
    reply = exchange(served, call)
    assert reply["error"]["kind"] == "AccessError" and served.read_spent() == 0


# -- acts that move limits, and figures of the steward


def test_the_protocol_has_no_act_that_moves_a_limit_and_no_exact_figure():
    """The closed list of calls. A new one is a decision about what a hostile gateway may do.

    `act` carries a steward's signature: tests/curator/test_signed_acts.py. `grants` are for roles
    that see all, `status` tells since when a budget is suspended and no number, saved questions are
    texts of the asker's own budget. `repeat` tells whether a release is stored and free to a pot of
    the asker: less than `stored`, which hands it out.
    """
    union = get_args(messages.CalledAct)[0]
    kinds = {model.model_fields["kind"].default for model in get_args(union)}
    assert kinds == {
        "access_log",
        "act",
        "begin_sign_on",
        "budget",
        "certificate",
        "datasets",
        "derived_certificate",
        "facts",
        "grants",
        "head",
        "history",
        "job",
        "log_in",
        "log_out",
        "price",
        "questions",
        "rehearse",
        "release",
        "remove_question",
        "repeat",
        "save_question",
        "sign_on",
        "sources",
        "status",
        "stored",
        "values",
        "view",
    }


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "kind",
    ["register", "open", "raise", "clear", "repairs", "incidents", "grant", "token", "sql", "log"],
)
def test_no_token_can_register_open_raise_clear_or_see_repairs(shared, role, kind):
    reply = exchange(shared, write_call(shared.make_token(role=role), {"kind": kind}))
    assert reply["result"] is None and reply["error"]["kind"] == "ProtocolError"


def test_nothing_that_can_be_read_tells_the_number_of_rows(served):
    """Two clinics that differ in one person send the same bytes until a release."""
    token = served.make_token("eve", "steward")
    call = write_release(served, token)["call"]
    replies = [
        exchange(served, write_call(token, read))
        for read in (
            {"kind": "facts"},
            {"kind": "view", "pot": "total"},
            {"kind": "budget"},
            {"kind": "history", "pot": "total", "start": 0, "count": 10},
            {"kind": "price", "request": call["request"], "rules": 2},
        )
    ]
    assert all(reply["error"] is None for reply in replies)
    text = json.dumps(replies)
    for figure in ("duplicates", "repair", "left_out", "incident", "duration", "reserve"):
        assert f'"{figure}' not in text.replace("max_incidents", "")


# -- replay and reordering


def test_a_recorded_ask_that_is_played_again_is_answered_from_the_store_or_charged(served):
    """Without `fresh` a replay is a free repeat; with it, it is charged like any ask."""
    token = served.make_token()
    call = write_release(served, token, fresh=False)
    first, second = exchange(served, call), exchange(served, call)
    assert first["result"]["values"] == second["result"]["values"]
    assert served.read_spent() == 1
    bought = [exchange(served, write_release(served, token)) for _ in range(2)]
    assert served.read_spent() == 3
    assert bought[0]["result"]["release_id"] != bought[1]["result"]["release_id"]


def test_what_a_hostile_gateway_holds_was_charged_and_stays_within_the_total(served):
    """It asks with two stolen tokens, in two streams at once, until nothing more comes."""
    tokens = [served.make_token("alice"), served.make_token("bob")]
    calls = [write_release(served, token, epsilon=3) for token in tokens]
    bought: list[str] = []
    refusals: list[str] = []

    def drain(call: dict) -> None:
        for _ in range(6):
            reply = exchange(served, call)
            if reply["error"] is None:
                bought.append(reply["result"]["release_id"])
            else:
                refusals.append(reply["error"]["kind"])

    threads = [threading.Thread(target=drain, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(refusals) == {"BudgetError"} and len(set(bought)) == len(bought) == 3
    assert served.read_spent() == 9  # 3 * 3 fits the total of 10, a fourth would not
    with pytest.raises(BudgetError):
        served.connect(tokens[0]).sql(BY_WARD, epsilon=2)


def test_replies_are_in_the_order_of_the_calls_and_carry_their_numbers(shared):
    token = shared.make_token()
    with open_stream(shared) as stream:
        numbers = [9, 3, 3, 2**53 - 1, 0]
        for number in numbers:
            call = write_call(token, {"kind": "budget"}, number=number)
            stream.sendall(write_frame(call, MOST_CALL_BYTES))
        assert [receive_frame(stream, 10**8)["number"] for _ in numbers] == numbers


# -- malformed frames and floods


@pytest.mark.parametrize(
    "content",
    [
        b"\0",
        b"\0\0\0\x05{}",
        struct.pack(">I", 2**32 - 1) + b"x",
        struct.pack(">I", MOST_CALL_BYTES + 1),
        b"GET /api/v1/datasets HTTP/1.1\r\nHost: x\r\n\r\n",
        struct.pack(">I", 4) + b"\xff\xff\xff\xff",
        struct.pack(">I", 600) + b"[" * 600,
        struct.pack(">I", 9) + b'{"a" : 1}',
    ],
)
def test_who_sends_no_frame_is_cut_off_and_nobody_else(shared, content):
    # reset: it was cut off while some of its bytes were still unread
    with open_stream(shared) as stream, suppress(ConnectionResetError, BrokenPipeError):
        stream.sendall(content)
        stream.shutdown(socket.SHUT_WR)
        assert stream.recv(1) == b""
    assert shared.connect().budget().pots


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        7,
        "facts",
        {},
        {"v": 1},
        {"v": True, "number": 1, "token": "", "dataset": "", "call": {"kind": "facts"}},
        {"v": 1, "number": -1, "token": "", "dataset": "", "call": {"kind": "facts"}},
        {"v": 1, "number": 1, "token": ["x"], "dataset": "", "call": {"kind": "facts"}},
        {"v": 1, "number": 1, "token": "x" * 300, "dataset": "", "call": {"kind": "facts"}},
        {"v": 1, "number": 1, "token": "", "dataset": "", "call": {"kind": "__class__"}},
        {"v": 1, "number": 1, "token": "", "dataset": "", "call": {"kind": "view", "pot": ""}},
    ],
)
def test_a_frame_that_is_no_message_is_an_error_that_repeats_nothing(shared, document):
    reply = exchange(shared, document)
    assert reply["result"] is None and reply["error"]["kind"] == "ProtocolError"
    assert len(reply["error"]["message"]) < 200


def mutate(tree: object, source: list[int]) -> object:
    """A tree with one node replaced, chosen by the source."""
    junk = [None, True, -1, 2**80, "", "\u202e", [], {}, [[[]]], "1/0", {"type": "scan"}]
    step = source.pop()
    if isinstance(tree, dict) and tree and step % 5:
        key = sorted(tree)[step % len(tree)]
        return {**tree, key: mutate(tree[key], source)}
    if isinstance(tree, list) and tree and step % 5:
        index = step % len(tree)
        return [*tree[:index], mutate(tree[index], source), *tree[index + 1 :]]
    return junk[step % len(junk)]


def test_mutated_asks_are_refused_or_charged_and_never_a_fault(served):
    """300 asks with one node of their request changed: no fault, no answer without its charge."""
    token = served.make_token()
    honest = write_release(served, token, epsilon=1, fresh=False)
    bytes_of_choice = list(os.urandom(300 * 40))
    answered = 0
    for _ in range(300):
        source = [bytes_of_choice.pop() for _ in range(40)]
        mutated = {**honest, "call": mutate(honest["call"], source)}
        reply = exchange(served, mutated)
        if reply["error"] is None:
            answered += reply["result"]["kind"] == "release"
        else:
            assert reply["error"]["kind"] in (*REFUSED, "BudgetError"), (mutated, reply)
    assert served.read_spent() <= answered


def test_a_flood_of_connections_leaves_those_inside_alone(shared):
    inside = shared.connect()
    with ExitStack() as streams:
        for _ in range(200):
            with suppress(BlockingIOError):  # the queue before the socket is full
                streams.enter_context(open_stream(shared))
        assert inside.budget().pots
    wait_until_free(shared)
    assert shared.connect().budget().pots


def wait_until_free(served: ServedClinic) -> None:
    """Return when the curator has noticed that the streams are closed."""
    end = time.monotonic() + 60
    while len(served.server._connections) > 10 and time.monotonic() < end:
        time.sleep(0.01)


def test_what_is_not_allowed_is_refused_before_anything_is_read(shared, monkeypatch):
    """A request of a wrong token is not even parsed."""

    def fail(*_: object) -> None:
        raise AssertionError("parsed")

    call = write_release(shared, shared.make_token())
    monkeypatch.setattr(documents, "read_request", fail)
    assert exchange(shared, {**call, "token": "dither-0"})["error"]["kind"] == "TokenError"
    auditor = shared.make_token("eve", "auditor")
    assert exchange(shared, {**call, "token": auditor})["error"]["kind"] == "AccessError"
    assert issubclass(TokenError, AccessError)
