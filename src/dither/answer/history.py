"""What was asked from a pot: parameters and prices; values only of releases that this pot paid for."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable

from dither.errors import RefusedError
from dither.pages.html import write_element
from dither.privacy.charges.rules import charge_from_amounts
from dither.privacy.kernel.kernel import refuse_shared_pots
from dither.privacy.kernel.release import Values, from_bytes
from dither.privacy.ledger.pots import price_text
from dither.privacy.ledger.reports import Reports
from dither.publish.text import as_text
from dither.rules import PrivacyRule
from dither.surfaces import make_rich_cell


@dataclass(frozen=True)
class Asked:
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

    @property
    def paid(self) -> str:
        """The price, never without its delta and whom it protects."""
        return price_text(self.measure, charge_from_amounts(self.charged, self.delta), self.unit)


@dataclass(frozen=True)
class History:
    """The releases that one pot paid for, in order."""

    pot: str
    asked: tuple[Asked, ...]
    _ledger: Reports

    def raw(self, release_id: str) -> Values:
        """The released integers of one of these releases; others' are not shown."""
        if str(release_id) not in {each.release_id for each in self.asked}:
            raise RefusedError(f"pot {self.pot!r} paid for no release {release_id}", rule=PrivacyRule.PAID_VALUES)
        stored = self._ledger.release(self._ledger.number_of(str(release_id)))
        assert stored is not None
        return from_bytes(stored.arrow_bytes)

    def __len__(self) -> int:
        return len(self.asked)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = RichTable(
            "release", "released at", "version", "asked", "paid", title=make_rich_cell(f"from pot {self.pot}")
        )
        for each in self.asked:
            asks = each.asks + (f" (superseded by {each.superseded_by})" if each.superseded_by else "")
            cells = (each.release_id, each.released_at, str(each.version), asks, each.paid)
            table.add_row(*map(make_rich_cell, cells))
        yield table

    def _repr_html_(self) -> str:
        return write_element("pre", str(self))

    def __str__(self) -> str:
        return as_text(self, width=160)


def history(ledger: Reports, pot: str) -> History:
    """What the pot paid for.

    Where windows pay, the total shows what each of them paid: what it paid itself is what the dearest grew by, which
    tells of charges that were under way (rule settled-figures-only).
    """
    refuse_shared_pots(ledger.view(pot))
    asked = next((each for each in ledger.pots(under_way=False) if each.name == pot), None)
    pays_for_windows = asked is not None and asked.inside is None and ledger.windows() is not None
    found = []
    records = ledger.history()
    names = {record.seq: record.release_id for record in records}
    for record in records:
        if pot in (*record.pots, *record.shared_by) and record.released_at is not None:
            taken = record.charges.get(record.pots[-1] if pays_for_windows else pot)
            found.append(
                Asked(
                    record.release_id,
                    record.released_at,
                    int(record.public.get("version", 0)),
                    asks(record.public.get("request", {})),
                    taken.amount if taken else Fraction(0),
                    taken.delta if taken else Fraction(0),
                    "" if asked is None else asked.filter.measure,
                    None if record.superseded_by is None else names[record.superseded_by],
                    "" if asked is None else asked.unit,
                )
            )
    return History(pot, tuple(found), ledger)


def asks(request: dict[str, Any]) -> str:
    """A stored request in words."""
    parts, tables, keys = [], [], []
    for step in request.get("steps", ()):
        query = step["query"]
        parts += [_aggregate(each) for each in query.get("columns", ())]
        parts += [f"quantiles of {query['column']}"] if query["type"] == "quantiles" else []
        keys += [key for key in query.get("keys", ()) if key not in keys]
        tables += [table for table in _tables(query["plan"]) if table not in tables]
    words = ", ".join(dict.fromkeys(parts)) or "keys"
    return f"{words} from {', '.join(tables)}" + (f" by {', '.join(keys)}" if keys else "")


def _aggregate(tree: dict[str, Any]) -> str:
    return str(tree["type"]) + (f"({tree['column']})" if tree.get("column") else "")


def _tables(plan: Any) -> list[str]:
    if not isinstance(plan, dict):
        return []
    if plan.get("type") == "scan":
        return [plan["table"]]
    return [table for part in plan.values() for table in _tables(part)]
