"""A ledger that is behind its head, or has none: its budgets are closed, and it goes on as it is.

What the lost entries spent is unknown, and answers that they stored may be in somebody's hands. So
every pot is set to its ceiling by a `lost` entry, in a new epoch. Stored answers and history can be
read again; nothing can be charged, and no act opens these pots again (P11, P42).
"""

from __future__ import annotations

from pathlib import Path

from dither.errors import ParameterError, RefusedError
from dither.privacy.ledger import epochs, pot_acts
from dither.privacy.ledger.chain import Broken, follow
from dither.privacy.ledger.database import Transaction
from dither.privacy.ledger.head import Anchor, Head, replace_file
from dither.privacy.ledger.location import Location, database_at, is_url
from dither.privacy.ledger.replay import Replay, check_totals, replayed
from dither.privacy.ledger.takeover import abandon_charges
from dither.privacy.ledger.writer import Writer
from dither.rules import PrivacyRule


def close_ledger(location: Location, head_path: Path) -> tuple[int, int | None]:
    """Close every pot of a ledger that is behind its head; the first and the last lost entry.

    The entries that are there must verify from the first. Refused where the ledger has all that the
    head names: nothing is lost then.
    """
    head = Head(head_path, location if is_url(location) else Path(location))
    database = database_at(location)
    try:
        with head.locked():
            anchor, anchors = head.read(), head.read_anchors()
            with database.transaction(write=True) as transaction:
                replay = _replay(transaction, database.errors)
                if anchors and all(_extends(transaction, named) for named in anchors):
                    raise ParameterError(
                        "the ledger has every entry that its head names: no budget need be closed"
                    )
                writer = Writer(database, transaction, follow(transaction, replay.last))
                first = replay.last.seq + 1
                last = None if anchor is None else max(anchor.seq, first)
                writer.epoch = replay.epoch + 1
                closed = [pot_acts.close_pot(pot) for pot in replay.pots.values()]
                heads = epochs.read_store_id(head_path)
                writer.append("lost", {"first": first, "last": last, "heads": heads}, closed)
                abandon_charges(transaction, writer)
            restart_head(head, writer.last)
    finally:
        database.close()
    return first, last


def _replay(transaction: Transaction, errors: tuple[type[Exception], ...]) -> Replay:
    """Check every entry that is there, and the totals."""
    try:
        replay = replayed(transaction, errors)
        check_totals(transaction, replay)
    except Broken as error:
        raise RefusedError(
            f"the ledger does not verify: {error}. Restore another copy of it",
            rule=PrivacyRule.ROLLBACK,
        ) from None
    if not replay.last.seq or replay.recounted is not None:
        raise RefusedError(
            "the ledger is empty, or of the first version: nothing can be closed in it",
            rule=PrivacyRule.ROLLBACK,
        )
    return replay


def _extends(transaction: Transaction, anchor: Anchor) -> bool:
    """Whether the entry that the head names is in the ledger."""
    try:
        follow(transaction, anchor)
    except Broken:
        return False
    return True


def restart_head(head: Head, anchor: Anchor) -> None:
    """Let the head name `anchor`, whatever it named; the caller holds its lock.

    Only for an entry that closes every pot: then nothing that is forgotten could be spent again.
    All files stay, since `Head.list_files` stops at the first number that is missing.
    """
    with head.reported():
        for file in head.list_files():
            replace_file(file, anchor)
