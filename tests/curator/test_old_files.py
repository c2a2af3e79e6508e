"""What an older file of the curator brings back when it is put in place of the newest."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dither.protocol.errors import TokenError
from tests.datasets.served_clinic import COUNT


def copy_database(file: Path) -> Path:
    """The file as a backup holds it."""
    kept = file.with_name("kept.sqlite")
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(kept)) as copy:
        source.backup(copy)
    return kept


def test_an_older_file_of_tokens_revives_them_and_no_budget(served):
    """Not defended: `curator.sqlite` has no head elsewhere. What was spent is in the ledger."""
    token = served.make_token()
    served.connect(token).sql(COUNT, epsilon=1)
    kept = copy_database(served.tokens.file)
    served.tokens.revoke_token(served.tokens.list_tokens()[0].token_id)
    with pytest.raises(TokenError):
        served.connect(token)
    served.server.stop()
    kept.replace(served.tokens.file)
    for ending in ("-wal", "-shm"):
        Path(f"{served.tokens.file}{ending}").unlink(missing_ok=True)
    served.restart()
    con = served.connect(token)
    assert con.sql(COUNT, epsilon=1).info["repeated"]
    assert served.read_spent() == 1
