"""`dither user`: the people whom a curator knows."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dither.cli.acting import read_directory, record_act, report_act, show_rows
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.token import Home
from dither.errors import DitherError
from dither.identity import Authority, default_home
from dither.identity.sessions import SessionStore

if TYPE_CHECKING:
    from dither.identity.logins import Logins

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
    report_act(
        record_act(home, body), f"user {name} is made; next: dither grant create --help", as_json
    )


@app.command(epilog="Example: dither user password alice")
def password(
    name: UserName,
    text: Annotated[
        str | None,
        typer.Option(
            "--password",
            help="Leave it out to be asked: others can read the arguments of a command.",
        ),
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Set the password of a user for the console; all sessions of the user end."""
    chosen = text or typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    with open_logins(home) as logins:
        logins.set_password(name, chosen, f"local:{getpass.getuser()}")
    sentence = f"the password of {name} is set, and all sessions of {name} are ended"
    if as_json:
        print_json({"name": name})
    else:
        make_console().print(sentence, highlight=False, soft_wrap=True)


@app.command(epilog="Example: dither user sessions")
def sessions(home: Home = None, as_json: AsJson = False) -> None:
    """List all sessions without their secrets."""
    store = SessionStore(home or default_home())
    rows = [
        (
            session.session_id,
            session.user,
            session.created,
            session.expires,
            "valid" if session.is_valid else "ended",
        )
        for session in store.list_sessions()
    ]
    store.close()
    show_rows(("session", "user", "since", "until", "state"), rows, as_json)


@app.command("end-session", epilog="Example: dither user end-session 0123456789abcdef")
def end_session(
    session: Annotated[str, typer.Argument(help="The session, as 'dither user sessions' lists.")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """End a session now; its token is refused from then on."""
    store = SessionStore(home or default_home())
    store.end_session(session)
    store.close()
    if as_json:
        print_json({"ended": session})
    else:
        make_console().print(f"session {session} is ended", highlight=False)


@contextmanager
def open_logins(home: Path | None) -> Iterator[Logins]:
    """The passwords of a curator's users; says which extra is missing, where one is."""
    try:
        from dither.identity.logins import Logins
    except ImportError:
        raise DitherError("passwords need argon2-cffi: pip install 'dither[server]'") from None
    authority = Authority(home or default_home())
    logins = Logins(authority)
    try:
        yield logins
    finally:
        logins.close()
        authority.close()


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
