"""Ask several requests in a row, where a later one may depend on what earlier ones released.

Each request is priced, charged and stored like any other, and is free when it is asked again.
Before the first one is charged, the budget must hold the price of all of them, so that nobody pays
for half an answer. Proof: docs/proofs/adaptive-steps.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from dither.answer.curator_access import CuratorAccess
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
        return self.curator.kernel.price_at(request, self.view)

    def release(self, priced: Priced) -> Release:
        """Charge for a request and measure it, or return its stored answer for free."""
        return self.curator.release(priced, fresh=False, sql=None)

    def find_move(self, cells: Cells) -> int:
        """Find by how much one unit can move all cells together, in the L1 norm."""
        kernel = self.curator.kernel
        rows = kernel.version.analyses.analyse_rows(cells.plan)
        return move_of_cells(cells, rows, kernel.catalog.neighbours).l1

    def quote(self, steps: list[tuple[Priced, int]]) -> Charge:
        """Add up what the pot takes for all steps, given as (priced request, how many times)."""
        pot = self._find_pot()
        charges = [(quote_charge(pot, priced), times) for priced, times in steps]
        return charge_from_amounts(
            sum((charge.amount * times for charge, times in charges), Fraction(0)),
            sum((charge.delta * times for charge, times in charges), Fraction(0)),
        )

    def check_budget(self, first: Priced, whole: Charge) -> None:
        """Refuse where the pot cannot pay all steps together.

        Nothing is refused where the answer to the first step is stored: then the steps were begun
        before, and what is missing of them is asked now.
        """
        pot = self._find_pot()
        if pot is None or self.curator.has_answer(first):
            return
        if whole.amount > pot.left or whole.delta > pot.delta_left:
            raise BudgetError(
                f"all steps together cost {decimal_text(whole.amount, up=True)}, and "
                f"{decimal_text(pot.left)} is left in budget {self.pot!r}. Nothing was spent: ask "
                "with a smaller price"
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

    def _find_pot(self) -> Pot | None:
        pots = self.curator.list_pots()
        return next((listed for listed in pots if listed.name == self.pot), None)


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
