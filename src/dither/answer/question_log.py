"""The texts of questions that were paid, beside the ledger, for those who may see them.

The ledger keeps what was asked as plans, which anyone may see. The text itself belongs to the pot
that asked: its constants may follow from answers that only this pot has paid for. So a text is
shown in the history of the pots that paid for its answer, and to the steward, and nowhere else.
The log is a convenience: where it is missing, history describes the plan in words.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dither.canonical import dumps

Questions = dict[tuple[str, str], str]
"""Texts by release and by the pot that asked."""


def find_question_log(root: Path) -> Path:
    """Find the log in a state folder."""
    return root / "questions.log"


def record_question(root: Path, release_id: str, pot: str, sql: str) -> None:
    """Add a text to the log, mode 0600.

    Called when the answer is paid and stored, so that a log that cannot be written costs nobody
    an answer.
    """
    line = dumps({"release": release_id, "pot": pot, "sql": sql}) + "\n"
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(os.open(find_question_log(root), flags, 0o600), "ab") as log:
            log.write(line.encode())


def read_questions(root: Path) -> Questions:
    """Read the log as a dict from (release, pot) to the text of the question.

    Lines that a crash cut off are left out.
    """
    try:
        lines = find_question_log(root).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    questions: Questions = {}
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            questions.setdefault((str(entry["release"]), str(entry["pot"])), str(entry["sql"]))
    return questions


def find_question(questions: Questions, release_id: str, pots: Iterable[str]) -> str | None:
    """Find the text of a release that one of some pots asked."""
    texts = (questions.get((release_id, pot)) for pot in pots)
    return next((text for text in texts if text is not None), None)
