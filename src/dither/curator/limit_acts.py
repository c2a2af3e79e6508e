"""What a signed act does to the limits of one dataset: register, open, raise, clear.

These are the steward's own functions, called with terms from a signed document and nothing else.
What comes back is one sentence without a figure of the data; why a registration failed is said on
the curator's machine alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from dither import steward
from dither.catalog.file.load import load
from dither.catalog.storage import catalog_hash
from dither.errors import DitherError, ParameterError
from dither.protocol.errors import report_fault
from dither.state import State

_PURPOSE = ("question", "population", "recipient")
_OPEN_TEXTS = (
    *("epsilon", "rho", "renyi", "rule", "delta", "delta_per_question", "delta_conversion"),
    *("delta_selection", "alpha", "inside", "kind", "column", "value", "policy", "reissue"),
)
REGISTRATION_FAILED = (
    "the registration failed and nothing changed: run 'dither register CATALOG' on the curator's "
    "machine, which says why"
)


class LimitActs:
    """The limits of one dataset, moved by one act at a time."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.state = State.beside(file)
        self.lock = Lock()

    def read_head(self) -> tuple[str, str]:
        """The lineage, and the hash of the newest entry that moved a limit."""
        lineage = str(steward.read_registered(self.state).public["lineage"])
        ledger = steward.open_ledger(self.state)
        try:
            return lineage, ledger.newest_limit_entry().hash
        finally:
            ledger.close()

    def do_act(self, kind: str, terms: Mapping[str, Any]) -> str:
        """Do one act on limits; the sentence that says it is done."""
        if kind == "raise":
            given = _read_terms(terms, ("pot", "cap", "reason"))
            pot = steward.raise_cap(self.state, given["pot"], given["cap"], given["reason"])
            return f"the cap of {pot.name} is raised"
        if kind == "clear":
            steward.clear_incidents(self.state, _read_terms(terms, ("reason",))["reason"])
            return "incidents are cleared"
        if kind == "open":
            return self._open_pot(terms)
        return self._register(_read_terms(terms, ("catalog_hash",))["catalog_hash"])

    def _open_pot(self, terms: Mapping[str, Any]) -> str:
        relations = terms.get("relations", {})
        max_incidents = terms.get("max_incidents")
        if not _is_text_map(relations) or type(max_incidents) not in (int, type(None)):
            raise ParameterError("relations are texts by lineage, max_incidents is an integer")
        rest = {name: term for name, term in terms.items() if name not in _OPEN_EXTRAS}
        given = _read_terms(rest, ("pot", "ceiling", *_PURPOSE), _OPEN_TEXTS)
        purpose = {name: given.pop(name) for name in _PURPOSE}
        name = given.pop("pot")
        counted: dict[str, Any] = {} if max_incidents is None else {"max_incidents": max_incidents}
        catalog = steward.registered_catalog(self.state)
        ceiling = given.pop("ceiling")
        steward.open_pot(
            self.state,
            catalog,
            name,
            ceiling=ceiling,
            purpose=purpose,
            relations=relations or None,
            **given,
            **counted,
        )
        return f"the budget {name} is open"

    def _register(self, expected_hash: str) -> str:
        """Register the source anew, by the catalog file here; it must be the one of the act."""
        if catalog_hash(load(self.file)) != expected_hash:
            raise ParameterError("the catalog on the curator's machine is not the one of this act")
        context = steward.read_registered(self.state).public["context"]
        try:
            done = steward.register(self.file, state=self.state, dev=context == "dev")
        except Exception as error:
            report_fault(error)
            raise DitherError(REGISTRATION_FAILED) from None
        return f"version {done.version} is registered"


_OPEN_EXTRAS = ("relations", "max_incidents")


def _read_terms(
    terms: Mapping[str, Any], required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, str]:
    """The terms of an act, all texts; refused where one is missing or is not known."""
    missing = [name for name in required if name not in terms]
    unknown = [name for name in terms if name not in (*required, *optional)]
    if missing or unknown or not _is_text_map(terms):
        raise ParameterError(
            f"the terms of this act are texts: {', '.join(required)}"
            + (f", and possibly {', '.join(optional)}" if optional else "")
        )
    return dict(terms)


def _is_text_map(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(term, str) for term in value.values())
