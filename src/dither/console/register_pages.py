"""Pages for the public: what was released and why, and what the guarantee means in frequencies.

They show parameters, never values and never texts of questions. Whoever starts the gateway decides
whether they are open to all, by an auditor's token; else they are for those who are signed in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from fastapi import APIRouter, Response

from dither.answer.history import PaidRelease
from dither.catalog.explain import list_guarantee_sections
from dither.console.budget_page import read_releases
from dither.console.charts import draw_people
from dither.console.curators import Curators, DatasetHead, describe_head, list_page_values
from dither.console.dataset_pages import DatasetName
from dither.console.page_route import PageRoute
from dither.console.rendering import write_page
from dither.console.visitors import OpenToAll, SignInNeededError, Visitor
from dither.errors import DitherError
from dither.gateway.connections import AskedConnection
from dither.pages.html import Html
from dither.privacy.ledger import Pot
from dither.publish.budget import PotBalances
from dither.publish.interpret import Meaning, interpret_pot

MOST_LINES = 500
MOST_KEPT = 64
PEOPLE = 100
PRIORS = (1, 10, 50)
"""Of a hundred people: how many somebody takes to be in the data before any answer."""


@dataclass(frozen=True)
class RegisterPot:
    """A budget in the register: why it was opened, for whom, what it promises, what it paid for."""

    name: str
    question: str
    population: str
    recipient: str
    promise: str
    releases: tuple[PaidRelease, ...]
    releases_left_out: int


@dataclass(frozen=True)
class Frequency:
    """A belief before and after all answers, of a hundred people."""

    before: int
    after: int
    chart: Html


@dataclass(frozen=True)
class MeaningPanel:
    """What a ceiling means: in frequencies, how often they may fail, and for statisticians."""

    frequencies: tuple[Frequency, ...]
    exception: str
    sentences: tuple[str, ...]


class MeaningPanels:
    """Panels by the terms of pots: they take a quarter of a second, and terms seldom change."""

    def __init__(self) -> None:
        self._panels: dict[Any, MeaningPanel] = {}

    def describe(self, pot: Pot) -> MeaningPanel:
        """The panel of a pot's ceiling."""
        terms = (pot.rule, pot.ceiling, pot.unit, pot.neighbours)
        panel = self._panels.get(terms)
        if panel is None:
            panel = describe_meaning(interpret_pot(pot))
            if len(self._panels) >= MOST_KEPT:
                self._panels.clear()
            self._panels[terms] = panel
        return panel


def describe_meaning(meaning: Meaning) -> MeaningPanel:
    """The panel of a guarantee."""
    frequencies = list_frequencies(meaning)
    return MeaningPanel(frequencies, _describe_exception(meaning), tuple(meaning.lines()))


def make_register_router(curators: Curators) -> APIRouter:
    """The routes of the public pages of a dataset."""
    meanings = MeaningPanels()
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.get("/datasets/{dataset}/register")
    def show_register(dataset: DatasetName, visitor: OpenToAll) -> Response:
        reader = _find_reader(curators, dataset, visitor)
        with curators.borrow(dataset, reader) as borrowed:
            balances = borrowed.connection.budget()
            pots = _list_register_pots(borrowed, balances)
            head = _describe_public_head(borrowed, curators, visitor)
            catalog = borrowed.connection.catalog
        return write_page(
            "register.html",
            **list_page_values(visitor, head, "register", "register"),
            pots=pots,
            population=catalog.population,
            unit=catalog.unit.label,
            neighbours=catalog.neighbours,
        )

    @router.get("/datasets/{dataset}/about")
    def show_about(dataset: DatasetName, visitor: OpenToAll) -> Response:
        reader = _find_reader(curators, dataset, visitor)
        with curators.borrow(dataset, reader) as borrowed:
            balances = borrowed.connection.budget()
            head = _describe_public_head(borrowed, curators, visitor)
            sections = list_guarantee_sections(borrowed.connection.catalog)
        total = next((pot for pot in balances.pots if pot.inside is None), None)
        return write_page(
            "about.html",
            **list_page_values(visitor, head, "about", "about"),
            sections=sections,
            meaning=None if total is None else meanings.describe(total),
        )

    return router


def read_register(curators: Curators, dataset: str, visitor: Visitor) -> list[RegisterPot]:
    """The budgets of the register with what they paid for."""
    with curators.borrow(dataset, _find_reader(curators, dataset, visitor)) as borrowed:
        return _list_register_pots(borrowed, borrowed.connection.budget())


def _list_register_pots(borrowed: AskedConnection, balances: PotBalances) -> list[RegisterPot]:
    return [_describe_pot(borrowed, balances, pot) for pot in balances.shown()]


def read_about(curators: Curators, dataset: str, visitor: Visitor) -> list[tuple[str, list[str]]]:
    """Who is protected and who is not, by titles."""
    with curators.borrow(dataset, _find_reader(curators, dataset, visitor)) as borrowed:
        borrowed.curator.read_status()
        return list_guarantee_sections(borrowed.connection.catalog)


def _find_reader(curators: Curators, dataset: str, visitor: Visitor) -> Visitor:
    reader = curators.find_reader(dataset, visitor)
    if reader.token is None:
        raise SignInNeededError("sign in first")
    return reader


def _describe_public_head(
    borrowed: AskedConnection, curators: Curators, visitor: Visitor
) -> DatasetHead:
    """The head of a public page: the visitor's own, or that of somebody without a role."""
    own_head = describe_head(borrowed)
    if curators.settings.register_tokens.get(own_head.name) is None:
        return own_head
    head = replace(own_head, principal="", role="analyst", suspended="")
    if visitor.token is None:
        return head
    try:
        with curators.borrow(head.name, visitor) as own:
            return describe_head(own)
    except DitherError:
        return head


def _describe_pot(borrowed: AskedConnection, balances: PotBalances, pot: Pot) -> RegisterPot:
    releases = tuple(
        replace(release, sql=None) for release in read_releases(borrowed, pot.name) or ()
    )
    newest = tuple(reversed(releases))[:MOST_LINES]
    return RegisterPot(
        pot.name,
        pot.question,
        pot.population,
        pot.recipient,
        str(balances.guarantee(pot)),
        newest,
        len(releases) - len(newest),
    )


def list_frequencies(meaning: Meaning) -> tuple[Frequency, ...]:
    """How far a belief can move, as people of a hundred, rounded up: never less than is true."""
    frequencies = []
    for before in PRIORS:
        after = math.ceil(PEOPLE * meaning.posterior(before / PEOPLE)[1] - 1e-9)
        words = f"{after} of {PEOPLE} dots are marked, where {before} were marked before"
        frequencies.append(Frequency(before, after, draw_people(PEOPLE, after, words)))
    return tuple(frequencies)


def _describe_exception(meaning: Meaning) -> str:
    """How often the frequencies may fail to hold; nothing where they always hold."""
    share = meaning.exception
    if not share:
        return ""
    return f"1 in {math.floor(1 / share):,}" if share < 0.5 else "half the time or more"
