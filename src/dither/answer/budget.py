"""Where the pots stand, in numbers that say what they are (privacy-rules 13).

Running readings are exact sums of what was charged. The guarantee is stated for the ceiling, fixed before any answer
was seen. A running sum converted to epsilon holds only as if one had stopped at a point fixed in advance, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable

from dither.privacy.ledger import Pot
from dither.privacy.ledger.pots import shown

AS_IF = "as if stopped at a point fixed in advance"


@dataclass(frozen=True)
class Reading:
    """One labelled number."""

    label: str
    epsilon: Fraction
    delta: Fraction

    def __str__(self) -> str:
        numbers = f"epsilon {float(self.epsilon):.6g}" + (f", delta {float(self.delta):g}" if self.delta else "")
        return f"{self.label}: {numbers}"


@dataclass(frozen=True)
class Budget:
    """Where the pots stand, in the order of their opening: the dataset's total first."""

    pots: tuple[Pot, ...]
    notes: tuple[str, ...] = ()

    def guarantee(self, pot: Pot) -> Reading:
        """What holds for all that this pot ever pays for, whatever is asked."""
        return Reading(f"{pot.name}, whatever is asked", *pot.filter.guarantee(pot.ceiling))

    def so_far(self, pot: Pot) -> Reading:
        """The running sum as an epsilon; for pure and (epsilon, delta) sums it is the sum itself."""
        label = f"{pot.name}, so far" + ("" if pot.rule in ("pure", "approx") else f", {AS_IF}")
        total = pot.spent + pot.reissued
        epsilon, delta = pot.filter.guarantee(total) if total else (Fraction(0), Fraction(0))
        return Reading(label, epsilon, pot.delta_spent if pot.rule in ("pure", "approx") else delta)

    def worst_case(self) -> Reading | None:
        """All analysts and groups together: the dataset's total, shown under either policy."""
        root = next((pot for pot in self.pots if pot.inside is None), None)
        return (
            None
            if root is None
            else Reading("all groups together, whatever is asked", *root.filter.guarantee(root.ceiling))
        )

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = RichTable("pot", "kind", "rule", "spent", "left", "cap", "ceiling", "for reissues")
        for pot in self.pots:
            numbers = [shown(value) for value in (pot.spent, pot.left, pot.cap, pot.ceiling)]
            name = pot.name if pot.inside is None else f"{pot.name} in {pot.inside}"
            rule = pot.rule if pot.rule != "rdp" else f"rdp at {pot.filter.alpha}"
            reserve = f"{shown(pot.reissue - pot.reissued)} of {shown(pot.reissue)}"
            table.add_row(name, pot.kind, f"{rule}, {pot.filter.measure}", *numbers, reserve)
        yield table
        for pot in self.pots:
            yield f"{self.guarantee(pot)}; {self.so_far(pot)}"
            if pot.filter.delta_cap:
                yield f"  deltas add up to {float(pot.delta_spent):g} of {float(pot.filter.delta_cap):g}"
            yield f"  {pot.question} About {pot.population}, for {pot.recipient}; unit {pot.unit}, {pot.neighbours}"
        root = next((pot for pot in self.pots if pot.inside is None), None)
        if root is not None and len(self.pots) > 1:
            yield f"policy {root.policy}: " + _POLICIES[root.policy or "global"]
            yield str(self.worst_case())
        yield from self.notes

    def __str__(self) -> str:
        console = Console(width=160)
        with console.capture() as captured:
            console.print(self)
        return captured.get()


_POLICIES = {
    "global": "the total is what is promised; pots inside it are allowances, and stored answers are free to all",
    "separate": "each group's own pot is promised to hold while groups share nothing; each pays for what it sees",
}
