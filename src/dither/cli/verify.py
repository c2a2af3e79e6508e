"""`dither verify`: check a certificate with the public key alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dither.answer import seal
from dither.answer.commitment import opens
from dither.cli.output import UNKNOWN_KEY, AsJson, print_json
from dither.cli.register import StateFolder
from dither.errors import DitherError, ParameterError
from dither.signing import known_keys, signing_key
from dither.state import State


def verify(
    file: Annotated[
        Path | None,
        typer.Argument(help="A certificate, as Result.certificate() or 'dither sql --certificate' wrote it."),
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="The curator's public key: 64 hex digits, or a file that holds them.")
    ] = None,
    show_key: Annotated[
        Path | None, typer.Option("--show-key", help="Print the public key of this catalog's dataset, and stop.")
    ] = None,
    values: Annotated[
        Path | None, typer.Option(help="Check that it is of these numbers: what 'dither sql --json' printed with it.")
    ] = None,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Check a certificate. Exit code 0: intact, signed by a known key; 1: changed; 3: intact, but the key is unknown.

    Known keys are those given with --key, or else those of the datasets on this machine.
    """
    if show_key is not None:
        shown = seal.public_hex(signing_key(State.beside(show_key, state)).public_key())
        if as_json:
            print_json({"public_key": shown})
        else:
            typer.echo(shown)
        return
    if file is None:
        raise ParameterError("say which certificate to check: dither verify certificate.json")
    verdict = seal.check(_read(file), [_key(each) for each in key] if key else ())
    if not key and verdict.key in known_keys():
        verdict = replace(verdict, known=True)
    if values is not None and verdict.intact and not opens(_read(values), _promised(file)):
        verdict = replace(verdict, problems=("values: not the numbers that this certificate is of",))
    unknown = verdict.intact and not verdict.known
    if as_json:
        print_json({"intact": verdict.intact, "known_key": verdict.known, "key": verdict.key,
                    "problems": list(verdict.problems)})  # fmt: skip
    else:
        _tell(file, verdict, unknown, values)
    if not verdict.intact:
        raise typer.Exit(1)
    if unknown:
        raise typer.Exit(UNKNOWN_KEY)


def _promised(file: Path) -> str:
    body = seal.parse(_read(file))["body"]
    return str(body["values"]["commitment"]) if "values" in body else ""


def _tell(file: Path, verdict: seal.Verdict, unknown: bool, values: Path | None) -> None:
    console = Console()
    if not verdict.intact:
        console.print(f"{file}: [bold red]not what was signed[/]", highlight=False)
        for problem in verdict.problems:
            console.print(f"  {problem}", markup=False, highlight=False, soft_wrap=True)
        return
    body = seal.parse(_read(file))["body"]
    console.print(f"{file}: intact, every field as signed", highlight=False)
    if values is not None:
        console.print(f"  {values}: the numbers that it is of", highlight=False)
    console.print(f"  signed by {verdict.key}", highlight=False, soft_wrap=True)
    console.print(f"  {body['guarantee']['stated']}", highlight=False, markup=False, soft_wrap=True)
    if unknown:
        console.print(
            "  no key was given, and none known here matches: ask the curator for theirs (dither verify --show-key "
            "CATALOG) and check again with --key",
            soft_wrap=True,
        )


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""
    except OSError as error:
        raise DitherError(f"cannot read {file}: {error.strerror}") from None


def _key(text: str) -> str:
    path = Path(text)
    return path.read_text().strip() if len(text) != 64 and path.is_file() else text
