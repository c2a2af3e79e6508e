"""Budget: what was spent and what is left of every pot, how fast, and what the ceiling promises.

Figures are settled ones: what has been released, at the times that everybody sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from fastapi import APIRouter, Response

from dither.answer.history import PaidRelease
from dither.canonical import decimal_text
from dither.console.charts import SpentPoint, draw_burn_down
from dither.console.curators import Curators, describe_head, list_page_values
from dither.console.dataset_pages import DatasetName
from dither.console.page_route import PageRoute
from dither.console.rendering import write_page
from dither.console.visitors import SignedIn
from dither.errors import DitherError
from dither.gateway.connections import AskedConnection
from dither.pages.html import EMPTY, Html
from dither.privacy.ledger import Pot
from dither.protocol.errors import BusyError, TokenError
from dither.publish.budget import PotBalances

MOST_CHARTS = 20
FORECAST_DAYS = 30
NO_FORECAST = "No forecast: it needs answers on at least two days."


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


def make_budget_router(curators: Curators) -> APIRouter:
    """The route of the budget."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.get("/datasets/{dataset}/budget")
    def show_budget(dataset: DatasetName, visitor: SignedIn) -> Response:
        with curators.borrow(dataset, visitor) as borrowed:
            balances = borrowed.connection.budget()
            values = list_page_values(visitor, describe_head(borrowed), "budget")
            now = datetime.now(UTC)
            pots = [
                describe_pot(balances, pot, read_releases(borrowed, pot.name), now)
                for pot in balances.shown()[:MOST_CHARTS]
            ]
        hidden = len(balances.pots) - len(pots)
        return write_page(
            "budget.html",
            **values,
            pots=pots,
            hidden_pots=hidden,
            sentences=tuple(balances.lines()),
        )

    return router


def read_releases(borrowed: AskedConnection, pot: str) -> tuple[PaidRelease, ...]:
    """What a pot paid for; nothing where its history is not the visitor's to see."""
    try:
        return borrowed.curator.read_history(pot).releases
    except (TokenError, BusyError):
        raise
    except DitherError:
        return ()


def describe_pot(
    balances: PotBalances, pot: Pot, releases: Sequence[PaidRelease], now: datetime
) -> PotPanel:
    """The panel of a pot."""
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
        _draw_history(pot, releases),
        forecast_end(pot.left, releases, now),
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
