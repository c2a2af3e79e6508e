"""`dither user`: the people whom a curator knows."""

from __future__ import annotations

from typing import Annotated

import typer

from dither.cli.acting import read_directory, record_act, report_act, show_rows
from dither.cli.output import AsJson
from dither.cli.token import Home

app = typer.Typer(
    name="user",
    help="Users: people whom grants, groups and tokens name.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
UserName = Annotated[str, typer.Argument(help="The name of the user.")]


@app.command(epilog="Example: dither user create alice")
def create(
    name: UserName,
    issuer: Annotated[
        str | None, typer.Option(help="Single sign-on: the issuer of the account.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="Single sign-on: the account's subject, never its e-mail.")
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Make a user, who may do nothing until there is a grant."""
    body = {"act": "user", "name": name, "issuer": issuer, "subject": subject}
    report_act(record_act(home, body), f"user {name} is made; next: dither grant create", as_json)


@app.command("list", epilog="Example: dither user list")
def list_all(home: Home = None, as_json: AsJson = False) -> None:
    """List all users, ended ones too."""
    directory = read_directory(home)
    rows = [
        (
            user.name,
            user.issuer or "",
            user.subject or "",
            ", ".join(sorted(g.name for g in directory.groups.values() if user.name in g.members)),
            "ended" if user.is_ended else "active",
        )
        for user in directory.users.values()
    ]
    show_rows(("user", "issuer", "subject", "groups", "state"), rows, as_json)


@app.command(epilog="Example: dither user revoke alice")
def revoke(name: UserName, home: Home = None, as_json: AsJson = False) -> None:
    """End a user for ever, with all tokens and sessions of that name, at once."""
    act = record_act(home, {"act": "end-user", "name": name})
    report_act(act, f"user {name} is ended", as_json)
