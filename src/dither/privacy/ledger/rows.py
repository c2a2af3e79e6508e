"""Reading and writing the ledger's rows, inside one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dither.canonical import fraction_text
from dither.errors import RefusedError
from dither.privacy.charges.rules import Charge, charge_from_amounts
from dither.privacy.ledger import chain, pots, tables
from dither.privacy.ledger.database import Transaction
from dither.privacy.ledger.head import START, Anchor
from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.process import is_dead
from dither.privacy.ledger.records import Incident, Registered, Reservation, Stored
from dither.privacy.ledger.settled import UnderWay
from dither.rules import PrivacyRule

ABANDONED = "abandoned"
"""The code of a charge whose process died, or was cut off, before it stored an answer."""
REFUSED_MEANWHILE = "suspended_meanwhile"
"""The code of a charge whose answer was held back because another request had failed meanwhile: it
tells nothing of its own rows, so it is recorded and counts towards no limit."""
TOTALS = ("spent", "delta_spent", "reissued", "cap")

_LAST = "SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1"
_OF_KIND = "SELECT seq, body_json FROM entry WHERE kind = :kind ORDER BY seq"
_NEWEST = "SELECT body_json FROM entry WHERE kind = :kind ORDER BY seq DESC LIMIT 1"
_NEWEST_SEQ = "SELECT seq FROM entry WHERE kind = :kind ORDER BY seq DESC LIMIT 1"
_ENTRY_AT = "SELECT kind, body_json, hash FROM entry WHERE seq = :at"
_INCIDENTS = (
    "SELECT seq, body_json FROM entry WHERE kind = 'incident' AND seq > "
    "(SELECT coalesce(max(seq), 0) FROM entry WHERE kind = 'clear') ORDER BY seq"
)
_STORED = "SELECT nonce, arrow_bytes, meta_json FROM release WHERE seq = :at"
_COMMITTED = "SELECT commit_seq FROM release WHERE seq = :at"
_ANSWERS = "SELECT seq, commit_seq FROM release WHERE request_hash = :wanted ORDER BY seq DESC"
_NEWEST_ANSWER = f"{_ANSWERS} LIMIT 1"
_SHARES = "SELECT pot FROM share WHERE release = :at"
_TOTALS = "SELECT spent, delta_spent, reissued, cap FROM pot_state WHERE pot = :name"
_NEW_TOTALS = (
    "UPDATE pot_state SET spent = :spent, delta_spent = :delta_spent, reissued = :reissued, "
    "cap = :cap WHERE pot = :name"
)
_PENDING = "SELECT seq, holder FROM pending"
_DONE = "DELETE FROM pending WHERE seq = :at"


def last(transaction: Transaction) -> Anchor:
    """Return number and hash of the newest entry; START in an empty ledger."""
    row = transaction.first_row(_LAST)
    return Anchor(*row) if row else START


def append(transaction: Transaction, before: Anchor, kind: str, body: dict[str, Any]) -> Anchor:
    """Write one more entry after `before`, the end of the chain."""
    body_json = chain.canonical_text(body, f"a {kind} entry")
    hashed = chain.entry_hash(before.seq + 1, kind, body_json, before.hash)
    row = {
        "seq": before.seq + 1,
        "kind": kind,
        "body_json": body_json,
        "prev_hash": before.hash,
        "hash": hashed,
    }
    transaction.run(tables.ENTRY.insertion, row)
    return Anchor(before.seq + 1, hashed)


def bodies(transaction: Transaction, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield number and body of the entries of one kind, oldest first."""
    for seq, body_json in transaction.rows(_OF_KIND, {"kind": kind}):
        yield seq, json.loads(body_json)


def newest(transaction: Transaction, kind: str) -> int:
    """Return the number of the newest entry of a kind, 0 where there is none."""
    return int(transaction.scalar(_NEWEST_SEQ, {"kind": kind}) or 0)


def openings(transaction: Transaction) -> dict[str, Pot]:
    """Map names to pots, each as it was opened."""
    return {body["pot"]: pots.from_body(body) for _, body in bodies(transaction, "open")}


def totals(
    transaction: Transaction, terms: Mapping[str, Pot], names: Iterable[str]
) -> dict[str, Pot]:
    """Read the running totals of the pots of these names, as pots by name.

    More than four are read in one go.
    """
    requested = list(names)
    if len(requested) > 4:
        texts = all_texts(transaction)
        return {name: _with_totals(terms[name], texts.get(name, ())) for name in requested}
    return {
        name: _with_totals(terms[name], transaction.first_row(_TOTALS, {"name": name}) or ())
        for name in requested
    }


def all_texts(transaction: Transaction) -> dict[str, tuple[str, ...]]:
    """Map pot names to their rows of `pot_state`, as stored."""
    return {row[0]: row[1:] for row in transaction.rows(tables.POT_STATE.selection)}


def _with_totals(pot: Pot, row: tuple[Any, ...]) -> Pot:
    """Return a pot with the stored totals; refuse totals that are no numbers or out of range."""
    try:
        spent, delta_spent, reissued, cap = row
        now = replace(
            pot,
            spent=Fraction(spent),
            delta_spent=Fraction(delta_spent),
            reissued=Fraction(reissued),
            cap=Fraction(cap),
        )
    except (ValueError, TypeError, ZeroDivisionError):
        now = replace(pot, spent=Fraction(-1))
    # a recount may have put them above their caps
    sound = min(now.spent, now.delta_spent, now.reissued) >= 0
    if not sound or not pot.cap <= now.cap <= now.ceiling - now.reissue:
        raise RefusedError(
            f"the totals of budget {pot.name!r} are damaged: run 'dither ledger verify CATALOG'",
            rule=PrivacyRule.ROLLBACK,
        )
    return now


def texts(pot: Pot) -> tuple[str, ...]:
    """Write the numbers of a pot's row in `pot_state`, in the order of `TOTALS`."""
    return tuple(fraction_text(getattr(pot, key)) for key in TOTALS)


def write_totals(transaction: Transaction, pot: Pot, *, is_new: bool) -> None:
    """Write a pot's row in `pot_state`."""
    row = dict(zip(TOTALS, texts(pot), strict=True))
    if is_new:
        transaction.run(tables.POT_STATE.insertion, {"pot": pot.name} | row)
    else:
        transaction.run(_NEW_TOTALS, {"name": pot.name} | row)


def release(transaction: Transaction, seq: int) -> Stored | None:
    """Read the stored release of a reserve; None where there is none."""
    row = transaction.first_row(_STORED, {"at": seq})
    return Stored(row[0], row[1], json.loads(row[2])) if row else None


def write_release(transaction: Transaction, row: dict[str, Any]) -> None:
    """Stores the release of a reserve."""
    transaction.run(tables.RELEASE.insertion, row)


def newest_answer(
    transaction: Transaction, request_hash: str, path: Sequence[str] = ()
) -> tuple[int, int] | None:
    """Return (reserve, commit) of the newest release that answers a request, or None.

    With the names of a pot's `path`, it is the newest of those for which the fewest of them owe:
    what other groups buy does not take away what this one has paid for. A reissue comes after what
    it supersedes, and takes its place.
    """
    wanted = {"wanted": request_hash}
    if not path:
        row = transaction.first_row(_NEWEST_ANSWER, wanted)
        return (row[0], row[1]) if row else None
    chosen = None
    fewest = len(path) + 1
    superseded = set()
    for seq, commit_seq in transaction.rows(_ANSWERS, wanted):
        reserve = entry(transaction, seq)[1]
        owing = len(set(path) - payers(transaction, seq, reserve))
        if seq not in superseded and owing < fewest:
            chosen = (seq, commit_seq)
            fewest = owing
        superseded.add((reserve["reissue"] or {}).get("supersedes"))
    return chosen


def payers(transaction: Transaction, seq: int, reserve: dict[str, Any]) -> frozenset[str]:
    """Collect the names of all pots that paid for the release of a reserve, given its body."""
    return frozenset(reserve["charges"]).union(
        row[0] for row in transaction.rows(_SHARES, {"at": seq})
    )


def write_shares(transaction: Transaction, seq: int, names: Iterable[str]) -> None:
    """Record that these pots paid for a stored release."""
    for name in names:
        transaction.run(tables.SHARE.insertion, {"release": seq, "pot": name})


def entry(transaction: Transaction, seq: int) -> tuple[str, dict[str, Any], str]:
    """Read kind, body and hash of one entry.

    Raises RefusedError where the ledger has none of this number.
    """
    row = transaction.first_row(_ENTRY_AT, {"at": seq})
    if row is None:
        raise RefusedError(f"the ledger has no entry {seq}", rule=PrivacyRule.COMMIT_ONCE)
    return row[0], json.loads(row[1]), row[2]


def charges_from(body: dict[str, Any]) -> dict[str, Charge]:
    """Read the charges, by pot name, from the body of a `reserve` or `share` entry."""
    return {
        name: charge_from_amounts(*map(Fraction, amounts))
        for name, amounts in body["charges"].items()
    }


def charges_to(charges: Mapping[str, Charge]) -> dict[str, list[str]]:
    """Write the charges of a reserve or share, as its body holds them."""
    return {name: [fraction_text(value) for value in taken] for name, taken in charges.items()}


def registered(transaction: Transaction) -> Registered | None:
    """Read the newest registered version of the data; None before the first."""
    body_json = transaction.scalar(_NEWEST, {"kind": "register"})
    if body_json is None:
        return None
    body = json.loads(body_json)
    return Registered(body["version"], body["catalog_hash"], body["public"])


def incidents_open(transaction: Transaction) -> tuple[Incident, ...]:
    """List the failures since the steward last cleared them.

    What was held back because of them is not among them.
    """
    bodies = [(seq, json.loads(text)) for seq, text in transaction.rows(_INCIDENTS)]
    incidents = [Incident(seq, body["reserve"], body["code"]) for seq, body in bodies]
    return tuple(incident for incident in incidents if incident.code != REFUSED_MEANWHILE)


def failed_leaves(transaction: Transaction) -> list[tuple[str, ...]]:
    """List, for each open incident, the names of the pots that its reserve charged."""
    return [
        tuple(entry(transaction, incident.reserve)[1]["pots"])
        for incident in incidents_open(transaction)
    ]


def has_incident(transaction: Transaction, reservation: Reservation) -> bool:
    """Whether a reservation ended in an incident; incidents are few."""
    return any(body["reserve"] == reservation.seq for _, body in bodies(transaction, "incident"))


def check_reserve(transaction: Transaction, reservation: Reservation) -> dict[str, Any]:
    """Return the body of a reserve; refuse one that this ledger did not make."""
    kind, body_json, entry_hash = transaction.first_row(_ENTRY_AT, {"at": reservation.seq}) or (
        None,
        "",
        "",
    )
    if kind != "reserve" or entry_hash != reservation.hash:
        raise RefusedError(
            f"entry {reservation.seq} is not this reserve of this ledger",
            rule=PrivacyRule.COMMIT_ONCE,
        )
    return dict(json.loads(body_json))


def check_pending(transaction: Transaction, reservation: Reservation) -> dict[str, Any]:
    """Return the body of a reserve; refuse one that was committed or ended in an incident."""
    body = check_reserve(transaction, reservation)
    if transaction.rows(_COMMITTED, {"at": reservation.seq}):
        raise RefusedError(
            f"reserve {reservation.seq} is committed already", rule=PrivacyRule.COMMIT_ONCE
        )
    if has_incident(transaction, reservation):
        raise RefusedError(
            f"reserve {reservation.seq} ended in an incident", rule=PrivacyRule.COMMIT_ONCE
        )
    return body


def hold(transaction: Transaction, seq: int, holder: str) -> None:
    """Note that this process answers for a reserve until it is committed or fails."""
    transaction.run(tables.PENDING.insertion, {"seq": seq, "holder": holder})


def let_go(transaction: Transaction, seq: int) -> None:
    """Remove the note of `hold`: the reserve was committed or failed."""
    transaction.run(_DONE, {"at": seq})


def list_pending(transaction: Transaction) -> list[tuple[int, str]]:
    """List (reserve, process) of every reserve that a process still holds; they are few."""
    return [(seq, holder) for seq, holder in transaction.rows(_PENDING)]


def under_way(transaction: Transaction) -> Iterator[UnderWay]:
    """Yield the charges of living processes whose answer has not left.

    Not those of leases, whose answers leave early: a total without them would promise too much.
    """
    for seq, holder in list_pending(transaction):
        _, body, _ = entry(transaction, seq)
        if not body["lease"] and not is_dead(holder):
            yield UnderWay(tuple(body["pots"]), charges_from(body), body["reissue"] is not None)
