"""A registered survey with an order, a null, several rows of one person, and pots of each rule."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dither
from dither import steward
from dither.session import Connection
from dither.state import State

CATALOG = """\
dither: 1
dataset: survey
lineage: survey
population: invented-people
neighbours: add_remove
unit: {kind: person}
people: {person: {protected: true}}
source: {engine: csv, location: .}
tables:
  survey:
    kind: private
    from: survey.csv
    owner: {column: person}
    unique: []
    rows_per_unit: 2
    max_rows: 10000
    columns:
      person: {type: id}
      age:  {type: integer, bounds: [0, 15], nulls: drop, provenance: sixteen groups of age}
      sex:  {type: category, values: [f, m], other: drop, nulls: drop}
      area: {type: category, values: [north, east, south], other: drop, nulls: keep}
      cost: {type: integer, bounds: [0, 9], nulls: drop, provenance: a fee in coins}
      code: {type: integer, bounds: [0, 199999], nulls: drop, provenance: a public code}
"""
PURPOSE = {
    "question": "How many people are there of each kind?",
    "population": "invented people of the tests",
    "recipient": "readers of the tests",
}
POTS: dict[str, dict[str, Any]] = {
    "pure": {"epsilon": 10**6},
    "approx": {
        "rule": "approx",
        "epsilon": 10**6,
        "delta": "0.5",
        "delta_per_question": "0.01",
    },
    "zcdp": {"rule": "zcdp", "rho": 10**6, "delta_conversion": "1e-6"},
}
ROWS = 1200


class Survey:
    """The registered survey and its true cells."""

    def __init__(self, file: Path) -> None:
        self.file = file
        number = np.arange(ROWS)
        self.age = number * 7 % 16
        self.sex = number // 16 % 2
        self.area = number // 3 % 4
        self.cost = number % 10

    def write(self) -> None:
        areas = np.array(["north", "east", "south", ""])[self.area]
        rows = [
            f"p{row // 2},{self.age[row]},{'fm'[self.sex[row]]},{areas[row]},{self.cost[row]},{row}"
            for row in range(ROWS)
        ]
        header = "person,age,sex,area,cost,code\n"
        (self.file.parent / "survey.csv").write_text(header + "\n".join(rows) + "\n")
        self.file.write_text(CATALOG)
        steward.register(self.file)

    @property
    def state(self) -> State:
        return State(self.file.with_suffix(".dither"))

    def connect(self, rule: str) -> Connection:
        """Open the total under a rule, and connect to it."""
        catalog = steward.registered_catalog(self.state)
        terms = POTS[rule] | {"ceiling": 10**6, "purpose": PURPOSE}
        steward.open_pot(self.state, catalog, "total", **terms)
        return dither.connect(self.file)

    def read_spent(self) -> Any:
        (pot,) = steward.open_ledger(self.state).pots()
        return pot.spent

    def count(self, *names: str) -> np.ndarray:
        """The true counts by some columns, as a table."""
        sizes = {"age": 16, "sex": 2, "area": 4}
        codes = [getattr(self, name) for name in names]
        table = np.zeros([sizes[name] for name in names])
        np.add.at(table, tuple(codes), 1)
        return table


@pytest.fixture(scope="session")
def survey_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Registered once; every test gets a copy."""
    folder = tmp_path_factory.mktemp("survey")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "heads"))
        Survey(folder / "survey.yaml").write()
    return folder


@pytest.fixture
def survey(survey_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Survey:
    shutil.copytree(survey_template, tmp_path / "site")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "site" / "heads"))
    return Survey(tmp_path / "site" / "survey.yaml")
