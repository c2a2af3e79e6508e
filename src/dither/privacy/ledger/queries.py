"""What a ledger tells: where pots stand, what was released, what is stored. Nothing here writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dither.errors import ParameterError, RefusedError
from dither.privacy.ledger import epochs, pot_tree, pots, rows, settled, suspension
from dither.privacy.ledger.database import Database, Transaction
from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.records import Found, LedgerView, Registered
from dither.rules import PrivacyRule

Terms = dict[str, Pot]
"""Every pot of a ledger as it was opened, by its name."""


class Readings:
    """The reading half of a ledger."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._terms: tuple[int, Terms] = (0, {})

    def close(self) -> None:
        """Closes this process's connections."""
        self._database.close()

    def pot(self, name: str, *, under_way: bool = True) -> Pot:
        """Read the balance of a pot: spent, left, cap, ceiling, and its terms.

        The sums are exact. `under_way` counts charges whose answer has not left yet.
        """
        with self._database.transaction(write=False) as transaction:
            terms = self._terms_of(transaction)
            return self._stand(transaction, terms, [pot_tree.path(terms, name)[0]], under_way)[0]

    def _stand(
        self, transaction: Transaction, terms: Terms, names: Iterable[str], under_way: bool
    ) -> tuple[Pot, ...]:
        read = rows.totals if under_way else self._settled
        return tuple(read(transaction, terms, names).values())

    def view(self, pot: str) -> LedgerView:
        """Read all that pricing a question from `pot` needs, in one transaction."""
        with self._database.transaction(write=False) as transaction:
            return self._view(transaction, self._terms_of(transaction), pot)

    def read_epoch(self) -> epochs.Epoch:
        """The epoch of the ledger now."""
        with self._database.transaction(write=False) as transaction:
            return epochs.read_epoch(transaction)

    def windows(self) -> tuple[Pot, tuple[Pot, ...]] | None:
        """The partition into windows and its windows, as opened; None where there are none."""
        with self._database.transaction(write=False) as transaction:
            return pot_tree.windows(self._terms_of(transaction))

    def registered(self) -> Registered | None:
        """The newest registered version."""
        with self._database.transaction(write=False) as transaction:
            return rows.registered(transaction)

    def is_suspended(self, pot: str | None = None) -> bool:
        """Whether incidents suspend the dataset, or the path of `pot`.

        `reserve` decides it again.
        """
        with self._database.transaction(write=False) as transaction:
            return self._is_suspended(transaction, self._terms_of(transaction), pot)

    def find(self, request_hash: str, pot: str) -> Found | None:
        """Return the newest stored answer to a request; None where there is none.

        Where groups are kept apart, it is the newest that this pot has paid for, or owes least for.
        It says which pots on the path of `pot` have not paid for it.
        """
        with self._database.transaction(write=False) as transaction:
            return self._find(transaction, self._terms_of(transaction), request_hash, pot)

    # -- inside one transaction
    # --------------------------------------------------------------------------------

    def _view(self, transaction: Transaction, terms: Terms, pot: str) -> LedgerView:
        """Read all that pricing a question from `pot` needs."""
        path = tuple(terms[name] for name in pot_tree.path(terms, pot)) if pot in terms else ()
        return LedgerView(
            rows.registered(transaction),
            path,
            pot_tree.windows(terms),
            self._is_suspended(transaction, terms, pot),
        )

    def _find(
        self, transaction: Transaction, terms: Terms, request_hash: str, pot: str
    ) -> Found | None:
        """Find the newest stored answer to a request, by the rules of `find`."""
        path_names = pot_tree.path(terms, pot)
        is_separate = terms[path_names[-1]].policy == "separate"
        path = path_names if is_separate else ()
        answer = rows.newest_answer(transaction, request_hash, path)
        if answer is None:
            return None
        _, reserve, reserve_hash = rows.entry(transaction, answer[0])
        payers = rows.payers(transaction, answer[0], reserve)
        _, body, _ = rows.entry(transaction, answer[1])
        stored = rows.release(transaction, answer[0])
        assert stored is not None
        owing = tuple(name for name in path_names if name not in payers)
        return Found(answer[0], reserve_hash, body["released_at"], owing, stored)

    def _is_suspended(self, transaction: Transaction, terms: Terms, pot: str | None) -> bool:
        """Say whether open incidents stop the whole dataset or this pot."""
        failed = rows.failed_leaves(transaction)
        leaves = (pot,) if pot in terms else ()
        return suspension.is_full(terms, len(failed)) or suspension.is_path_suspended(
            terms, failed, leaves
        )

    def _terms_of(self, transaction: Transaction) -> Terms:
        """Return the terms of every pot by its name.

        They never change, so they are kept, and read again only when a pot was opened. Ask once a
        transaction: nobody else opens a pot within it.
        """
        newest = rows.newest(transaction, "open")
        if newest != self._terms[0]:
            self._terms = (newest, rows.openings(transaction))
        return self._terms[1]

    def _settled(
        self, transaction: Transaction, terms: Terms, names: Iterable[str]
    ) -> dict[str, Pot]:
        """Return these pots by name, with the charges under way taken off their totals.

        A partition's total comes from the pots inside it, so these are read too. Charges of leases
        and of dead processes stay in: see `rows.under_way`.
        """
        requested = tuple(names)
        settled_pots = settled.settle(
            terms,
            rows.totals(transaction, terms, settled.names_inside(terms, requested)),
            rows.under_way(transaction),
        )
        return {name: settled_pots[name] for name in requested}


def check_reissue(
    transaction: Transaction, reissue: dict[str, Any], leaves: tuple[str, ...]
) -> None:
    """Refuse a reissue that does not name a stored release of the same pot, and a reason.

    Nothing may have superseded that release yet.
    """
    if set(reissue) != {"supersedes", "note"}:
        raise ParameterError("a reissue says which release it supersedes, and why")
    old = reissue["supersedes"]
    pots.sentence(
        reissue["note"], "the note of a reissue", "the catalog had a wrong bound, found in review"
    )
    if type(old) is not int or rows.release(transaction, old) is None:
        raise RefusedError(
            f"there is no stored release {old!r} to reissue", rule=PrivacyRule.REISSUE
        )
    if rows.entry(transaction, old)[1]["pots"][0] != leaves[0]:
        raise RefusedError(
            f"release {old} was paid by another budget: reissue it from that one",
            rule=PrivacyRule.REISSUE,
        )
    if any(
        (body["reissue"] or {}).get("supersedes") == old
        for _, body in rows.bodies(transaction, "reserve")
    ):
        raise RefusedError(f"release {old} was superseded already", rule=PrivacyRule.REISSUE)
