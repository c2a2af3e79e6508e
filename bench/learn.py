"""Private learning on tables: accuracy against the same model without privacy, and time.

    python bench/learn.py [--large] [--tables] [--lasso] [--adult FOLDER] [--quick] [--json]

With `--adult` (a folder with the census file `adult.csv` of the UCI repository, with a header):
AUC of our default models, means over 5 runs, settings by rule, on a fifth of the rows that training
never saw. Bounds are public facts of the survey, values those of its documentation. Time is against
full-batch gradient descent in NumPy on the same encoded rows with as many steps. Lines "through the
kernel" train on the same rows as a registered table that pays from a ledger.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.csv
from common import line, options, report, seconds, write_catalog
from sklearn.linear_model import LogisticRegression as PlainRegression
from sklearn.metrics import roc_auc_score

import dither
from dither import learn, steward
from dither.learn.columns import declare_columns
from dither.learn.encode import encode_rows
from dither.state import State

BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}
GAPS = {0.1: 0.030, 0.3: 0.012, 1: 0.005, 3: 0.004}
"""By epsilon: how far below the same model without privacy the AUC may be."""
DELTA = 1e-5
RUNS = 5
PEERS = Path(__file__).parent / "learn_peers.json"
"""Figures of other libraries: see bench/learn_peers.py."""


def read_adult(folder: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names, values and labels, in an order that is fixed and has nothing to do with them."""
    with (Path(folder) / "adult.csv").open() as file:
        names, *rows = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == 15]
    order = np.random.default_rng(0).permutation(len(rows))
    table = np.array(rows, object)[order]
    return names[:-1], table[:, :-1], np.array([row[-1].startswith(">50K") for row in table], int)


PURPOSE = {
    "question": "How well do private models do?",
    "population": "the people of a census file",
    "recipient": "readers of the benchmark",
}


def connect_table(folder: Path, columns: dict[str, object], lines: str) -> dither.Connection:
    """A registered table with a budget that is never empty."""
    os.environ["XDG_STATE_HOME"] = str(folder)
    rows = len(next(iter(columns.values())))
    people = {"person": [f"p{number}" for number in range(rows)]}
    pa.csv.write_csv(pa.table(people | columns), folder / "visits.csv")
    file = folder / "bench.yaml"
    file.write_text(write_catalog(lines, population="bench", rows_per_unit=1, max_rows=2 * rows))
    state = State(file.with_suffix(".dither"))
    catalog = steward.register(file).catalog
    steward.open_pot(
        state,
        catalog,
        "total",
        rule="zcdp",
        delta_conversion="1e-6",
        rho=10**6,
        ceiling=10**6,
        purpose=PURPOSE,
    )
    return dither.connect(file)


def fit_plainly(rows: np.ndarray, labels: np.ndarray, steps: int) -> np.ndarray:
    """Gradient descent with momentum on all rows, without clipping or noise."""
    theta = np.zeros(rows.shape[1])
    velocity = np.zeros_like(theta)
    for _ in range(steps):
        residuals = 1 / (1 + np.exp(-rows @ theta)) - labels
        velocity = 0.9 * velocity + rows.T @ residuals / len(labels)
        theta -= 0.5 * velocity
    return theta


def measure_auc(name: str, epsilon: float, public: dict, split: tuple, runs: int) -> float:
    X, y, X_test, y_test = split
    scores = []
    for _ in range(runs):
        model = getattr(learn, name)(epsilon=epsilon, delta=DELTA, n=len(y), **public).fit(X, y)
        scores.append(roc_auc_score(y_test, model.decision_function(X_test)))
    return float(np.mean(scores))


def list_adult_lines(folder: str, runs: int) -> list[dict[str, object]]:
    names, table, labels = read_adult(folder)
    frame_names = {name: position for position, name in enumerate(names)}
    categories = {
        position: sorted(set(table[:, position]))
        for name, position in frame_names.items()
        if name not in BOUNDS
    }
    bounds = {frame_names[name]: ends for name, ends in BOUNDS.items()}
    public = {"bounds": bounds, "categories": categories, "classes": (0, 1)}
    cut = len(labels) * 4 // 5
    split = (table[:cut], labels[:cut], table[cut:], labels[cut:])
    facts = declare_columns(list(range(len(names))), bounds, categories, "auto")
    plain_rows = encode_rows(facts, list(table.T)).expand()
    plain = PlainRegression(C=1.0, max_iter=1000).fit(plain_rows[:cut], labels[:cut])
    base = roc_auc_score(labels[cut:], plain.decision_function(plain_rows[cut:]))
    print(f"AUC without privacy, {facts.width} features: {base:.4f}")
    lines = []
    ours = {}
    for epsilon, target in GAPS.items():
        ours[epsilon] = measure_auc("LogisticRegression", epsilon, public, split, runs)
        lines.append(
            line(
                f"Adult, logistic, gap at epsilon {epsilon} (AUC {ours[epsilon]:.4f})",
                base - ours[epsilon],
                1,
                target,
                unit="AUC",
            )
        )
    peers = json.loads(PEERS.read_text())
    for peer, record in peers.items():
        for epsilon in GAPS:
            recorded = record["auc"].get(str(epsilon))
            name = f"Adult, {peer} (recorded {record['date']}) against logistic at {epsilon}"
            lines.append(line(name, recorded, ours[epsilon], 1, unit="AUC"))
    for epsilon in GAPS:
        boosted = measure_auc("GradientBoosting", epsilon, public, split, runs)
        name = f"Adult, boosting at epsilon {epsilon}: gap to logistic (AUC {boosted:.4f})"
        lines.append(line(name, ours[epsilon] - boosted, 1, 0.02, unit="AUC"))
    for epsilon in (1, 3):
        additive = measure_auc("AdditiveClassifier", epsilon, public, split, runs)
        lines.append(
            line(
                f"Adult, logistic + 0.002 against additive at epsilon {epsilon}",
                ours[epsilon] + 0.002,
                additive,
                1,
                unit="AUC",
            )
        )
    lines += list_kernel_lines(names, split, base, plain_rows[:cut])
    model = learn.LogisticRegression(1, delta=DELTA, n=cut, **public)
    start = time.process_time()
    model.fit(split[0], split[1])
    taken = time.process_time() - start
    lines.append(line("Adult, one fit at epsilon 1: CPU seconds of 30", taken, 30, 1))
    descent = seconds(lambda: fit_plainly(plain_rows[:cut], labels[:cut], model.n_iter_), times=3)
    fit = seconds(lambda: model.fit(split[0], split[1]), times=3)
    lines.append(
        line(f"Adult, fit of {model.n_iter_} steps against plain descent", fit, descent, 3)
    )
    return lines


def list_kernel_lines(
    names: list[str], split: tuple, base: float, plain_rows: np.ndarray
) -> list[dict[str, object]]:
    """The default model at epsilon 1 on Adult as a registered table."""
    X, y, X_test, y_test = split
    fields = [name.replace("-", "_") for name in names]
    columns: dict[str, object] = {"salary": y.astype(bool)}
    lines = "      salary: {type: boolean, nulls: drop}\n"
    for position, (name, field) in enumerate(zip(names, fields, strict=True)):
        if name in BOUNDS:
            low, high = BOUNDS[name]
            columns[field] = X[:, position].astype(np.int64)
            kind = f"integer, bounds: [{low}, {high}], provenance: the survey"
        else:
            columns[field] = X[:, position].tolist()
            values = ", ".join(f'"{value}"' for value in sorted(set(X[:, position])))
            kind = f"category, values: [{values}], other: keep"
        lines += f"      {field}: {{type: {kind}, nulls: drop}}\n"
    with TemporaryDirectory() as folder:
        con = connect_table(Path(folder), columns, lines)
        model = learn.LogisticRegression(1, delta=DELTA, n=len(y))
        start = time.perf_counter()
        model.fit_table(con, "visits", target="salary", columns=fields)
        taken = time.perf_counter() - start
    score = roc_auc_score(y_test, model.decision_function(X_test))
    plain = seconds(lambda: fit_plainly(plain_rows, y, model.n_iter_), times=1)
    return [
        line(
            f"Adult, logistic through the kernel, gap at epsilon 1 (AUC {score:.4f}, one run)",
            base - score,
            1,
            GAPS[1],
            unit="AUC",
        ),
        line("Adult, logistic through the kernel against plain descent", taken, plain, 3),
    ]


def list_table_lines(rows: int) -> list[dict[str, object]]:
    """Rows of 100 numbers as a registered table: the time of a fit of 20 steps, and of as many
    plain ones."""
    draws = np.random.default_rng(3)
    X = draws.integers(-4000, 4001, (rows, 100))
    y = X[:, 0] - X[:, 1] + draws.normal(0, 1000, rows) > 0
    kind = "{type: integer, bounds: [-4000, 4000], nulls: drop, provenance: bench}"
    lines = "".join(f"      c{number}: {kind}\n" for number in range(100))
    lines += "      y: {type: boolean, nulls: drop}\n"
    columns: dict[str, object] = {f"c{number}": X[:, number] for number in range(100)} | {"y": y}
    with TemporaryDirectory() as folder:
        con = connect_table(Path(folder), columns, lines)
        model = learn.LogisticRegression(1, delta=1e-7, n=rows, bins=None, steps=20)
        start = time.perf_counter()
        model.fit_table(con, "visits", target="y")
        taken = time.perf_counter() - start
        longer = learn.LogisticRegression(1, delta=1e-7, n=rows, bins=None, steps=120)
        start = time.perf_counter()
        longer.fit_table(con, "visits", target="y")
        step = (time.perf_counter() - start - taken) / 100
    plain_rows = np.hstack([np.ones((rows, 1)), X / 4000])
    plain = seconds(lambda: fit_plainly(plain_rows, y.astype(float), 20), times=1) / 20
    name = f"{rows:,} rows of 100 numbers through the kernel"
    return [
        line(f"{name}, 400 steps for 1,000,000: of 10 minutes", step * 4e8 / rows, 600, 1),
        line(f"{name}, a step against a plain one", step, plain, 3),
    ]


def list_large_lines(rows: int) -> list[dict[str, object]]:
    """A million rows of 100 numbers: minutes and memory."""
    draws = np.random.default_rng(1)
    X = draws.standard_normal((rows, 100), dtype=np.float32)
    y = (X[:, 0] - X[:, 1] + draws.standard_normal(rows) > 0).astype(np.int8)
    model = learn.LogisticRegression(
        1, delta=1e-7, n=rows, bounds=(-4, 4), classes=(0, 1), bins=None
    )
    start = time.perf_counter()
    model.fit(X, y)
    taken = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    name = f"{rows:,} rows of 100 numbers, {model.n_iter_} steps"
    plain_rows = np.empty((rows, 101))
    plain_rows[:, 0] = 1
    np.divide(X, 4, out=plain_rows[:, 1:])
    del X
    few = 20
    step = seconds(lambda: fit_plainly(plain_rows, y.astype(float), few), times=1) / few
    return [
        line(f"{name}: against plain descent", taken, step * model.n_iter_, 3),
        line(f"{name}: of 10 minutes", taken, 600, 1),
        line(f"{name}: memory of 2 GB", peak / 1e9, 2, 1, unit="GB"),
    ]


def list_lasso_lines(runs: int) -> list[dict[str, object]]:
    """More columns than people: the share of the variance that is explained, at epsilon 3."""
    draws = np.random.default_rng(2)
    X = draws.uniform(-1, 1, (2000, 3000))
    y = 0.6 * X[:, 3] - 0.3 * X[:, 10] + draws.normal(0, 0.05, 2000)
    model = learn.Lasso(3, delta=1e-6, n=2000, bounds=(-1, 1), target_bounds=(-1, 1))
    scores = [model.fit(X, y).score(X, y) for _ in range(runs)]
    name = f"Lasso, 2,000 rows of 3,000 columns, epsilon 3 (R2 {np.mean(scores):.3f}): 0.6 of it"
    return [line(name, 0.6, float(np.mean(scores)), 1, unit="R2")]


def main() -> None:
    chosen = options(__doc__ or "", "large", "tables", "lasso", folder="adult")
    runs = 2 if chosen.quick else RUNS
    is_all = not (chosen.large or chosen.tables or chosen.lasso)
    lines: list[dict[str, object]] = []
    if chosen.large or is_all:
        lines += list_large_lines(100_000 if chosen.quick else 1_000_000)
    if chosen.tables or is_all:
        lines += list_table_lines(20_000 if chosen.quick else 100_000)
    if chosen.lasso or is_all:
        lines += list_lasso_lines(runs)
    if chosen.adult:
        lines += list_adult_lines(chosen.adult, runs)
    report("learn", lines, ("numpy", "scikit-learn"), as_json=chosen.json)


if __name__ == "__main__":
    main()
