"""Reading a stored answer never charges: not for a new question, group or version."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dither import steward
from dither.curator import dataset
from dither.errors import DitherError, ParameterError
from dither.plan.analyse import FIRST_RULES
from dither.privacy.ledger.database import Transaction
from dither.protocol import documents, messages
from dither.protocol.errors import AccessError
from dither.protocol.repeat_messages import RepeatStored, StillStored
from dither.remote.curator import RemoteCurator, StoredAnswers
from dither.session import Connection
from tests.curator.test_other_pots import apart
from tests.datasets.served_clinic import BY_WARD, COUNT

__all__ = ["apart"]


def read_stored(served, token: str, pot: str = "total") -> Connection:
    return Connection(StoredAnswers(served.make_transport(token)), pot=pot)


def test_a_stored_answer_is_read_again_and_nothing_is_charged(served):
    token = served.make_token()
    answer = served.connect(token).sql(BY_WARD, epsilon=1)
    spent = served.read_spent()
    again = read_stored(served, token).sql(BY_WARD, epsilon=1)
    assert again.to_dict() == answer.to_dict() and again.info["repeated"]
    assert again.info["release_id"] == answer.info["release_id"]
    assert served.read_spent() == spent


@pytest.mark.parametrize("terms", [{"epsilon": 1}, {"epsilon": 2, "fresh": True}])
def test_what_is_not_stored_is_refused_for_free(served, terms):
    token = served.make_token()
    served.connect(token).sql(COUNT, epsilon=2)
    spent = served.read_spent()
    with pytest.raises(ParameterError, match="stored"):
        read_stored(served, token).sql(COUNT, **terms)
    assert served.read_spent() == spent


def test_after_a_new_version_the_old_answer_is_not_bought_again(served):
    token = served.make_token()
    served.connect(token).sql(COUNT, epsilon=1)
    reader = read_stored(served, token)
    assert reader.sql(COUNT, epsilon=1).info["repeated"]
    steward.register(served.file, state=served.state)
    spent = served.read_spent()
    with pytest.raises(DitherError):
        reader.sql(COUNT, epsilon=1)
    assert served.read_spent() == spent


def test_a_group_that_has_not_paid_is_not_made_to_pay_by_reading(apart):
    """Asked as a question, the stored answer of another group is sold at its price."""
    apart.connect(apart.make_token("ann", pots=("board",)), "board").sql(COUNT, epsilon=1)
    token = apart.make_token("eve", pots=("press",))
    with pytest.raises(ParameterError, match="stored"):
        read_stored(apart, token, "press").sql(COUNT, epsilon=1)
    assert apart.read_spent("press") == 0
    apart.connect(token, "press").sql(COUNT, epsilon=1)
    paid = apart.read_spent("press")
    assert paid == 1
    assert read_stored(apart, token, "press").sql(COUNT, epsilon=1).info["repeated"]
    assert apart.read_spent("press") == paid


def test_an_auditor_and_a_stranger_to_the_pot_read_no_values(served):
    served.connect().sql(COUNT, epsilon=1)
    for token in (
        served.make_token("zoe", "auditor", ()),
        served.make_token("eve", pots=("other",)),
    ):
        with pytest.raises(AccessError):
            read_stored(served, token).sql(COUNT, epsilon=1)


def test_confirming_a_repeat_reads_the_ledger_twice(served, monkeypatch):
    """Once for answer, terms, balance and the entry that the head names, and once to see that no
    other curator took over."""
    token = served.make_token()
    answer = served.connect(token).sql(COUNT, epsilon=1)
    release = answer._release
    call = RepeatStored(pot="total", key=release.priced.key, release_id=release.release_id)
    begun = []
    begin = Transaction.__init__
    monkeypatch.setattr(Transaction, "__init__", lambda *words: begun.append(1) or begin(*words))
    still = served.make_transport(token).call(call, StillStored)
    assert len(begun) == 2
    assert (still.spent_after, still.version) == ("1/1", 1)


def test_two_repeats_at_a_time_read_the_ledger_and_all_are_answered(served, monkeypatch):
    token = served.make_token()
    answer = served.connect(token).sql(COUNT, epsilon=1)
    release = answer._release
    call = RepeatStored(pot="total", key=release.priced.key, release_id=release.release_id)
    inside, largest = [], []
    honest = dataset.confirm_repeat

    def confirm_slowly(*words):
        inside.append(1)
        largest.append(len(inside))
        time.sleep(0.02)
        inside.pop()
        return honest(*words)

    monkeypatch.setattr(dataset, "confirm_repeat", confirm_slowly)
    with ThreadPoolExecutor(8) as pool:
        calls = [
            pool.submit(served.make_transport(token).call, call, StillStored) for _ in range(16)
        ]
        answers = [waiting.result() for waiting in calls]
    assert {still.spent_after for still in answers} == {"1/1"}
    assert max(largest) <= 2


def test_who_is_ended_while_a_repeat_waits_for_its_turn_reads_nothing(served):
    token = served.make_token()
    answer = served.connect(token).sql(COUNT, epsilon=1)
    release = answer._release
    call = RepeatStored(pot="total", key=release.priced.key, release_id=release.release_id)
    transport = served.make_transport(token)
    turns = served.server._service._datasets["clinic"]._confirming
    with ThreadPoolExecutor(1) as pool:
        with turns, turns:
            waiting = pool.submit(transport.call, call, StillStored)
            time.sleep(0.3)
            assert not waiting.done()
            for stored in served.tokens.list_tokens():
                served.tokens.revoke_token(stored.token_id)
        with pytest.raises(AccessError):
            waiting.result()


def test_no_certificate_says_the_noise_of_earlier_rules_that_sold_nothing(served):
    """They give the same key to noise of 15 where the answer has noise of 6: the curator signed a
    certificate of either, for whoever named the rules."""
    token = served.make_token()
    wards = "SELECT ward, SUM(score) AS s FROM visits WHERE score IN (1, 2) GROUP BY ward"
    release = served.connect(token).sql(wards, epsilon=1)._release
    facts = RemoteCurator(served.make_transport(token)).kernel
    first = facts.price_at(release.priced.request, release.priced.view, FIRST_RULES)
    assert first.key == release.priced.key
    assert first.steps[0].mechanism != release.priced.steps[0].mechanism
    request = documents.write_request(release.priced.request)
    remarks = messages.Remarks(sql="", limits=[], post_processing=[], commitment="0" * 64)
    for call, kind in (
        (messages.PriceRequest(request=request, rules=FIRST_RULES), messages.PricedRequest),
        (
            messages.ReadStored(request=request, rules=FIRST_RULES, key=first.key),
            messages.ReleasedAnswer,
        ),
        (
            messages.CertifyRelease(
                request=request,
                rules=FIRST_RULES,
                release_id=release.release_id,
                remarks=remarks,
            ),
            messages.SignedCertificate,
        ),
    ):
        with pytest.raises(ParameterError, match="earlier rules"):
            served.make_transport(token).call(call, kind)
