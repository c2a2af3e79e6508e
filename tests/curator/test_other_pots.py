"""What a token learns and spends of pots that it is not for, whatever its role."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

import dither
from dither import steward
from dither.errors import ParameterError
from dither.identity import TokenStore
from dither.protocol import documents, messages
from dither.protocol.errors import AccessError
from tests.datasets import clinic
from tests.datasets.served_clinic import (
    COUNT,
    ROWS,
    ServedClinic,
    own_state_home,
    start_server,
)


@pytest.fixture
def apart(tmp_path):
    """A served clinic whose groups, board and press, are kept apart."""
    with own_state_home(tmp_path), tempfile.TemporaryDirectory(prefix="dither") as short:
        file, state = clinic.register(tmp_path / "clinic", ROWS)
        clinic.open_total(state, policy="separate")
        group = {"epsilon": 2, "ceiling": 2, "kind": "group", "inside": "total"}
        for name in ("board", "press"):
            facts = steward.registered_catalog(state)
            steward.open_pot(state, facts, name, purpose=clinic.PURPOSE, **group)
        home = tmp_path / "home"
        path = Path(short) / "s"
        server = start_server(file, home, path)
        served = ServedClinic(file, state, home, path, TokenStore(home), server)
        yield served
        server.stop()
        served.tokens.close()


def write_certify(served: ServedClinic, token: str, pot: str, release_id: str):
    con = served.connect(token, pot)
    return messages.CertifyRelease(
        request=documents.write_request(con.request(COUNT, epsilon=1)),
        rules=2,
        release_id=release_id,
        remarks=messages.Remarks(sql=COUNT, limits=[], post_processing=[], commitment="0" * 64),
    )


@pytest.mark.parametrize("role", ["steward", "admin"])
def test_no_role_is_handed_the_stored_answer_of_a_pot_that_it_is_not_for(apart, role):
    board = apart.make_token("ann", pots=("board",))
    apart.connect(board, "board").sql(COUNT, epsilon=1)
    spent = apart.read_spent("board")
    reader = apart.connect(apart.make_token("eve", role, ("press",)), "board")
    for fresh in (False, True):
        with pytest.raises(AccessError, match="this is not granted"):
            reader.sql(COUNT, epsilon=1, fresh=fresh)
    assert len(reader.history().releases) == 1
    assert apart.read_spent("board") == spent


def test_a_release_is_certified_for_those_who_paid_where_groups_are_kept_apart(apart):
    board = apart.make_token("ann", pots=("board",))
    press = apart.make_token("bob", pots=("press",))
    release_id = apart.connect(board, "board").sql(COUNT, epsilon=1).info["release_id"]
    call = write_certify(apart, press, "press", release_id)
    transport = apart.make_transport(press)
    with pytest.raises(ParameterError, match="no stored release"):
        transport.call(call, messages.SignedCertificate)
    apart.connect(press, "press").sql(COUNT, epsilon=1)
    assert transport.call(call, messages.SignedCertificate).certificate


def test_earlier_releases_are_sources_for_their_own_pot_alone(apart):
    board = apart.make_token("ann", pots=("board",))
    press = apart.make_token("bob", pots=("press",))
    con = apart.connect(board, "board")
    release_id = con.sql(COUNT, epsilon=1).info["release_id"]
    rows = documents.write_rows(con.bind(COUNT).queries[0].plan)
    call = messages.ReadSources(pot="board", rows=rows)
    read = apart.make_transport(board).call(call, messages.EarlierReleases)
    assert [source.release.release_id for source in read.sources] == [release_id]
    transport = apart.make_transport(press)
    with pytest.raises(AccessError):
        transport.call(call, messages.EarlierReleases)
    own = messages.ReadSources(pot="press", rows=rows)
    assert transport.call(own, messages.EarlierReleases).sources == []
    remarks = messages.Remarks(sql=COUNT, limits=[], post_processing=[], commitment="0" * 64)
    for pot, error in (("board", AccessError), ("press", ParameterError)):
        certify = messages.CertifySources(
            pot=pot, rows=rows, release_ids=[release_id], plan_hash="0" * 64, remarks=remarks
        )
        with pytest.raises(error):
            transport.call(certify, messages.SignedCertificate)


def test_a_preview_tells_no_group_what_another_has_asked(apart):
    """Where groups are kept apart, `stored` is about what the asking pot paid for."""
    board = apart.connect(apart.make_token("ann", pots=("board",)), "board")
    press = apart.connect(apart.make_token("bob", pots=("press",)), "press")
    embedded = dither.connect(apart.file, pot="press")
    before = press.preview(COUNT, epsilon=1)
    board.sql(COUNT, epsilon=1)
    assert board.preview(COUNT, epsilon=1).stored
    assert press.preview(COUNT, epsilon=1) == before and not before.stored
    assert not embedded.preview(COUNT, epsilon=1).stored
    press.sql(COUNT, epsilon=1)
    assert press.preview(COUNT, epsilon=1).stored and embedded.preview(COUNT, epsilon=1).stored


def test_what_a_group_buys_afresh_takes_no_answer_from_another_and_tells_it_nothing(apart):
    """The newest answer is another group's: this one is still given, for free, what it paid for."""
    board = apart.connect(apart.make_token("ann", pots=("board",)), "board")
    press = apart.connect(apart.make_token("bob", pots=("press",)), "press")
    bought = board.sql(COUNT, epsilon=1)
    before = board.preview(COUNT, epsilon=1)
    spent = apart.read_spent("board")
    press.sql(COUNT, epsilon=1, fresh=True)
    assert board.preview(COUNT, epsilon=1) == before and before.stored
    again = board.sql(COUNT, epsilon=1)
    assert again.info["release_id"] == bought.info["release_id"]
    assert again.to_dict() == bought.to_dict() and apart.read_spent("board") == spent
