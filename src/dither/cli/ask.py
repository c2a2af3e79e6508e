"""`dither preview`, `dither sql`, `dither reissue`: what a question costs, and its answer."""

from __future__ import annotations

import csv
import json
import sys
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from dither import connect, steward
from dither.answer.explain import Explanation
from dither.cli.register import CatalogFile, StateFolder
from dither.state import State

Question = Annotated[str, typer.Argument(help="The question, in SQL.")]
Epsilon = Annotated[str | None, typer.Option(help="The price: the most that this question may cost.")]
Rho = Annotated[str | None, typer.Option(help="The price in rho, for zCDP and RDP pots.")]
Confidence = Annotated[str, typer.Option(help="The level of the intervals.")]
Pot = Annotated[str, typer.Option(help="The pot that pays.")]


class Format(StrEnum):
    """How an answer is printed."""

    table = "table"
    csv = "csv"
    json = "json"


def preview(
    catalog: CatalogFile,
    question: Question,
    epsilon: Epsilon = None,
    rho: Rho = None,
    confidence: Confidence = "0.95",
    pot: Pot = "total",
    state: StateFolder = None,
) -> None:
    """Show price and error of a question. Reads no data and spends nothing."""
    con = connect(catalog, pot=pot, state=state)
    Console().print(con.preview(question, epsilon=epsilon, rho=rho, confidence=confidence))


def sql(
    catalog: CatalogFile,
    question: Question,
    epsilon: Epsilon = None,
    rho: Rho = None,
    confidence: Confidence = "0.95",
    pot: Pot = "total",
    output: Annotated[Format, typer.Option("--format", help="How to print the answer.")] = Format.table,
    fresh: Annotated[bool, typer.Option(help="Buy a new answer to a question that was asked before.")] = False,
    state: StateFolder = None,
) -> None:
    """Ask a question and pay for it from a pot. Asked again at the same price, it is free and has the same answer."""
    con = connect(catalog, pot=pot, state=state)
    result = con.sql(question, epsilon=epsilon, rho=rho, confidence=confidence, fresh=fresh)
    if output is Format.table or isinstance(result, Explanation):
        Console().print(result)
    elif output is Format.csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(column.name for column in result.columns)
        writer.writerows(row.values() for row in result.to_arrow().to_pylist())
    else:
        print(json.dumps({"columns": result.to_dict(), "info": result.info}, default=str))


def reissue(
    catalog: CatalogFile,
    release: Annotated[int, typer.Argument(help="The release that was wrong, by its number in 'dither history'.")],
    question: Question,
    note: Annotated[str, typer.Option(help="What was wrong, in a sentence, from releases and public facts alone.")],
    epsilon: Epsilon = None,
    rho: Rho = None,
    pot: Pot = "total",
    state: StateFolder = None,
) -> None:
    """For the steward: answer again what was answered wrongly, out of the reserve inside the pot's ceiling."""
    request = connect(catalog, pot=pot, state=state).request(question, epsilon=epsilon, rho=rho)
    done = steward.reissue(State.beside(catalog, state), request, release, note)
    Console().print(f"release {done.release_id} supersedes {release}; 'dither sql' with the same question shows it")
