"""Questions that people save under a name. They hold texts and prices, and no answer.

A saved question belongs to whoever saved it. Shared, it is shown to those who may read the texts of
questions of its budget, which are the same people that History shows them to.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from dither.canonical import dumps, quote
from dither.errors import ParameterError
from dither.identity.principal import Principal
from dither.identity.private_file import open_database, read_clock
from dither.protocol.page_messages import QuestionDocument, QuestionList, SaveQuestion
from dither.strict_json import read_json

MOST_SAVED = 200
MOST_BYTES = 20_000
"""Saved questions of one person at one dataset, and characters of one of them."""
_TABLE = """CREATE TABLE IF NOT EXISTS saved_question (
    dataset TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, pot TEXT NOT NULL,
    fields TEXT NOT NULL, is_shared INTEGER NOT NULL, saved_at TEXT NOT NULL,
    PRIMARY KEY (dataset, owner, name))"""


class SavedQuestions:
    """The saved questions of all datasets of one curator, in its own file."""

    def __init__(self, home: Path) -> None:
        self._lock = Lock()
        self._database = open_database(home)
        self._database.execute(_TABLE)

    def save(self, call: SaveQuestion, principal: Principal) -> QuestionList:
        """Keep a question; one of the same name is replaced."""
        principal.check_pot(call.pot)
        if not call.name.isprintable() or call.name != call.name.strip():
            raise ParameterError("a name has letters, digits and marks, and no blank at its ends")
        fields = dumps(call.fields)
        if len(fields) > MOST_BYTES:
            raise ParameterError(f"a saved question has at most {MOST_BYTES:,} characters")
        row = (principal.dataset, principal.name, call.name, call.pot, fields, call.is_shared)
        with self._lock:
            self._refuse_more(principal, call.name)
            self._database.execute(
                "INSERT OR REPLACE INTO saved_question VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*row, read_clock()),
            )
        return self.list_visible(principal)

    def _refuse_more(self, principal: Principal, name: str) -> None:
        (count,) = self._database.execute(
            "SELECT count(*) FROM saved_question WHERE dataset = ? AND owner = ? AND name <> ?",
            (principal.dataset, principal.name, name),
        ).fetchone()
        if count >= MOST_SAVED:
            raise ParameterError(f"{MOST_SAVED} questions are saved: remove one first")

    def remove(self, name: str, principal: Principal) -> QuestionList:
        """Forget a question of the principal's own."""
        with self._lock:
            removed = self._database.execute(
                "DELETE FROM saved_question WHERE dataset = ? AND owner = ? AND name = ?",
                (principal.dataset, principal.name, name),
            )
        if removed.rowcount != 1:
            raise ParameterError(f"you have saved no question {quote(name)}")
        return self.list_visible(principal)

    def list_visible(self, principal: Principal) -> QuestionList:
        """What the principal saved, and what others shared with the same budgets."""
        with self._lock:
            rows = self._database.execute(
                "SELECT name, owner, pot, fields, is_shared, saved_at FROM saved_question "
                "WHERE dataset = ? AND (owner = ? OR is_shared) ORDER BY owner <> ?, name, owner",
                (principal.dataset, principal.name, principal.name),
            ).fetchall()
        questions = [
            QuestionDocument(
                name=name,
                owner=owner,
                pot=pot,
                fields=read_json(fields),
                is_shared=bool(is_shared),
                saved_at=saved_at,
            )
            for name, owner, pot, fields, is_shared, saved_at in rows
            if owner == principal.name or principal.may_read_texts(pot)
        ]
        return QuestionList(questions=questions)
