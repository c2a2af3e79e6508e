"""Epochs: which of several curators of one ledger may write.

A curator that takes over (`takeover.py`) appends a `takeover` entry, and from then on every entry
names its epoch. Whoever holds an older one can neither charge, commit, share nor send: its
transaction finds the newer number. In the transaction of the takeover every charge under way
becomes an incident, since nobody can tell whether its holder is dead, paused or cut off; a later
commit of it is refused.

The head is the newest entry that anything left for. All curators must share it: one with an older
head would accept an older copy of the ledger. So the takeover names the folder of heads by a random
id, and a curator with another folder is refused.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dither.errors import RefusedError
from dither.privacy.ledger.database import Transaction
from dither.privacy.noise.source import fresh_bytes
from dither.rules import PrivacyRule

FENCED = (
    "another curator has taken over this ledger: this one can neither charge nor answer any more"
)
STARTS = ("takeover", "lost")
"""The kinds of entries that begin an epoch."""
_NEWEST_START = (
    " UNION ALL ".join(
        "SELECT * FROM (SELECT kind, body_json, seq FROM entry "
        f"WHERE kind = '{kind}' ORDER BY seq DESC LIMIT 1) AS newest_{kind}"
        for kind in STARTS
    )
    + " ORDER BY seq DESC LIMIT 1"
)
"""Read the newest entry that began an epoch, by one look into an index for each kind."""
_STORE_NAME = "store-id"


class FencedError(RefusedError):
    """Another curator has taken over. What this one was about to do was not done."""

    def __init__(self, message: str = FENCED) -> None:
        super().__init__(message, rule=PrivacyRule.ONE_CURATOR)


class Epoch(NamedTuple):
    """The number of an epoch, 0 before the first, and the folder of heads that it names.

    `is_shared` says that a curator began it, one of several; else the loss of entries did.
    """

    number: int
    heads: str
    is_shared: bool


def read_epoch(transaction: Transaction) -> Epoch:
    """The epoch of a ledger now."""
    kind, text, _ = transaction.first_row(_NEWEST_START) or ("", '{"epoch":0,"heads":""}', 0)
    body = json.loads(text)
    return Epoch(body["epoch"], body["heads"], kind == "takeover")


def check_heads(epoch: Epoch, head_path: Path) -> None:
    """Refuse a folder of heads that is not the one of the newest takeover."""
    if epoch.number and epoch.heads != read_store_id(head_path):
        raise RefusedError(
            f"the curators of this ledger keep its head in another folder than {head_path.parent}: "
            "share that folder with all of them (XDG_STATE_HOME), since an own head may be old",
            rule=PrivacyRule.ROLLBACK,
        )


def read_store_id(head_path: Path) -> str:
    """The random id of the folder of heads; made by the first who asks for it."""
    file = head_path.parent / _STORE_NAME
    if not file.exists():
        head_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        store_id = fresh_bytes(16).hex()
        beside = file.with_name(f"{_STORE_NAME}.{store_id}")
        beside.write_text(store_id, encoding="ascii")
        with suppress(FileExistsError):  # the first one counts, and nobody reads half of it
            file.hardlink_to(beside)
        beside.unlink()
    return file.read_text(encoding="ascii").strip()
