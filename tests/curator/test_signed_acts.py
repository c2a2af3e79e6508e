"""Acts that move limits: done once, as they were signed, or not at all.

The carrier is a hostile gateway: it alters, replays, reorders, redirects and forges.
"""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dither import steward
from dither.canonical import dumps
from dither.catalog.file.load import load
from dither.catalog.storage import catalog_hash
from dither.curator.limit_acts import REGISTRATION_FAILED
from dither.curator.signed_acts import OTHER_HEAD
from dither.errors import DitherError, ParameterError, UnavailableError
from dither.identity import NOT_GRANTED, Authority, signed_acts
from dither.identity.signed_acts import NOT_SIGNED, draft_act, sign_act
from dither.privacy.kernel.kernel import Kernel
from dither.protocol import act_messages
from dither.protocol.errors import AccessError, TokenError
from tests.datasets import clinic
from tests.datasets.served_clinic import COUNT
from tests.identity.test_directory import LATER, add_user, write_grant

KEY = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
STRANGER = Ed25519PrivateKey.from_private_bytes(b"\x08" * 32)
RAISE = {"pot": "total", "cap": "6", "reason": "a second report was approved"}
GROUP = {
    **{"pot": "board", "epsilon": "1", "ceiling": "1", "kind": "group", "inside": "total"},
    **clinic.PURPOSE,
}


@pytest.fixture
def authority(served):
    opened = Authority(served.home)
    pin(opened, KEY)
    yield opened
    opened.close()


def read_public(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def pin(authority: Authority, key: Ed25519PrivateKey, dataset: str = "clinic") -> None:
    body = {"act": "pin-key", "name": "ann", "dataset": dataset, "public_key": read_public(key)}
    authority.acts.record(body, "local:root")


def read_head(served) -> act_messages.LimitHead:
    transport = served.make_transport(served.make_token("ann", "steward"))
    return transport.call(act_messages.ReadHead(), act_messages.LimitHead)


def write_draft(served, kind: str = "open", terms: dict | None = None) -> dict:
    head = read_head(served).model_dump(exclude={"kind"})
    return draft_act(**head, kind=kind, terms=GROUP if terms is None else terms)


def write_act(served, kind: str = "open", terms: dict | None = None, key=KEY) -> dict:
    return sign_act(write_draft(served, kind, terms), key, 1)


def submit(served, signed: dict, role: str = "steward") -> act_messages.ActDone:
    transport = served.make_transport(served.make_token("ann", role))
    return transport.call(act_messages.SubmitAct(signed=signed), act_messages.ActDone)


def list_pots(served) -> set[str]:
    ledger = steward.open_ledger(served.state)
    try:
        return {pot.name for pot in ledger.pots()}
    finally:
        ledger.close()


def read_limits(served, authority) -> tuple:
    """All that a signed act could move."""
    ledger = steward.open_ledger(served.state)
    try:
        pots = tuple((pot.name, pot.cap) for pot in ledger.pots())
        version = ledger.registered().version
    finally:
        ledger.close()
    return pots, version, authority.acts.head


# -- acts that are done


def test_a_signed_act_opens_a_budget_and_is_on_record_with_its_signature(served, authority):
    signed = write_act(served)
    assert submit(served, signed).sentence == "the budget board is open"
    assert list_pots(served) == {"total", "board"}
    record = authority.acts.list_acts()[-1]
    assert record.who == f"steward-key:ann:{read_public(KEY)[:16]}"
    evidence = json.loads(record.evidence)
    KEY.public_key().verify(bytes.fromhex(evidence["signature"]), evidence["act"].encode())


def test_a_signed_act_raises_a_cap(served, authority):
    submit(served, write_act(served, terms={**GROUP, "ceiling": "4"}))
    submit(served, write_act(served, "raise", {**RAISE, "pot": "board", "cap": "2"}))
    assert served.read_spent("board") == 0
    ledger = steward.open_ledger(served.state)
    assert ledger.pot("board").cap == 2
    ledger.close()


def test_a_signed_act_clears_incidents(served, authority, monkeypatch):
    def fail(*_):
        raise RuntimeError("the engine ran out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "measure", fail)
        with pytest.raises(UnavailableError):
            served.connect().sql(COUNT, epsilon=1)
    assert steward.read_suspension(served.state) is not None
    submit(served, write_act(served, "clear", {"reason": "the engine has more memory now"}))
    assert steward.read_suspension(served.state) is None


def test_a_signed_act_registers_the_catalog_that_it_names(served, authority):
    clinic.write_csv(served.file.parent / "visits.csv", [clinic.row("1", "1")])
    terms = {"catalog_hash": catalog_hash(load(served.file))}
    done = submit(served, write_act(served, "register", terms))
    assert done.sentence == "version 2 is registered"
    assert served.connect().sql(COUNT, epsilon=1).info["version"] == 2
    with pytest.raises(ParameterError, match="not the one of this act"):
        submit(served, write_act(served, "register", {"catalog_hash": "0" * 64}))


def test_a_registration_that_fails_says_one_sentence(served, authority):
    (served.file.parent / "visits.csv").unlink()
    terms = {"catalog_hash": catalog_hash(load(served.file))}
    with pytest.raises(DitherError) as failed:
        submit(served, write_act(served, "register", terms))
    assert str(failed.value) == REGISTRATION_FAILED


def test_a_signed_act_grants_a_role_at_its_own_dataset(served, authority):
    add_user(authority.acts, "bob")
    terms = {
        name: term for name, term in write_grant("0000000a", "user:bob").items() if name != "act"
    }
    submit(served, write_act(served, "grant", terms))
    token, _ = authority.sessions.open_session("bob")
    assert served.connect(token).budget().pots
    with pytest.raises(ParameterError, match="dataset of the key alone"):
        submit(served, write_act(served, "grant", {**terms, "id": "0000000b", "dataset": "shop"}))
    ending = {"id": "0000000a", "dataset": "clinic"}
    with pytest.raises(ParameterError, match="terms have no 'act'"):
        submit(served, write_act(served, "grant", {**ending, "act": "end-grant"}))
    assert served.connect(token).budget().pots
    submit(served, write_act(served, "end-grant", ending))
    with pytest.raises(AccessError):
        served.connect(token)


def write_user(name: str) -> dict:
    return {"name": name, "issuer": None, "subject": None}


def test_a_signed_act_makes_and_ends_a_user_of_its_own_dataset(served, authority):
    submit(served, write_act(served, "user", write_user("bob@clinic")))
    token, _ = authority.sessions.open_session("bob@clinic")
    with pytest.raises(AccessError) as refused:
        served.connect(token)
    assert str(refused.value) == NOT_GRANTED
    grant = {**write_grant("0000000a", "user:bob@clinic")}
    submit(served, write_act(served, "grant", {n: t for n, t in grant.items() if n != "act"}))
    assert served.connect(token).budget().pots
    with pytest.raises(ParameterError, match="or was: choose another name"):
        submit(served, write_act(served, "user", write_user("bob@clinic")))
    submit(served, write_act(served, "end-user", {"name": "bob@clinic"}))
    with pytest.raises(TokenError):
        served.connect(token)


def test_a_signed_act_touches_no_user_or_token_beyond_its_dataset(served, authority):
    """A plain name would narrow a program's token, or be taken for a person at another dataset."""
    add_user(authority.acts, "carol")
    program = served.make_token("program")
    for name in ("carol", "program", "@clinic", "bob@shop", "bob@shop@clinic", "bob@clinic@shop"):
        for kind, terms in (("user", write_user(name)), ("end-user", {"name": name})):
            with pytest.raises(ParameterError, match="called NAME@clinic"):
                submit(served, write_act(served, kind, terms))
    assert not authority.acts.read_directory().users["carol"].is_ended
    assert served.connect(program).budget().pots


# -- a hostile carrier


ALTERATIONS = {
    "terms": lambda act: {**act, "terms": {**act["terms"], "ceiling": "9", "epsilon": "9"}},
    "kind": lambda act: {**act, "kind": "clear", "terms": {"reason": "nothing happened at all"}},
    "expiry": lambda act: {**act, "expires": LATER},
    "nonce": lambda act: {**act, "nonce": "0" * 32},
    "lineage": lambda act: {**act, "lineage": "shop"},
    "ledger head": lambda act: {**act, "ledger_head": "0" * 64},
    "acts head": lambda act: {**act, "acts_head": "0" * 64},
    "dataset": lambda act: {**act, "dataset": "shop"},
}


def test_an_altered_act_moves_nothing(served, authority):
    signed = write_act(served)
    before = read_limits(served, authority)
    for name, alter in ALTERATIONS.items():
        with pytest.raises(AccessError) as refused:
            submit(served, {**signed, "act": alter(signed["act"])})
        assert str(refused.value) == NOT_SIGNED, name
    assert read_limits(served, authority) == before
    submit(served, signed)


def test_a_forged_act_moves_nothing(served, authority):
    """Signed by a stranger, by an ended key, under a pinned key's name, or by a dataset's key."""
    before = read_limits(served, authority)
    stranger = write_act(served, key=STRANGER)
    forgeries = [
        stranger,
        {**stranger, "public_key": read_public(KEY)},
        {**stranger, "signature": "0" * 128},
        {**stranger, "signature": ""},
        {**stranger, "public_key": "0" * 64},
        {"act": stranger["act"]},
        {},
    ]
    for forged in forgeries:
        with pytest.raises((ParameterError, AccessError)):
            submit(served, forged)
    assert read_limits(served, authority) == before


def test_a_key_that_is_pinned_for_another_dataset_moves_nothing(served, authority):
    pin(authority, STRANGER, "shop")
    with pytest.raises(AccessError) as refused:
        submit(served, write_act(served, key=STRANGER))
    assert str(refused.value) == NOT_SIGNED and list_pots(served) == {"total"}


def test_a_rotated_key_signs_no_more(served, authority):
    new = Ed25519PrivateKey.from_private_bytes(b"\x09" * 32)
    body = {"act": "rotate-key", "dataset": "clinic", "old": read_public(KEY)}
    authority.acts.record({**body, "new": read_public(new)}, "local:root")
    with pytest.raises(AccessError) as refused:
        submit(served, write_act(served))
    assert str(refused.value) == NOT_SIGNED
    submit(served, write_act(served, key=new))


def test_a_replayed_act_is_done_once(served, authority):
    terms = {**GROUP, "ceiling": "4"}
    submit(served, write_act(served, terms=terms))
    signed = write_act(served, "raise", {**RAISE, "pot": "board", "cap": "2"})
    submit(served, signed)
    before = read_limits(served, authority)
    served.restart()
    for _ in range(2):
        with pytest.raises(ParameterError):
            submit(served, signed)
    assert read_limits(served, authority) == before


def test_the_nonce_alone_stops_a_replay(served, authority):
    """Also where the heads still fit, as after a restored act log's tail: the nonce is used up."""
    signed = write_act(served)
    submit(served, signed)
    nonce = signed["act"]["nonce"]
    body = {"act": "signed", "kind": "clear", "dataset": "clinic", "nonce": nonce, "roles": None}
    with pytest.raises(ParameterError, match="done before"):
        authority.acts.record(body, "local:root")


def test_an_act_that_was_kept_back_is_for_another_head(served, authority):
    """Of two acts that were signed on the same limits, a carrier delivers one, in any order."""
    first = write_act(served)
    second = write_act(served, terms={**GROUP, "pot": "press"})
    submit(served, second)
    with pytest.raises(ParameterError) as refused:
        submit(served, first)
    assert str(refused.value) == OTHER_HEAD and list_pots(served) == {"total", "press"}


def test_an_act_is_for_the_limits_that_the_steward_saw(served, authority):
    """A budget that was opened on the curator's machine meanwhile makes the act void."""
    signed = write_act(served)
    purpose = {name: GROUP[name] for name in clinic.PURPOSE}
    steward.open_pot(
        served.state,
        steward.registered_catalog(served.state),
        "press",
        epsilon=1,
        ceiling=1,
        kind="group",
        inside="total",
        purpose=purpose,
    )
    with pytest.raises(ParameterError) as refused:
        submit(served, signed)
    assert str(refused.value) == OTHER_HEAD


def test_questions_do_not_move_the_head_that_acts_name(served, authority):
    """So it tells nothing of charges under way, and a busy dataset can still be governed."""
    before = read_head(served)
    signed = write_act(served)
    served.connect().sql(COUNT, epsilon=1)
    assert read_head(served) == before
    submit(served, signed)


def test_an_expired_act_is_void(served, authority, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(signed_acts, "write_time", lambda _: "2020-01-01T00:00:00+00:00")
        expired = write_act(served)
    with pytest.raises(ParameterError, match="expired"):
        submit(served, expired)
    assert list_pots(served) == {"total"}


def test_an_analyst_can_neither_draft_nor_deliver(served, authority):
    signed = write_act(served)
    for act in (
        lambda: submit(served, signed, "analyst"),
        lambda: served.make_transport().call(act_messages.ReadHead(), act_messages.LimitHead),
    ):
        with pytest.raises(AccessError) as refused:
            act()
        assert str(refused.value) == NOT_GRANTED


def test_a_signature_does_only_what_the_list_says(served, authority):
    for kind in ("pin-key", "rotate-key", "group", "join", "password", "signed", "budget"):
        with pytest.raises(ParameterError, match="a signed act is one of"):
            submit(served, write_act(served, kind, {}))


def test_a_lost_act_leaves_its_nonce_used(served, authority):
    """An act whose terms the ledger refuses is not done by sending it again either."""
    signed = write_act(served, "raise", {**RAISE, "cap": "1000"})
    for _ in range(2):
        with pytest.raises(DitherError):
            submit(served, signed)
    assert authority.acts.list_acts()[-1].body["kind"] == "raise"
    assert dumps(read_limits(served, authority)[0][0][1].numerator) == "10"
