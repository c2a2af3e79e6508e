"""The curator derives everything itself, sells a question once, and says little when it fails."""

from __future__ import annotations

import json
import os
import socket
import threading
import time

import pytest

import dither
from dither import steward
from dither.curator import reply_limits
from dither.curator.ask_log import AskLog
from dither.curator.run import CuratorSettings, make_server
from dither.curator.server import MOST_CONNECTIONS
from dither.errors import BudgetError, DitherError, ParameterError, RefusedError, UnavailableError
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.ledger import default_head_path
from dither.protocol import documents, messages
from dither.protocol.errors import AccessError, BusyError, FaultError, ProtocolError, TokenError
from dither.protocol.frames import receive_frame, write_frame
from dither.publish.seal import check, write_certificate
from dither.remote.transport import SocketTransport
from tests.datasets import clinic
from tests.datasets.served_clinic import BY_WARD, COUNT, make_pool


def write_ask(con: dither.Connection, epsilon=1, **changes) -> messages.ReleaseRequest:
    """The call by which a connection would ask for a count."""
    priced = con._kernel.price_at(con.request(COUNT, epsilon=epsilon))
    terms = {
        "request": documents.write_request(priced.request),
        "rules": priced.version.rules,
        "key": priced.key,
    }
    return messages.ReleaseRequest(**{**terms, **changes})


def ask(served, call, token=None):
    return served.make_transport(token).call(call, messages.ReleasedAnswer)


# -- what is asked, and by whom


def test_an_answer_over_the_socket_is_the_ledgers_own(served):
    result = served.connect().sql(BY_WARD, epsilon=1)
    embedded = dither.connect(served.file)
    again = embedded.sql(BY_WARD, epsilon=1)
    assert again.info["repeated"] and again.to_dict() == result.to_dict()
    assert served.read_spent() == 1


def test_a_key_that_the_curator_does_not_compute_buys_nothing(served):
    con = served.connect()
    with pytest.raises(RefusedError, match="nothing was charged"):
        ask(served, write_ask(con, key="0" * 64))
    assert served.read_spent() == 0


def test_a_question_that_was_priced_by_an_older_version_buys_nothing(served):
    con = served.connect()
    call = write_ask(con)
    clinic.write_csv(served.file.parent / "visits.csv", [clinic.row("1", "1")])
    steward.register(served.file)
    with pytest.raises(RefusedError, match="registered anew"):
        ask(served, call)
    assert served.read_spent() == 0
    assert con.sql(COUNT, epsilon=1).info["version"] == 2


def test_a_version_that_comes_while_a_question_waits_for_its_slot_buys_nothing(served, monkeypatch):
    """It is priced before it waits, and would else pay for another version than it was told."""
    con = served.connect()
    call = write_ask(con)
    dataset = served.server._service._datasets["clinic"]
    price = dataset._price_ask

    def price_and_register(*arguments):
        priced = price(*arguments)
        clinic.write_csv(served.file.parent / "visits.csv", [clinic.row("1", "1")])
        steward.register(served.file)
        return priced

    monkeypatch.setattr(dataset, "_price_ask", price_and_register)
    with pytest.raises(RefusedError, match="nothing was charged"):
        ask(served, call)
    assert served.read_spent() == 0


def test_what_the_steward_registers_is_served_at_once_and_no_message_names_a_path(served):
    con = served.connect()
    text = served.file.read_text()
    served.file.write_text(text.replace("bounds: [0, 110]", "bounds: [0, 120]"))
    steward.register(served.file)
    assert con.sql("SELECT SUM(age) AS s FROM visits", epsilon=1).info["version"] == 2
    messages_shown = []
    for act in (
        lambda: con.sql(COUNT, epsilon=100),
        lambda: served.connect(served.make_token("eve", "steward"), "board").sql(COUNT, epsilon=1),
    ):
        with pytest.raises(DitherError) as refused:
            act()
        messages_shown.append(str(refused.value))
    assert not any(str(served.file.parent) in shown for shown in messages_shown)


def test_the_text_of_a_question_is_a_remark_that_decides_nothing(served):
    con = served.connect()
    answer = ask(served, write_ask(con, remark="SELECT cost FROM visits; DROP TABLE visits"))
    honest = con.sql(COUNT, epsilon=1)
    assert honest.info["release_id"] == answer.release_id
    (line,) = con.history().releases
    assert line.asks == "count from visits"
    assert line.sql == "SELECT cost FROM visits; DROP TABLE visits"


def test_no_call_takes_sql_to_be_answered():
    """Text about a question appears in remarks alone."""
    texts = {
        (model.__name__, name)
        for model in (messages.ReleaseRequest, messages.PriceRequest, messages.RehearseRequest)
        for name in model.model_fields
    }
    named = {name for _, name in texts}
    assert named == {"kind", "request", "rules", "key", "fresh", "remark", "idempotency_key"}


@pytest.mark.parametrize(
    ("token", "dataset", "error"),
    [("dither-00", "clinic", TokenError), (None, "shop", AccessError)],
)
def test_a_token_opens_its_dataset_alone(shared, token, dataset, error):
    transport = SocketTransport(make_pool(shared.socket), dataset, token or shared.make_token())
    with pytest.raises(error):
        transport.call(messages.ReadFacts(), messages.PublicFacts)


def test_a_revoked_token_ends_at_once(shared):
    text, token = shared.tokens.create_token("bob", "clinic", "analyst", ("total",), 1)
    con = shared.connect(text)
    shared.tokens.revoke_token(token.token_id)
    with pytest.raises(TokenError):
        con.budget()


def test_an_auditor_reads_and_never_asks(shared):
    shared.connect().sql(COUNT, epsilon=1)
    con = shared.connect(shared.make_token("eve", "auditor"))
    assert con.budget().pots[0].spent > 0 and len(con.history()) > 0
    before = shared.read_spent()
    for act in (
        lambda: con.sql(BY_WARD, epsilon=1),
        lambda: con.sql(BY_WARD, epsilon=1, dry_run=True),
        lambda: con.suggest("bounds", "visits.cost", epsilon=1),
    ):
        with pytest.raises(AccessError, match="does not ask"):
            act()
    assert shared.read_spent() == before


def test_a_pot_is_seen_by_those_whose_token_is_for_it(served):
    state = served.state
    facts = steward.registered_catalog(state)
    for name in ("board", "press"):
        steward.open_pot(
            state,
            facts,
            name,
            epsilon=1,
            ceiling=1,
            kind="group",
            inside="total",
            purpose=clinic.PURPOSE,
        )
    board = served.make_token("ann", pots=("board",))
    press = served.make_token("bob", pots=("press",))
    served.connect(board, "board").sql(COUNT, epsilon=1)
    seen = served.connect(press, "press")
    assert {pot.name for pot in seen.budget().pots} == {"total", "press"}
    with pytest.raises(AccessError, match="this is not granted"):
        served.connect(press, "board").history()
    for role, shows_text in (("auditor", False), ("admin", False), ("steward", True)):
        reader = served.connect(served.make_token("eve", role, ("press",)), "board")
        (line,) = reader.history().releases
        assert (line.sql is not None) == shows_text
        with pytest.raises(AccessError, match="this is not granted"):
            reader.history().raw(line.release_id)


# -- once


def test_a_fresh_ask_that_is_sent_twice_is_bought_once(served):
    con = served.connect()
    token = served.make_token()
    call = write_ask(con, fresh=True, idempotency_key="k1")
    first = ask(served, call, token)
    served.restart()
    second = ask(served, call, token)
    assert (first.release_id, first.values) == (second.release_id, second.values)
    assert second.repeated and served.read_spent() == 1
    third = ask(served, write_ask(con, fresh=True, idempotency_key="k2"), token)
    assert third.release_id != first.release_id and served.read_spent() == 2


def test_keys_of_two_tokens_do_not_meet(served):
    con = served.connect()
    call = write_ask(con, fresh=True, idempotency_key="k")
    names = {ask(served, call, served.make_token()).release_id for _ in range(2)}
    assert len(names) == 2 and served.read_spent() == 2


def test_a_key_is_for_one_question(served):
    con = served.connect()
    token = served.make_token()
    ask(served, write_ask(con, fresh=True, idempotency_key="k"), token)
    with pytest.raises(ParameterError, match="another question"):
        ask(served, write_ask(con, epsilon=2, fresh=True, idempotency_key="k"), token)
    assert served.read_spent() == 1


def test_a_refused_ask_leaves_its_key_free(served):
    con = served.connect()
    token = served.make_token()
    call = write_ask(con, epsilon=11, fresh=True, idempotency_key="k")
    with pytest.raises(BudgetError):
        ask(served, call, token)
    assert ask(served, write_ask(con, fresh=True, idempotency_key="k"), token).release_id
    assert served.read_spent() == 1


def test_an_ask_that_failed_after_its_charge_keeps_its_key(tmp_path):
    log = AskLog(tmp_path / "asks.sqlite")
    assert log.begin_ask("t", "k", "q") and not log.begin_ask("t", "k", "q")
    log.forget_ask("t", "k")
    assert log.begin_ask("t", "k", "q")
    log.close()


def test_two_asks_with_one_key_at_the_same_time_are_one(served, monkeypatch):
    con = served.connect()
    token = served.make_token()
    call = write_ask(con, fresh=True, idempotency_key="k")
    measure = Kernel.measure

    def measure_slowly(*arguments):
        time.sleep(0.3)
        return measure(*arguments)

    monkeypatch.setattr(Kernel, "measure", measure_slowly)
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(ask(served, call, token))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({answer.release_id for answer in answers}) == 1 and len(answers) == 3
    assert served.read_spent() == 1


def test_a_client_that_goes_away_loses_nothing(served, monkeypatch):
    """The disconnect cancels nothing: the answer is stored, and asking again is free."""
    con = served.connect()
    call = write_ask(con)
    measuring = threading.Event()
    go_on = threading.Event()
    measure = Kernel.measure

    def measure_later(*arguments):
        measuring.set()
        assert go_on.wait(60)
        return measure(*arguments)

    monkeypatch.setattr(Kernel, "measure", measure_later)
    pool = make_pool(served.socket)
    connection = pool._connect()
    frame = messages.CallFrame(number=1, token=served.make_token(), dataset="clinic", call=call)
    connection.sendall(write_frame(frame.model_dump(), 10**6))
    assert measuring.wait(60)
    connection.close()
    go_on.set()
    result = con.sql(COUNT, epsilon=1)
    assert result.info["repeated"] and served.read_spent() == 1


# -- what goes wrong


def test_a_failure_after_the_charge_is_the_constant_answer(served, monkeypatch):
    def fail(*_):
        raise RuntimeError("a row with the name Ada Lovelace")

    monkeypatch.setattr(Kernel, "measure", fail)
    with pytest.raises(UnavailableError) as failure:
        served.connect().sql(COUNT, epsilon=1)
    assert str(failure.value) == UnavailableError.TEXT
    assert served.read_spent() == 1


def test_a_fault_says_one_sentence_to_the_asker_and_no_message_to_anybody(
    served, monkeypatch, capfd
):
    def fail(*_):
        raise RuntimeError("a row with the name Ada Lovelace")

    monkeypatch.setattr(Kernel, "price_at", fail)
    con = served.connect()
    with pytest.raises(FaultError) as failure:
        con.preview(COUNT, epsilon=1)
    assert str(failure.value) == FaultError.TEXT
    line = json.loads(capfd.readouterr().err)
    assert line.pop("line") > 0
    assert line == {"event": "fault", "kind": "RuntimeError", "file": "test_curator.py"}


def test_an_answer_that_is_too_long_is_refused_before_the_charge(served, monkeypatch):
    monkeypatch.setattr(reply_limits, "MOST_NUMBERS", 3)
    with pytest.raises(RefusedError, match="fewer groups"):
        served.connect().sql(BY_WARD, epsilon=1)
    assert served.read_spent() == 0


# -- the socket


def test_a_process_of_another_user_is_not_served(served):
    """The user is what the system says (SO_PEERCRED), so a list without ours shuts us out."""
    served.server._listener.users = frozenset({os.getuid() + 1})
    with pytest.raises(BusyError, match="may not connect"):
        served.connect()


def test_the_socket_of_one_user_is_closed_to_others(served):
    assert served.socket.stat().st_mode & 0o777 == 0o600


def test_a_second_curator_does_not_take_the_socket_of_a_running_one(served):
    settings = CuratorSettings((served.file,), served.socket, served.home)
    with pytest.raises(DitherError, match="another curator"):
        make_server(settings)
    assert served.connect().budget().pots


def test_a_curator_that_was_killed_leaves_no_socket_in_the_way(served):
    served.server.stop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stale:
        stale.bind(str(served.socket))
    assert served.socket.is_socket()
    served.server = make_server(CuratorSettings((served.file,), served.socket, served.home))
    threading.Thread(target=served.server.serve, daemon=True).start()
    assert served.connect().budget().pots


def test_a_stopping_curator_finishes_what_is_under_way(served, monkeypatch):
    con = served.connect()
    call = write_ask(con)
    measuring = threading.Event()
    measure = Kernel.measure

    def measure_slowly(*arguments):
        measuring.set()
        time.sleep(0.3)
        return measure(*arguments)

    monkeypatch.setattr(Kernel, "measure", measure_slowly)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(ask(served, call)))
    thread.start()
    assert measuring.wait(60)
    served.server.stop()
    thread.join()
    assert len(answers) == 1 and not served.socket.exists()


def test_connections_past_the_limit_are_closed(served):
    """All slots of the server but one are taken. A new semaphore in their place would be released
    by threads that took a slot of the old one."""
    slots = served.server._slots
    for _ in range(MOST_CONNECTIONS):
        assert slots.acquire(timeout=60)
    slots.release()
    first = served.connect()
    with pytest.raises(BusyError):
        served.connect()
    assert first.budget().pots
    slots.release(MOST_CONNECTIONS - 1)


def test_a_connection_for_which_no_thread_starts_gives_its_turn_back(served, monkeypatch):
    def fail(self):
        raise RuntimeError("can't start new thread")

    before = served.server._slots._value
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        for _ in range(3):
            with pytest.raises(BusyError):
                served.connect()
    assert served.server._slots._value == before
    assert served.connect().budget().pots


def test_two_datasets_of_one_name_are_not_served_together(served, tmp_path):
    settings = CuratorSettings((served.file, served.file), tmp_path / "t", served.home)
    with pytest.raises(ParameterError, match="same dataset name"):
        make_server(settings)


def test_a_user_that_does_not_exist_is_refused(served, tmp_path):
    settings = CuratorSettings((served.file,), tmp_path / "t", served.home, "nobody-of-that-name")
    with pytest.raises(ParameterError, match="no user"):
        make_server(settings)


# -- certificates


def test_a_certificate_says_how_the_dataset_was_served(served):
    result = served.connect().sql(BY_WARD, epsilon=1)
    signed = result.certificate()
    verdict = check(write_certificate(signed), [signed["header"]["public_key"]])
    assert verdict.intact
    body = signed["body"]
    assert body["mode"]["name"] == "split, one user"
    assert "could read the data" in body["mode"]["not_promised"][0]
    assert body["release"]["id"] == result.info["release_id"]
    assert body["price"]["charges"] == {"total": ["1", "0"]}
    embedded = dither.connect(served.file).sql(BY_WARD, epsilon=1).certificate()["body"]
    for part in ("guarantee", "mechanisms", "bounds", "limits", "unit", "dataset"):
        assert body[part] == embedded[part]


def test_no_certificate_without_a_release_of_that_request(served):
    con = served.connect()
    answer = ask(served, write_ask(con))
    other = con._kernel.price_at(con.request(BY_WARD, epsilon=1))
    remarks = messages.Remarks(sql="", limits=[], post_processing=[], commitment="0" * 64)
    call = messages.CertifyRelease(
        request=documents.write_request(other.request),
        rules=2,
        release_id=answer.release_id,
        remarks=remarks,
    )
    with pytest.raises(ParameterError, match="no stored release"):
        served.make_transport().call(call, messages.SignedCertificate)


def test_a_message_of_another_version_is_refused(shared):
    pool = make_pool(shared.socket)
    connection = pool._connect()
    frame = {"v": 2, "number": 7, "token": "", "dataset": "", "call": {"kind": "facts"}}
    connection.sendall(write_frame(frame, 1000))
    reply = receive_frame(connection, 10_000)
    assert reply["number"] == 7 and reply["error"]["kind"] == "ProtocolError"
    assert isinstance(documents.read_error(messages.ErrorDocument(**reply["error"])), ProtocolError)
    connection.close()


def test_a_curator_goes_on_where_no_connection_can_be_accepted_for_a_while(served, monkeypatch):
    """Too many open files, say: whoever fills them must not end the service for all."""
    listener = served.server._listener
    accept = listener.accept
    failures = [OSError(24, "Too many open files")] * 3

    def accept_later():
        if failures:
            raise failures.pop()
        return accept()

    monkeypatch.setattr(listener, "accept", accept_later)
    served.connect().budget()  # the call that was already waiting
    assert served.connect().budget().pots and not failures


@pytest.mark.parametrize("content", [None, b"damaged"])
def test_a_ledger_that_cannot_be_used_tells_askers_neither_where_it_lies_nor_its_length(
    served, content
):
    con = served.connect()
    con.sql(COUNT, epsilon=1)
    head = default_head_path(served.state.installation_id())
    head.unlink()
    if content is not None:
        head.write_bytes(content)
    with pytest.raises(RefusedError) as refused:
        con.sql(COUNT, epsilon=2)
    message = str(refused.value)
    assert "ledger verify" in message and head.name not in message
    assert "entries" not in message and "/" not in message.partition("[rule")[0]
