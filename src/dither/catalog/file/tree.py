"""YAML as a tree of text with line numbers, and nothing else of YAML.

YAML guesses types (`no` is false, `1e3` a float, `2024-01-01` a date); a catalog is typed by its
own schema, so every scalar stays the text a person wrote. Anchors, aliases and tags are refused: a
catalog says each thing once, in the open, and cannot be made to expand.

>>> tree = read_tree("answer: no", "x.yaml")
>>> tree.entries[0]
Entry(key='answer', line=1, node=Scalar(text='no', line=1))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import yaml

from dither.errors import CatalogError

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 16
KEPT_TREES = 16
"""Trees that are kept: one catalog is read several times on the way to an answer."""


@dataclass(frozen=True)
class Scalar:
    """A piece of text."""

    text: str
    line: int


@dataclass(frozen=True)
class Sequence:
    """A list."""

    nodes: tuple[Node, ...]
    line: int


@dataclass(frozen=True)
class Entry:
    """One key of a mapping, with the line of the key."""

    key: str
    line: int
    node: Node


@dataclass(frozen=True)
class Mapping:
    """Keys in the order written; no key twice."""

    entries: tuple[Entry, ...]
    line: int


Node: TypeAlias = Scalar | Sequence | Mapping


def read_tree(text: str, file: str) -> Mapping:
    """Read the one mapping that a catalog text holds. Raises CatalogError for anything else."""
    if len(text) > MAX_CHARACTERS:
        raise CatalogError(
            f"the catalog has {len(text)} characters, more than {MAX_CHARACTERS}: it holds public "
            f"facts, not data; "
            "long lists of values belong in a public table (values: {from: table.column})",
            file=file,
        )
    root = _read_sound_tree(text) or _make_node(_read_events(text, file), file)
    if not isinstance(root, Mapping):
        raise CatalogError(
            "a catalog is a mapping that starts with `dither: 1`", file=file, line=root.line
        )
    return root


@lru_cache(maxsize=KEPT_TREES)
def _read_sound_tree(text: str) -> Node | None:
    """The tree of a text, None where there is none: the reason names the file, and is not kept."""
    try:
        return _make_node(_read_events(text, ""), "")
    except CatalogError:
        return None


def make_mapping(entries: list[Entry], line: int, file: str) -> Mapping:
    """Make a mapping. Raises CatalogError if a key stands in it twice."""
    first: dict[str, int] = {}
    for entry in entries:
        if entry.key in first:
            raise CatalogError(
                f"the key '{entry.key}' was given before, on line {first[entry.key]}: keep one of "
                f"the two",
                file=file,
                line=entry.line,
            )
        first[entry.key] = entry.line
    return Mapping(tuple(entries), line)


def _read_events(text: str, file: str) -> Iterator[yaml.Event]:
    """The parser's events, its errors turned into ours.

    What a catalog may not contain is refused here.
    """
    documents = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            line = _find_line(event.start_mark)
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise CatalogError(
                        "a catalog is one YAML document: remove the second `---`",
                        file=file,
                        line=line,
                    )
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise CatalogError(
                    "anchors (&name) and aliases (*name) are refused: write each fact out where it "
                    "holds; a text that starts with & or * needs quotes",
                    file=file,
                    line=line,
                )
            tag = getattr(event, "tag", None)
            if tag:
                raise CatalogError(
                    f"the tag {tag} is refused: every scalar is text and the catalog's "
                    "format gives it its type; a text that starts with ! needs quotes",
                    file=file,
                    line=line,
                )
            yield event
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise CatalogError(
            "a character that YAML does not allow: remove it", file=file, line=line
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "cannot be read"
        written = (
            text.splitlines()[_find_line(mark) - 1]
            if mark and _find_line(mark) <= len(text.splitlines())
            else ""
        )
        if "???" in written:
            problem = "'???' on this line is still undecided: a person must replace it"
            raise CatalogError(problem, file=file, line=_find_line(mark)) from None
        raise CatalogError(f"not YAML: {problem}", file=file, line=_find_line(mark)) from None


def _find_line(mark: Any) -> int:
    return int(mark.line) + 1 if mark else 0


@dataclass
class _Open:
    """A list or mapping whose end has not been read."""

    is_mapping: bool
    line: int
    nodes: list[Node]


def _make_node(events: Iterator[yaml.Event], file: str) -> Node:
    """Turn YAML events into nodes with a stack, not by recursion: depth is limited, not
    discovered."""
    stack = [_Open(False, 1, [])]
    for event in events:
        line = _find_line(event.start_mark)
        if isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            if len(stack) > MAX_DEPTH:
                raise CatalogError(f"nested deeper than {MAX_DEPTH} levels", file=file, line=line)
            stack.append(_Open(isinstance(event, yaml.MappingStartEvent), line, []))
        elif isinstance(event, yaml.ScalarEvent):
            stack[-1].nodes.append(Scalar(event.value, line))
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            done = stack.pop()
            stack[-1].nodes.append(_close_node(done, file))
    if not stack[0].nodes:
        raise CatalogError("the catalog is empty: start with `dither: 1`", file=file, line=1)
    return stack[0].nodes[0]


def _close_node(done: _Open, file: str) -> Node:
    """Make the node of a list or mapping that has ended."""
    if not done.is_mapping:
        return Sequence(tuple(done.nodes), done.line)
    entries = []
    for key, node in zip(done.nodes[::2], done.nodes[1::2], strict=True):
        if not isinstance(key, Scalar):
            raise CatalogError(
                "a key must be a text, not a list or mapping", file=file, line=key.line
            )
        entries.append(Entry(key.text, key.line, node))
    return make_mapping(entries, done.line, file)
