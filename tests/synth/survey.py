"""An invented survey: work follows age, town follows work, sport follows nothing; a few nulls, a
decimal, two dates in order, and labels that nobody declared."""

from __future__ import annotations

import warnings
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dither

CATALOG = """\
dither: 1
dataset: survey
lineage: survey
population: invented-people
neighbours: {neighbours}
unit: {{kind: person}}
people: {{person: {{protected: true}}}}
source: {{engine: csv, location: .}}
tables:
  people:
    kind: private
    from: people.csv
    owner: {{column: person}}
    unique: [[person]]
    rows_per_unit: 1
    max_rows: 100000
    columns:
      person: {{type: id}}
      age: {{type: integer, bounds: [0, 7], nulls: drop, provenance: eight groups of age}}
      work: {{type: category, values: [none, desk, field, shop], other: drop, nulls: drop}}
      town: {{type: boolean, nulls: drop}}
      sport: {{type: category, values: [run, swim], other: drop, nulls: keep}}
      pay: {{type: decimal, bounds: [0, 5000], resolution: 0.1, nulls: keep, provenance: tariff}}
      begun: {{type: date, bounds: [2001-01-01, 2020-12-31], nulls: drop, provenance: register}}
      ended: {{type: date, bounds: [2001-01-01, 2020-12-31], nulls: drop, provenance: register}}
      hobby: {{type: category, values: undeclared, width: 20, nulls: drop}}
      note: {{type: text, width: 20, nulls: keep}}
  trips:
    kind: private
    from: trips.csv
    owner: {{references: people, by: person}}
    unique: [[trip]]
    rows_per_unit: 3
    max_rows: 300000
    columns:
      trip: {{type: id}}
      person: {{type: id}}
      by_car: {{type: boolean, nulls: drop}}
      length: {{type: integer, bounds: [1, 9], nulls: drop, provenance: form}}
      day: {{type: date, bounds: [2001-01-01, 2001-01-08], nulls: drop, provenance: week}}
"""
FIRST_DAY = date(2001, 1, 1)
DAYS_A_LENGTH = 914
"""An eighth of the days between the bounds of `begun`."""


def invent_people(count: int, seed: int = 1) -> pa.Table:
    """People whose columns depend on each other in a chain."""
    draws = np.random.default_rng(seed)
    age = draws.integers(0, 8, count)
    work = np.where(draws.random(count) < 0.8, age // 2, draws.integers(0, 4, count))
    town = draws.random(count) < 0.1 + 0.25 * work
    begun = draws.integers(0, 3000, count)
    ended = begun + draws.integers(0, 4000, count)
    pay = draws.integers(0, 10_001, count)
    return pa.table(
        {
            "person": [f"p{number}" for number in range(count)],
            "age": age,
            "work": [("none", "desk", "field", "shop")[code] for code in work],
            "town": town,
            "sport": [(None, "run", "swim")[code] for code in draws.integers(0, 3, count)],
            "pay": [None if n % 10 == 0 else Decimal(int(n)) / 2 for n in pay],
            "begun": [FIRST_DAY + timedelta(days=int(day)) for day in begun],
            "ended": [FIRST_DAY + timedelta(days=int(day)) for day in ended],
            "hobby": [("chess", "cards", f"rare {n}")[n % 3] for n in range(count)],
            "note": ["x"] * count,
        }
    )


def invent_trips(people: pa.Table, seed: int = 2) -> pa.Table:
    """0 to 3 trips of each person: by car if the person lives in no town, and the longer the later
    the person began."""
    draws = np.random.default_rng(seed)
    counts = draws.integers(0, 4, people.num_rows)
    owners = np.repeat(np.arange(people.num_rows), counts)
    in_town = people["town"].to_numpy(zero_copy_only=False)[owners]
    days = [(day - FIRST_DAY).days for day in people["begun"].to_pylist()]
    return pa.table(
        {
            "trip": [f"t{number}" for number in range(len(owners))],
            "person": [f"p{number}" for number in owners],
            "by_car": ~in_town,
            "day": [FIRST_DAY + timedelta(days=n % 8) for n in range(len(owners))],
            "length": 1 + np.array(days, np.int64)[owners] // DAYS_A_LENGTH,
        }
    )


def open_survey(
    folder: Path, people: pa.Table, *, epsilon: float, neighbours: str = "add_remove"
) -> Any:
    """A connection to the survey with a budget of its own."""
    file = folder / "survey.yaml"
    file.write_text(CATALOG.format(neighbours=neighbours))
    frames = {"people": people, "trips": invent_trips(people)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dither.PrivacyWarning)
        return dither.connect(frames, catalog=file, epsilon=epsilon)
