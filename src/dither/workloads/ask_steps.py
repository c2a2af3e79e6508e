"""Ask several requests in a row, where a later one may depend on what earlier ones released.

What is asked next is a function of what was released before. Before the first one is charged, the
budget and those around it must hold the price of all: nobody pays for half an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from dither.answer.curator_access import CuratorAccess
from dither.answer.earlier_rules import price_apart
from dither.answer.quote import quote_charge
from dither.canonical import decimal_text, fraction_text
from dither.errors import BudgetError, DitherError
from dither.laws import AdditiveErrorLaw, find_error_law
from dither.plan.algebra import Cells, Query
from dither.plan.linear import move_of_cells
from dither.privacy.charges.rules import Charge, charge_from_amounts
from dither.privacy.kernel.kernel import Priced, Release
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.ledger import LedgerView, Pot
from dither.publish.commitment import commitment, make_nonce
from dither.publish.seal import write_certificate
from dither.question.recipe import Recipe

_LEAST_VARIANCE = 1e-6
"""Used where the noise has almost no variance, so that intervals still cover roundings."""
_SINGLE_RELEASE_FACTS = ("loss", "price_asked", "loss_version")
"""Facts of one release that have no meaning for several releases together."""


@dataclass(frozen=True)
class StepAsker:
    """Asks requests of one step each, one after the other, and pays for them from one pot."""

    pot: str
    curator: CuratorAccess
    view: LedgerView
    describe: Callable[[Release, Recipe], dict[str, Any]]

    def price(self, query: Query, family: str, price: Price) -> Priced:
        """Price a request of one step. The price is the same for every database."""
        request = Request((Step(query, family, Fraction(1)),), price, self.pot)
        return price_apart(self.curator.kernel, request, self.view)

    def release(self, priced: Priced) -> Release:
        """Charge for a request and measure it, or return its stored answer for free."""
        return self.curator.release(priced, fresh=False, sql=None)

    def find_move(self, cells: Cells) -> int:
        """Find by how much one unit can move all cells together, in the L1 norm."""
        version = self.curator.kernel.version
        rows = version.analyses.analyse_rows(cells.plan)
        return move_of_cells(cells, rows, version.catalog.neighbours).l1

    def quote(self, steps: Sequence[Priced]) -> Charge:
        """What the pot takes for all steps together."""
        pots = self._list_path()
        return _add_quotes(pots[0] if pots else None, steps)

    def check_budget(self, steps: Sequence[Priced]) -> None:
        """Refuse where the pot, or one around it, cannot pay these steps together."""
        for pot in self._list_path():
            if pot.kind == "partition":
                continue  # its total is that of its largest part
            whole = _add_quotes(pot, steps)
            if whole.amount > pot.left or whole.delta > pot.delta_left:
                raise BudgetError(
                    f"all steps together cost {decimal_text(whole.amount, up=True)}, and "
                    f"{decimal_text(pot.left)} is left in budget {pot.name!r}. Nothing was spent: "
                    "ask with a smaller price"
                )

    def describe_releases(self, releases: Sequence[Release], recipe: Recipe) -> dict[str, Any]:
        """Make the facts of a result of several releases, with what they cost together."""
        infos = [self.describe(release, recipe) for release in releases]
        charges: dict[str, list[Fraction]] = {}
        for info in infos:
            for pot, taken in info["charges"].items():
                before = charges.get(pot, [Fraction(0), Fraction(0)])
                charges[pot] = [
                    sum_so_far + Fraction(more)
                    for sum_so_far, more in zip(before, taken, strict=True)
                ]
        names = [release.release_id for release in releases]
        whole = {key: value for key, value in infos[-1].items() if key not in _SINGLE_RELEASE_FACTS}
        return whole | {
            "release_id": f"computed from {', '.join(names)}",
            "releases": names,
            "repeated": all(info["repeated"] for info in infos),
            "charged": fraction_text(
                sum((Fraction(info["charged"]) for info in infos), Fraction(0))
            ),
            "charges": {pot: list(map(fraction_text, taken)) for pot, taken in charges.items()},
        }

    def _list_path(self) -> list[Pot]:
        """The pot and those around it, as they stand; empty where none is open."""
        pots = {pot.name: pot for pot in self.curator.list_pots()}
        return [pots[pot.name] for pot in self.view.path if pot.name in pots]


class StepBuyer:
    """Releases steps in order: before the first one that is not stored, the budgets must hold the
    price of it and of all after it. Steps that were begun before go on.

    `left` are requests that cost what the steps do.
    """

    def __init__(self, asker: StepAsker, left: list[Priced]) -> None:
        self._asker = asker
        self._left = left
        self._is_checked = False

    def release(self, priced: Priced) -> Release:
        """Charge for the next step and measure it, or take the stored answer."""
        if not self._is_checked and not self._asker.curator.has_answer(priced):
            self._asker.check_budget(self._left)
            self._is_checked = True
        self._left = self._left[1:]
        return self._asker.release(priced)


def _add_quotes(pot: Pot | None, steps: Sequence[Priced]) -> Charge:
    """What a pot takes for requests together; those of rounds are the same, and priced once."""
    times = Counter(priced.key for priced in steps)
    requests = {priced.key: priced for priced in steps}
    charges = [(quote_charge(pot, requests[key]), count) for key, count in times.items()]
    return charge_from_amounts(
        sum((charge.amount * count for charge, count in charges), Fraction(0)),
        sum((charge.delta * count for charge, count in charges), Fraction(0)),
    )


@dataclass(frozen=True)
class StepCertifier:
    """Signs the certificate of a result that was computed from one or several releases.

    The certificate names all releases and states what they cost together.
    """

    asker: StepAsker
    releases: tuple[Release, ...]
    recipe: Recipe
    strategy: str
    nonce: str = field(default_factory=make_nonce, repr=False)

    def sign(
        self, tables: dict[str, Any], notes: tuple[str, ...], file: str | Path | None
    ) -> dict[str, Any]:
        """Sign the certificate of these tables; also write it to `file` where that is not None."""
        tables_commitment = commitment({"tables": [tables]}, self.nonce)
        signed = self._sign((f"workload: {self.strategy}", *notes), tables_commitment)
        if file is not None:
            Path(file).write_text(write_certificate(signed), encoding="utf-8")
        return signed

    def _sign(self, steps: tuple[str, ...], tables_commitment: str) -> dict[str, Any]:
        curator = self.asker.curator
        if len(self.releases) == 1:
            return curator.certify(self.releases[0], self.recipe, steps, tables_commitment)
        if curator.asked_through.mode != "embedded":
            raise DitherError(
                "a served dataset signs certificates of single releases: this result is computed "
                f"from {', '.join(release.release_id for release in self.releases)}"
            )
        return curator.certify_earlier(self.releases, self.recipe, steps, tables_commitment)


def sign_tables(
    certifier: StepCertifier | None,
    tables: dict[str, Any],
    notes: tuple[str, ...],
    file: str | Path | None,
) -> dict[str, Any]:
    """Sign the certificate of a result; refuse it after a rehearsal, which has no certifier."""
    if certifier is None:
        raise DitherError("a certificate is made for released answers: ask with .answer()")
    return certifier.sign(tables, notes, file)


def write_price(charge: Charge, pot: str) -> str:
    """Write the line of a preview that says what the pot takes."""
    return f"price: {decimal_text(charge.amount, up=True)} from {pot}"


def find_noise_law(priced: Priced) -> AdditiveErrorLaw:
    """Find the error law of a request of one step."""
    law = find_error_law(priced.steps[0].mechanism)
    assert isinstance(law, AdditiveErrorLaw)
    return law


def find_variance(priced: Priced) -> float:
    """Find the variance of the noise of a request of one step, or a millionth if that is larger."""
    return max(_LEAST_VARIANCE, float(find_noise_law(priced).variance))
