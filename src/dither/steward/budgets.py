"""The steward's acts on budgets: open, raise, clear incidents, reissue.

Also what the budgets of one population add up to.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from dither.canonical import Number, decimal_text, exact
from dither.catalog import Catalog
from dither.catalog.explain import ASSERTED, horizon
from dither.catalog.storage import from_json
from dither.errors import DitherError, ParameterError, RefusedError
from dither.given_numbers import as_float
from dither.privacy.kernel.kernel import Release
from dither.privacy.kernel.opening import open_kernel
from dither.privacy.kernel.parts import check_blocks
from dither.privacy.kernel.request import Request
from dither.privacy.kernel.windows import windows_of
from dither.privacy.ledger import Pot, Registered, Rule, default_head_path, lineages
from dither.privacy.ledger.lineages import Known
from dither.privacy.ledger.pot_tree import worst_case
from dither.privacy.ledger.pots import opened
from dither.privacy.ledger.reports import Reports
from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.publish.budget import AS_IF, Pair, convert_over_windows, convert_steps
from dither.publish.library import LIBRARY, NO_TOTAL
from dither.rules import PrivacyRule
from dither.state import State

NOT_REGISTERED = "not-registered-yet"
"""No installation has this id: to it, all lineages of the machine are others."""
_NONE: Pair = (Fraction(0), Fraction(0))
_DELTAS = ("delta", "delta_per_question", "delta_conversion", "delta_selection", "alpha")


def open_ledger(state: State) -> StewardLedger:
    """Open the dataset's ledger and check it against its head."""
    return StewardLedger.open(state.ledger_location(), default_head_path(state.installation_id()))


def read_registered(state: State) -> Registered:
    """Read which version is registered; an error where none is."""
    ledger = open_ledger(state)
    try:
        registered = ledger.registered()
    finally:
        ledger.close()
    if registered is None:
        raise DitherError("nothing is registered: run 'dither register CATALOG' first")
    if registered.public["context"] == LIBRARY:
        raise RefusedError(
            f"this state belongs to a connection to a data frame: {NO_TOTAL}",
            rule=PrivacyRule.FOLLOW_DATA,
        )
    return registered


def open_pot(
    state: State,
    catalog: Catalog,
    name: str,
    *,
    ceiling: Number,
    purpose: dict[str, str],
    epsilon: Number | None = None,
    rho: Number | None = None,
    renyi: Number | None = None,
    rule: str = "pure",
    relations: dict[str, str] | None = None,
    **terms: Any,
) -> Pot:
    """Open a pot for the unit and neighbours of the registered catalog.

    The first is the dataset's total.
    """
    checked = read_rule(rule, terms)
    caps = {"epsilon": epsilon, "rho": rho, "renyi": renyi}
    cap = caps.pop(checked.measure)
    if cap is None or any(value is not None for value in caps.values()):
        raise ParameterError(
            f"a budget with the rule {rule!r} is capped by --{checked.measure} and nothing else"
        )
    terms = {key: value for key, value in terms.items() if value is not None and key not in _DELTAS}
    settings: Any = {
        "neighbours": catalog.neighbours,
        "unit": catalog.unit.label,
        "rule": checked,
        **purpose,
        **terms,
    }
    ledger = open_ledger(state)
    try:
        registered = ledger.registered()
        if registered is None:
            raise DitherError("nothing is registered: run 'dither register CATALOG' first")
        this = _describe_lineage(state, catalog)
        # Invented data has no people to protect twice; a data frame promises no total.
        counted = registered.public["context"] == "prod"
        if "inside" not in settings and counted:
            settings["relations"] = lineages.declared(
                lineages.list_other_datasets(this.installation), relations or {}
            )
        elif relations:
            raise ParameterError(
                "relations to other datasets are declared when the dataset's total is opened"
            )
        if settings.get("kind") == "partition":
            settings["column"] = str(settings.get("column"))
            check_blocks(
                _sketch_pot(name, settings, registered.version), catalog, registered.version
            )
        if settings.get("kind") == "windows":
            return _open_windows(ledger, catalog, name, cap, ceiling, settings)
        if "inside" in settings or not counted:
            return ledger.open_pot(name, cap, ceiling, **settings)
        if not ledger.pots():
            lineages.check_not_lost(this.installation)
            # Before the pot exists: a crash between the two asks too much, never too little.
            lineages.remember(this)
        total = ledger.open_pot(name, cap, ceiling, **settings)
        lineages.remember(replace(this, opened=True))
        return total
    finally:
        ledger.close()


def read_rule(name: str, terms: dict[str, Any]) -> Rule:
    """Read a rule from its name and those of the terms that belong to rules."""
    stated: Any = {key: terms[key] for key in _DELTAS if terms.get(key) is not None}
    for key, value in stated.items():
        as_float(value, key)  # deltas below 1e-300 are no promise that anybody can compute with
    return Rule(name, **{key: exact(value, key) for key, value in stated.items()})  # type: ignore[arg-type]


def check_purpose(catalog: Catalog, purpose: dict[str, str]) -> None:
    """Refuse a purpose that no pot of this catalog could be opened with. Opens nothing."""
    sentences: Any = purpose
    opened("total", 1, 1, neighbours=catalog.neighbours, unit=catalog.unit.label, **sentences)


def list_lineages() -> tuple[str, ...]:
    """The lineages that have a budget on this machine, as relations to them are declared before
    anything is registered."""
    return tuple(relative.name for relative in lineages.list_other_datasets(NOT_REGISTERED))


def _open_windows(
    ledger: StewardLedger,
    catalog: Catalog,
    name: str,
    cap: Number,
    ceiling: Number,
    settings: dict[str, Any],
) -> Pot:
    """Open a pot for every window inside the catalog's bounds, with this cap and ceiling.

    Rule every-window-pays.
    """
    windows = windows_of(catalog)
    if windows is None:
        raise ParameterError(
            "windows belong to (person, window) units: this catalog protects " + catalog.unit.label
        )
    if settings.get("inside") is None or settings.get("value") or settings.get("column"):
        raise ParameterError(
            "windows lie inside the dataset's total, and follow from the catalog: --inside total"
        )
    terms = {key: value for key, value in settings.items() if key != "kind"}
    return ledger.open_windows(name, cap, ceiling, windows.column, windows.labels, **terms)


def _sketch_pot(name: str, settings: dict[str, Any], version: int) -> Pot:
    """Make a pot with amounts of 1, only to check whether a partition may be opened like this."""
    unit_amount = Fraction(1)
    rule = settings["rule"]
    return Pot(
        name,
        unit_amount,
        unit_amount,
        rule,
        Fraction(0),
        settings["neighbours"],
        settings["unit"],
        "",
        "",
        "",
        "partition",
        settings["inside"],
        column=settings["column"],
        version=version,
    )


def _describe_lineage(state: State, catalog: Catalog) -> Known:
    """Describe this lineage for the machine's list of all lineages."""
    where = str(Path(state.root).resolve())
    source = state.source_file.read_text(encoding="utf-8") if state.source_file.exists() else ""
    return Known(
        state.installation_id(),
        catalog.dataset,
        catalog.lineage,
        catalog.population,
        where,
        source=source,
    )


def raise_cap(state: State, pot: str, cap: Number, reason: str) -> Pot:
    """Raise a pot's cap, at most to its ceiling less the reserve for reissues."""
    ledger = open_ledger(state)
    try:
        return ledger.raise_cap(pot, cap, reason)
    finally:
        ledger.close()


def clear_incidents(state: State, reason: str) -> None:
    """Let answers leave again after incidents."""
    ledger = open_ledger(state)
    try:
        ledger.clear_incidents(reason)
    finally:
        ledger.close()


def reissue(state: State, request: Request, supersedes: str, note: str) -> Release:
    """Answer again what was answered wrongly, out of the pot's reserve. `note` says why, from
    public facts alone.

    A decision taken by looking at true data would itself be a release (rule
    reissue-reads-releases).
    """
    kernel = open_kernel(state)
    number = Reports.from_ledger(kernel.ledger).number_of(str(supersedes))
    return kernel.release(request, reissue={"supersedes": number, "note": note})


@dataclass(frozen=True)
class DatasetPromise:
    """What one dataset promises to a person of a population.

    The promise holds over all its windows, for its neighbours.
    """

    name: str
    relation: str
    neighbours: str
    promised: Pair
    so_far: Pair

    def under(self, neighbours: str) -> tuple[Pair, Pair]:
        """The pairs for these neighbours.

        Replacing a person is two steps of adding or removing one.
        """
        if neighbours == self.neighbours:
            return self.promised, self.so_far
        return convert_steps(self.promised, 2), convert_steps(self.so_far, 2)


def population_notes(state: State, catalog: Catalog) -> tuple[str, ...]:
    """What the datasets of one population promise together.

    Same people, so budgets add up (rule populations-add-up).

    Basic composition over datasets, which holds however questions to one are chosen after answers
    of another. A relation is what the later of two openings declared. Row units promise nothing to
    a person, and have no sum.
    """
    own_promise = _read_promise(state, catalog.lineage, "its own")
    relatives = lineages.list_other_datasets(state.installation_id())
    if own_promise is None or not relatives:
        return ()
    this = _describe_lineage(state, catalog)
    total = find_total(state)
    promises = [own_promise] if isinstance(own_promise, DatasetPromise) else []
    lines = []
    missing = not isinstance(own_promise, DatasetPromise)
    for relative in relatives:
        relative_state = State(Path(relative.ledger))
        root = find_total(relative_state)
        declared = (total.relations if total else {}).get(relative.name) or (
            root.relations if root else {}
        ).get(this.name)
        relation = declared or "unknown"
        if relation == "disjoint" and relative.population != catalog.population:
            continue
        promise = _read_promise(relative_state, relative.lineage, relation)
        if isinstance(promise, DatasetPromise):
            promises.append(promise)
            lines.append(
                f"dataset {relative.lineage} ({relation} people): {_write_pair(promise.promised)}, "
                f"for one person"
            )
        else:
            missing = True
            why = promise or "its ledger cannot be read"
            lines.append(
                f"dataset {relative.lineage} ({relation} people): {why}, so it is not in the sum"
            )
    if not lines:
        return ()
    neighbours = (
        "replace" if any(promise.neighbours == "replace" for promise in promises) else "add_remove"
    )
    both = [promise.under(neighbours) for promise in promises]
    promised, so_far = (
        (_add_pairs(pairs) for pairs in zip(*both, strict=True)) if both else ((_NONE, _NONE))
    )
    least = "at least " if missing else ""
    who = f"population {catalog.population}, all its datasets together"
    change = "replacing a person" if neighbours == "replace" else "adding or removing a person"
    lines.append(f"{who}, whatever is asked: {least}{_write_pair(promised)}, for {change}")
    lines.append(f"{who}, so far, {AS_IF}: {least}{_write_pair(so_far)}, for {change}")
    return tuple(lines)


def _read_promise(state: State, lineage: str, relation: str) -> DatasetPromise | str | None:
    """Read what a dataset promises to one person.

    Returns a sentence if it promises nothing, and None if it cannot be read.
    """
    pots = _read_pots(state)
    if not pots:
        return None
    root = worst_case(pots)
    if root.unit == "row":
        return "it protects rows, not people"
    windows = horizon(_read_catalog(state)) or 1
    ceiling = min(pot.ceiling for pot in (root, *_find_windows_pot(pots)))
    sums = root.spent + root.reissued
    so_far = convert_over_windows(root.rule, sums, windows) if sums or root.delta_spent else _NONE
    name = f"{lineage} ({ASSERTED})" if root.unit.endswith(f"({ASSERTED})") else lineage
    return DatasetPromise(
        name,
        relation,
        root.neighbours,
        convert_over_windows(root.rule, ceiling, windows),
        so_far,
    )


def _find_windows_pot(pots: dict[str, Pot]) -> tuple[Pot, ...]:
    return tuple(pot for pot in pots.values() if pot.is_windows)


def _read_catalog(state: State) -> Catalog:
    """Read the catalog of the registered version."""
    ledger = open_ledger(state)
    try:
        registered = ledger.registered()
    finally:
        ledger.close()
    assert registered is not None  # a total is opened after a registration
    return from_json(
        json.loads((state.version(registered.version) / "catalog.json").read_text(encoding="utf-8"))
    )


def _add_pairs(pairs: tuple[Pair, ...]) -> Pair:
    return sum((pair[0] for pair in pairs), Fraction(0)), min(
        Fraction(1), sum((pair[1] for pair in pairs), Fraction(0))
    )


def _write_pair(pair: Pair) -> str:
    return f"epsilon {decimal_text(pair[0], up=True)}, delta {decimal_text(pair[1], up=True)}"


def find_total(state: State) -> Pot | None:
    """Find the total of a dataset; None where it has none or cannot be read."""
    pots = _read_pots(state)
    return worst_case(pots) if pots else None


def _read_pots(state: State) -> dict[str, Pot]:
    """Read the pots of a dataset, by name; none if its ledger cannot be opened."""
    try:
        ledger = open_ledger(state)
    except DitherError:
        return {}
    try:
        return {pot.name: pot for pot in ledger.pots()}
    finally:
        ledger.close()
