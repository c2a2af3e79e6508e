"""What was asked from a pot: parameters and prices.

Values are shown only of releases that this pot paid for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dither.answer.question_log import Questions, find_question
from dither.errors import RefusedError
from dither.pages.notebook import write_cell
from dither.privacy.charges.rules import charge_from_amounts
from dither.privacy.kernel.kernel import refuse_shared_pots
from dither.privacy.kernel.release import Values, from_bytes
from dither.privacy.kernel.request import Price
from dither.privacy.ledger.pots import price_text
from dither.privacy.ledger.reports import Reports
from dither.publish.shown_table import ShownTable
from dither.publish.text import render_text
from dither.rules import PrivacyRule

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True)
class PaidRelease:
    """One release: when, what was asked, and what the pot paid."""

    release_id: str
    released_at: str
    version: int
    asks: str
    charged: Fraction
    delta: Fraction
    measure: str
    superseded_by: str | None
    unit: str
    sql: str | None = None
    """The text of the question, where the log still has it."""
    price: Price | None = None
    """The price that was asked, which a repeat of the question must name too."""

    @property
    def paid(self) -> str:
        """The price, never without its delta and whom it protects."""
        return price_text(self.measure, charge_from_amounts(self.charged, self.delta), self.unit)


@dataclass(frozen=True)
class History:
    """The releases that one pot paid for, in order."""

    pot: str
    releases: tuple[PaidRelease, ...]
    _read_values: Callable[[str], Values]

    def raw(self, release_id: str) -> Values:
        """Read the released integers of one of these releases; RefusedError for those of others.

        The ledger is anchored first.
        """
        if str(release_id) not in {release.release_id for release in self.releases}:
            raise RefusedError(
                f"budget {self.pot!r} paid for no release {release_id}",
                rule=PrivacyRule.PAID_VALUES,
            )
        return self._read_values(str(release_id))

    def __len__(self) -> int:
        return len(self.releases)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._make_table()

    def _make_table(self) -> ShownTable:
        """Make the table of releases, one row each, as it is shown to people."""
        rows = []
        for release in self.releases:
            asks = (release.sql or release.asks) + (
                f" (superseded by {release.superseded_by})" if release.superseded_by else ""
            )
            rows.append(
                (
                    release.release_id,
                    release.released_at,
                    str(release.version),
                    asks,
                    release.paid,
                )
            )
        heads = ("release", "released at", "version", "asked", "paid")
        return ShownTable(heads, tuple(rows), title=f"from budget {self.pot}")

    def _repr_html_(self) -> str:
        return write_cell(self._make_table().write_html())

    def __str__(self) -> str:
        return render_text(self, width=160)

    def __repr__(self) -> str:
        return str(self)


def read_history(
    ledger: Reports,
    pot: str,
    anchor: Callable[[], None] = lambda: None,
    questions: Questions | None = None,
) -> History:
    """Read the releases that a pot paid for, with the texts of their questions.

    A text is that of this pot, or of one whose questions this pot pays for.

    Where windows pay, the total shows what each of them paid: what it paid itself is what the
    dearest grew by, which tells of charges that were under way (rule settled-figures-only).
    """
    refuse_shared_pots(ledger.view(pot))
    paying_pot = next(
        (opened for opened in ledger.pots(under_way=False) if opened.name == pot), None
    )
    pays_for_windows = (
        paying_pot is not None and paying_pot.inside is None and ledger.windows() is not None
    )
    releases = []
    records = ledger.history()
    names = {record.seq: record.release_id for record in records}
    for record in records:
        if pot in (*record.pots, *record.shared_by) and record.released_at is not None:
            taken = record.charges.get(record.pots[-1] if pays_for_windows else pot)
            askers = (pot, *(record.pots if pot in record.pots else ()))
            releases.append(
                PaidRelease(
                    record.release_id,
                    record.released_at,
                    int(record.public.get("version", 0)),
                    describe_request(record.public.get("request", {})),
                    taken.amount if taken else Fraction(0),
                    taken.delta if taken else Fraction(0),
                    "" if paying_pot is None else paying_pot.rule.measure,
                    None if record.superseded_by is None else names[record.superseded_by],
                    "" if paying_pot is None else paying_pot.unit,
                    find_question(questions or {}, record.release_id, askers),
                    _read_price(record.public.get("request", {})),
                )
            )

    def read_values(release_id: str) -> Values:
        """The stored integers. The head is written first: no older ledger may forget who paid."""
        anchor()
        stored = ledger.release(ledger.number_of(release_id))
        assert stored is not None
        return from_bytes(stored.arrow_bytes)

    return History(pot, tuple(releases), read_values)


def _read_price(request: dict[str, Any]) -> Price | None:
    """The price that a stored request names; None where it is not on record."""
    price = request.get("price", {})
    amounts = {name: Fraction(price[name]) for name in ("epsilon", "rho") if name in price}
    return Price(**amounts) if amounts else None


_OVER_CELLS = {"linear": "an operator over ", "scores": "a choice by "}


def describe_request(request: dict[str, Any]) -> str:
    """Describe a stored request in words; a lease has none, since its steps come one by one."""
    if not request:
        return "the steps of an algorithm, paid together"
    aggregates = []
    tables = []
    keys = []
    asked = [step["query"] for step in request.get("steps", ())]
    for whole in [member for query in asked for member in query.get("members", (query,))]:
        query = whole.get("cells", whole)
        prefix = _OVER_CELLS.get(whole["type"], "")
        aggregates += ["vectors of units"] if query["type"] == "unitvectors" else []
        columns = query.get("columns", ())
        aggregates += [prefix + _describe_aggregate(aggregate) for aggregate in columns]
        aggregates += [f"quantiles of {query['column']}"] if query["type"] == "quantiles" else []
        keys += [key for key in query.get("keys", ()) if key not in keys]
        tables += [table for table in _list_tables(query["plan"]) if table not in tables]
    words = ", ".join(dict.fromkeys(aggregates)) or "keys"
    return f"{words} from {', '.join(tables)}" + (f" by {', '.join(keys)}" if keys else "")


def _describe_aggregate(tree: dict[str, Any]) -> str:
    return str(tree["type"]) + (f"({tree['column']})" if tree.get("column") else "")


def _list_tables(plan: Any) -> list[str]:
    """List the tables that a plan scans; `plan` is its JSON."""
    if not isinstance(plan, dict):
        return []
    if plan.get("type") == "scan":
        return [plan["table"]]
    return [table for value in plan.values() for table in _list_tables(value)]
