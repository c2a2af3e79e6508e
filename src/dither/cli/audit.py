"""`dither audit`: try to break a promise, ours or anyone's. Never reads a registered dataset.

dither audit mechanisms --report audit.html
dither audit zoo --quick
dither audit function mine.py:answer --first '[1, 0]' --second '[0, 0]' --epsilon 1
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from dither.accounting.expressions import write_expression
from dither.audit.accountant import audit_accountant
from dither.audit.alpha_budget import next_share
from dither.audit.figures import write_power
from dither.audit.report import Section, finite, write
from dither.audit.shipped_mechanisms import Subject, subjects
from dither.audit.zoo import ALPHA, BUGS, Bug, Catch
from dither.cli.audit_function import function
from dither.cli.audit_generators import generators
from dither.cli.audit_leakage import leakage
from dither.cli.audit_output import (
    Alpha,
    Report,
    Year,
    say_written,
    show_limits,
    write_verdict_row,
)
from dither.cli.audit_system import system
from dither.cli.output import AsJson, make_console, print_json
from dither.errors import ParameterError
from dither.figures import write_bound
from dither.publish.shown_table import ShownTable

app = typer.Typer(
    name="audit",
    help="Try to break a promise: ours, or a function of your own.",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Audits."""


app.command()(function)
app.command()(generators)
app.command()(leakage)
app.command()(system)


@app.command()
def mechanisms(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which mechanisms; all by default.")
    ] = None,
    runs: Annotated[
        int, typer.Option(help="Runs on each of two neighbours, where many can be drawn at once.")
    ] = 200_000,
    slow_runs: Annotated[int, typer.Option(help="Runs where each is one call.")] = 2_000,
    alpha: Alpha = ALPHA,
    year: Year = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Test every shipped mechanism against its whole claimed curve. Exit status 1 if one is
    refuted."""
    console = make_console(stderr=as_json)
    by_name = {subject.name: subject for subject in subjects()}
    for name in names or []:
        if name not in by_name:
            raise ParameterError(f"no mechanism {name!r}: choose among {', '.join(by_name)}")
    chosen = [by_name[name] for name in names] if names else list(by_name.values())
    if year is not None:
        alpha = next_share(year, alpha * len(chosen)) / len(
            chosen
        )  # one share of the year for all of them
    verdicts = [
        subject.audit(runs if subject.vectorised else slow_runs, alpha)
        for subject in track(chosen, description="auditing", console=console, transient=True)
    ]
    heads = ("mechanism", "claimed", "delta", "shown", "ceiling", "runs", "verdict")
    figures = frozenset(range(1, len(heads) - 1))
    console.print(ShownTable(heads, tuple(tuple(write_verdict_row(v)) for v in verdicts), figures))
    console.print(
        "epsilon claimed, epsilon shown at least, and the most that so many runs could show",
        style="dim",
    )
    show_limits(console)
    if report is not None:
        head = (
            "mechanism",
            "claimed epsilon",
            "delta",
            "shown at least",
            "ceiling",
            "runs",
            "verdict",
        )
        text = (
            f"A mechanism that keeps its claim is accused with probability at most "
            f"{write_bound(alpha, up=True)} for each test.",
        )
        rows = tuple(write_verdict_row(verdict) for verdict in verdicts)
        say_written(
            console,
            write(
                report,
                "Audit of the mechanisms",
                [Section("Mechanisms", text, head, rows, tuple(verdicts))],
            ),
        )
    accused = [verdict.name for verdict in verdicts if verdict.violated]
    console.print(_summarise(accused, len(verdicts), alpha), soft_wrap=True)
    if as_json:
        documents = [verdict.to_json() for verdict in verdicts]
        print_json(finite({"accused": accused, "alpha": alpha, "verdicts": documents}))
    raise typer.Exit(1 if accused else 0)


@app.command()
def zoo(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which bugs; all, and all of ours, by default.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer runs of our own mechanisms; under 50 seconds.")
    ] = False,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Catch every planted bug, accuse none of our own mechanisms. Exit status 1 if a bug escapes or
    ours is accused."""
    console = make_console(stderr=as_json)
    for name in names or []:
        if name not in BUGS:
            raise ParameterError(f"no bug {name!r}: choose among {', '.join(BUGS)}")
    chosen = [BUGS[name] for name in names] if names else list(BUGS.values())
    catches = [
        (bug, bug.catch())
        for bug in track(chosen, description="catching", console=console, transient=True)
    ]
    _show_catches(console, catches, why=bool(names))
    fast, slow = (20_000, 300) if quick else (200_000, 2_000)
    own_mechanisms: list[Subject] = [] if names else subjects()
    verdicts = [
        subject.audit(fast if subject.vectorised else slow, ALPHA)
        for subject in track(own_mechanisms, description="our own", console=console, transient=True)
    ]
    accused = [verdict.name for verdict in verdicts if verdict.violated]
    escaped = [bug.name for bug, catch in catches if not catch.caught]
    show_limits(console)
    if report is not None:
        rows = tuple(_make_catch_row(bug, catch) for bug, catch in catches)
        catch_verdicts = tuple(catch.verdict for _, catch in catches if catch.verdict is not None)
        sections = [
            Section(
                "Planted bugs",
                ("Every bug keeps its real parameters.",),
                _CATCH_HEAD,
                rows,
                catch_verdicts,
            ),
            Section(
                "Our own mechanisms",
                (_summarise(accused, len(verdicts), ALPHA),),
                verdicts=tuple(verdicts),
            ),
        ]
        say_written(console, write(report, "Audit zoo", sections))
    line = f"zoo: {len(catches) - len(escaped)} of {len(catches)} bugs caught"
    line += f" (escaped: {', '.join(escaped)})" if escaped else ""
    console.print(
        f"{line}; {_summarise(accused, len(verdicts), ALPHA)}" if own_mechanisms else line,
        soft_wrap=True,
    )
    if as_json:
        bugs = [
            dict(zip(_CATCH_HEAD, _make_catch_row(bug, catch), strict=True))
            for bug, catch in catches
        ]
        own_documents = [verdict.to_json() for verdict in verdicts]
        print_json(
            finite(
                {"escaped": escaped, "accused": accused, "bugs": bugs, "verdicts": own_documents}
            )
        )
    raise typer.Exit(1 if accused or escaped else 0)


@app.command()
def accountant(
    compositions: Annotated[int, typer.Option(help="How many random compositions.")] = 20,
    runs: Annotated[int, typer.Option(help="Draws of the privacy loss on each side.")] = 200_000,
    alpha: Alpha = 1e-6,
    as_json: AsJson = False,
) -> None:
    """Draw the loss of random compositions and compare with what the accountant says. Exit status 1
    if refuted."""
    console = make_console(stderr=as_json)
    claims = audit_accountant(compositions, runs=runs, alpha=alpha)
    heads = ("composition", "epsilon", "accountant's delta", "shown at least")
    rows = tuple(
        (
            write_expression(claim.loss),
            write_bound(claim.epsilon),
            write_bound(claim.claimed, up=True),
            write_bound(claim.shown),
        )
        for claim in claims
    )
    console.print(ShownTable(heads, rows, frozenset({1, 2, 3})))
    refuted = sum(claim.refuted for claim in claims)
    console.print(
        f"{refuted} of {len(claims)} claims refuted; false alarms at most "
        f"{write_bound(alpha, up=True)}",
        soft_wrap=True,
    )
    if as_json:
        documents = [
            {
                "loss": claim.loss.to_json(),
                "epsilon": claim.epsilon,
                "claimed_delta": claim.claimed,
                "shown_delta": claim.shown,
                "refuted": claim.refuted,
            }
            for claim in claims
        ]
        print_json(finite({"refuted": refuted, "alpha": alpha, "claims": documents}))
    raise typer.Exit(1 if refuted else 0)


_CATCH_HEAD = (
    "bug",
    "what",
    "origin",
    "claim",
    "detector",
    "runs",
    "alpha",
    "power",
    "black box needs",
    "caught",
    "evidence",
)


def _make_catch_row(bug: Bug, catch: Catch) -> tuple[str, ...]:
    """Write the row of a bug of the zoo: what it is, and how it was caught."""
    drawn = (
        (f"{catch.runs:,}", write_bound(catch.alpha, up=True), write_power(catch.power))
        if catch.runs
        else ("-", "-", "certain")
    )
    return (
        bug.name,
        bug.what,
        bug.origin,
        bug.claim,
        bug.detector,
        *drawn,
        catch.needs,
        "yes" if catch.caught else "NO",
        catch.evidence,
    )


def _show_catches(console: Console, catches: list[tuple[Bug, Catch]], *, why: bool) -> None:
    """Print a table where there is room, else a few lines for each bug.

    With `why`, also what is wrong and how it shows.
    """
    names = ("bug", "detector", "claim", "runs", "alpha", "power", "black box needs", "caught")
    rows = []
    for bug, catch in catches:
        row = dict(zip(_CATCH_HEAD, _make_catch_row(bug, catch), strict=True))
        rows.append(tuple(row[name] for name in names))
        if why or console.width < 140:
            runs = (
                f"{catch.runs:,} runs a side, alpha {row['alpha']}, power {row['power']}"
                if catch.runs
                else "certain"
            )
            state = "caught" if catch.caught else "NOT CAUGHT"
            line = f"{bug.name}: {state} by {bug.detector} ({runs}); claim {bug.claim}"
            needs = "" if catch.runs else f"; a black box would need: {catch.needs}"
            console.print(line + needs, soft_wrap=True, highlight=False, markup=False)
        if why:
            explanation = f"  {bug.what} ({bug.origin}). {catch.evidence}"
            console.print(explanation, soft_wrap=True, highlight=False, markup=False)
    if not why and console.width >= 140:
        console.print(ShownTable(names, tuple(rows), frozenset({3, 4, 5})))


def _summarise(accused: list[str], tested: int, alpha: float) -> str:
    rate = f"chance of any false alarm at most {write_bound(min(1.0, alpha * tested), up=True)}"
    named = f" (accused: {', '.join(accused)})" if accused else ""
    return f"{tested - len(accused)} of {tested} of our mechanisms not accused{named}, {rate}"
