"""`dither registry`: an entry for the public register, and a statement for reviewers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml

from dither import steward
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.register import CatalogFile, StateFolder
from dither.commands import name_catalog
from dither.errors import DitherError
from dither.publish.deployment import Deployment
from dither.publish.hazards import find_hazards
from dither.publish.registry import fill_entry
from dither.publish.registry_schema import find_problems, list_prompts, read_entry
from dither.publish.statement import write_statement
from dither.state import State
from dither.surfaces import escape_label

app = typer.Typer(
    name="registry",
    help="Say in public what was deployed: a register entry and a statement.",
    no_args_is_help=True,
)


def read_deployment(state: State) -> Deployment:
    """Collect the public facts of a dataset, from its registered catalog and its ledger."""
    catalog = steward.registered_catalog(state)
    ledger = steward.open_ledger(state)
    try:
        registered = ledger.registered()
        context = "prod" if registered is None else str(registered.public["context"])
        pots = ledger.pots(under_way=False)
        releases = tuple(ledger.history())
        incidents = ledger.incidents()
    finally:
        ledger.close()
    notes = steward.population_notes(state, catalog)
    return Deployment(catalog, context, pots, releases, incidents, notes)


@app.command()
def export(
    catalog: CatalogFile,
    to: Annotated[
        Path, typer.Option(help="The folder to write registry.yaml and statement.md into.")
    ] = Path(),
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Fill an entry for the OpenDP deployments registry and a statement in the shape of NIST SP
    800-226.

    What catalog and ledger know is filled in; what only a person knows is left as a prompt. Warns
    of known hazards.
    """
    facts = read_deployment(State.beside(catalog, state))
    filled = fill_entry(facts)
    warned = find_hazards(facts)
    prompts = list_prompts(filled)
    wrong = [problem for problem in find_problems(filled) if "PLEASE WRITE" not in problem]
    if as_json:
        documents = [
            {"name": hazard.name, "message": hazard.message, "ask": hazard.ask} for hazard in warned
        ]
        print_json(
            {
                "entry": filled,
                "statement": write_statement(facts),
                "hazards": documents,
                "problems": wrong,
                "prompts": dict(prompts),
            }
        )
        return
    to.mkdir(parents=True, exist_ok=True)
    (to / "registry.yaml").write_text(
        yaml.safe_dump(filled, sort_keys=False, allow_unicode=True, width=100)
    )
    (to / "statement.md").write_text(write_statement(facts))
    console = make_console()
    console.print(
        f"wrote {to / 'registry.yaml'} and {to / 'statement.md'}", highlight=False, soft_wrap=True
    )
    for hazard in warned:
        warning = name_catalog(str(hazard), catalog)
        console.print(warning, markup=False, highlight=False, soft_wrap=True)
    for line in wrong:
        console.print(f"does not fit the register's schema: {line}", markup=False, highlight=False)
    console.print(
        f"{len(prompts)} prompts are left for a person; then: dither registry check "
        f"{to / 'registry.yaml'}",
        highlight=False,
        soft_wrap=True,
    )


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A register entry, e.g. registry.yaml.")],
    as_json: AsJson = False,
) -> None:
    """Check a register entry against the schema, and list the prompts that are left. Exit code 1 if
    any."""
    try:
        open_problems = find_problems(read_entry(file.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise DitherError(f"cannot read {file}: {error}") from None
    # A date that is none, an integer without end, lists in lists.
    except (ValueError, RecursionError):
        raise DitherError(
            f"cannot read {file}: write it as 'dither registry export CATALOG' does"
        ) from None
    if as_json:
        print_json({"complete": not open_problems, "problems": open_problems})
    else:
        typer.echo(
            f"{escape_label(str(file))}: "
            + ("complete" if not open_problems else f"{len(open_problems)} things left")
        )
        for line in open_problems:
            typer.echo(f"  {escape_label(line)}")
    if open_problems:
        raise typer.Exit(1)
