"""An invented clinic.

Patients, visits and prescriptions that look like real files, with nobody in them.

Counties differ in size, age drives visits and costs, smokers meet cardiology more often, few drugs
make most prescriptions, a few people come very often and a few bills are enormous; some cells are
empty or broken, as in every real file. Development data (a dev lineage): whoever reads it learns
about this generator and about no person.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.privacy.noise import SystemSource

CATALOG = """\
dither: 1
dataset: clinic
lineage: clinic-demo
population: invented-residents
neighbours: add_remove
unit: {kind: person}
people:
  patient_id: {protected: true}
  doctor_id: {protected: false, because: staff listed on the public web page}
source: {engine: csv, location: .}
tables:
  patients:
    kind: private
    from: patients.csv
    owner: {column: patient_id}
    unique: [[patient_id]]
    rows_per_unit: 1
    max_rows: 1000000
    columns:
      patient_id: {type: id}
      sex:        {type: category, values: [f, m, x], other: drop, nulls: keep}
      age:        {type: integer, bounds: [0, 110], nulls: drop, provenance: public life tables}
      county:     {type: category, values: {from: counties.county}, other: keep, nulls: keep}
      smoker:     {type: boolean, nulls: keep}
  visits:
    kind: private
    from: visits.csv
    owner: {references: patients, by: patient_id}
    unique: [[visit_id]]
    rows_per_unit: 5
    max_rows: 5000000
    columns:
      visit_id:   {type: id}
      patient_id: {type: id}
      doctor_id:  {type: id}
      day:        {type: date, bounds: [2025-01-01, 2025-12-31], nulls: drop,
                   provenance: period of the extract}
      ward:       {type: category, values: [emergency, surgery, cardiology, maternity],
                   other: keep, nulls: drop}
      age:        {type: integer, bounds: [0, 110], nulls: drop, provenance: public life tables}
      urgent:     {type: boolean, nulls: {value: false}}
      wait:       {type: integer, bounds: [0, 240], nulls: keep, provenance: opening hours}
      cost:       {type: decimal, bounds: [0, 2000], resolution: 0.01, nulls: keep,
                   provenance: tariff 2025}
  prescriptions:
    kind: private
    from: prescriptions.csv
    owner: {references: visits, by: visit_id}
    unique: [[rx_id]]
    rows_per_unit: 8
    max_rows: 10000000
    columns:
      rx_id:      {type: id}
      visit_id:   {type: id}
      drug:       {type: category, values: undeclared, width: 20, nulls: drop}
      days:       {type: integer, bounds: [1, 90], nulls: drop, provenance: pharmacy rules}
      price:      {type: decimal, bounds: [0, 200], resolution: 0.01, nulls: keep,
                   provenance: price list 2025}
  counties:
    kind: public
    from: counties.csv
    unique: [[county]]
    columns:
      county: {type: text, width: 20, nulls: drop}
      beds:   {type: integer, bounds: [0, 9000], nulls: keep, provenance: ministry list}
"""
COUNTIES = ("ash", "birch", "cedar", "elm", "fir", "hazel", "maple", "oak")
BEDS = (2400, 1300, 900, 610, 350, 240, 160, 90)
FILES = ("patients.csv", "visits.csv", "prescriptions.csv", "counties.csv")
_STEMS = ("am", "bro", "cel", "dor", "fen", "gli", "lo", "mer", "nor", "pra", "sul", "tor")
DRUGS = tuple(
    f"{stem}{ending}"
    for ending in ("pril", "statin", "olol", "cillin", "mab", "zole")
    for stem in _STEMS
)
Floats = NDArray[np.float64]


def _declare_people(people: int) -> str:
    """The catalog of so many people: each table has at most its limit of rows for each of them."""
    text = CATALOG
    for rows_per_unit, max_rows in ((1, 1_000_000), (5, 5_000_000), (8, 10_000_000)):
        stated = f"    rows_per_unit: {rows_per_unit}\n    max_rows: "
        text = text.replace(f"{stated}{max_rows}", f"{stated}{rows_per_unit * people}")
    return text


def write_clinic(folder: Path, people: int, *, declares_people: bool = False) -> None:
    """Write clinic.yaml and its four CSV files into a folder that has none of them.

    Raises ParameterError where it has one. With `declares_people` the catalog states no more rows
    than so many people can have: response times follow from declared sizes.
    """
    for name in ("clinic.yaml", *FILES):
        if (folder / name).exists():
            raise ParameterError(f"{folder / name} exists already: choose an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    draw = Draws()
    patients = _draw_patients(draw, people)
    visits = _draw_visits(draw, patients)
    catalog = _declare_people(people) if declares_people else CATALOG
    (folder / "clinic.yaml").write_text(catalog)
    _write_csv(folder / "counties.csv", ("county", "beds"), zip(COUNTIES, BEDS, strict=True))
    _write_csv(
        folder / "patients.csv",
        ("patient_id", "sex", "age", "county", "smoker"),
        _list_patient_rows(draw, patients),
    )
    names = ("visit_id", "patient_id", "doctor_id", "day", "ward", "age", "urgent", "wait", "cost")
    _write_csv(folder / "visits.csv", names, _list_visit_rows(draw, visits))
    _write_csv(
        folder / "prescriptions.csv",
        ("rx_id", "visit_id", "drug", "days", "price"),
        _draw_prescriptions(draw, visits),
    )


class Draws:
    """Random numbers for invented data: floats, from the operating system's generator.

    Never for noise.
    """

    def __init__(self) -> None:
        self._source = SystemSource()

    def uniform(self, count: int) -> Floats:
        return np.asarray((self._source.words(count) >> np.uint64(11)) * 2.0**-53)

    def normal(self, count: int) -> Floats:
        radius = np.sqrt(-2 * np.log1p(-self.uniform(count)))
        return np.asarray(radius * np.cos(2 * np.pi * self.uniform(count)))

    def below(self, bound: int, count: int) -> NDArray[np.int64]:
        return np.asarray(self.uniform(count) * bound, np.int64)

    def chosen(self, weights: Iterable[float], count: int) -> NDArray[np.int64]:
        """Places in `weights`, as likely as they say."""
        steps = np.cumsum(np.asarray(list(weights), float))
        return np.asarray(
            np.searchsorted(steps, self.uniform(count) * steps[-1], side="right"), np.int64
        )


def _draw_patients(draw: Draws, people: int) -> dict[str, NDArray[Any]]:
    """Draw the columns of invented patients, before anything is lost."""
    age = np.clip(44 + 23 * draw.normal(people), 0, 103).astype(np.int64)
    return {
        "age": age,
        "sex": np.array(["f", "m", "x"])[draw.chosen((0.505, 0.49, 0.005), people)],
        "county": draw.chosen((0.36, 0.21, 0.15, 0.1, 0.08, 0.05, 0.035, 0.015), people),
        "smoker": draw.uniform(people) < np.where((age > 17) & (age < 75), 0.22, 0.03),
    }


def _draw_visits(draw: Draws, patients: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Draw the columns of invented visits: most people have few, some have many."""
    people = len(patients["age"])
    age = patients["age"]
    mean = 0.6 + age / 35 + 0.7 * patients["smoker"]
    # Geometric: most few, some many.
    often = np.floor(-mean * np.log1p(-draw.uniform(people))).astype(np.int64)
    often = np.where(draw.uniform(people) < 0.002, often + 30, often)
    who = np.repeat(np.arange(people), np.minimum(often, 60))
    count = len(who)
    visit_age = age[who]
    woman = (patients["sex"][who] == "f") & (visit_age > 18) & (visit_age < 46)
    ward = draw.chosen((0.34, 0.26, 0.18, 0.0, 0.22), count)
    ward = np.where(patients["smoker"][who] & (draw.uniform(count) < 0.25), 2, ward)
    ward = np.where(woman & (draw.uniform(count) < 0.3), 3, ward)
    base = np.array([180.0, 640.0, 310.0, 420.0, 90.0])[ward]
    cost = base * np.exp(0.7 * draw.normal(count)) * (1 + visit_age / 150)
    cost = np.where(draw.uniform(count) < 0.003, cost * 40, cost)  # a few enormous bills
    urgent = draw.uniform(count) < np.where(ward == 0, 0.6, 0.12)
    wait = np.abs(35 + 30 * draw.normal(count)) * np.where(urgent, 0.4, 1.3)
    return {
        "who": who,
        "age": visit_age,
        "ward": ward,
        "cost": cost,
        "urgent": urgent,
        "wait": wait,
    }


def _list_patient_rows(draw: Draws, patients: dict[str, NDArray[Any]]) -> Iterable[tuple[Any, ...]]:
    """List the rows of patients.csv, with some values blank or wrong."""
    people = len(patients["age"])
    lost = draw.uniform(people)
    sex = np.where(lost < 0.01, "", patients["sex"])
    age = np.where((lost > 0.2) & (lost < 0.205), "999", patients["age"].astype(str))
    county = np.where(lost > 0.99, "abroad", np.array(COUNTIES)[patients["county"]])
    smoker = np.where(
        (lost > 0.5) & (lost < 0.55), "", np.where(patients["smoker"], "true", "false")
    )
    ids = [f"p{i}" for i in range(people)]
    return zip(ids, sex.tolist(), age.tolist(), county.tolist(), smoker.tolist(), strict=True)


def _list_visit_rows(draw: Draws, visits: dict[str, NDArray[Any]]) -> Iterable[tuple[Any, ...]]:
    """List the rows of visits.csv, with some values blank or unreadable."""
    count = len(visits["who"])
    lost = draw.uniform(count)
    day = np.datetime64("2025-01-01") + draw.below(365, count).astype("timedelta64[D]")
    ward = np.array(["emergency", "surgery", "cardiology", "maternity", "dermatology"])[
        visits["ward"]
    ]
    cost = np.char.mod("%.2f", visits["cost"])
    cost = np.where(lost < 0.01, "n/a", np.where(lost < 0.03, "", cost))
    urgent = np.where((lost > 0.4) & (lost < 0.42), "", np.where(visits["urgent"], "true", "false"))
    wait = np.where((lost > 0.6) & (lost < 0.64), "", np.char.mod("%d", visits["wait"]))
    ids = [f"v{i}" for i in range(count)]
    who = [f"p{i}" for i in visits["who"].tolist()]
    doctor = [f"d{i}" for i in draw.below(120, count).tolist()]
    columns = (day.astype(str), ward, visits["age"], urgent, wait, cost)
    return zip(ids, who, doctor, *(column.tolist() for column in columns), strict=True)


def _draw_prescriptions(draw: Draws, visits: dict[str, NDArray[Any]]) -> Iterable[tuple[Any, ...]]:
    """Draw the rows of invented prescriptions: 0 to 9 for each visit.

    A few drugs are prescribed most of the time, and some cells are blank.
    """
    per_visit = np.floor(-0.9 * np.log1p(-draw.uniform(len(visits["who"])))).astype(np.int64)
    visit_index = np.repeat(np.arange(len(per_visit)), np.minimum(per_visit, 9))
    count = len(visit_index)
    drug = draw.chosen([1 / (i + 1) ** 1.3 for i in range(len(DRUGS))], count)
    days = 1 + np.floor(-14 * np.log1p(-draw.uniform(count))).astype(np.int64)
    price = (4 + drug / 2) * np.exp(0.5 * draw.normal(count)) * np.sqrt(days)
    lost = draw.uniform(count)
    cost = np.where(lost < 0.02, "", np.char.mod("%.2f", price))
    names = np.where(lost > 0.995, "", np.array(DRUGS)[drug])
    ids = [f"r{i}" for i in range(count)]
    visit_ids = [f"v{i}" for i in visit_index.tolist()]
    return zip(ids, visit_ids, names.tolist(), days.tolist(), cost.tolist(), strict=True)


def _write_csv(file: Path, names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
