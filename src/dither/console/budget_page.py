"""Budget: what was spent and what is left of every pot, how fast, and what the ceiling promises.

Figures are settled ones: what has been released, at the times that everybody sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Annotated

from fastapi import APIRouter, Query, Response

from dither.answer.history import PaidRelease
from dither.canonical import decimal_text
from dither.console.charts import SpentPoint, draw_burn_down, draw_share
from dither.console.curators import Curators, DatasetHead, describe_head, list_page_values
from dither.console.dataset_pages import DatasetName
from dither.console.page_route import PageRoute
from dither.console.preview_panel import format_share
from dither.console.rendering import write_page
from dither.console.visitors import SignedIn
from dither.errors import DitherError
from dither.gateway.connections import AskedConnection
from dither.pages.html import EMPTY, Html
from dither.privacy.ledger import Pot
from dither.protocol.errors import BusyError, TokenError
from dither.publish.budget import PotBalances

MOST_CHARTS = 6
MOST_FORECASTS = 20
"""Budgets whose releases are read for one page, and for one table: each costs a call."""
KINDS = {
    "dataset": "The whole dataset",
    "group": "Groups",
    "analyst": "Analysts",
    "purpose": "Purposes",
    "partition": "Windows and parts, each disjoint",
    "part": "One window or part",
}
NOT_SHOWN = "Not shown: what it paid for is for those who ask from it."
FORECAST_DAYS = 30
NO_FORECAST = "No forecast: it needs answers on at least two days."


@dataclass(frozen=True)
class PotLine:
    """One pot in the list of all: its balances, and a bar of what is spent."""

    name: str
    inside: str
    measure: str
    spent: str
    remaining: str
    cap: str
    bar: Html


@dataclass(frozen=True)
class PotPanel:
    """One pot: its balances, its purpose, its history as a chart, and a forecast."""

    name: str
    inside: str
    kind: str
    measure: str
    spent: str
    remaining: str
    cap: str
    ceiling: str
    is_empty: bool
    promise: str
    so_far: str
    purpose: str
    chart: Html
    forecast: str
    is_history_shown: bool


def make_budget_router(curators: Curators) -> APIRouter:
    """The route of the budget."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.get("/datasets/{dataset}/budget")
    def show_budget(
        dataset: DatasetName, visitor: SignedIn, pot: Annotated[str, Query(max_length=200)] = ""
    ) -> Response:
        with curators.borrow(dataset, visitor) as borrowed:
            balances = borrowed.connection.budget()
            head = describe_head(borrowed)
            now = datetime.now(UTC)
            pots = [
                describe_pot(balances, chosen, read_releases(borrowed, chosen.name), now)
                for chosen in _choose_pots(balances.shown(), head, pot)
            ]
        return write_page(
            "budget.html",
            **list_page_values(visitor, head, "budget", "budget"),
            pots=pots,
            groups=list_by_kind(balances.shown()),
            hidden_pots=len(balances.pots) - len(balances.shown()),
            sentences=tuple(balances.lines()),
        )

    return router


def _choose_pots(pots: Sequence[Pot], head: DatasetHead, name: str) -> list[Pot]:
    """The pots that are shown in full: the one that is named, or the visitor's own and the total.

    Whoever asks from none is shown the first ones.
    """
    if name:
        return [pot for pot in pots if pot.name == name]
    own = [pot for pot in pots if pot.name in head.pots or pot.inside is None]
    return (own if head.pots else list(pots))[:MOST_CHARTS]


def list_by_kind(pots: Sequence[Pot]) -> list[tuple[str, list[PotLine]]]:
    """All pots by their kind, as lines."""
    groups = []
    for kind, title in KINDS.items():
        lines = [_describe_line(pot) for pot in pots if pot.kind == kind]
        if lines:
            groups.append((title, lines))
    return groups


def _describe_line(pot: Pot) -> PotLine:
    share = float(pot.spent / pot.cap) if pot.cap else 1.0
    words = f"{pot.name}: {format_share(min(share, 1.0))} of the cap is spent"
    return PotLine(
        pot.name,
        pot.inside or "",
        pot.rule.measure,
        decimal_text(pot.spent, up=True),
        decimal_text(pot.left),
        decimal_text(pot.cap),
        draw_share(share, words),
    )


def read_pot_panels(borrowed: AskedConnection) -> list[PotPanel]:
    """All pots with their balances; the first ones with a forecast."""
    balances = borrowed.connection.budget()
    now = datetime.now(UTC)
    return [
        describe_pot(
            balances,
            pot,
            read_releases(borrowed, pot.name) if number < MOST_FORECASTS else None,
            now,
        )
        for number, pot in enumerate(balances.shown())
    ]


def read_releases(borrowed: AskedConnection, pot: str) -> tuple[PaidRelease, ...] | None:
    """What a pot paid for; None where its history is not the visitor's to see."""
    try:
        return borrowed.curator.read_history(pot).releases
    except (TokenError, BusyError):
        raise
    except DitherError:
        return None


def describe_pot(
    balances: PotBalances, pot: Pot, releases: Sequence[PaidRelease] | None, now: datetime
) -> PotPanel:
    """The panel of a pot. `releases` is None where its history is not shown."""
    return PotPanel(
        pot.name,
        pot.inside or "",
        pot.kind,
        pot.rule.measure,
        decimal_text(pot.spent, up=True),
        decimal_text(pot.left),
        decimal_text(pot.cap),
        decimal_text(pot.ceiling),
        pot.left <= 0,
        str(balances.guarantee(pot)),
        str(balances.so_far(pot)),
        f"{pot.question} About {pot.population}, for {pot.recipient}.",
        _draw_history(pot, releases or ()),
        NOT_SHOWN if releases is None else forecast_end(pot.left, releases, now),
        releases is not None,
    )


def _draw_history(pot: Pot, releases: Sequence[PaidRelease]) -> Html:
    """The burn-down of a pot; nothing where it paid for nothing yet."""
    if not releases:
        return EMPTY
    times = [datetime.fromisoformat(release.released_at) for release in releases]
    first = min(times)
    span = (max(times) - first).total_seconds() or 1.0
    spent = Fraction(0)
    points = []
    for time, release in sorted(zip(times, releases, strict=True), key=lambda pair: pair[0]):
        spent += release.charged
        share = 0.05 + 0.9 * (time - first).total_seconds() / span
        points.append(SpentPoint(share, float(spent)))
    words = (
        f"{pot.name}: {len(releases)} answers from {first.date()} to {max(times).date()} took "
        f"{pot.rule.measure} {decimal_text(spent, up=True)} of {decimal_text(pot.cap)}"
    )
    return draw_burn_down(points, float(pot.cap), words)


def forecast_end(amount: Fraction, releases: Sequence[PaidRelease], now: datetime) -> str:
    """How long a pot lasts at the pace of the last thirty days, by whole days."""
    if amount <= 0:
        return "It is empty."
    since = now - timedelta(days=FORECAST_DAYS)
    recent = [
        (datetime.fromisoformat(release.released_at), release.charged) for release in releases
    ]
    recent = [(time, charged) for time, charged in recent if time >= since and charged]
    days = {time.date() for time, _ in recent}
    if len(days) < 2:
        return NO_FORECAST
    length = (now.date() - min(days)).days + 1
    pace = sum((charged for _, charged in recent), Fraction(0)) / length
    remaining_days = int(amount / pace)
    return (
        f"At the pace of the last {length} days it lasts about {remaining_days:,} more "
        f"day{'' if remaining_days == 1 else 's'}."
    )
