"""A small registered clinic for the kernel's tests: patients (one row each), or visits (up to eight
each)."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dither
from dither import steward
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.ledger import Pot
from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.privacy.ledger.verify import Report
from dither.session import Connection
from dither.state import State
from tests.datasets.catalog_texts import write_head, write_private_head

HEAD = write_head("clinic", "county-residents", "patient_id: {protected: true}")
PATIENTS = (
    write_private_head("patients", "{column: patient_id}", 1, unique="[[patient_id]]")
    + """\
      patient_id: {type: id}
      region: {type: category, values: [north, south], other: drop, nulls: drop}
      age:    {type: integer, bounds: [0, 110], nulls: drop, provenance: public life tables}
"""
)
VISITS = """\
  visits:
    kind: private
    from: visits.csv
    owner: {column: patient_id}
    unique: [[visit_id]]
    rows_per_unit: 8
    max_rows: 9000
    columns:
      visit_id:   {type: id}
      patient_id: {type: id}
      ward: {type: category, values: [a, b, c, d, e, f, g, h], other: drop, nulls: drop}
""" + "".join(
    f"      q{i}: {{type: integer, bounds: [0, 1], nulls: drop, provenance: a yes or no "
    f"question}}\n"
    for i in range(16)
)
PURPOSE = {
    "question": "How many patients does the clinic see?",
    "population": "residents of the county in 2026",
    "recipient": "the county health board",
}
COUNT = "SELECT COUNT(*) AS n FROM patients"
BY_REGION = "SELECT region, COUNT(*) AS n FROM patients GROUP BY region"
MANY = (
    "SELECT "
    + ", ".join(f"SUM({k} * q{i}) AS s{i}_{k}" for i in range(16) for k in range(1, 4))
    + " FROM visits"
)
TRUE_COUNT = 400


def write_sources(folder: Path, tables: str = PATIENTS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    patients = [f"p{i},{'north' if i % 4 else 'south'},{i % 100}" for i in range(TRUE_COUNT)]
    answers = ",".join("1" for _ in range(16))
    visits = [
        f"v{i},p{i % TRUE_COUNT},{'abcdefgh'[i % 8]},{answers}" for i in range(3 * TRUE_COUNT)
    ]
    (folder / "patients.csv").write_text("patient_id,region,age\n" + "\n".join(patients) + "\n")
    (folder / "visits.csv").write_text(
        "visit_id,patient_id,ward,"
        + ",".join(f"q{i}" for i in range(16))
        + "\n"
        + "\n".join(visits)
        + "\n"
    )
    (folder / "clinic.yaml").write_text(HEAD + tables)
    return folder / "clinic.yaml"


@dataclass
class Clinic:
    """A registered dataset in a folder of its own."""

    file: Path

    @property
    def place(self) -> State:
        return State(self.file.with_suffix(".dither"))

    def open(self, name: str = "total", **terms: Any) -> Pot:
        told: dict[str, Any] = {"ceiling": 10, "purpose": PURPOSE} | terms
        if not {"epsilon", "rho", "renyi"} & set(told):
            told["epsilon"] = 5
        return steward.open_pot(self.place, steward.registered_catalog(self.place), name, **told)

    def connect(self, pot: str = "total") -> Connection:
        return dither.connect(self.file, pot=pot)

    def kernel(self) -> Kernel:
        return Kernel(self.place)

    def ledger(self) -> StewardLedger:
        return steward.open_ledger(self.place)

    def spent(self) -> dict[str, Any]:
        return {pot.name: pot.spent for pot in self.ledger().pots()}

    def verify(self) -> Report:
        return steward.verify_ledger(self.place)

    def copy(self, folder: Path) -> Clinic:
        """The same registered dataset elsewhere; the caller copies the heads too, by moving
        XDG_STATE_HOME."""
        shutil.copytree(self.file.parent, folder)
        return Clinic(folder / self.file.name)


GAUSSIAN: dict[str, Any] = {"rule": "zcdp", "delta_conversion": "1e-6", "ceiling": 2, "rho": 1}
APPROX: dict[str, Any] = {"rule": "approx", "delta": "1e-5", "delta_per_question": "1e-6"}
