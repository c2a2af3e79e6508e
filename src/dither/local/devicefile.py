"""A device's budget in a file: opened, never made anew, so that a program that starts every day
cannot renew it.

The first call writes the file; every later one reads it, and refuses another lifetime or unit:
raising it is `renew`, with a reason. Each charge is on the disk before the answer that it pays
leaves. One process at a time holds the file.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from dither.canonical import Number, number_text, positive
from dither.errors import ParameterError
from dither.local.device import DeviceBudget
from dither.strict_json import read_json


def budget_file(
    path: str | Path, lifetime_epsilon: Number, *, unit: str = "user", known_answers: int = 0
) -> DeviceBudget:
    """The budget kept in `path`: the one that is there, or a new one of `lifetime_epsilon`.

    >>> from tempfile import TemporaryDirectory
    >>> from fractions import Fraction
    >>> with TemporaryDirectory() as folder:
    ...     budget_file(f"{folder}/budget", 3).charge("themes", Fraction(2))
    ...     budget_file(f"{folder}/budget", 3).left
    Fraction(1, 1)
    """
    file = Path(path)
    lock = _Lock(file)
    if file.exists():
        try:
            state = read_json(file.read_text("utf-8"))
            budget = DeviceBudget.from_json(state, known_answers=known_answers)
        except (
            ValueError,
            KeyError,
            TypeError,
            RecursionError,
        ) as problem:  # ParameterError is a ValueError
            if isinstance(problem, ParameterError):
                raise
            raise ParameterError(
                f"{file} holds no readable budget: it is not replaced, because it may be spent"
            ) from None
        first = budget.lifetime_epsilon - sum(renewal.epsilon for renewal in budget.renewals)
        if first != positive(lifetime_epsilon, "lifetime_epsilon") or budget.unit != unit:
            raise ParameterError(
                f"the budget in {file} was opened with lifetime {number_text(first)}, unit "
                f"{budget.unit}: "
                "it cannot be opened with another; renew(epsilon, because=...) records a decision "
                "to raise it"
            )
    elif known_answers:
        raise ParameterError(
            f"{known_answers} answers were given, but {file} is missing: it is not made anew"
        )
    else:
        budget = DeviceBudget(lifetime_epsilon, unit=unit)
        _replace_file(file, budget.to_json())
    budget.keep = lambda state: lock.write(state)
    return budget


class _Lock:
    """Held as long as the budget lives; a second opener is refused."""

    def __init__(self, file: Path) -> None:
        """Take the lock beside the budget file, or refuse if another process has it."""
        self._file = file
        self._handle = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            self._handle = -1
            raise ParameterError(
                f"{file} is open already: one process at a time spends a device's budget"
            ) from None

    def write(self, state: dict[str, Any]) -> None:
        _replace_file(self._file, state)

    def __del__(self) -> None:
        if getattr(self, "_handle", -1) >= 0:
            os.close(self._handle)


def _replace_file(file: Path, state: dict[str, Any]) -> None:
    """Replace the file as a whole; when this returns, the new one is on the disk.

    After a crash before that, the old file is still there.
    """
    fresh = Path(f"{file}.new")
    with open(
        fresh, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)
    ) as out:
        json.dump(state, out)
        out.flush()
        os.fsync(out.fileno())
    os.replace(fresh, file)
    folder = os.open(file.resolve().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
