"""`dither grant`: who has which role at which dataset, paid from which pots, and what for."""

from __future__ import annotations

from typing import Annotated

import typer

from dither.cli.acting import read_directory, record_act, report_act, show_rows
from dither.cli.output import AsJson
from dither.cli.token import Home
from dither.errors import ParameterError
from dither.identity.directory import GROUP, USER, Grant
from dither.identity.private_file import read_clock, write_expiry
from dither.privacy.noise.source import fresh_bytes

app = typer.Typer(
    name="grant",
    help="Grants: one role at one dataset, with budgets and a purpose.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command(
    epilog="Example: dither grant create clinic alice --pot total --purpose 'the winter report'"
)
def create(
    dataset: Annotated[str, typer.Argument(help="The dataset, by the name in its catalog.")],
    name: Annotated[str, typer.Argument(help="The user, or with --group the group.")],
    purpose: Annotated[str, typer.Option(help="What for, in a sentence.")],
    role: Annotated[
        str, typer.Option(help="analyst, auditor (reads, never asks), steward or admin.")
    ] = "analyst",
    pot: Annotated[
        list[str] | None, typer.Option(help="A budget that pays for questions; repeatable.")
    ] = None,
    group: Annotated[bool, typer.Option("--group", help="The name is that of a group.")] = False,
    days: Annotated[int, typer.Option(help="How long it lasts.", min=1, max=3660)] = 365,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Grant a role. An analyst asks from the granted budgets and no others."""
    body = {
        "act": "grant",
        "id": fresh_bytes(4).hex(),
        "dataset": dataset,
        "holder": (GROUP if group else USER) + name,
        "role": role,
        "pots": pot or [],
        "purpose": purpose,
        "expires": write_expiry(days),
    }
    act = record_act(home, body)
    report_act(act, f"grant {body['id']}: {name} is {role} of {dataset}", as_json)


@app.command("list", epilog="Example: dither grant list")
def list_all(home: Home = None, as_json: AsJson = False) -> None:
    """List all grants, ended ones too."""
    rows = [
        (
            grant.grant_id,
            grant.dataset,
            grant.holder,
            grant.role,
            ", ".join(grant.pots),
            grant.purpose,
            grant.expires,
            _describe_state(grant),
        )
        for grant in read_directory(home).grants.values()
    ]
    heads = ("grant", "dataset", "holder", "role", "budgets", "purpose", "until", "state")
    show_rows(heads, rows, as_json)


@app.command(epilog="Example: dither grant revoke 1f0c9a2b")
def revoke(
    grant: Annotated[str, typer.Argument(help="The grant, by its name in 'dither grant list'.")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """End a grant now, for ever."""
    listed = read_directory(home).grants.get(grant)
    if listed is None:
        raise ParameterError("there is no such grant: 'dither grant list' shows them")
    act = record_act(home, {"act": "end-grant", "id": grant, "dataset": listed.dataset})
    report_act(act, f"grant {grant} is ended", as_json)


@app.command(epilog="Example: dither grant acts")
def acts(home: Home = None, as_json: AsJson = False) -> None:
    """List every act on users, groups, grants and keys: who, when, what. Checks the hash chain."""
    from dither.canonical import dumps
    from dither.identity import ActLog, default_home

    log = ActLog(home or default_home())
    try:
        rows = [
            (str(act.seq), act.time, act.who, dumps(act.body), act.hash) for act in log.list_acts()
        ]
    finally:
        log.close()
    show_rows(("act", "time", "who", "what", "hash"), rows, as_json)


def _describe_state(grant: Grant) -> str:
    if grant.is_ended:
        return "ended"
    return "valid" if read_clock() < grant.expires else "expired"
