"""`dither backup` and `dither restore`: ledger, keys and registered copies of one dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dither import steward
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.register import CatalogFile, StateFolder
from dither.errors import ParameterError
from dither.state import State

BackupFile = Annotated[Path, typer.Argument(help="The backup.")]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(help="A file whose first line is the passphrase; else it is asked for."),
]


def backup(
    catalog: CatalogFile,
    file: BackupFile,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Write ledger, keys and registered copies of a dataset into one file under a passphrase. The
    head is left out: keep it apart, so that a restore can tell whether anything is missing."""
    passphrase = read_passphrase(passphrase_file, is_new=True)
    entries = steward.make_backup(State.beside(catalog, state), file, passphrase)
    if as_json:
        print_json({"file": str(file), "entries": entries})
        return
    make_console().print(
        f"{file} has the ledger with {entries:,} entries, the keys and the registered copies; the "
        "catalog and the head are not in it",
        highlight=False,
        soft_wrap=True,
    )


def restore(
    file: BackupFile,
    catalog: CatalogFile,
    close_budgets: Annotated[
        bool,
        typer.Option(
            "--close-budgets",
            help="Where entries are missing, or the head: close every budget, for ever.",
        ),
    ] = False,
    ledger: Annotated[
        str | None, typer.Option(help="An empty PostgreSQL database for the ledger.")
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Bring a backup back beside its catalog. A ledger that is behind its head is refused, or its
    budgets are closed: what was spent since the backup cannot be spent again."""
    passphrase = read_passphrase(passphrase_file, is_new=False)
    restored = steward.restore_backup(
        file,
        State.beside(catalog, state),
        passphrase,
        ledger_url=ledger,
        close_budgets=close_budgets,
    )
    if as_json:
        print_json({"entries": restored.entries, "closed": restored.is_closed})
        return
    sentence = f"restored: the ledger has {restored.entries:,} entries and is the newest one"
    if restored.lost is not None:
        first, last = restored.lost
        end = "an unknown last one" if last is None else str(last)
        sentence = f"restored: entries {first} to {end} are lost, and every budget is closed"
    make_console().print(sentence, highlight=False, soft_wrap=True)


def read_passphrase(file: Path | None, *, is_new: bool) -> str:
    """The passphrase, from a file that others cannot read or from the terminal."""
    if file is None:
        return str(typer.prompt("passphrase", hide_input=True, confirmation_prompt=is_new))
    if file.stat().st_mode & 0o077:
        raise ParameterError(f"{file} can be read by others: chmod 600 it")
    lines = file.read_text(encoding="utf-8").splitlines()
    return lines[0] if lines else ""
