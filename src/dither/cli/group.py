"""`dither group`: users who are granted something together."""

from __future__ import annotations

from typing import Annotated

import typer

from dither.cli.acting import read_directory, record_act, report_act, show_rows
from dither.cli.output import AsJson
from dither.cli.token import Home
from dither.cli.user import UserName

app = typer.Typer(
    name="group",
    help="Groups: users who are granted something together.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
GroupName = Annotated[str, typer.Argument(help="The name of the group.")]


@app.command(epilog="Example: dither group create wards")
def create(group: GroupName, home: Home = None, as_json: AsJson = False) -> None:
    """Make a group without members."""
    act = record_act(home, {"act": "group", "name": group})
    report_act(act, f"group {group} is made", as_json)


@app.command(epilog="Example: dither group add wards alice")
def add(group: GroupName, user: UserName, home: Home = None, as_json: AsJson = False) -> None:
    """Add a user to a group. Refused where that would give two roles at one dataset."""
    act = record_act(home, {"act": "join", "group": group, "user": user})
    report_act(act, f"{user} is in {group}", as_json)


@app.command(epilog="Example: dither group remove wards alice")
def remove(group: GroupName, user: UserName, home: Home = None, as_json: AsJson = False) -> None:
    """Take a user out of a group, at once."""
    act = record_act(home, {"act": "leave", "group": group, "user": user})
    report_act(act, f"{user} is no longer in {group}", as_json)


@app.command("list", epilog="Example: dither group list")
def list_all(home: Home = None, as_json: AsJson = False) -> None:
    """List all groups with their members, ended ones too."""
    rows = [
        (
            group.name,
            ", ".join(sorted(group.members)),
            "ended" if group.is_ended else "active",
        )
        for group in read_directory(home).groups.values()
    ]
    show_rows(("group", "members", "state"), rows, as_json)


@app.command(epilog="Example: dither group revoke wards")
def revoke(group: GroupName, home: Home = None, as_json: AsJson = False) -> None:
    """End a group for ever; its grants end with it."""
    act = record_act(home, {"act": "end-group", "name": group})
    report_act(act, f"group {group} is ended", as_json)
