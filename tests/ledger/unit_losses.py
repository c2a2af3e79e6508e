"""An oracle for charging: random pots inside pots, and what each unit has truly lost to the readers
of each pot.

A unit is a value of every column (and, with budgets per window, a window). A release touches the
units that its conditions admit; the readers of a pot hold the releases that the pot or a pot inside
it asked for or shared. The true loss of a unit to them is the sum over those releases, each counted
once. No pot may stand below it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from dither.errors import BudgetError
from dither.privacy.ledger import Pot, Rule, pot_acts, pot_tree, pots
from dither.privacy.losses import Approx, Loss, Pure
from tests.ledger.ledger_place import TERMS

COLUMNS = (0, 1)
WINDOWS = ("jan", "feb")
APPROX = Rule("approx", delta=Fraction(1, 2), delta_per_question=Fraction(1, 4))
Unit = tuple[str, ...]


@dataclass
class Release:
    """A release: what it costs, which units it touches, who paid for it and who holds it."""

    loss: Loss
    price: tuple[Fraction, ...]
    units: frozenset[Unit]
    leaves: tuple[str, ...]  # the pot that asked, then the windows
    payers: set[str]
    holders: set[str]
    is_superseded: bool = False


@dataclass
class History:
    """Random acts on a random tree of pots."""

    seed: int
    neighbours: Any = "add_remove"
    with_windows: bool = False
    rule: Rule = field(default_factory=lambda: Rule("pure"))
    old_rule: bool = False  # the planted bug: pots that have paid do not pay for growth

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.terms: dict[str, Any] = TERMS | {"neighbours": self.neighbours, "rule": self.rule}
        self.pots: dict[str, Pot] = {}
        self.conditions: dict[str, dict[int, str]] = {}
        self.releases: list[Release] = []
        most_values = 4 if self.neighbours == "replace" else 3
        self.values = ["abcd"[: self.random.randint(most_values - 1, most_values)] for _ in COLUMNS]
        windows = WINDOWS if self.with_windows else ("always",)
        self.units = [(*values, window) for *values, window in product(*self.values, windows)]
        self._open("total", self._cap(), {})
        if self.with_windows:
            most = 2 if self.neighbours == "replace" else 1
            self._open(
                "w", most * 9, {}, inside="total", kind="partition", column="*.day", version=1
            )
            for window in WINDOWS:
                self._open(window, 9, {}, inside="w", kind="part", value=window)

    def _cap(self) -> int:
        return self.random.choice([8, 30, 30])

    def _open(self, name: str, cap: int, conditions: dict[int, str], **place: Any) -> None:
        pot = pots.opened(name, cap, 2 * cap, reissue=Fraction(cap, 2), **(self.terms | place))
        pot_acts.check_opening(self.pots, pot)
        self.pots[name] = pot
        self.conditions[name] = conditions

    def run(self, acts: int) -> None:
        """Opens some pots, then asks, shares, reissues and raises, opening another now and then."""
        for _ in range(4):
            self.random.choice([self.open_pot, self.open_partition, self.open_partition])()
        rare = [self.open_pot, self.open_partition, self.raise_cap, self.reissue]
        for _ in range(acts):
            self.random.choice(
                rare if self.random.random() < 0.1 else [self.ask, self.share, self.share]
            )()
        self.check()

    def _readers(self) -> list[str]:
        """The pots that may ask: neither partitions nor windows."""
        return [
            name for name, pot in self.pots.items() if pot.kind != "partition" and pot.inside != "w"
        ]

    def open_pot(self) -> None:
        inside = self.random.choice(self._readers())
        kind = self.random.choice(["group", "analyst", "purpose"])
        self._open(
            f"g{len(self.pots)}", self._cap(), self.conditions[inside], inside=inside, kind=kind
        )

    def open_partition(self) -> None:
        inside = self.random.choice(self._readers())
        column = self.random.choice(COLUMNS)
        if column in self.conditions[inside]:
            return
        name = f"p{len(self.pots)}"
        cap = self._cap()
        conditions = self.conditions[inside]
        version = self.random.choice([1, 2])
        place = {"inside": inside, "kind": "partition", "column": f"t.{column}", "version": version}
        self._open(name, cap, conditions, **place)
        for value in self.values[column]:
            self._open(
                f"{name}{value}",
                cap,
                conditions | {column: value},
                inside=name,
                kind="part",
                value=value,
            )

    def _touched(self, conditions: dict[int, str], windows: tuple[str, ...]) -> frozenset[Unit]:
        admitted = [
            unit
            for unit in self.units
            if all(unit[column] == value for column, value in conditions.items())
        ]
        return frozenset(unit for unit in admitted if unit[-1] in windows)

    def _loss(self) -> Loss:
        epsilon = self.random.choice([1, 1, 1, 2, Fraction(1, 2)])
        if self.rule.name == "pure":
            return Pure(epsilon, unit="person", neighbours=self.neighbours)
        delta = self.random.choice([Fraction(0), Fraction(1, 100), Fraction(1, 10)])
        return Approx(epsilon, delta, unit="person", neighbours=self.neighbours)

    def _pick(self, options: list[tuple[str, frozenset[str]]]) -> tuple[str, frozenset[str]]:
        """Often what an adversary would pick: of a few (pot, who paid before), the cheapest for the
        pots above."""
        if self.with_windows or self.random.random() < 0.2:
            return self.random.choice(options)
        loss = Pure(1, unit="person", neighbours=self.neighbours)

        def advantage(option: tuple[str, frozenset[str]]) -> Fraction:
            name, paid = option
            charges, _ = pot_tree.pay(
                self.pots,
                (name,),
                loss,
                paid=paid,
                limited=False,
                before_recount=self.old_rule and bool(paid),
            )
            return sum(
                (charge.amount for pot, charge in charges.items() if pot != name), Fraction(0)
            )

        return min(self.random.sample(options, min(4, len(options))), key=advantage)

    def ask(self) -> None:
        asked = self._pick([(name, frozenset[str]()) for name in self._readers()])[0]
        conditions = dict(self.conditions[asked])
        for column in COLUMNS:
            if column not in conditions and self.random.random() < 0.2:
                conditions[column] = self.random.choice(self.values[column])
        windows: tuple[str, ...] = ()
        if self.with_windows:
            windows = tuple(window for window in WINDOWS if self.random.random() < 0.6) or (
                WINDOWS[0],
            )
        self._release((asked, *windows), self._touched(conditions, windows or ("always",)))

    def reissue(self) -> None:
        standing = [release for release in self.releases if not release.is_superseded]
        if standing:
            old = self.random.choice(standing)
            old.is_superseded = self._release(old.leaves, old.units, reissue=True)

    def _release(
        self, leaves: tuple[str, ...], units: frozenset[Unit], *, reissue: bool = False
    ) -> bool:
        loss = self._loss()
        try:
            charges, changed = pot_tree.pay(self.pots, leaves, loss, reissue=reissue)
        except BudgetError:
            return False
        self.pots |= changed
        price = tuple(pots.charge_of(self.pots["total"], loss))
        self.releases.append(Release(loss, price, units, leaves, set(charges), set(charges)))
        return True

    def share(self) -> None:
        """As the ledger does: who has not paid does so; the answer is the stored one."""
        candidates = [
            (release, name)
            for release in self.releases
            for name in self._readers()
            if name not in release.payers
            and release.units <= self._touched(self.conditions[name], self._all_windows())
        ]
        if not candidates:
            return
        name, paid = self._pick([(name, frozenset(release.payers)) for release, name in candidates])
        release = next(
            release
            for release, other in candidates
            if (other, frozenset(release.payers)) == (name, paid)
        )
        try:
            charges, changed = pot_tree.pay(
                self.pots,
                (name,),
                release.loss,
                paid=frozenset(release.payers),
                before_recount=self.old_rule,
            )
        except BudgetError:
            return
        self.pots |= changed
        release.payers |= set(charges)
        release.holders |= set(pot_tree.path(self.pots, name))

    def _all_windows(self) -> tuple[str, ...]:
        return WINDOWS if self.with_windows else ("always",)

    def raise_cap(self) -> None:
        name = self.random.choice(list(self.pots))
        pot = self.pots[name]
        if pot.cap < pot.ceiling - pot.reissue:
            self.pots[name] = pot_acts.raise_pot_cap(
                pot, pot.ceiling - pot.reissue, "the yearly report needs the table"
            )

    def check(self) -> None:
        """Every pot stands at or above the true loss of every unit (of every two, under replace) to
        its readers."""
        touches = np.array(
            [[unit in release.units for unit in self.units] for release in self.releases], dtype=int
        )
        for name, pot in self.pots.items():
            held = [
                number for number, release in enumerate(self.releases) if name in release.holders
            ]
            for component, total in enumerate((pot.spent + pot.reissued, pot.delta_spent)):
                prices = np.array(
                    [int(200 * self.releases[number].price[component]) for number in held]
                )
                worst = worst_loss(touches[held], prices, self.neighbours) if held else 0
                assert worst <= 200 * total, (self.seed, name, component, worst, total)
            assert pot.spent + pot.reissued <= pot.ceiling and pot.spent <= pot.cap


def worst_loss(touches: Any, prices: Any, neighbours: str) -> Any:
    """The largest sum of prices over the releases that touch one unit (one of two units, under
    replace)."""
    lost = prices @ touches
    if neighbours == "add_remove":
        return max(lost)
    lost_by_both = touches.T @ (prices[:, None] * touches)
    return (lost[:, None] + lost[None, :] - lost_by_both).max()
