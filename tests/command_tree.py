"""Every command of the command line, with the words that call it."""

from __future__ import annotations

import click
import typer

from dither.cli.main import app


def list_commands(command: click.Command, words: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    """The words after `dither` and the command, for each command that has no commands inside it."""
    inner = getattr(command, "commands", {})
    if not inner:
        return [(words, command)]
    return [pair for name, sub in inner.items() for pair in list_commands(sub, (*words, name))]


COMMANDS = list_commands(typer.main.get_command(app))
