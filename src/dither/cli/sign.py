"""`dither sign`: a steward's signature under an act, made on the steward's own machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dither.canonical import dumps
from dither.cli.output import AsJson, make_console, print_json
from dither.identity.signed_acts import MOST_HOURS, read_key_file, sign_act
from dither.strict_json import read_document


def sign(
    act: Annotated[Path, typer.Argument(help="The draft of the act, as JSON.")],
    key: Annotated[Path, typer.Option(help="The steward's key file.")],
    hours: Annotated[
        int, typer.Option(help="How long the signature can be used.", min=1, max=MOST_HOURS)
    ] = 24,
    as_json: AsJson = False,
) -> None:
    """Sign an act that moves a limit or a role. Read what is shown before you deliver it."""
    draft = read_document(act.read_text(encoding="utf-8"), str(act))
    signed = sign_act(draft, read_key_file(key), hours)
    if not as_json:
        body = signed["act"]
        make_console(stderr=True).print(
            f"signed, until {body['expires']}: {body['kind']} of {body['dataset']}, "
            f"{dumps(body['terms'])}",
            highlight=False,
            soft_wrap=True,
        )
    print_json(signed)
