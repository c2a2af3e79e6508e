"""Two linked synthetic tables of a served dataset: one job, one charge, the same tables as here."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow.csv
import pytest

from dither import steward
from dither.errors import ParameterError
from dither.identity import TokenStore
from dither.remote.curator import RemoteCurator
from dither.remote.transport import SocketTransport
from dither.session import Connection
from dither.state import State
from dither.synth.stored_model import read_pair, write_pair
from tests.datasets.clinic import open_total
from tests.datasets.served_clinic import make_pool, own_state_home, start_server
from tests.synth.survey import CATALOG, invent_people, invent_trips

COLUMNS = {"people": ["town", "sport"], "trips": ["by_car"]}


@pytest.fixture
def served(tmp_path):
    """A connection to a served survey, and its ledger."""
    people = invent_people(400)
    pyarrow.csv.write_csv(people, tmp_path / "people.csv")
    pyarrow.csv.write_csv(invent_trips(people), tmp_path / "trips.csv")
    file = tmp_path / "survey.yaml"
    file.write_text(CATALOG.format(neighbours="add_remove"))
    with own_state_home(tmp_path), tempfile.TemporaryDirectory(prefix="dither") as short:
        steward.register(file)
        open_total(State.beside(file), "1000", "1000")
        tokens = TokenStore(tmp_path / "home")
        path = Path(short) / "s"
        server = start_server(file, tmp_path / "home", path)
        token = tokens.create_token("alice", "survey", "analyst", ("total",), 1)[0]
        transport = SocketTransport(make_pool(path), "survey", token)
        ledger = server._service._datasets["survey"]._curator.kernel.ledger
        yield Connection(RemoteCurator(transport)), ledger
        server.stop()
        tokens.close()


def test_linked_tables_are_one_job_with_one_charge(served):
    con, ledger = served
    pair = con.synthesize_linked("people", "trips", epsilon=300, columns=COLUMNS)
    assert ledger.pot("total").spent == 300
    assert len(con.history().releases) == 1
    parents, trips = pair.sample()
    assert abs(parents.num_rows - 400) < 20
    assert parents.column_names == ["people_id", "town", "sport"]
    assert trips.column_names == ["trips_id", "people_id", "by_car"]
    again = read_pair(write_pair(pair))
    assert again.certificate() == pair.certificate()
    assert all(a.equals(b) for a, b in zip(again.sample(), (parents, trips), strict=True))
    with pytest.raises(ParameterError, match="one row for each"):
        con.synthesize_linked("trips", "people", epsilon=1)
    with pytest.raises(ParameterError, match="no linked"):
        read_pair(write_pair(pair).replace("v", "w"))
    assert ledger.pot("total").spent == 300
