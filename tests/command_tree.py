"""Every command of the command line, with the words that call it."""

from __future__ import annotations

import click
import typer

from dither.cli.main import app


def list_commands(
    command: click.Command, words: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], click.Command]]:
    """The words after `dither` and the command, for each command that has no commands inside it."""
    if not hasattr(command, "list_commands"):
        return [(words, command)]
    context = click.Context(command)
    names = command.list_commands(context)
    return [
        pair
        for name in names
        for pair in list_commands(command.get_command(context, name), (*words, name))
    ]


COMMANDS = list_commands(typer.main.get_command(app))
