"""`dither local`: what a local collection would buy, before anyone is asked anything."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Annotated, Any

import typer

from dither.canonical import decimal_text
from dither.cli.output import AsJson, make_console, print_json
from dither.errors import ParameterError
from dither.local.choose import candidates, choose
from dither.local.heavy import best_search
from dither.local.search_limits import least_possible_count
from dither.local.simulate import SimulatedErrors, chart, measure
from dither.publish.shown_table import ShownTable

app = typer.Typer(
    name="local",
    help="Local differential privacy: reports that leave the device already private.",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Local differential privacy."""


@app.command()
def simulate(
    domain: Annotated[int, typer.Option(help="How many values a user may hold.")] = 64,
    epsilon: Annotated[
        list[str] | None, typer.Option(help="Loss of one report; give it several times.")
    ] = None,
    users: Annotated[
        list[int] | None, typer.Option(help="How many users; give it several times.")
    ] = None,
    oracle: Annotated[
        str, typer.Option(help="direct, hadamard, optimised_unary, subset, local_hash, or best.")
    ] = "best",
    report_bytes: Annotated[int | None, typer.Option(help="Largest report, in bytes.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write the picture to this file too (PNG, SVG or PDF).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how error falls with users and epsilon, measured on made-up people and by formula. Reads
    no data."""
    prices = epsilon or ["0.5", "1", "2", "4"]
    sizes = sorted(users or [1_000, 10_000, 100_000, 300_000])
    console = make_console(stderr=as_json)
    lines: dict[str, list[SimulatedErrors]] = {}
    for price in prices:
        if oracle == "best":
            chosen = choose(price, domain, report_bytes=report_bytes).oracle
        else:
            oracles = {row.oracle.type: row.oracle for row in candidates(price, domain)}
            if oracle not in oracles:
                raise ParameterError(
                    f"no oracle {oracle!r}: choose one of {', '.join(sorted(oracles))}, or best"
                )
            chosen = oracles[oracle]
        lines[f"epsilon {price}, delta 0, for one {chosen.unit} ({chosen.type})"] = [
            measure(chosen, size) for size in sizes
        ]
    heads = ("protocol", *(f"{size:,} users" for size in sizes))
    rows = tuple(
        (name, *(f"{point.measured:.3g} ({point.predicted:.3g})" for point in line))
        for name, line in lines.items()
    )
    title = "error of a share: measured (formula)"
    console.print(ShownTable(heads, rows, frozenset(range(1, len(heads))), title))
    console.print(chart(lines), highlight=False, markup=False)
    note = "Four times the users halve the error. Who reports, when and how often is not protected."
    console.print(note, soft_wrap=True)
    if plot is not None:
        from dither.local.plots import error_curves

        errors = {name: [point.measured for point in line] for name, line in lines.items()}
        error_curves(sizes, errors, ylabel="root mean squared error of a share").savefig(plot)
        console.print(f"wrote {plot}", soft_wrap=True)
    if as_json:
        documents = {name: [asdict(point) for point in line] for name, line in lines.items()}
        print_json({"error_of_a_share": documents, "picture": None if plot is None else str(plot)})


@app.command()
def search(
    bits: Annotated[
        int, typer.Option(help="Bits of a value: five for each letter of a word.")
    ] = 30,
    epsilon: Annotated[
        list[str] | None, typer.Option(help="Loss of one report; give it several times.")
    ] = None,
    users: Annotated[int, typer.Option(help="How many users will report.")] = 300_000,
    as_json: AsJson = False,
) -> None:
    """Show how many users must hold a value, such as a word, so that a search for frequent values
    finds it, and how many any search would need. Reads no data."""
    prices = epsilon or ["1", "2", "4"]
    documents = [_plan_search(price, bits, users) for price in prices]
    if as_json:
        print_json({"bits": bits, "users": users, "searches": documents})
        return
    console = make_console()
    heads = ("epsilon", "prefixes of so many bits", "found", "impossible")
    rows = tuple(
        (
            document["epsilon"],
            ", ".join(map(str, document["lengths"])),
            f"from {_write_share(document['found_from'], users)}",
            f"below {_write_share(document['impossible_below'], users)}",
        )
        for document in documents
    )
    title = f"values of {bits} bits, {users:,} users: how many must hold a value"
    console.print(ShownTable(heads, rows, frozenset({0}), title))
    note = (
        "found: with probability 0.9, by local.best_search; impossible: no protocol with one "
        "report of each user finds it with probability 0.9. delta 0, for one user."
    )
    console.print(note, soft_wrap=True)


def _plan_search(price: str, bits: int, users: int) -> dict[str, Any]:
    """The best search for a price, what it finds, and what no search finds, as plain data."""
    best = best_search(price, bits, users)
    return {
        "epsilon": decimal_text(Fraction(best.epsilon), up=True),
        "lengths": list(best.lengths),
        "found_from": ceil(best.smallest_count(users)),
        "impossible_below": floor(least_possible_count(price, bits, users)),
    }


def _write_share(count: int, users: int) -> str:
    """A count of users and their share in percent."""
    share = decimal_text(Fraction(round(1000 * Fraction(count, users)), 10))
    return f"{count:,} users ({share}%)"
