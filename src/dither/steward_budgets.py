"""The steward's acts on budgets: open, raise, clear incidents, reissue; and what a population adds up to."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from dither.canonical import Number
from dither.catalog import Catalog
from dither.errors import DitherError, ParameterError
from dither.privacy.kernel import Kernel, Release
from dither.privacy.ledger import Ledger, Pot, Rule, default_head_path, lineages
from dither.privacy.ledger.lineages import Known
from dither.privacy.ledger.pots import shown
from dither.privacy.ledger.tree import worst_case
from dither.privacy.parts import check_partition
from dither.privacy.request import Request
from dither.privacy.windows import windows_of
from dither.state import State

_DELTAS = ("delta", "delta_per_question", "delta_conversion", "delta_selection", "alpha")


def open_ledger(place: State) -> Ledger:
    """The dataset's ledger, checked against its head."""
    return Ledger.open(place.ledger_location(), default_head_path(place.installation_id()))


def open_pot(
    place: State,
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
    """Open a pot for the unit and neighbours of the registered catalog; the first is the dataset's total."""
    stated: Any = {key: terms.pop(key) for key in _DELTAS if terms.get(key) is not None}
    checked = Rule(rule, **{key: Fraction(str(value)) for key, value in stated.items()})  # type: ignore[arg-type]
    caps = {"epsilon": epsilon, "rho": rho, "renyi": renyi}
    cap = caps.pop(checked.measure)
    if cap is None or any(value is not None for value in caps.values()):
        raise ParameterError(f"a pot with the rule {rule!r} is capped by --{checked.measure} and nothing else")
    terms = {key: value for key, value in terms.items() if value is not None and key not in _DELTAS}
    told: Any = {"neighbours": catalog.neighbours, "unit": catalog.unit.label, "rule": checked, **purpose, **terms}
    ledger = open_ledger(place)
    try:
        registered = ledger.registered()
        if registered is None:
            raise DitherError("nothing is registered: run 'dither register CATALOG' first")
        this = _known(place, catalog)
        counted = registered.public["context"] != "dev"  # invented data has no people to protect twice
        if "inside" not in told and counted:
            told["relations"] = lineages.declared(lineages.known(this.installation), relations or {})
        elif relations:
            raise ParameterError("relations to other lineages are declared when the dataset's total is opened")
        if told.get("kind") == "partition":
            told["column"] = str(told.get("column"))
            check_partition(_sketch(name, told, registered.version), catalog, registered.version)
        if told.get("kind") == "windows":
            return _open_windows(ledger, catalog, name, cap, ceiling, told)
        if "inside" not in told and counted:
            lineages.remember(this)  # before the pot exists: a crash between the two asks too much, never too little
        return ledger.open_pot(name, cap, ceiling, **told)
    finally:
        ledger.close()


def _open_windows(
    ledger: Ledger, catalog: Catalog, name: str, cap: Number, ceiling: Number, told: dict[str, Any]
) -> Pot:
    """A pot for every window that the catalog's bounds hold, each with this cap and ceiling (privacy-rules 10)."""
    windows = windows_of(catalog)
    if windows is None:
        raise ParameterError("windows belong to (person, window) units: this catalog protects " + catalog.unit.label)
    if told.get("inside") is None or told.get("value") or told.get("column"):
        raise ParameterError("windows lie inside the dataset's total, and follow from the catalog: --inside total")
    terms = {key: value for key, value in told.items() if key != "kind"}
    return ledger.open_windows(name, cap, ceiling, windows.column, windows.labels, **terms)


def _sketch(name: str, told: dict[str, Any], version: int) -> Pot:
    one, rule = Fraction(1), told["rule"]
    return Pot(name, one, one, rule, Fraction(0), told["neighbours"], told["unit"], "", "", "", "partition",
               told["inside"], column=told["column"], version=version)  # fmt: skip


def _known(place: State, catalog: Catalog) -> Known:
    where = str(Path(place.root).resolve())
    return Known(place.installation_id(), catalog.dataset, catalog.lineage, catalog.population, where)


def raise_cap(place: State, pot: str, cap: Number, reason: str) -> Pot:
    """Raise a pot's cap, at most to its ceiling less the reserve for reissues."""
    ledger = open_ledger(place)
    try:
        return ledger.raise_cap(pot, cap, reason)
    finally:
        ledger.close()


def clear_incidents(place: State, reason: str) -> None:
    """Let answers leave again after incidents."""
    ledger = open_ledger(place)
    try:
        ledger.clear_incidents(reason)
    finally:
        ledger.close()


def reissue(place: State, request: Request, supersedes: int, note: str) -> Release:
    """Answer again what was answered wrongly, out of the pot's reserve. `note` says why, from public facts alone.

    A decision taken by looking at true data would itself be a release (privacy-rules 25).
    """
    return Kernel(place).release(request, reissue={"supersedes": supersedes, "note": note})


def population_notes(place: State, catalog: Catalog) -> tuple[str, ...]:
    """What the datasets of one population promise together: same people, so budgets add up (privacy-rules 37)."""
    mine = worst_case_of(place)
    if mine is None:
        return ()
    lines, total = [], mine.filter.guarantee(mine.ceiling)
    for other in lineages.known(place.installation_id()):
        relation = mine.relations.get(other.name, "unknown")
        if relation == "disjoint" and other.population != catalog.population:
            continue
        theirs = worst_case_of(State(Path(other.ledger)))
        if theirs is None:
            lines.append(f"lineage {other.lineage}: its ledger cannot be read, so its budget is not in the sum")
            continue
        epsilon, delta = theirs.filter.guarantee(theirs.ceiling)
        total = (total[0] + epsilon, total[1] + delta)
        lines.append(f"lineage {other.lineage} ({relation} people): epsilon {shown(epsilon)}, delta {float(delta):g}")
    if not lines:
        return ()
    told = f"epsilon {float(total[0]):.6g}" + (f", delta {float(total[1]):g}" if total[1] else "")
    return (*lines, f"population {catalog.population}, all its datasets together, whatever is asked: {told}")


def worst_case_of(place: State) -> Pot | None:
    """The total of a dataset, None where it has none or cannot be read."""
    try:
        ledger = open_ledger(place)
    except DitherError:
        return None
    try:
        pots = {pot.name: pot for pot in ledger.pots()}
        return worst_case(pots) if pots else None
    finally:
        ledger.close()
