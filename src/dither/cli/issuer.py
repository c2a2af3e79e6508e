"""`dither issuer`: providers of single sign-on, by keys that are pinned here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dither.cli.acting import read_directory, record_act, report_act, show_rows
from dither.cli.output import AsJson
from dither.cli.token import Home
from dither.errors import DitherError, ParameterError
from dither.identity import default_home
from dither.identity.sessions import SessionStore
from dither.strict_json import read_document

app = typer.Typer(
    name="issuer",
    help="Issuers of single sign-on (OpenID Connect), by keys that are pinned here.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
Address = Annotated[str, typer.Argument(help="The issuer, as its tokens write it: https://...")]


@app.command(epilog="Example: dither issuer pin https://id.example.org dither --keys keys.json")
def pin(
    issuer: Address,
    audience: Annotated[str, typer.Argument(help="The client id of this platform there.")],
    keys: Annotated[Path, typer.Option(help="The issuer's JWK set, fetched by the steward.")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Pin the keys of an issuer; pinned again, the new keys take the place of the old ones."""
    try:
        from dither.identity.openid import check_keys
    except ImportError:
        raise DitherError("single sign-on needs pyjwt: pip install 'dither[server]'") from None
    document = read_document(keys.read_text(encoding="utf-8"), str(keys))
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not all(isinstance(key, dict) for key in entries):
        raise ParameterError(f"{keys} is no JWK set: it has a list called keys")
    body = {"act": "pin-issuer", "issuer": issuer, "audience": audience}
    act = record_act(home, {**body, "keys": check_keys(entries)})
    report_act(act, f"the keys of {issuer} are pinned", as_json)


@app.command("list", epilog="Example: dither issuer list")
def list_all(home: Home = None, as_json: AsJson = False) -> None:
    """List all issuers, ended ones too."""
    rows = [
        (
            issuer.issuer,
            issuer.audience,
            ", ".join(key["kid"] for key in issuer.keys),
            "ended" if issuer.is_ended else "pinned",
        )
        for issuer in read_directory(home).issuers.values()
    ]
    show_rows(("issuer", "audience", "keys", "state"), rows, as_json)


@app.command(epilog="Example: dither issuer revoke https://id.example.org")
def revoke(issuer: Address, home: Home = None, as_json: AsJson = False) -> None:
    """Accept no more sign-ons of an issuer, and end all sessions of its users."""
    act = record_act(home, {"act": "end-issuer", "issuer": issuer})
    sessions = SessionStore(home or default_home())
    for user in read_directory(home).users.values():
        if user.issuer == issuer:
            sessions.end_sessions(user.name)
    sessions.close()
    report_act(act, f"the issuer {issuer} is ended, and all sessions of its users", as_json)
