"""Replay: the state that a chain of entries leads to.

Each entry is checked as it was checked when it was written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from dither.canonical import decimal_text, dumps, exact
from dither.errors import DitherError
from dither.privacy.ledger import pot_acts, pot_tree, pots, rows, suspension, tables
from dither.privacy.ledger.chain import Broken, digest_totals, entry_hash
from dither.privacy.ledger.database import Transaction
from dither.privacy.ledger.epochs import STARTS
from dither.privacy.ledger.head import START, Anchor
from dither.privacy.ledger.pots import Pot
from dither.privacy.loss_documents import read_loss

_ENTRIES = f"{tables.ENTRY.selection} ORDER BY seq"
_TOTALS = tables.POT_STATE.selection
_SHARES = tables.SHARE.selection


@dataclass(frozen=True)
class Reserve:
    """What later entries may say about a reserve."""

    leaves: tuple[str, ...]
    payers: frozenset[str]
    loss: dict[str, Any]
    request_hash: str
    lease: bool
    epoch: int = 0


@dataclass
class Replay:
    """Entries are added one by one; Broken names the first that dither would not have written."""

    last: Anchor = START
    pots: dict[str, Pot] = field(default_factory=dict)
    reserves: dict[int, Reserve] = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)
    incidents: set[int] = field(default_factory=set)
    commitments: dict[int, tuple[int, str]] = field(default_factory=dict)
    shares: dict[int, frozenset[str]] = field(default_factory=dict)
    superseded: set[int] = field(default_factory=set)
    version: int = 0
    lineage: Any = None
    incidents_open: list[int] = field(default_factory=list)
    misses: int = 0
    epoch: int = 0
    losses: list[tuple[int, int | None]] = field(default_factory=list)
    recounted: dict[str, Pot] | None = (
        None  # totals by the present rule, where the old one was short
    )
    notes: list[str] = field(default_factory=list)
    _digest: str | None = None  # named by the newest entry; None in a ledger of the first version
    _is_sealed: bool = False  # whether the entry being added names the digest of all totals
    _counted: dict[str, Pot] = field(default_factory=dict)  # the totals that _digest is of

    def add(self, seq: Any, kind: Any, body_json: Any, prev_hash: Any, hashed: Any) -> None:
        """Replay one more entry; raise Broken if it does not follow from those before."""
        here = self.last.seq + 1
        if seq != here or type(seq) is not int:
            raise Broken(here, f"missing; the next one in the file is numbered {seq!r}")
        if not all(isinstance(text, str) for text in (kind, body_json, prev_hash, hashed)):
            raise Broken(seq, "holds something other than text")
        if prev_hash != self.last.hash:
            raise Broken(seq, "does not name the hash of the entry before it")
        try:
            if hashed != entry_hash(seq, kind, body_json, prev_hash):
                raise Broken(seq, "its content does not have its hash")
            if kind not in tables.BODIES:
                raise Broken(seq, f"is of the unknown kind {kind!r}")
            if not is_canonical(body_json):
                raise Broken(seq, "its body is not written as dither writes it")
            body = json.loads(body_json)
            totals = body.pop("totals", None)
            self._check_epoch(seq, kind, body.pop("epoch", 0))
            if set(body) != tables.BODIES[kind]:
                raise Broken(seq, f"its body is not that of a {kind} entry")
            self._check_sealing(seq, kind, totals)
            getattr(self, f"_{kind}")(seq, body)
            if self._is_sealed and totals != self._new_digest():
                raise Broken(seq, "names other totals than the entries add up to")
        except DitherError as error:
            raise Broken(seq, f"dither would have refused this {kind}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, ZeroDivisionError):
            raise Broken(seq, f"its body is not that of a {kind} entry") from None
        self.last = Anchor(seq, hashed)

    def _check_epoch(self, seq: int, kind: str, epoch: Any) -> None:
        """Raise Broken where an entry names another epoch than that of the newest takeover."""
        expected = self.epoch + (kind in STARTS)
        if epoch != expected or type(epoch) is not int:
            raise Broken(seq, f"names epoch {epoch!r} in epoch {expected}")
        self.epoch = epoch

    def _takeover(self, seq: int, body: dict[str, Any]) -> None:
        """Replay a takeover: charges of earlier epochs are committed no more."""
        if not all(isinstance(text, str) and text for text in body.values()):
            raise Broken(seq, "names no curator or no folder of heads")

    def _lost(self, seq: int, body: dict[str, Any]) -> None:
        """Replay the loss of entries: every pot is closed for ever, as if it had spent all."""
        if body["first"] != seq or not (body["last"] is None or body["last"] >= seq):
            raise Broken(seq, "says that other entries were lost than those from here on")
        self.pots = {name: pot_acts.close_pot(pot) for name, pot in self.pots.items()}
        self.losses.append((body["first"], body["last"]))

    def _check_sealing(self, seq: int, kind: str, totals: Any) -> None:
        """Raise Broken where an entry does not name the digest of all totals, as it must.

        Only a ledger of the first version may begin with entries that name none.
        """
        self._is_sealed = totals is not None
        if not self._is_sealed and (self._digest is not None or kind == "recount"):
            raise Broken(seq, "names no totals, which only the first entries of an old ledger do")
        if self._is_sealed and self.recounted is not None and kind != "recount":
            raise Broken(seq, "follows shares of the old rule that were not recounted")

    def _new_digest(self) -> str:
        """Return the digest of the totals of all pots.

        It is computed again only if a pot was replaced. A Pot never changes in place.
        """
        if self._digest is None or any(
            self._counted.get(name) is not pot for name, pot in self.pots.items()
        ):
            self._counted = dict(self.pots)
            self._digest = digest_totals({name: rows.texts(pot) for name, pot in self.pots.items()})
        return self._digest

    def _open(self, seq: int, body: dict[str, Any]) -> None:
        """Replay the opening of a pot."""
        pot = pots.from_body(body)
        pot_acts.check_opening(self.pots, pot)
        if pot.version not in (None, self.version):
            raise Broken(seq, "opens a partition for another version than the registered one")
        if (pot.is_windows or self.pots.get(pot.inside or "", pot).is_windows) and self.reserves:
            raise Broken(seq, "opens a window after something was spent")
        self.pots[pot.name] = pot
        if self.recounted is not None:
            self.recounted[pot.name] = pot

    def _raise(self, seq: int, body: dict[str, Any]) -> None:
        """Replay the raising of a pot's cap."""
        name = body["pot"]
        raised = pot_acts.raise_pot_cap(self.pots[name], exact(body["cap"], "cap"), body["reason"])
        self.pots[name] = raised
        if self.recounted is not None:
            self.recounted[name] = replace(self.recounted[name], cap=raised.cap)

    def _reserve(self, seq: int, body: dict[str, Any]) -> None:
        """Replay a charge: check that its pots could pay it, and remember it as pending."""
        leaves = tuple(body["pots"])
        reissue = body["reissue"]
        self._check_suspended(seq, leaves)
        if reissue is not None:
            check_reissue(seq, reissue, leaves, self.reserves, self.commitments, self.superseded)
            self.superseded.add(reissue["supersedes"])
        self._pay(seq, body, leaves, body["loss"], reissue=reissue is not None, paid=frozenset())
        self.pending.add(seq)
        payers = frozenset(body["charges"])
        self.reserves[seq] = Reserve(
            leaves, payers, body["loss"], body["request_hash"], body["lease"], self.epoch
        )

    def _check_suspended(self, seq: int, leaves: tuple[str, ...]) -> None:
        """Raise Broken where incidents had suspended the dataset or the pot's path.

        The first version of dither let the pot go on below `max_incidents`: what it wrote verifies,
        with a note.
        """
        failed = [self.reserves[reserve].leaves for reserve in self.incidents_open]
        if suspension.is_full(self.pots, len(failed)):
            raise Broken(seq, "was made while incidents had suspended the dataset")
        if suspension.is_path_suspended(self.pots, failed, leaves):
            problem = f"was made while an incident had suspended its budget {leaves[0]!r}"
            if self._is_sealed:
                raise Broken(seq, problem)
            self.notes.append(f"entry {seq} {problem}: the first version of dither allowed that")

    def _pay(
        self,
        seq: int,
        body: dict[str, Any],
        leaves: tuple[str, ...],
        loss_json: Any,
        *,
        reissue: bool,
        paid: frozenset[str],
    ) -> None:
        """Charge `leaves` and the pots around them, and compare with the charges in `body`.

        `paid` are the pots that paid for this release before. Entries without a digest of
        totals were charged by an older rule of sharing; the present rule is then followed
        beside it in `recounted`.
        """
        for leaf in leaves:
            if leaf not in self.pots:
                raise Broken(seq, f"charges {leaf!r}, which no entry opened")
        loss = read_loss(loss_json)
        old_rule = not self._is_sealed
        charges, changed = pot_tree.pay(
            self.pots, leaves, loss, reissue=reissue, paid=paid, before_recount=old_rule
        )
        if rows.charges_to(charges) != body["charges"]:
            raise Broken(seq, "its charge is not that of its loss")
        if old_rule:
            counted = self.pots if self.recounted is None else self.recounted
            right, recounted = pot_tree.pay(
                counted, leaves, loss, reissue=reissue, paid=paid, limited=False
            )
            if self.recounted is not None or right != charges:
                self.recounted = dict(counted) | recounted
        self.pots.update(changed)

    def _commit(self, seq: int, body: dict[str, Any]) -> None:
        """Replay the storing of an answer: its reserve must be pending and not suspended."""
        if body["reserve"] not in self.pending:
            raise Broken(seq, f"commits {body['reserve']!r}, which is not an open reserve")
        if self.reserves[body["reserve"]].epoch != self.epoch:
            raise Broken(seq, f"commits {body['reserve']!r}, a charge of an earlier epoch")
        if not self.reserves[body["reserve"]].lease:
            self._check_suspended(seq, self.reserves[body["reserve"]].leaves)
        self.pending.remove(body["reserve"])
        self.commitments[body["reserve"]] = (seq, body["commitment"])

    def _share(self, seq: int, body: dict[str, Any]) -> None:
        """Replay a share: pots pay for a release that other pots paid for before."""
        release = body["release"]
        if release not in self.commitments:
            raise Broken(seq, f"shares {release!r}, which is not a stored release")
        paid = self.reserves[release].payers | self.shares.get(release, frozenset())
        leaves = tuple(body["pots"])
        self._pay(seq, body, leaves, self.reserves[release].loss, reissue=False, paid=paid)
        if not body["charges"]:
            raise Broken(seq, "nobody pays by it")
        new_payers = set(body["charges"]) - paid
        self.shares[release] = self.shares.get(release, frozenset()) | new_payers

    def changed_by_recount(self) -> list[Pot]:
        """List the pots whose totals differ by the present rule, with the totals of that rule."""
        counted = self.pots if self.recounted is None else self.recounted
        return [
            pot for name, pot in counted.items() if rows.texts(pot) != rows.texts(self.pots[name])
        ]

    def describe_recount(self) -> list[str]:
        """Write a sentence for each pot whose total a recount raises."""
        return [
            f"budget {pot.name!r} was recounted: it stands at "
            f"{decimal_text(pot.spent, up=True)} (cap {decimal_text(pot.cap)}), "
            f"not at {decimal_text(self.pots[pot.name].spent, up=True)}: "
            "stored releases had been shared into parts of a partition without the budgets above "
            "it paying what the partition grew by"
            for pot in self.changed_by_recount()
        ]

    def _recount(self, seq: int, body: dict[str, Any]) -> None:
        """Replay a recount: from here on the totals are those of the present rule of sharing."""
        expected = {pot.name: list(rows.texts(pot)) for pot in self.changed_by_recount()}
        if self.recounted is None or body["pots"] != expected:
            raise Broken(seq, "recounts other totals than the shares before it call for")
        self.notes += [f"entry {seq}: {sentence}" for sentence in self.describe_recount()]
        self.pots = self.recounted
        self.recounted = None

    def _incident(self, seq: int, body: dict[str, Any]) -> None:
        """Replay an incident: its reserve had none before and will get no answer."""
        reserve = body["reserve"]
        if reserve in self.incidents or reserve not in self.reserves:
            raise Broken(seq, f"reports {reserve!r}, which is not a reserve without an incident")
        if body["code"] == rows.REFUSED_MEANWHILE:
            failed = [self.reserves[number].leaves for number in self.incidents_open]
            leaves = self.reserves[reserve].leaves
            if not suspension.is_full(self.pots, len(failed)) and not suspension.is_path_suspended(
                self.pots, failed, leaves
            ):
                raise Broken(seq, "says that its budget was suspended, which it was not")
        else:
            self.incidents_open.append(reserve)
        self.incidents.add(reserve)
        self.pending.discard(reserve)

    def _clear(self, seq: int, body: dict[str, Any]) -> None:
        """Replay the steward's act that clears all open incidents.

        Raises Broken where none is open.
        """
        pots.sentence(body["reason"], "the reason", "")
        if not self.incidents_open:
            raise Broken(seq, "clears incidents where none were open")
        self.incidents_open.clear()

    def _miss(self, seq: int, body: dict[str, Any]) -> None:
        """Replay a miss of the schedule: they count 1, 2, 3, ..."""
        self.misses += 1
        if body["number"] != self.misses or type(body["number"]) is not int:
            raise Broken(seq, f"is miss {body['number']!r} after {self.misses - 1}")

    def _register(self, seq: int, body: dict[str, Any]) -> None:
        """Replay a registration: versions count up and stay in one lineage."""
        if body["version"] != self.version + 1:
            raise Broken(seq, f"registers version {body['version']!r} after {self.version}")
        lineage = body["public"].get("lineage")
        if self.version and lineage != self.lineage:
            raise Broken(seq, f"registers another dataset, {lineage!r}")
        self.version += 1
        self.lineage = lineage


def is_canonical(text: str) -> bool:
    """Whether a text is the one spelling of its JSON.

    Of a key that is written twice, readers keep different values.
    """
    try:
        return dumps(json.loads(text)) == text
    except (TypeError, ValueError, RecursionError):
        return False


def check_reissue(
    seq: int,
    reissue: dict[str, Any],
    leaves: tuple[str, ...],
    reserves: dict[int, Reserve],
    commitments: dict[int, tuple[int, str]],
    superseded: set[int],
) -> None:
    """Refuse a reissue that does not name a stored release of the same pot, and a reason.

    Nothing may have superseded that release yet.
    """
    old = reissue["supersedes"]
    if set(reissue) != {"supersedes", "note"} or old not in commitments or old in superseded:
        raise Broken(seq, f"reissues {old!r}, which is not a stored release that still stands")
    if reserves[old].leaves[0] != leaves[0]:
        raise Broken(seq, "reissues a release that another budget paid for")
    pots.sentence(reissue["note"], "the note of a reissue", "")


def replayed(transaction: Transaction, errors: tuple[type[Exception], ...]) -> Replay:
    """Replay every entry from the first."""
    replay = Replay()
    try:
        for row in transaction.stream(_ENTRIES):
            replay.add(*row)
    except errors as error:
        if not is_bad_value(error):
            raise
        raise Broken(replay.last.seq + 1, "it cannot be read") from None
    return replay


def is_bad_value(error: Exception) -> bool:
    """Whether a *value* could not be read, rather than the store.

    Such as text that is no UTF-8, or text where bytes belong.
    """
    return not getattr(error, "sqlite_errorcode", 0) and not getattr(error, "sqlstate", "")


def check_totals(transaction: Transaction, replay: Replay) -> None:
    """Raise Broken unless stored totals, and who shared what, are what the entries add up to."""
    stored = {row[0]: row[1:] for row in transaction.rows(_TOTALS)}
    for name, pot in replay.pots.items():
        derived = rows.texts(pot)
        if tuple(stored.pop(name, ())) != derived:
            raise Broken(
                None,
                f"pot_state of {name!r} is not what the entries add up to: {', '.join(derived)}",
            )
    if stored:
        raise Broken(
            None, f"pot_state holds {sorted(map(str, stored))[0]!r}, which no entry opened"
        )
    if wrong := {seq for seq, _ in rows.list_pending(transaction)} ^ replay.pending:
        raise Broken(
            None, f"pending is not the open reserves: {min(wrong)} is in one and not in the other"
        )
    shared = {tuple(row) for row in transaction.rows(_SHARES)}
    if shared != {(seq, pot) for seq, names in replay.shares.items() for pot in names}:
        raise Broken(None, "share is not what the entries add up to")
