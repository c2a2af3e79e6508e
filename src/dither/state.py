"""Where a dataset keeps its state: paths only.

`clinic.yaml` has its state in `clinic.dither/`, mode 0700.

ledger.sqlite, or ledger.url (names a PostgreSQL database) · id (names the head outside this folder)
· key (32 bytes, made once, never replaced) · source (where the data was read from) ·
versions/0001/{catalog.json, facts.json, data.duckdb} · steward.log · scratch/ and spill/ (what did
not fit in memory)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dither.errors import DitherError


@dataclass(frozen=True)
class State:
    """The state folder of one dataset.

    >>> State(Path("clinic.dither")).version(3).as_posix()
    'clinic.dither/versions/0003'
    """

    root: Path

    @classmethod
    def beside(cls, catalog_file: Path, folder: str | Path | None = None) -> State:
        """The state folder of a catalog.

        It is the folder given, else that of DITHER_STATE, else the one beside the catalog.
        """
        chosen = folder or os.environ.get("DITHER_STATE")
        return cls(Path(chosen) if chosen else catalog_file.with_suffix(".dither"))

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.sqlite"

    def ledger_location(self) -> Path | str:
        """The ledger's file, or the URL of the PostgreSQL database that `ledger.url` names."""
        try:
            return (self.root / "ledger.url").read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return self.ledger

    @property
    def id_file(self) -> Path:
        return self.root / "id"

    @property
    def key_file(self) -> Path:
        return self.root / "key"

    @property
    def source_file(self) -> Path:
        return self.root / "source"

    @property
    def log(self) -> Path:
        return self.root / "steward.log"

    @property
    def scratch(self) -> Path:
        """Where questions spill; a folder for each process."""
        return self.root / "scratch"

    @property
    def spill(self) -> Path:
        """Where registration spills, encrypted."""
        return self.root / "spill"

    @property
    def plain_spill_file(self) -> Path:
        """Names the folder outside, where a registration that the steward allowed to is spilling in
        plain."""
        return self.root / "spill.folder"

    @property
    def versions(self) -> Path:
        return self.root / "versions"

    def version(self, number: int) -> Path:
        return self.versions / f"{number:04d}"

    def installation_id(self) -> str:
        """Read the name of the ledger's head. Raises DitherError where nothing was registered."""
        try:
            return self.id_file.read_text().strip()
        except OSError:
            raise DitherError(
                f"nothing is registered in {self.root}: the data steward runs 'dither register "
                f"CATALOG' first"
            ) from None
