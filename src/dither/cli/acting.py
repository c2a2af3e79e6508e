"""What the commands on users, groups, grants and keys share: each is one act of the curator."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dither.cli.output import make_console, print_json
from dither.identity import ActLog, RecordedAct, default_home
from dither.identity.directory import Directory
from dither.publish.shown_table import ShownTable


def record_act(home: Path | None, body: dict[str, Any]) -> RecordedAct:
    """Do an act, in the name of the user of this computer."""
    acts = ActLog(home or default_home())
    try:
        return acts.record(body, f"local:{getpass.getuser()}")
    finally:
        acts.close()


def read_directory(home: Path | None) -> Directory:
    """Everybody and everything that the curator knows."""
    acts = ActLog(home or default_home())
    try:
        return acts.read_directory()
    finally:
        acts.close()


def report_act(act: RecordedAct, sentence: str, as_json: bool) -> None:
    """Say what was done."""
    if as_json:
        print_json({"act": act.seq, "time": act.time, "who": act.who, **act.body})
    else:
        make_console().print(sentence, highlight=False, soft_wrap=True)


def show_rows(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], as_json: bool) -> None:
    """A table for people, or a list of objects."""
    if as_json:
        print_json([dict(zip(heads, row, strict=True)) for row in rows])
    else:
        make_console().print(ShownTable(heads, tuple(rows)))
