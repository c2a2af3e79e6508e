"""The lineages of one machine (rule declared-relations).

No fresh budget is opened for the same people, unless a steward says so.

One small file per dataset in `$XDG_STATE_HOME/dither/lineages`, beside the heads: its lineage,
population and where its ledger lies. Public facts only. A copied catalog, a new view, a renamed
table or a restored backup in another folder is a dataset of its own to the file system; opening its
total then asks for the relation to every lineage known here: *same* people, *disjoint*, or
*unknown*, which counts as same. The answer goes into the chain.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dither.canonical import dumps
from dither.errors import RefusedError
from dither.privacy.ledger.head import default_head_path
from dither.rules import PrivacyRule
from dither.stored import stored, stored_items, stored_keys
from dither.strict_json import read_json


@stored(
    installation="installation",
    dataset="dataset",
    lineage="lineage",
    population="population",
    ledger="ledger",
    opened="opened",
    source="source",
)
@dataclass(frozen=True)
class Known:
    """A dataset whose total was opened on this machine.

    `opened` is True once that is sure; before, a crash may have come between.
    """

    installation: str
    dataset: str
    lineage: str
    population: str
    ledger: str
    opened: bool = False
    source: str = ""

    @property
    def name(self) -> str:
        """How a steward refers to it: the lineage and the start of its installation's id."""
        return f"{self.lineage}@{self.installation[:8]}"


def _folder(installation: str) -> Path:
    return default_head_path(installation).parent.parent / "lineages"


def list_other_datasets(installation: str) -> tuple[Known, ...]:
    """List every dataset on this machine but this one."""
    return tuple(dataset for dataset in _all(installation) if dataset.installation != installation)


def check_not_lost(installation: str) -> None:
    """Raise RefusedError if the total of this dataset was opened before.

    It is called where a ledger without a total was met: then the ledger that had it is lost.
    """
    for dataset in _all(installation):
        if dataset.installation == installation and dataset.opened:
            raise RefusedError(
                f"the total of dataset {dataset.lineage!r} was opened before, and this ledger does "
                f"not know it: restore "
                "the ledger and its head. A lost ledger does not give back what was spent",
                rule=PrivacyRule.FOLLOW_DATA,
            )


def check_never_prod(installation: str, lineage: str, source: str) -> None:
    """Refuse where this lineage or source has a budget elsewhere.

    A dev lineage shows exact answers.
    """
    for dataset in list_other_datasets(installation):
        if dataset.lineage == lineage or dataset.source == source:
            raise RefusedError(
                f"dataset {dataset.lineage!r} has a budget (in {dataset.ledger}) and is this "
                "dataset or reads this source: what ever had a budget cannot be dev",
                rule=PrivacyRule.DEV,
            )


def _all(installation: str) -> tuple[Known, ...]:
    """Read every dataset on this machine.

    A file that cannot be read stops the opening: it may be the one that matters.
    """
    datasets = []
    for file in sorted(_folder(installation).glob("*.json")):
        try:
            datasets.append(_from_document(read_json(file.read_text(encoding="utf-8"))))
        except (OSError, ValueError, TypeError, KeyError):
            raise RefusedError(
                f"the record of a dataset, {file}, cannot be read: restore or remove it",
                rule=PrivacyRule.RELATIONS,
            ) from None
    return tuple(datasets)


def _from_document(document: Any) -> Known:
    """Read the dataset of a lineage file.

    The two newest keys may be missing; an unknown one is refused.
    """
    if not isinstance(document, dict):
        raise TypeError("the record of a dataset is an object")
    attributes = stored_keys(Known)
    return Known(**{attributes[key]: value for key, value in document.items()})


def remember(this: Known) -> None:
    """Write a dataset's facts to the list of lineages of this machine, durably."""
    folder = _folder(this.installation)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = folder / f".{this.installation}.new"
    with os.fdopen(
        os.open(beside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(dumps(dict(stored_items(this))))
        file.flush()
        os.fsync(file.fileno())
    beside.rename(folder / f"{this.installation}.json")


def forget(installation: str) -> None:
    """Remove a dataset from the list of this machine, for a dev lineage that is thrown away."""
    (_folder(installation) / f"{installation}.json").unlink(missing_ok=True)


def declared(datasets: tuple[Known, ...], stated: dict[str, str]) -> dict[str, str]:
    """Map the full name of each other lineage to its stated relation: same, disjoint or unknown.

    `stated` maps names to relations; it may name a lineage by its plain name, or `*` for all that
    are not named. Raises RefusedError where a relation is missing or a name is not known.
    """
    relations = {}
    for dataset in datasets:
        relation = stated.get(dataset.name) or stated.get(dataset.lineage) or stated.get("*")
        if relation is None:
            raise RefusedError(
                f"{dataset.lineage!r} (dataset {dataset.dataset}, population "
                f"{dataset.population}) has a budget "
                f"already. Are these the same people? Say --relation {dataset.lineage}=same, "
                f"=disjoint or =unknown "
                "(which counts as same); budgets of the same people add up in every report",
                rule=PrivacyRule.RELATIONS,
            )
        relations[dataset.name] = relation
    if (
        unknown := set(stated)
        - {name for dataset in datasets for name in (dataset.name, dataset.lineage)}
        - {"*"}
    ):
        raise RefusedError(
            f"no dataset {sorted(unknown)[0]!r} is known here", rule=PrivacyRule.RELATIONS
        )
    return relations
