"""The clinic under (person, window) units: visits of half a year, windows of a month."""

from __future__ import annotations

from pathlib import Path

from dither import steward
from tests.datasets.catalog_texts import write_head, write_private_head
from tests.datasets.regional_clinic import Clinic

CATALOG = (
    write_head(
        "clinic",
        "county-residents",
        "person: {protected: true}",
        unit="{kind: person_window, column: day, every: month, zone: UTC}",
    )
    + write_private_head("visits", "{column: person}", 2)
    + """\
      person: {type: id}
      day: {type: date, bounds: [2026-01-01, 2026-06-30], nulls: drop, provenance: the extract}
      cost: {type: integer, bounds: [0, 9], nulls: drop, provenance: tariff}
"""
)
LABS = (
    write_private_head("labs", "{column: person}", 2)
    + """\
      person: {type: id}
      day: {type: date, bounds: [2025-12-01, 2026-03-31], nulls: drop, provenance: the extract}
      cost: {type: integer, bounds: [0, 9], nulls: drop, provenance: tariff}
"""
)


def register(folder: Path, text: str = CATALOG) -> Clinic:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"p{i},2026-{i % 6 + 1:02d}-{i % 28 + 1:02d},{i % 10}" for i in range(300)]
    (folder / "visits.csv").write_text("person,day,cost\n" + "\n".join(lines) + "\n")
    (folder / "clinic.yaml").write_text(text)
    steward.register(folder / "clinic.yaml")
    return Clinic(folder / "clinic.yaml")
