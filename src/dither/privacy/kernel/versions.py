"""The newest registered version, as the ledger vouches for it."""

from __future__ import annotations

import json

from dither.canonical import digest
from dither.catalog.stored import read_catalog
from dither.errors import DitherError, RefusedError
from dither.plan.facts import load_facts
from dither.privacy.kernel.release import Version
from dither.privacy.ledger import Ledger
from dither.rules import PrivacyRule
from dither.state import State


def newest(ledger: Ledger, state: State) -> Version:
    """Read the newest catalog and facts from the state folder.

    Refused unless they have the hashes that the ledger holds.
    """
    registered = ledger.registered()
    if registered is None:
        raise DitherError(
            "nothing is registered: the data steward runs 'dither register CATALOG' first"
        )
    folder = state.version(registered.version)
    tree = json.loads((folder / "catalog.json").read_text(encoding="utf-8"), parse_float=str)
    facts = load_facts(folder)
    if (digest(tree), facts.hash) != (registered.catalog_hash, registered.public["facts_hash"]):
        raise RefusedError("the stored catalog is not the registered one", rule=PrivacyRule.CATALOG)
    return Version(
        registered.version,
        read_catalog(tree),
        registered.catalog_hash,
        str(registered.public["context"]),
        facts,
    )
