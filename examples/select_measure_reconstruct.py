"""Select, measure, reconstruct: an algorithm of one's own over public names of dither alone.

Multiplicative weights (Hardt, Ligett and McSherry 2012): choose the pair of columns that the model
fits worst, measure its marginal, scale the model to what was measured, and again. Half of each
round's price goes to the choice, half to the measurement; all of it was charged before the first.
Nothing exact is seen here, so a mistake costs accuracy and never privacy.

    python examples/select_measure_reconstruct.py
"""

from __future__ import annotations

import tempfile
import warnings
from fractions import Fraction
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa

import dither
from dither.plan.algebra import Cells, Count, Linear, Scan, Scores
from dither.plan.operators import Marginal
from dither.plan.utilities import DistanceCandidate, Distances


def fit_table(con, table, keys, sizes, *, epsilon, people, rounds=6, steps=30):
    """A table of expected counts that fits the marginals of all pairs of keys."""
    cells = Cells(Scan(table), keys, (Count(),))
    pairs = [Marginal(sizes, pair) for pair in combinations(range(len(keys)), 2)]
    model = np.full(sizes, people / prod(sizes))
    measured = []
    share = Fraction(str(epsilon)) / (2 * rounds)
    with con.lease(epsilon=epsilon) as lease:
        for _ in range(rounds):
            candidates = tuple(
                DistanceCandidate(1, pair, tuple(int(n) for n in project(model, pair).round()))
                for pair in pairs
            )
            (worst,) = lease.release(Scores(cells, Distances(1, candidates)), epsilon=share)
            noisy = lease.release(Linear(cells, pairs[worst]), epsilon=share)
            measured.append((pairs[worst], np.maximum(np.array(noisy, float), 0.5)))
            for _ in range(steps):
                for pair, counts in measured:
                    model = scale_to(model, pair, counts)
    return model


def project(model, marginal):
    """The marginal of a model, in the order of the kernel's cells."""
    dropped = tuple(axis for axis in range(model.ndim) if axis not in marginal.kept)
    return model.sum(axis=dropped).ravel()


def scale_to(model, marginal, counts):
    """The model with this marginal, all else in proportion."""
    shape = [size if axis in marginal.kept else 1 for axis, size in enumerate(model.shape)]
    return model * (counts / np.maximum(project(model, marginal), 1e-9)).reshape(shape)


# -- what follows invents a table to try it on -----------------------------------------------------

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
    unique: [[person]]
    rows_per_unit: 1
    max_rows: 100000
    columns:
      person: {type: id}
      age: {type: integer, bounds: [0, 7], nulls: drop, provenance: eight groups of age}
      work: {type: integer, bounds: [0, 3], nulls: drop, provenance: four kinds of work}
      town: {type: integer, bounds: [0, 1], nulls: drop, provenance: town or country}
"""
SIZES = (8, 4, 2)


def invent_people(count):
    """People whose work follows from their age, and whose town follows from their work."""
    number = np.arange(count)
    age = number % 8
    work = np.where(number // 8 % 5 < 4, age // 2, number // 40 % 4)
    town = (number // 160 % 10 < 2 + 2 * work).astype(int)
    names = [f"p{person}" for person in range(count)]
    return pa.table({"person": names, "age": age, "work": work, "town": town})


def run(people=20_000, epsilon=1.0):
    """The error of the fitted table and of a flat one: L1 over all cells, in people."""
    frame = invent_people(people)
    codes = np.stack([frame[name].to_numpy() for name in ("age", "work", "town")])
    truth = np.bincount(np.ravel_multi_index(codes, SIZES), minlength=prod(SIZES)).reshape(SIZES)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "survey.yaml"
        file.write_text(CATALOG)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dither.PrivacyWarning)
            con = dither.connect(frame, catalog=file, epsilon=epsilon)
        model = fit_table(
            con, "survey", ("age", "work", "town"), SIZES, epsilon=epsilon, people=people
        )
    flat = np.full(SIZES, people / prod(SIZES))
    return np.abs(model - truth).sum(), np.abs(flat - truth).sum()


if __name__ == "__main__":
    fitted, flat = run()
    print(f"L1 error over {prod(SIZES)} cells: {fitted:,.0f} of a flat table's {flat:,.0f}")
