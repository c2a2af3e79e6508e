"""`dither preview`, `dither sql`, `dither reissue`: what a question costs, and its answer."""

from __future__ import annotations

import csv
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dither import Connection, connect, steward
from dither.answer.documents import describe_preview
from dither.answer.explain import strip_explain_prefix
from dither.answer.explained_result import ExplainedResult
from dither.cli.large_epsilon import Yes, check_epsilon, check_rho
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.register import CatalogFile, StateFolder
from dither.errors import ParameterError
from dither.sql.dialects import read_dialect
from dither.state import State
from dither.surfaces import escape_csv

Question = Annotated[str, typer.Argument(help="The question, in SQL.")]
Epsilon = Annotated[
    str | None, typer.Option(help="The price: the most that this question may cost.")
]
Rho = Annotated[str | None, typer.Option(help="The price in rho, for zCDP and RDP budgets.")]
Within = Annotated[
    list[str] | None,
    typer.Option(
        help="In place of a price: the half-width wanted, or COLUMN=WIDTH, repeatable; "
        "finds the least price."
    ),
]
Confidence = Annotated[str, typer.Option(help="The level of the intervals.")]
Pot = Annotated[str, typer.Option(help="The budget that pays.")]
GroupSize = Annotated[
    int | None, typer.Option(help="A number of rows for which averages and ratios are judged.")
]
QuantileIntervals = Annotated[
    bool, typer.Option(help="Spend an eighth of the price of quantiles on intervals for them.")
]
MaxGroups = Annotated[
    int | None, typer.Option(help="In how many groups one person counts at most.")
]
Weight = Annotated[
    list[str] | None, typer.Option(help="COLUMN=SHARE: a column's share of the price; repeatable.")
]


class AnswerFormat(StrEnum):
    """How an answer is printed."""

    table = "table"
    csv = "csv"
    json = "json"


def preview(
    catalog: CatalogFile,
    question: Question,
    epsilon: Epsilon = None,
    rho: Rho = None,
    within: Within = None,
    confidence: Confidence = "0.95",
    group_size: GroupSize = None,
    quantile_intervals: QuantileIntervals = True,
    max_groups: MaxGroups = None,
    weight: Weight = None,
    pot: Pot = "total",
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Show price and error of a question. Reads no data and spends nothing."""
    con = connect(catalog, pot=pot, state=state)
    answer_preview = con.preview(
        question,
        epsilon=epsilon,
        rho=rho,
        within=_read_widths(within),
        confidence=confidence,
        group_size=group_size,
        quantile_intervals=quantile_intervals,
        max_groups=max_groups,
        weights=_read_weights(weight),
    )
    if as_json:
        print_json(describe_preview(answer_preview))
    else:
        make_console().print(answer_preview)


def _read_weights(texts: list[str] | None) -> dict[str, str | float] | None:
    return _read_columns(texts or [], "a weight is written COLUMN=SHARE, e.g. --weight n=2") or None


def _read_widths(texts: list[str] | None) -> str | dict[str, Any] | None:
    """One width for all columns, or one for each that is named."""
    if texts and len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    return (
        _read_columns(
            texts or [], "say one --within for all columns, or --within COLUMN=WIDTH for each"
        )
        or None
    )


def _read_columns(texts: list[str], remedy: str) -> dict[str, Any]:
    pairs = [text.rpartition("=") for text in texts]
    if any(not name or not value for name, _, value in pairs) or len(
        {name for name, _, _ in pairs}
    ) < len(pairs):
        raise ParameterError(remedy)
    return {name: value for name, _, value in pairs}


def sql(
    catalog: CatalogFile,
    question: Question,
    epsilon: Epsilon = None,
    rho: Rho = None,
    within: Within = None,
    confidence: Confidence = "0.95",
    group_size: GroupSize = None,
    quantile_intervals: QuantileIntervals = True,
    max_groups: MaxGroups = None,
    weight: Weight = None,
    pot: Pot = "total",
    output: Annotated[
        AnswerFormat, typer.Option("--format", help="How to print the answer.")
    ] = AnswerFormat.table,
    as_json: AsJson = False,
    fresh: Annotated[
        bool, typer.Option(help="Buy a new answer to a question that was asked before.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Rehearse on a table generated from the catalog: free, about nobody."
        ),
    ] = False,
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="Write the signed certificate to this file; with --json, keep what is "
            "printed for verify --values."
        ),
    ] = None,
    yes: Yes = False,
    state: StateFolder = None,
) -> None:
    """Ask a question and pay for it from a budget. Asked again at the same price, it is free and
    has the same answer."""
    if dry_run and certificate is not None:
        raise ParameterError("a dry run is about nobody and has no certificate")
    con = connect(catalog, pot=pot, state=state)
    terms: dict[str, Any] = {
        "confidence": confidence,
        "group_size": group_size,
        "max_groups": max_groups,
        "weights": _read_weights(weight),
        "quantile_intervals": quantile_intervals,
    }
    price: dict[str, Any] = {"epsilon": epsilon, "rho": rho}
    # The least price that the preview finds; whether the pot can pay is decided by asking.
    if within:
        answer_preview = con.preview(
            strip_explain_prefix(question) or question,
            within=_read_widths(within),
            **price,
            **terms,
        )
        price = {answer_preview.measure: answer_preview.price}
    if not dry_run and strip_explain_prefix(question) is None:
        _check_price(con, question, price, pot, yes=yes)
    result = con.sql(question, fresh=fresh, dry_run=dry_run, **price, **terms)
    if isinstance(result, ExplainedResult):
        if as_json or output is AnswerFormat.json:
            print_json(
                {
                    "explanation": str(result).splitlines(),
                    "preview": describe_preview(result.preview),
                }
            )
        else:
            make_console().print(result)
        return
    if as_json or output is AnswerFormat.json:
        opening = {} if certificate is None else {"nonce": result.opening()["nonce"]}
        info = result.info | {"footnotes": list(result.footnotes)}
        print_json({"columns": result.to_dict(), "info": info} | opening)
    elif output is AnswerFormat.csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(escape_csv(column.name) for column in result.columns)
        for row in result.to_arrow().to_pylist():
            writer.writerow(map(escape_csv, row.values()))
        sys.stdout.flush()
        for footnote in result.footnotes:
            make_console(stderr=True).print(footnote, highlight=False, soft_wrap=True)
    else:
        make_console().print(result)
    if certificate is not None:
        result.certificate(certificate)
        make_console(stderr=True).print(
            f"wrote {certificate}; check it with: dither verify {certificate}", soft_wrap=True
        )


def _check_price(
    con: Connection, question: str, price: dict[str, Any], pot: str, *, yes: bool
) -> None:
    """Ask for `--yes` above epsilon 10, also where the price is in rho or inside the question."""
    check_epsilon(price.get("epsilon"), yes=yes)
    check_rho(price.get("rho"), con.budget().pots, pot, yes=yes)
    check_epsilon(read_dialect(question, con.catalog).epsilon, yes=yes)


def reissue(
    catalog: CatalogFile,
    release: Annotated[
        str,
        typer.Argument(help="The release that was wrong, by its name in 'dither history CATALOG'."),
    ],
    question: Question,
    note: Annotated[
        str,
        typer.Option(help="What was wrong, in a sentence, from releases and public facts alone."),
    ],
    epsilon: Epsilon = None,
    rho: Rho = None,
    max_groups: MaxGroups = None,
    weight: Weight = None,
    pot: Pot = "total",
    yes: Yes = False,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """For the steward: answer again what was answered wrongly, out of the reserve inside the
    budget's ceiling."""
    con = connect(catalog, pot=pot, state=state)
    _check_price(con, question, {"epsilon": epsilon, "rho": rho}, pot, yes=yes)
    request = con.request(
        question, epsilon=epsilon, rho=rho, max_groups=max_groups, weights=_read_weights(weight)
    )
    done = steward.reissue(State.beside(catalog, state), request, release, note)
    if as_json:
        print_json({"release": done.release_id, "supersedes": release, "pot": pot})
        return
    make_console().print(
        f"release {done.release_id} supersedes {release}; the same question at the same price "
        f"shows it"
    )
