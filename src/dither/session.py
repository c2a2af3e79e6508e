"""The analyst's door: connect, preview, ask, and see what is left."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable

from dither.answer.intervals import level_of
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
from dither.privacy.ledger import Pot
from dither.privacy.request import Price, Request
from dither.sql.bind import bind
from dither.state import State
from dither.version import LOSS_VERSION, __version__

_ADVICE = "choose e.g. epsilon=0.5, or run preview() to see what it buys"


@dataclass(frozen=True)
class Budget:
    """Where the pots stand."""

    pots: tuple[Pot, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = RichTable("pot", "spent", "left", "cap", "ceiling", "rule", "unit", "question")
        for pot in self.pots:
            numbers = (f"{float(value):g}" for value in (pot.spent, pot.left, pot.cap, pot.ceiling))
            shown.add_row(pot.name, *numbers, pot.rule, pot.unit, pot.question)
        yield shown

    def __str__(self) -> str:
        console = Console(width=120)
        with console.capture() as captured:
            console.print(self)
        return captured.get()


class Connection:
    """Questions to one registered dataset, paid from one pot."""

    def __init__(self, catalog_file: str | Path, *, pot: str = "total", state: str | Path | None = None) -> None:
        file = Path(catalog_file)
        written = load(file)
        self._kernel = Kernel(State.beside(file, state))
        self._pot = pot
        if catalog_hash(written) != self._kernel.catalog_hash:
            raise RefusedError(
                f"catalog changed since version {self._kernel.version}: run 'dither register {file}'",
                rule="the registered catalog is the one that counts",
            )

    def preview(self, sql: str, *, epsilon: Number, confidence: Number = 0.95) -> Preview:
        """Price and error of a question. Reads no data, spends nothing, is the same for every database."""
        recipe, priced = self._priced(sql, epsilon)
        left = next((pot.left for pot in self._kernel.ledger.pots() if pot.name == self._pot), None)
        rows, _ = shape(recipe.queries[0], self._kernel.catalog)
        return preview(priced, recipe, rows, level_of(confidence), left)

    def sql(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        confidence: Number = 0.95,
        rho: Number | None = None,
        delta: Number | None = None,
    ) -> Result:
        """Ask: the answer with intervals, paid with at most `epsilon` from the pot."""
        if rho is not None or delta is not None:
            raise ParameterError("rho= and delta= need a zCDP pot, which is not supported yet: ask with epsilon=")
        if epsilon is None:
            raise ParameterError(f"a question needs a price: {_ADVICE}")
        level_of(confidence)
        recipe, priced = self._priced(sql, epsilon)
        self._check_pot()
        release = self._kernel.release(priced.request)
        return build(release, recipe, confidence, self._info(release, recipe))

    def budget(self) -> Budget:
        """Spent, left, cap and ceiling of every pot."""
        return Budget(self._kernel.ledger.pots())

    @property
    def catalog(self) -> Catalog:
        """The registered catalog: the public facts that every answer rests on."""
        return self._kernel.catalog

    def bind(self, sql: str) -> Recipe:
        """The queries and output columns of a question, without a price."""
        return bind(sql, self._kernel.catalog)

    def _priced(self, sql: str, epsilon: Number) -> tuple[Recipe, Priced]:
        price = Price(positive(epsilon, "epsilon", _ADVICE))
        recipe = self.bind(sql)
        return recipe, self._kernel.price(Request(split(recipe.queries), price, self._pot))

    def _check_pot(self) -> None:
        names = [pot.name for pot in self._kernel.ledger.pots()]
        if self._pot not in names:
            raise BudgetError(
                f"there is no pot {self._pot!r}" + (f" (there are {', '.join(names)})" if names else "") + ". "
                f"The data steward opens it: dither budget open {self._pot} --epsilon 3 --ceiling 5 "
                "--question '...' --population '...' --recipient '...'"
            )

    def _info(self, release: Release, recipe: Recipe) -> dict[str, Any]:
        catalog = self._kernel.catalog
        return {
            "release_id": release.release_id,
            "dataset": catalog.dataset,
            "lineage": catalog.lineage,
            "version": release.version,
            "catalog_hash": release.catalog_hash,
            "plan_hash": plan_hash(recipe.queries[0].plan),
            "sql": recipe.sql,
            "context": release.context,
            "mode": "embedded",
            "principal": getpass.getuser(),
            "pot": release.priced.request.pot,
            "rule": "pure",
            "unit": catalog.unit.label,
            "neighbours": catalog.neighbours,
            "price_asked": fraction_text(release.priced.request.price.epsilon),
            "charged": fraction_text(release.charged),
            "loss": release.priced.loss.to_json(),
            "pot_spent_after": fraction_text(release.spent_after),
            "pot_cap": fraction_text(release.cap),
            "released_at": release.released_at,
            "dither_version": __version__,
            "loss_version": LOSS_VERSION,
            "unprotected": list(UNPROTECTED),
        }


def connect(catalog_file: str | Path, *, pot: str = "total", state: str | Path | None = None) -> Connection:
    """Open a registered dataset by its catalog file."""
    return Connection(catalog_file, pot=pot, state=state)
