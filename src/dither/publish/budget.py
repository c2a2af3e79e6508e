"""Balances of the pots, each number with what it means (rule ceiling-fixed).

Running readings are exact sums of what was charged. The guarantee is stated for the ceiling, fixed
before any answer was seen. A running sum converted to epsilon holds only as if one had stopped at a
point fixed in advance, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dither.canonical import decimal_text
from dither.pages.notebook import write_cell, write_notes
from dither.privacy.ledger import Pot, Rule
from dither.publish.shown_table import ShownTable
from dither.publish.text import render_text
from dither.surfaces import make_rich_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Pair = tuple[Fraction, Fraction]
AS_IF = "as if stopped at a point fixed in advance"


@dataclass(frozen=True)
class LabelledGuarantee:
    """(epsilon, delta) for a unit, with a label that says what it is the guarantee of."""

    label: str
    epsilon: Fraction
    delta: Fraction
    unit: str

    def __str__(self) -> str:
        return (
            f"{self.label}: epsilon {decimal_text(self.epsilon, up=True)}, delta "
            f"{decimal_text(self.delta, up=True)}, for one {self.unit}"
        )


def label_running_sum(pot: Pot) -> str:
    """Write what follows the epsilon of a sum whose releases were priced one after the other.

    Empty where budgets add up epsilons. A sum in another measure is converted, and the conversion
    holds only at a point that is fixed in advance (docs/proofs/filters.md#readings).
    """
    return "" if pot.rule.name in ("pure", "approx") else f", {AS_IF}"


@dataclass(frozen=True)
class PotBalances:
    """Balances of the pots, in the order of their opening: the dataset's total first.

    `horizon` is the number of windows that one person may have rows in, for (person, window) units.
    """

    pots: tuple[Pot, ...]
    notes: tuple[str, ...] = ()
    horizon: int | None = None

    def guarantee(self, pot: Pot) -> LabelledGuarantee:
        """What holds for all that this pot ever pays for, whatever is asked."""
        return LabelledGuarantee(
            f"{pot.name}, whatever is asked", *pot.rule.guarantee(pot.ceiling), pot.unit
        )

    def so_far(self, pot: Pot) -> LabelledGuarantee:
        """The running sum as an epsilon.

        For pure and (epsilon, delta) sums it is the sum itself.
        """
        label = f"{pot.name}, so far{label_running_sum(pot)}"
        total = pot.spent + pot.reissued
        epsilon, delta = pot.rule.guarantee(total) if total else (Fraction(0), Fraction(0))
        return LabelledGuarantee(
            label,
            epsilon,
            pot.delta_spent if pot.rule.name in ("pure", "approx") else delta,
            pot.unit,
        )

    def worst_case(self) -> LabelledGuarantee | None:
        """All analysts and groups together: the dataset's total, shown under either policy."""
        root = next((pot for pot in self.pots if pot.inside is None), None)
        return (
            None
            if root is None
            else LabelledGuarantee(
                "all groups together, whatever is asked",
                *root.rule.guarantee(root.ceiling),
                root.unit,
            )
        )

    def person(self) -> LabelledGuarantee | None:
        """The guarantee for one person over all windows that the catalog's bounds hold, by group
        privacy; None where the unit is not (person, window), or nothing is open yet."""
        root = next((pot for pot in self.pots if pot.inside is None), None)
        if root is None or self.horizon is None:
            return None
        windows = next((pot for pot in self.pots if pot.is_windows), root)
        label = f"one person over all {self.horizon} windows, whatever is asked"
        pair = convert_over_windows(root.rule, min(root.ceiling, windows.ceiling), self.horizon)
        return LabelledGuarantee(label, *pair, root.unit.rpartition("_")[0])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Show the pots as a table in a terminal, then the same in sentences."""
        yield self._make_table()
        yield from map(make_rich_text, self._list_lines())

    def _list_lines(self) -> list[str]:
        units = dict.fromkeys(pot.unit for pot in self.shown())
        whom = [f"amounts for one {' or '.join(units)}; deltas are said below"] if units else []
        return [*whom, *self.lines()]

    def _make_table(self) -> ShownTable:
        """Make the table of pots, one row each, as it is shown to people."""
        heads = ("budget", "kind", "rule", "spent", "left", "cap", "ceiling", "for reissues")
        rows = []
        for pot in self.shown():
            kept = [decimal_text(amount) for amount in (pot.left, pot.cap, pot.ceiling)]
            numbers = [decimal_text(pot.spent, up=True), *kept]
            name = pot.name if pot.inside is None else f"{pot.name} in {pot.inside}"
            rule = pot.rule.name if pot.rule.name != "rdp" else f"rdp at {pot.rule.alpha}"
            reserve = f"{decimal_text(pot.reissue - pot.reissued)} of {decimal_text(pot.reissue)}"
            rows.append((name, pot.kind, f"{rule}, {pot.rule.measure}", *numbers, reserve))
        return ShownTable(heads, tuple(rows), frozenset(range(3, len(heads))))

    def lines(self) -> Iterator[str]:
        """The sentences below the table."""
        for pot in self.shown():
            yield from (str(self.guarantee(pot)), str(self.so_far(pot)))
            if pot.rule.delta_cap:
                yield (
                    f"  deltas add up to {decimal_text(pot.delta_spent, up=True)} of "
                    f"{decimal_text(pot.rule.delta_cap)}"
                )
            yield (
                f"  {pot.question} About {pot.population}, for {pot.recipient}; unit "
                f"{pot.unit}, {pot.neighbours}"
            )
        root = next((pot for pot in self.pots if pot.inside is None), None)
        if root is not None:
            yield f"policy {root.policy}: " + _POLICIES[root.policy or "global"]
            yield str(self.worst_case())
        if hidden := len(self.pots) - len(self.shown()):
            yield f"{hidden} more windows stand as they were opened, at 0"
        if (person := self.person()) is not None:
            assert root is not None
            unit = root.unit.replace("_", " in one ")
            yield f"the unit is {unit}: what is promised above holds for each window alone"
            yield str(person) if person.delta < 1 else f"{person.label}: nothing (delta would be 1)"
        yield from self.notes

    def shown(self) -> tuple[Pot, ...]:
        """All pots but the windows that nothing was taken from: there may be many."""
        windows = {pot.name for pot in self.pots if pot.is_windows}
        return tuple(
            pot for pot in self.pots if pot.inside not in windows or pot.spent or pot.reissued
        )

    def _repr_html_(self) -> str:
        return write_cell(self._make_table().write_html(), write_notes(self._list_lines()))

    def __str__(self) -> str:
        return render_text(self, width=160)

    def __repr__(self) -> str:
        return str(self)


def convert_over_windows(rule: Rule, amount: Fraction, windows: int) -> Pair:
    """(epsilon, delta) for all rows of a person who has rows in W windows.

    By group privacy: docs/proofs/filters.md.

    zCDP: W^2 rho, then converted, where no delta of key selection is in the way; else
    `convert_steps`.

    >>> convert_over_windows(Rule("pure"), Fraction(1, 2), 12)
    (Fraction(6, 1), Fraction(0, 1))
    """
    if rule.name == "zcdp" and not rule.delta_selection:
        return rule.guarantee(windows**2 * amount)
    return convert_steps(rule.guarantee(amount), windows)


def convert_steps(pair: Pair, steps: int) -> Pair:
    """Convert (epsilon, delta) to data that differ by so many steps.

    They become k epsilon and delta (e^(k epsilon) - 1) / (e^epsilon - 1).

    >>> convert_steps((Fraction(1), Fraction(0)), 3)
    (Fraction(3, 1), Fraction(0, 1))
    """
    epsilon, delta = pair
    if not delta or steps == 1:
        return steps * epsilon, delta
    if not epsilon or steps * epsilon > 700:
        return steps * epsilon, min(Fraction(1), steps * delta) if not epsilon else Fraction(1)
    grown = Fraction(math.expm1(float(steps * epsilon)) / math.expm1(float(epsilon)) * (1 + 1e-9))
    return steps * epsilon, min(Fraction(1), delta * grown)


_POLICIES = {
    "global": "the total is what is promised; budgets inside it are allowances, and stored "
    "answers are free to all",
    "separate": "each group's own budget is promised to hold while groups share nothing; "
    "each pays for what it sees",
}
