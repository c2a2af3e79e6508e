"""The analyst's door: connect, preview, ask, and see what is left."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

from dither.answer.budget import Budget
from dither.answer.intervals import half_width, level_of
from dither.answer.preview import Preview, preview
from dither.answer.recipe import Recipe
from dither.answer.result import Result, build
from dither.answer.split import split
from dither.canonical import Number, fraction_text, positive
from dither.catalog import UNPROTECTED, Catalog, catalog_hash, load
from dither.errors import BudgetError, ParameterError, RefusedError
from dither.plan.algebra import plan_hash
from dither.plan.domains import shape
from dither.privacy.kernel import Kernel, Priced, Release
from dither.privacy.ledger import Pot, charge
from dither.privacy.ledger.rules import Charge, charge_pure
from dither.privacy.request import Family, Price, Request
from dither.privacy.windows import horizon
from dither.sql.bind import bind
from dither.state import State
from dither.version import LOSS_VERSION, __version__

_ADVICE = "choose e.g. epsilon=0.5, or run preview() to see what it buys"


class Connection:
    """Questions to one registered dataset, paid from one pot."""

    def __init__(self, catalog: str | Path | Catalog, *, pot: str = "total", state: str | Path | None = None) -> None:
        written = catalog if isinstance(catalog, Catalog) else load(catalog)
        file = Path(written.file)
        self._kernel = Kernel(State.beside(file, state))
        self._pot = pot
        self._file, self._catalog_hash = file, catalog_hash(written)
        self._check_catalog()

    def _check_catalog(self) -> None:
        """The catalog that this connection was opened with is the registered one."""
        if self._kernel.at.catalog_hash != self._catalog_hash:
            raise RefusedError(
                f"catalog changed since version {self._kernel.at.number}: run 'dither register {self._file}', or "
                "connect again if it was registered just now",
                rule="the registered catalog is the one that counts",
            )

    def preview(
        self, sql: str, *, epsilon: Number | None = None, rho: Number | None = None, confidence: Number = 0.95
    ) -> Preview:
        """Price and error of a question. Reads no data, spends nothing, is the same for every database."""
        recipe, priced = self._priced(sql, epsilon, rho)
        ledger = self._kernel.ledger
        pot = next((pot for pot in ledger.pots(under_way=False) if pot.name == self._pot), None)
        rows, _ = shape(recipe.queries[0], self._kernel.catalog)
        stored = pot is not None and ledger.has_answer(priced.key)
        return preview(priced, recipe, rows, level_of(confidence), pot, _quote(pot, priced), stored)

    def sql(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        confidence: Number = 0.95,
        delta: Number | None = None,
        fresh: bool = False,
    ) -> Result:
        """Ask: the answer with intervals, paid with at most `epsilon` (or `rho`) from the pot.

        The same question at the same price has one answer: asked again it is free, and the same. `fresh=True` buys a
        new one.
        """
        if delta is not None:
            raise ParameterError(
                "delta is not the asker's to choose: a question takes what its pot states per question "
                "(dither budget open --rule approx --delta-per-question)"
            )
        recipe, priced = self._priced(sql, epsilon, rho)
        for each in priced.steps:  # whatever can fail in making the table fails before the charge
            half_width(each.mechanism, level_of(confidence))
        self._check_pot()
        kernel = self._kernel
        release = kernel.release(priced.request) if fresh else kernel.answer(priced.request)
        return build(release, recipe, confidence, self._info(release, recipe))

    def budget(self) -> Budget:
        """Spent, left, cap and ceiling of every pot, and what they promise."""
        return Budget(self._kernel.ledger.pots(under_way=False), horizon=horizon(self._kernel.catalog))

    @property
    def kernel(self) -> Kernel:
        """The kernel behind this connection."""
        return self._kernel

    @property
    def catalog(self) -> Catalog:
        """The registered catalog: the public facts that every answer rests on."""
        return self._kernel.catalog

    def bind(self, sql: str) -> Recipe:
        """The queries and output columns of a question, without a price."""
        return bind(sql, self._kernel.catalog)

    def request(self, sql: str, *, epsilon: Number | None = None, rho: Number | None = None) -> Request:
        """The request that a question makes at a price."""
        return self._priced(sql, epsilon, rho)[1].request

    def _priced(self, sql: str, epsilon: Number | None, rho: Number | None) -> tuple[Recipe, Priced]:
        """Of the families that the price can buy from this pot, the one with the smaller error."""
        price = Price(
            None if epsilon is None else positive(epsilon, "epsilon", _ADVICE),
            None if rho is None else positive(rho, "rho", "choose e.g. rho=0.1"),
        )
        self._kernel.refresh()
        self._check_catalog()
        recipe = self.bind(sql)
        families: list[Family] = ["gaussian"] if price.epsilon is None else ["laplace"]
        pot = next((pot for pot in self._kernel.ledger.pots() if pot.name == self._pot), None)
        if price.epsilon is not None and pot is not None and pot.filter.delta_per_question:
            families.append("gaussian")
        offers = [self._kernel.price(Request(split(recipe.queries, family), price, self._pot)) for family in families]
        return recipe, min(offers, key=lambda offer: max(step.mechanism.error().variance for step in offer.steps))

    def _check_pot(self) -> None:
        names = [pot.name for pot in self._kernel.ledger.pots()]
        if self._pot not in names:
            raise BudgetError(
                f"there is no pot {self._pot!r}" + (f" (there are {', '.join(names)})" if names else "") + ". "
                f"The data steward opens it: dither budget open {self._pot} --epsilon 3 --ceiling 5 "
                "--question '...' --population '...' --recipient '...'"
            )

    def _info(self, release: Release, recipe: Recipe) -> dict[str, Any]:
        catalog, price = release.at.catalog, release.priced.request.price
        pot = self._kernel.ledger.pot(release.priced.request.pot, under_way=False)
        return {
            "release_id": release.release_id,
            "repeated": release.repeated,
            "dataset": catalog.dataset,
            "lineage": catalog.lineage,
            "version": release.at.number,
            "catalog_hash": release.at.catalog_hash,
            "plan_hash": plan_hash(recipe.queries[0].plan),
            "sql": recipe.sql,
            "context": release.at.context,
            "mode": "embedded",
            "principal": getpass.getuser(),
            "pot": pot.name,
            "rule": pot.rule,
            "measure": pot.filter.measure,
            "unit": catalog.unit.label,
            "neighbours": catalog.neighbours,
            "price_asked": fraction_text(price.value),
            "price_in": price.name,
            "charged": fraction_text(release.charged),
            "charges": {name: list(map(fraction_text, taken)) for name, taken in release.charges.items()},
            "loss": release.priced.loss.to_json(),
            "pot_spent_after": fraction_text(pot.spent),
            "pot_cap": fraction_text(release.cap),
            "released_at": release.released_at,
            "dither_version": __version__,
            "loss_version": LOSS_VERSION,
            "unprotected": list(UNPROTECTED),
            **({"person": str(self.budget().person())} if catalog.unit.column else {}),
        }


def _quote(pot: Pot | None, priced: Priced) -> Charge:
    """What the pot would take; refused here, for free, where its rule has no charge for the loss."""
    if pot is not None:
        return charge(pot.filter, priced.loss)
    price = priced.request.price
    return Charge(charge_pure(priced.loss) if price.rho is None else price.rho, price.value * 0)


def connect(catalog: str | Path | Catalog, *, pot: str = "total", state: str | Path | None = None) -> Connection:
    """Open a registered dataset by its catalog: a file, or a Catalog loaded from one."""
    return Connection(catalog, pot=pot, state=state)
