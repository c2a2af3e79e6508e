"""`dither preview` and `dither sql`: what a question costs, and its answer."""

from __future__ import annotations

import csv
import json
import sys
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from dither import connect
from dither.cli.register import CatalogFile, StateFolder

Question = Annotated[str, typer.Argument(help="The question, in SQL.")]
Epsilon = Annotated[str, typer.Option(help="The price: the most that this question may cost.")]
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
    epsilon: Epsilon,
    confidence: Confidence = "0.95",
    pot: Pot = "total",
    state: StateFolder = None,
) -> None:
    """Show price and error of a question. Reads no data and spends nothing."""
    Console().print(connect(catalog, pot=pot, state=state).preview(question, epsilon=epsilon, confidence=confidence))


def sql(
    catalog: CatalogFile,
    question: Question,
    epsilon: Epsilon,
    confidence: Confidence = "0.95",
    pot: Pot = "total",
    output: Annotated[Format, typer.Option("--format", help="How to print the answer.")] = Format.table,
    state: StateFolder = None,
) -> None:
    """Ask a question and pay for it from a pot."""
    result = connect(catalog, pot=pot, state=state).sql(question, epsilon=epsilon, confidence=confidence)
    if output is Format.table:
        Console().print(result)
    elif output is Format.csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(column.name for column in result.columns)
        writer.writerows(row.values() for row in result.to_arrow().to_pylist())
    else:
        print(json.dumps({"columns": result.to_dict(), "info": result.info}, default=str))
