"""`dither steward-key`: the keys whose signatures move the limits of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dither.cli.acting import read_directory, record_act, report_act, show_rows
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.token import Home
from dither.identity.signed_acts import create_key_file

app = typer.Typer(
    name="steward-key",
    help="Steward keys: whose signatures move the limits of a dataset.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
Dataset = Annotated[str, typer.Argument(help="The dataset, by the name in its catalog.")]
PublicKey = Annotated[str, typer.Argument(help="The public key: 64 hex digits.")]


@app.command(epilog="Example: dither steward-key create steward.key")
def create(
    file: Annotated[Path, typer.Argument(help="A new file for the secret key, mode 0600.")],
    as_json: AsJson = False,
) -> None:
    """Make a key on the steward's own machine, and print its public half."""
    public_key = create_key_file(file)
    if as_json:
        print_json({"file": str(file), "public_key": public_key})
        return
    make_console(stderr=True).print(
        f"the secret stays in {file}; pin the public key on the curator's machine "
        "('dither steward-key pin --help'):",
        highlight=False,
        soft_wrap=True,
    )
    typer.echo(public_key)


@app.command(epilog="Example: dither steward-key pin clinic ann PUBLIC_KEY")
def pin(
    dataset: Dataset,
    name: Annotated[str, typer.Argument(help="Whose key it is.")],
    public_key: PublicKey,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Let acts signed by this key move the limits of a dataset. On the curator's machine."""
    body = {"act": "pin-key", "name": name, "dataset": dataset, "public_key": public_key}
    report_act(record_act(home, body), f"the key of {name} is pinned for {dataset}", as_json)


@app.command(epilog="Example: dither steward-key rotate clinic OLD_KEY NEW_KEY")
def rotate(
    dataset: Dataset,
    old: PublicKey,
    new: PublicKey,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Put a new key in place of an old one, at once. On the curator's machine."""
    body = {"act": "rotate-key", "dataset": dataset, "old": old, "new": new}
    report_act(record_act(home, body), f"a key of {dataset} is replaced", as_json)


@app.command(epilog="Example: dither steward-key revoke clinic PUBLIC_KEY")
def revoke(
    dataset: Dataset, public_key: PublicKey, home: Home = None, as_json: AsJson = False
) -> None:
    """End a key now, for ever. On the curator's machine."""
    act = record_act(home, {"act": "end-key", "dataset": dataset, "public_key": public_key})
    report_act(act, f"a key of {dataset} is ended", as_json)


@app.command("list", epilog="Example: dither steward-key list")
def list_all(home: Home = None, as_json: AsJson = False) -> None:
    """List all pinned keys, ended ones too."""
    rows = [
        (key.dataset, key.name, key.public_key, "ended" if key.is_ended else "pinned")
        for key in read_directory(home).steward_keys.values()
    ]
    show_rows(("dataset", "name", "public key", "state"), rows, as_json)
