"""Taking a ledger over: a new epoch, in which whoever held an older one is fenced (`epochs.py`)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dither.privacy.ledger import rows
from dither.privacy.ledger.database import Transaction, patiently
from dither.privacy.ledger.epochs import check_heads, read_epoch, read_store_id
from dither.privacy.ledger.head import Head, name_next_file, unlock, write_new_file
from dither.privacy.ledger.location import Location, database_at, is_url
from dither.privacy.ledger.sqlite import sync_directory
from dither.privacy.ledger.store import Ledger
from dither.privacy.ledger.writer import Writer


def end_holders(location: Location, head_path: Path, patience_s: float) -> None:
    """Take head and database from processes that hold them for longer than `patience_s`.

    Before a takeover from a curator that gives no sign of life: it may be paused just there, and
    would hold up its successor for ever. It sends nothing any more, since before it sends an answer
    it looks at the epoch.
    """
    database = database_at(location)
    with database.explained():
        database.end_writers(patience_s)
    database.close()
    seize_head(Head(head_path, location if is_url(location) else Path(location)), patience_s)


def seize_head(head: Head, patience_s: float) -> None:
    """Begin a new file of the head where its lock is held for longer than `patience_s` seconds.

    Whoever holds the lock is stopped by the epoch of the ledger. Where they write to another copy
    of the ledger, they are stopped when they move the head (`Head.move`).
    """
    with head.reported():
        next_file = name_next_file(head.list_files())
        with suppress(BlockingIOError):
            unlock(patiently(head.take_lock, patience_s))
            return
        if (anchor := head.read()) is not None:
            new_file = write_new_file(next_file, anchor)
            with suppress(FileExistsError):  # another process waited as long, and began it first
                os.link(new_file, next_file)
            os.unlink(new_file)
            sync_directory(next_file.parent)


def abandon_charges(transaction: Transaction, writer: Writer) -> dict[int, str]:
    """Turn every charge under way into an incident; their numbers, with the pots asked."""
    abandoned: dict[int, str] = {}
    for seq, _ in rows.list_pending(transaction):
        writer.append("incident", {"reserve": seq, "code": rows.ABANDONED})
        rows.let_go(transaction, seq)
        abandoned[seq] = rows.entry(transaction, seq)[1]["pots"][0]
    return abandoned


def take_over(ledger: Ledger, curator: str) -> int:
    """Begin a new epoch, which this ledger object then holds, and return its number.

    The ledger must extend the head; all charges under way become incidents, in one transaction.
    """
    with ledger._writing() as (transaction, writer):
        check_heads(read_epoch(transaction), ledger._head.path)
        writer.epoch += 1
        writer.append("takeover", {"curator": curator, "heads": read_store_id(ledger._head.path)})
        abandoned = abandon_charges(transaction, writer)
        number = writer.epoch
    ledger.epoch = number
    for seq, pot in abandoned.items():
        ledger.on_abandoned(seq, pot)
    return number
