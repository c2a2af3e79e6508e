"""`dither verify`: check a certificate with the public key alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dither.cli.output import UNKNOWN_KEY, AsJson, print_json
from dither.cli.register import StateFolder
from dither.commands import write_command
from dither.errors import DitherError, ParameterError
from dither.publish import seal
from dither.publish.commitment import MAX_VALUES, opens
from dither.publish.signing import ensure_signing_key, list_known_keys
from dither.state import State
from dither.strict_json import MAX_CHARACTERS
from dither.surfaces import escape_label

_MOST_PROBLEMS = 100
_MOST_LETTERS = 400


def verify(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A certificate, as Result.certificate() or the option --certificate wrote it."
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(help="The curator's public key: 64 hex digits, or a file that holds them."),
    ] = None,
    show_key: Annotated[
        Path | None,
        typer.Option(
            "--show-key", help="Print the public key of this catalog's dataset, and stop."
        ),
    ] = None,
    values: Annotated[
        Path | None,
        typer.Option(help="Check that it is of these numbers: what --json printed with it."),
    ] = None,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Check a certificate. Exit code 0: intact, signed by a known key; 1: changed; 3: intact, but
    the key is unknown.

    Known keys are those given with --key, or else those of the datasets on this machine.
    """
    if show_key is not None:
        public_key = seal.public_hex(ensure_signing_key(State.beside(show_key, state)).public_key())
        if as_json:
            print_json({"public_key": public_key})
        else:
            typer.echo(public_key)
        return
    if file is None:
        raise ParameterError("say which certificate to check: dither verify certificate.json")
    verdict = seal.check(_read_file(file), [_read_key(text) for text in key] if key else ())
    if not key and verdict.key in list_known_keys():
        verdict = replace(verdict, has_known_key=True)
    if values is not None and verdict.body is not None:
        verdict = _check_values(verdict, verdict.body, values)
    if as_json:
        print_json(
            {
                "intact": verdict.intact,
                "known_key": verdict.has_known_key,
                "key": verdict.key,
                "problems": list(verdict.problems),
            }
        )
    else:
        for line in _describe(verdict, file, values):
            typer.echo(line)
    if not verdict.intact:
        raise typer.Exit(1)
    if not verdict.has_known_key:
        raise typer.Exit(UNKNOWN_KEY)


def _check_values(
    verdict: seal.SealVerdict, body: dict[str, Any], values: Path
) -> seal.SealVerdict:
    """Return the verdict on certificate and values together."""
    promised = body["values"]["commitment"] if "values" in body else ""
    if opens(_read_file(values, MAX_VALUES), promised):
        return verdict
    problem = "values: not the numbers that this certificate is of"
    return replace(verdict, problems=(problem,), body=None)


def _describe(verdict: seal.SealVerdict, file: Path, values: Path | None) -> Iterator[str]:
    """Yield the verdict in lines.

    What others wrote is escaped, so that it cannot draw on the terminal.
    """
    name = escape_label(str(file))
    if verdict.body is None:
        yield f"{name}: {typer.style('not what was signed', fg='red', bold=True)}"
        for problem in verdict.problems[:_MOST_PROBLEMS]:
            yield f"  {_shorten(escape_label(problem))}"
        if len(verdict.problems) > _MOST_PROBLEMS:
            more = len(verdict.problems) - _MOST_PROBLEMS
            yield f"  and {more} more: {write_command('verify', name, '--json')} lists them all"
        return
    yield f"{name}: intact, every field as signed"
    if values is not None:
        covered = "its columns are the numbers that it is of; nothing else in it is signed"
        yield f"  {escape_label(str(values))}: {covered}"
    yield f"  signed by {verdict.key}"
    yield f"  {escape_label(verdict.body['guarantee']['stated'])}"
    if not verdict.has_known_key:
        yield (
            "  no key was given, and none known here matches: ask the curator for theirs "
            "(dither verify --show-key CATALOG) and check again with --key"
        )


def _shorten(line: str) -> str:
    return line if len(line) <= _MOST_LETTERS else f"{line[:_MOST_LETTERS]} ..."


def _read_file(file: Path, most_characters: int = MAX_CHARACTERS) -> str:
    """Read the text of a file, cut where it is seen to be too long; empty where it is no UTF-8."""
    try:
        with file.open("rb") as opened:
            return opened.read(4 * most_characters + 4).decode("utf-8")
    except UnicodeDecodeError:
        return ""
    except OSError as error:
        raise DitherError(f"cannot read {file}: {error.strerror}") from None


def _read_key(text: str) -> str:
    """Return the key itself, or what the file of that name holds."""
    if re.fullmatch(r"[0-9A-Fa-f]{64}", text.strip()):
        return text
    try:
        return _read_file(Path(text))
    except (DitherError, ValueError):  # no such file: the check says what a key is
        return text
