"""The data steward's acts: register data, open and raise pots, read what only the steward may see.

Reached from the command line alone. Registration writes a new version beside the one in use, syncs
it, renames it into place and only then tells the ledger: a killed registration leaves the old
version in use.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Literal

from dither.canonical import dumps
from dither.catalog import Catalog
from dither.catalog.file.load import load
from dither.catalog.storage import catalog_hash, from_json, to_json
from dither.data.engines.resources import Resources
from dither.data.engines.scratch import remove_spilled
from dither.data.register.placing import list_problems, place_copy
from dither.data.register.registration import Repairs, write_copy_and_facts
from dither.data.register.stages import COPYING
from dither.errors import DitherError, ParameterError, RefusedError
from dither.plan.facts import Facts
from dither.privacy.kernel.cores import no_core_dumps
from dither.privacy.kernel.uninterrupted import Uninterrupted
from dither.privacy.ledger import default_head_path, lineages
from dither.privacy.ledger.anchors import read_lines, write_line
from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.privacy.ledger.verify import Report, verify
from dither.privacy.noise import fresh_bytes
from dither.publish.signing import ensure_signing_key, forget_key, read_public_key
from dither.rules import PrivacyRule
from dither.state import State
from dither.steward.budgets import open_ledger, read_registered

Context = Literal["prod", "dev", "library"]


@dataclass(frozen=True)
class Registration:
    """What a registration did. `repairs` are true counts: for the steward's eyes, never for
    analysts."""

    catalog: Catalog
    version: int
    context: str
    repairs: tuple[Repairs, ...]


def register(
    catalog_file: Path,
    *,
    state: State | None = None,
    dev: bool = False,
    ledger_url: str | None = None,
    stage: Callable[[str], None] = lambda _: None,
    memory: str | None = None,
    spill: Path | None = None,
    share: Callable[[float], None] | None = None,
) -> Registration:
    """Register the data that the catalog names as the next version; above `memory` ("2GB") the
    engine spills.

    It spills encrypted into the state folder, or in plain into a folder inside `spill`, removed
    afterwards.
    """
    Resources(memory)  # refuses what is no amount of memory
    no_core_dumps()
    catalog = load(catalog_file)
    state = state or State.beside(catalog_file)
    folder = catalog_file.parent / catalog.source.location
    act = Act(catalog, folder, state, "dev" if dev else "prod", ledger_url)
    spilling = Spilling(memory, spill)
    try:
        return register_act(act, stage, spilling, share)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(act.describe_interrupt()) from None


@dataclass
class Act:
    """One registration: of what, and the version that it has recorded."""

    catalog: Catalog
    folder: Path
    state: State
    context: Context
    ledger_url: str | None = None
    recorded: int | None = None

    @cached_property
    def source_text(self) -> str:
        """What names the source: its path, or the server's own name for its tables."""
        if self.catalog.source.engine != "postgres":
            return str(self.folder.resolve())
        from dither.data.register.postgres.identity import identify_database

        return identify_database(self.catalog.source.location)

    def describe_interrupt(self) -> str:
        """What an interrupt left behind."""
        if self.recorded is None:
            return "stopped; nothing changed"
        return f"stopped; version {self.recorded} had been registered before the interrupt came"


def register_act(
    act: Act,
    stage: Callable[[str], None],
    spilling: Spilling,
    share: Callable[[float], None] | None,
) -> Registration:
    """Do a registration; an interrupt leaves either all of it or nothing."""
    if problems := list_problems(act.catalog):
        raise RefusedError(
            f"the engine {act.catalog.source.engine} cannot hold this catalog: {problems[0]}",
            rule=PrivacyRule.WIDTHS,
        )
    catalog = act.catalog
    state = act.state
    with _lock_registration(state):
        ledger = _open_or_create(state, act.ledger_url)
        try:
            before = ledger.registered()
            if before is not None and before.public["context"] != act.context:
                raise RefusedError(
                    f"this dataset was first registered as {before.public['context']} and stays "
                    f"so: "
                    "use another state folder for another purpose",
                    rule=PrivacyRule.DEV,
                )
            if act.context == "dev":
                # releases before wrote down the location of a server as it stood in the catalog
                for source in {act.source_text, catalog.source.location}:
                    lineages.check_never_prod(state.installation_id(), catalog.lineage, source)
            version = 1 if before is None else before.version + 1
            repairs, facts = _write_version(
                catalog, act.folder, state, version, stage, spilling, share
            )
            # nothing of it is interrupted: either all is recorded or nothing
            Uninterrupted().run(lambda: _record(act, ledger, version, facts, repairs))
        finally:
            ledger.close()
    return Registration(catalog, version, act.context, tuple(repairs))


def _record(
    act: Act, ledger: StewardLedger, version: int, facts: Facts, repairs: list[Repairs]
) -> None:
    """Make a written version the registered one."""
    catalog = act.catalog
    _write(act.state.source_file, act.source_text.encode())
    public = {"context": act.context, "lineage": catalog.lineage, "facts_hash": facts.hash}
    ledger.record_register(version, catalog_hash(catalog), public)
    act.recorded = version
    _log(act.state, version, repairs)


@dataclass(frozen=True)
class Spilling:
    """How much the engine may hold, and where the steward lets it spill in plain."""

    memory: str | None
    plain: Path | None

    def folder(self, state: State) -> Path:
        return (
            state.spill if self.plain is None else self.plain / f"dither-{state.installation_id()}"
        )


def _write_version(
    catalog: Catalog,
    folder: Path,
    state: State,
    version: int,
    stage: Callable[[str], None],
    spilling: Spilling,
    share: Callable[[float], None] | None,
) -> tuple[list[Repairs], Facts]:
    new = state.versions / "new"
    spill = spilling.folder(state)
    remove_spilled(state, has_lock=True)
    for leftover in (
        new,
        spill,
        state.version(version),
    ):  # of a registration that was killed before the ledger knew it
        shutil.rmtree(leftover, ignore_errors=True)
    state.versions.mkdir(mode=0o700, exist_ok=True)
    state.versions.chmod(0o700)  # of an earlier version, which left it open
    new.mkdir(mode=0o700)
    if spilling.plain is not None:
        _write(state.plain_spill_file, os.fsencode(spill.absolute()))
    spill.mkdir(mode=0o700)
    try:
        key = state.key_file.read_bytes()
        plain = spilling.plain is not None
        repairs, facts = write_copy_and_facts(
            catalog,
            folder,
            key,
            new / "data.duckdb",
            spill,
            stage,
            spilling.memory,
            share,
            plain_spill=plain,
        )
        _write(new / "catalog.json", dumps(to_json(catalog)).encode())
        _write(new / "facts.json", dumps(facts.to_json()).encode())
        os.chmod(new / "data.duckdb", 0o600)
        _sync(new / "data.duckdb")
        if not catalog.source.is_path:
            stage(COPYING)
            place_copy(
                catalog, new / "data.duckdb", name_copy(state.installation_id(), version), share
            )
        _sync(new)
        new.rename(state.version(version))
        _sync(state.versions)
        return repairs, facts
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(spill, ignore_errors=True)
        state.plain_spill_file.unlink(missing_ok=True)


def name_copy(installation: str, version: int) -> str:
    """Name the copy of a version on a server that may hold those of others."""
    return f"dither_{installation}_{version:04d}"


def _open_or_create(state: State, ledger_url: str | None) -> StewardLedger:
    """Open the dataset's ledger. The very first registration makes the installation's id, key and
    ledger."""
    registered = state.versions.exists() and any(state.versions.iterdir())
    if ledger_url is not None and state.ledger_location() != ledger_url:
        if registered or state.ledger.exists():
            raise RefusedError(
                "this dataset has its ledger already, elsewhere", rule=PrivacyRule.ROLLBACK
            )
        _write(state.root / "ledger.url", ledger_url.encode())
    is_file = not isinstance(state.ledger_location(), str)
    if not registered and (not is_file or not state.ledger.exists()):
        for path, content in (
            (state.id_file, fresh_bytes(16).hex().encode()),
            (state.key_file, fresh_bytes(32)),
        ):
            if not path.exists():
                _write(path, content)
        with suppress(
            RefusedError
        ):  # a registration that was killed here before left an empty ledger
            return open_ledger(state)
        return StewardLedger.create(
            state.ledger_location(), default_head_path(state.installation_id())
        )
    if is_file and not state.ledger.exists():
        raise RefusedError(
            f"{state.ledger} is gone but versions are left: restore it. "
            "A lost ledger does not give back what was spent",
            rule=PrivacyRule.FOLLOW_DATA,
        )
    if not state.key_file.exists():
        raise DitherError(
            f"{state.key_file} is gone: restore it. The key decides which rows stay and never "
            f"changes"
        )
    return open_ledger(state)


def registered_catalog(state: State) -> Catalog:
    """The catalog of the version in use."""
    folder = state.version(read_registered(state).version)
    return from_json(json.loads((folder / "catalog.json").read_text(encoding="utf-8")))


def verify_ledger(state: State, anchors_text: str = "") -> Report:
    """Recompute the chain, the pots and the commitments; needs no data.

    `anchors_text` holds lines of `anchor_line` that somebody else kept: every entry they name must
    be there.
    """
    anchors = read_lines(anchors_text)
    own_key = read_public_key(state)
    for signed in anchors:
        if signed.installation != state.installation_id():
            raise ParameterError(
                f"the anchor of {signed.written_at} is of another installation, "
                f"{signed.installation}"
            )
        if (
            signed.public_key != own_key
        ):  # else anyone who knows the installation could make a sound ledger look cut
            raise ParameterError(
                f"the anchor of {signed.written_at} was signed by another key, "
                f"{signed.public_key}, than this dataset's"
            )
    return verify(state.ledger_location(), default_head_path(state.installation_id()), anchors)


def anchor_line(state: State) -> str:
    """Sign a line that says how far the ledger has come, to be kept where this user cannot rewrite
    it."""
    ledger = open_ledger(state)
    try:
        anchor = ledger.newest_entry()
    finally:
        ledger.close()
    signed_at = datetime.now(UTC).replace(microsecond=0).isoformat()
    return write_line(state.installation_id(), anchor, signed_at, ensure_signing_key(state))


def forget_head(state: State) -> None:
    """Remove the head of a dev lineage whose folder is about to be thrown away."""
    if read_registered(state).public["context"] != "dev":
        raise RefusedError(
            "the head of a prod dataset is never removed", rule=PrivacyRule.FOLLOW_DATA
        )
    head = default_head_path(state.installation_id())
    for file in head.parent.glob(head.name + "*"):
        file.unlink(missing_ok=True)
    lineages.forget(state.installation_id())
    forget_key(state)


@contextmanager
def _lock_registration(state: State) -> Iterator[None]:
    """Lock the state folder for one registration at a time, and keep others from reading it."""
    state.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(state.root, 0o700)
    with os.fdopen(os.open(state.root / "lock", os.O_WRONLY | os.O_CREAT, 0o600), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DitherError(
                f"another registration is running in {state.root}: wait for it to end"
            ) from None
        yield


def _write(path: Path, content: bytes) -> None:
    """Write a file that is whole or absent, mode 0600."""
    beside = path.with_name(path.name + ".new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _log(state: State, version: int, repairs: list[Repairs]) -> None:
    """Append the true counts of repairs to the steward's own log, mode 0600, never shown to an
    analyst."""
    with os.fdopen(os.open(state.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as log:
        for table in repairs:
            for what, count in table.counts:
                log.write(
                    dumps({"version": version, "table": table.table, "what": what, "count": count})
                    + "\n"
                )
