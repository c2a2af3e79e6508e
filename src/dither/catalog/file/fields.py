"""Reading the keys of one mapping.

Each error names the subject, the rule and the remedy, with file and line.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from dither.catalog import scalars, written
from dither.catalog.file.decide import DECIDE
from dither.catalog.file.problems import Problems
from dither.catalog.file.tree import Entry, Mapping, Node, Scalar, Sequence
from dither.errors import CatalogError

T = TypeVar("T")
Word = TypeVar("Word", bound=str)


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Write a hint with the close spelling, or else the words there are.

    >>> did_you_mean("row_per_unit", ["max_rows", "rows_per_unit"])
    "did you mean 'rows_per_unit'?"
    >>> did_you_mean("colour", ["max_rows", "unique"])
    'it can be max_rows or unique'
    """
    words = list(candidates)
    folded = {candidate.lower(): candidate for candidate in words}
    close = difflib.get_close_matches(word.lower(), list(folded), n=1, cutoff=0.7)
    if close:
        return f"did you mean '{folded[close[0]]}'?"
    if not words:
        return "there is none"
    return "it can be " + " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


@dataclass(frozen=True)
class Where:
    """What is being read, in words, and its file: where errors are reported."""

    file: str
    subject: str

    def error(self, message: str, line: int) -> CatalogError:
        return CatalogError(
            f"{self.subject}: {message}" if self.subject else message, file=self.file, line=line
        )

    def text(self, node: Node, what: str) -> str:
        """Return the text of a scalar that somebody filled in.

        Raises CatalogError for anything else; `what` names it there.
        """
        if not isinstance(node, Scalar):
            kind = "list" if isinstance(node, Sequence) else "mapping"
            raise self.error(f"{what} must be a single text, not a {kind}", node.line)
        if not node.text.strip():
            raise self.error(f"{what} is empty: write a value", node.line)
        if node.text.strip() == "???":
            raise self.error(f"{what} is still '???': a person must decide it", node.line)
        if written.has_control_characters(node.text):
            raise self.error(
                f"{what} holds a line break or control character: write it in one line", node.line
            )
        return node.text

    def read_list(self, node: Node, what: str) -> tuple[Node, ...]:
        if not isinstance(node, Sequence):
            raise self.error(f"{what} must be a list, such as [a, b]", node.line)
        return node.nodes

    def entries(self, node: Node, what: str) -> tuple[Entry, ...]:
        if not isinstance(node, Mapping):
            raise self.error(f"{what} must be a mapping of names, such as `name: ...`", node.line)
        return node.entries

    def typed(self, node: Node, what: str, read: Callable[[str], T | None], must: str) -> T:
        """Return the scalar as `read` understands it.

        Raises CatalogError where `read` gives None; `must` completes the sentence "it must be".
        """
        text = self.text(node, what)
        value = read(text)
        if value is None:
            raise self.error(f"{what} must be {must}, got '{_shorten(text)}'", node.line)
        return value

    def choice(self, node: Node, what: str, choices: tuple[Word, ...]) -> Word:
        """Return the one of these words that the scalar is.

        Raises CatalogError with the closest word.
        """
        text = self.text(node, what)
        for word in choices:
            if word == text:
                return word
        raise self.error(
            f"{what} cannot be '{_shorten(text)}': {did_you_mean(text, choices)}", node.line
        )

    def count(self, node: Node, what: str) -> int:
        """Return a positive whole number below 2^63. Raises CatalogError for any other."""
        value = self.typed(node, what, written.whole, "a positive integer")
        if not 0 < value < 2**63:
            raise self.error(
                f"{what} must be a positive integer below 2^63, got {_shorten(str(value))}",
                node.line,
            )
        return value

    def check_names(self, entries: Iterable[Entry], what: str) -> None:
        """Refuse names that SQL would not take, or could not tell apart."""
        spellings: dict[str, str] = {}
        for entry in entries:
            if not scalars.is_name(entry.key):
                raise self.error(
                    f"the {what} name '{_shorten(entry.key)}' is not usable: letters, digits and "
                    "_, not starting with a digit or with dither_, at most 63 characters; SQL "
                    "takes such names without quotes",
                    entry.line,
                )
            if entry.key.lower() in spellings:
                raise self.error(
                    f"the {what} names '{spellings[entry.key.lower()]}' and '{entry.key}' differ "
                    "in case only, and SQL cannot tell them apart: rename one",
                    entry.line,
                )
            spellings[entry.key.lower()] = entry.key


class Fields:
    """The keys of one mapping.

    `kind` is its entry in DECIDE; `keys` the keys that may stand here. Unknown keys are noted in
    `problems`, or the first is raised where there are none.
    """

    def __init__(
        self,
        where: Where,
        node: Node,
        line: int,
        kind: str,
        keys: Iterable[str] | None = None,
        problems: Problems | None = None,
    ) -> None:
        """Read a mapping by its keys.

        Raises CatalogError for unknown keys, or notes them in `problems`.
        """
        self.where = where
        self.line = line
        self.kind = kind
        allowed_keys = list(DECIDE[kind] if keys is None else keys)
        if not isinstance(node, Mapping):
            raise where.error(
                f"must be a mapping with the keys {', '.join(allowed_keys)}", node.line
            )
        errors = [
            where.error(
                f"unknown key '{_shorten(entry.key)}': {did_you_mean(entry.key, allowed_keys)}",
                entry.line,
            )
            for entry in node.entries
            if entry.key not in allowed_keys
        ]
        noted = Problems() if problems is None else problems
        if not noted.add(errors) and problems is None:
            noted.raise_first()
        self._entries = {entry.key: entry for entry in node.entries}

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def line_of(self, key: str) -> int:
        return self._entries[key].line if key in self._entries else self.line

    def node(self, key: str) -> Node:
        if key not in self._entries:
            raise self.error(f"{key} is missing: {DECIDE[self.kind][key]}", key)
        return self._entries[key].node

    def forbid(self, key: str, why: str) -> None:
        if key in self._entries:
            raise self.error(f"{key} has no place here: {why}", key)

    def error(self, message: str, key: str) -> CatalogError:
        return self.where.error(message, self.line_of(key))

    def text(self, key: str) -> str:
        return self.where.text(self.node(key), key)

    def prose(self, key: str) -> str:
        """Return a sentence, which may span lines."""
        node = self.node(key)
        folded = (
            Scalar(" ".join(node.text.split()), node.line) if isinstance(node, Scalar) else node
        )
        return self.where.text(folded, key)

    def label(self, key: str) -> str:
        """Return a short plain name. Raises CatalogError for any other text."""
        return self.where.typed(
            self.node(key),
            key,
            lambda text: text if written.is_label(text) else None,
            "a name of letters, digits, '_', '-' and '.', at most 63 characters",
        )

    def choice(self, key: str, choices: tuple[Word, ...]) -> Word:
        return self.where.choice(self.node(key), key, choices)

    def count(self, key: str) -> int:
        return self.where.count(self.node(key), key)

    def boolean(self, key: str) -> bool:
        return self.where.typed(self.node(key), key, written.boolean, "true or false")

    def offset(self, key: str) -> int:
        """Return a time zone as seconds east of UTC. Raises CatalogError for a named zone."""
        return self.where.typed(
            self.node(key),
            key,
            scalars.offset,
            "UTC or a fixed offset such as +01:00 (named zones change with the law)",
        )


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
