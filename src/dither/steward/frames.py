"""A data frame as a dataset for one connection: library mode.

The caller holds the rows, so nothing here keeps them from the caller. What the answers protect is
protected against those who see the answers. Every connection to a frame starts from zero: a new one
has a budget of its own, and no total over them is promised. So there is no certificate of a
dataset, no report, and no entry in the list of lineages.

The copy lies in a folder of this process, mode 0700, each file 0600. It is removed when the
connection is gone or Python ends; what a killed process left is removed when the next one connects.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dither.canonical import Number
from dither.catalog import Catalog, Source, Table
from dither.catalog.file.load import load
from dither.data.engines.scratch import claim_folder, release_folder
from dither.data.register.frames import is_frame, write_frame
from dither.errors import DitherError, ParameterError
from dither.privacy.ledger import default_head_path
from dither.privacy.noise import fresh_bytes
from dither.publish.library import LIBRARY
from dither.state import State
from dither.steward.budgets import NOT_REGISTERED, open_pot
from dither.steward.registration import Act, Spilling, register_act

POT = "connection"
_PURPOSE = {
    "question": "whatever this one connection asks",
    "population": "the people in a data frame",
    "recipient": "the program that holds the data frame",
}


@dataclass(frozen=True)
class FrameCopy:
    """The registered copy of frames, for one connection, in a folder that `process` claimed in
    `frames_folder`. Both are kept: by the time of the removal the environment may be another."""

    catalog: Catalog
    state: State
    frames_folder: Path
    process: int

    def remove(self) -> None:
        """Remove the copy, its state and the head of its ledger, which lies in a folder of its own.

        A forked child leaves all of it to its parent.
        """
        if os.getpid() != self.process:
            return
        with suppress(OSError, DitherError):  # nothing was registered yet
            heads = self.frames_folder.parent / "heads"
            for file in heads.glob(self.state.installation_id() + "*"):
                file.unlink(missing_ok=True)
        shutil.rmtree(self.state.root.parent, ignore_errors=True)
        release_folder(self.frames_folder)


def copy_frames(frames: Any, catalog: str | Path | Catalog, epsilon: Number) -> FrameCopy:
    """Register a frame, or frames by the names of their tables, and open the budget of this one
    connection."""
    written = catalog if isinstance(catalog, Catalog) else load(catalog)
    by_table = _match_tables(frames, written)
    frames_folder = _find_frames_folder()
    folder = claim_folder(frames_folder) / fresh_bytes(8).hex()
    state = State(folder / "state")
    copy = FrameCopy(_read_from_copies(written), state, frames_folder, os.getpid())
    try:
        (folder / "frames").mkdir(parents=True, mode=0o700)
        for table in written.tables:
            columns = dict(table.source_columns)
            names = [columns.get(name, name) for name in table.column_names]
            write_frame(by_table[table.name], names, folder / "frames" / _name_file(table))
        act = Act(copy.catalog, folder / "frames", copy.state, LIBRARY)
        register_act(act, lambda _: None, Spilling(None, None), None)
        shutil.rmtree(folder / "frames")
        open_pot(
            copy.state,
            copy.catalog,
            POT,
            rule="approx",
            epsilon=epsilon,
            ceiling=epsilon,
            delta="1e-9",
            delta_per_question="1e-10",
            purpose=_PURPOSE,
        )
    except BaseException:
        copy.remove()
        raise
    return copy


def _match_tables(frames: Any, catalog: Catalog) -> dict[str, Any]:
    """Map each table of the catalog to its data frame.

    Raises ParameterError unless there is one for each.
    """
    names = [table.name for table in catalog.tables]
    by_table = dict(frames) if isinstance(frames, Mapping) else {names[0]: frames}
    if set(by_table) != set(names):
        raise ParameterError(
            f"the catalog has the tables {', '.join(names)}: give a data frame for each, as in "
            f"connect({{{names[0]!r}: frame}}, catalog=...)"
        )
    if not all(is_frame(frame) for frame in by_table.values()):
        raise ParameterError("a data frame is one of pandas or polars, or an Arrow table")
    return by_table


def _read_from_copies(catalog: Catalog) -> Catalog:
    """The catalog with the frames' own files as its source."""
    tables = tuple(replace(table, source_name=_name_file(table)) for table in catalog.tables)
    return replace(catalog, source=Source("parquet", "."), tables=tables)


def _name_file(table: Table) -> str:
    return f"{table.name}.parquet"


def _find_frames_folder() -> Path:
    """Where processes keep the copies of their frames: beside the heads, never beside a catalog."""
    heads = default_head_path(NOT_REGISTERED).parent
    heads.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return heads.parent / "frames"
