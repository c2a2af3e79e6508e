"""Try limits of rows per person on numbers that are public or invented. No data is read."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from fastapi import APIRouter, Response

from dither.console.charts import LimitBar, draw_limits
from dither.console.curators import Curators
from dither.console.limit_trials import (
    MOST_MEAN,
    LimitTrial,
    invent_rows,
    read_rows,
    read_whole,
    try_limits,
)
from dither.console.page_route import PageRoute
from dither.console.rendering import write_page
from dither.console.visitors import SentForm, SignedIn, Visitor
from dither.errors import DitherError, ParameterError
from dither.pages.charts import format_number

MOST_TYPED = 20_000
FIRST_FIELDS = {"by": "invented", "people": "1000", "mean": "4", "epsilon": "0.1", "rows": ""}


def make_limit_router(curators: Curators) -> APIRouter:
    """The routes of trying limits."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.get("/catalog/limits")
    def show_limits(visitor: SignedIn) -> Response:
        return _write_limits_page(visitor, FIRST_FIELDS)

    @router.post("/catalog/limits")
    def compute_limits(visitor: SignedIn, form: SentForm) -> Response:
        """Nothing typed here is kept, and it is POST so that no address holds it."""
        fields = {**FIRST_FIELDS, **{name: text[:MOST_TYPED] for name, text in form.items()}}
        return _write_limits_page(visitor, fields)

    return router


def _write_limits_page(visitor: Visitor, fields: Mapping[str, str]) -> Response:
    trials: list[LimitTrial] = []
    message = ""
    try:
        trials = read_trials(fields)
    except DitherError as error:
        message = str(error)
    values: dict[str, Any] = {"chart": "", "best": None}
    if trials:
        best = min(trials, key=lambda trial: trial.total)
        bars = [LimitBar(str(trial.limit), trial.left_out, trial.half_width) for trial in trials]
        values = {"chart": draw_limits(bars, str(best.limit)), "best": best}
    return write_page(
        "limits.html",
        visitor=visitor,
        page="limits",
        fields=fields,
        message=message,
        lines=[_describe_trial(trial) for trial in trials],
        **values,
    )


def read_trials(fields: Mapping[str, str]) -> list[LimitTrial]:
    """The trials of a filled form."""
    epsilon = _read_amount(fields["epsilon"], "epsilon", 10)
    if fields["by"] == "typed":
        if fields.get("is_public") != "yes":
            raise ParameterError("say that the numbers are public: none may come from the data")
        return try_limits(read_rows(fields["rows"]), epsilon)
    mean = _read_amount(fields["mean"], "the average number of rows", MOST_MEAN)
    if mean < 1:
        raise ParameterError("people with no row are not in the table: the average is 1 or more")
    return try_limits(invent_rows(read_whole(fields["people"], "the size"), mean), epsilon)


def _read_amount(text: str, name: str, most: int) -> Fraction:
    try:
        amount = Decimal(text.strip()) if len(text) <= 20 else Decimal("NaN")
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or not Decimal("0.0001") <= amount <= most:
        raise ParameterError(f"{name} is a number from 0.0001 to {most:,}")
    return Fraction(amount)


def _describe_trial(trial: LimitTrial) -> dict[str, str]:
    return {
        "limit": str(trial.limit),
        "left_out": format_number(trial.left_out),
        "share": f"{100 * trial.left_out_share:.2g}%",
        "half_width": format_number(trial.half_width),
        "total": format_number(trial.total),
    }
