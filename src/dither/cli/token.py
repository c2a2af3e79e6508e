"""`dither token`: who may ask a served dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dither.cli.acting import record_act
from dither.cli.output import AsJson, make_console, print_json
from dither.identity import Token, TokenStore, default_home
from dither.publish.shown_table import ShownTable

app = typer.Typer(
    name="token",
    help="Tokens: who may ask a served dataset, in which role and from which budgets.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
Home = Annotated[
    Path | None,
    typer.Option(
        help="The curator's folder, with its tokens; by default in the state folder of the user."
    ),
]


@app.command(epilog="Example: dither token create clinic alice --pot total --days 90")
def create(
    dataset: Annotated[str, typer.Argument(help="The dataset, by the name in its catalog.")],
    name: Annotated[str, typer.Argument(help="Whom the token is for.")],
    role: Annotated[
        str, typer.Option(help="analyst, auditor (reads, never asks), steward or admin.")
    ] = "analyst",
    pot: Annotated[
        list[str] | None, typer.Option(help="A budget that pays for its questions; repeatable.")
    ] = None,
    days: Annotated[int, typer.Option(help="How long it lasts.", min=1, max=3660)] = 90,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it. It is stored as a hash: nobody can print it again."""
    store = TokenStore(home or default_home())
    text, token = store.create_token(name, dataset, role, tuple(pot or ["total"]), days)
    body = {"act": "token", "id": token.token_id, "name": name, "dataset": dataset, "role": role}
    try:
        record_act(home, {**body, "pots": list(token.pots), "expires": token.expires})
    except BaseException:
        store.revoke_token(token.token_id)
        raise
    if as_json:
        print_json({"token": text, **_describe(token)})
        return
    make_console(stderr=True).print(
        f"token {token.token_id} for {name}, {role} of {dataset}, until {token.expires}; shown "
        "this once:",
        highlight=False,
        soft_wrap=True,
    )
    typer.echo(text)


@app.command("list", epilog="Example: dither token list")
def list_all(home: Home = None, as_json: AsJson = False) -> None:
    """List all tokens without their secrets."""
    tokens = TokenStore(home or default_home()).list_tokens()
    if as_json:
        print_json([_describe(token) for token in tokens])
        return
    heads = ("token", "for", "dataset", "role", "budgets", "until", "state")
    rows = tuple(
        (
            token.token_id,
            token.name,
            token.dataset,
            token.role,
            ", ".join(token.pots),
            token.expires,
            _describe_state(token),
        )
        for token in tokens
    )
    make_console().print(ShownTable(heads, rows))


@app.command(epilog="Example: dither token revoke 1f0c9a2b")
def revoke(
    token: Annotated[str, typer.Argument(help="The token, by its name in 'dither token list'.")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """End a token now, for ever."""
    TokenStore(home or default_home()).revoke_token(token)
    record_act(home, {"act": "end-token", "id": token})
    if as_json:
        print_json({"revoked": token})
        return
    make_console().print(f"token {token} is revoked", highlight=False)


def _describe(token: Token) -> dict[str, object]:
    return {
        "id": token.token_id,
        "name": token.name,
        "dataset": token.dataset,
        "role": token.role,
        "pots": list(token.pots),
        "created": token.created,
        "expires": token.expires,
        "state": _describe_state(token),
    }


def _describe_state(token: Token) -> str:
    if token.revoked is not None:
        return f"revoked {token.revoked}"
    return "valid" if token.is_valid else "expired"
