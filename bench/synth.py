"""Synthetic tables: accuracy on the Adult census extract, CPU time and memory.

    python bench/synth.py [--adult FOLDER] [--runs 5] [--only adult|sizes|NAME] [--epsilon 1]
        [--quick] [--json]

FOLDER holds adult-discretised.csv and adult-discretised-domain.json (48,842 rows, 14 columns, from
the data folder of private-pgm). Without it the lines of Adult are skipped and say why. Rows whose
number is a multiple of ten are for testing (4,885), the others are fitted (43,957). TV2 is the mean
total variation distance over all 91 pairs of columns, TV3 over 100 triples drawn with seed 5, AUC
that of a logistic regression (and of gradient boosted trees) trained on synthetic rows and tested
on the real test rows. Delta is 1e-9. Every fit is a process of its own; its memory is the growth of
the peak during the fit. Peers are those of bench/synth_peers.json. NAME is one of the large tables:
million, mixed, narrow, wide, long.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from common import line, report, skip, write_catalog
from scipy import optimize, sparse, stats

from dither import connect, steward
from dither.state import State
from dither.synth.model import GraphicalModel, to_factors

ORDERED = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
TARGETS = {
    "0.3": {"TV2": 0.070, "TV3": 0.123, "AUC": 0.88},
    "1": {"TV2": 0.042, "TV3": 0.088, "AUC": 0.895},
    "3": {"TV2": 0.032, "TV3": 0.074, "AUC": 0.90},
}
ADULT_FILE = "adult-discretised.csv"
PEERS = Path(__file__).with_name("synth_peers.json")
MOST_CPU_SECONDS = 20.0
MOST_MEGABYTES = 250.0
MOST_SECONDS_WIDE = 300.0
NO_ADULT = "no data: give the folder of adult-discretised.csv with --adult"
PURPOSE = {
    "question": "How good are synthetic tables?",
    "population": "people of a public census extract",
    "recipient": "readers of the benchmark",
}


# -- the data --------------------------------------------------------------------------------------


def read_adult(folder: Path) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """Rows to fit, rows to test, and the sizes of the columns."""
    sizes = json.loads((folder / "adult-discretised-domain.json").read_text())
    table = pa.csv.read_csv(folder / ADULT_FILE)
    rows = np.stack([table[name].to_numpy() for name in sizes], axis=1).astype(np.int32)
    is_test = np.arange(len(rows)) % 10 == 0
    return rows[~is_test], rows[is_test], sizes


def invent_rows(rows: int, columns: int, size: int) -> np.ndarray:
    """Rows in which every column follows the one before, or not, by chance."""
    draws = np.random.default_rng(1)
    table = np.empty((rows, columns), np.int32)
    table[:, 0] = draws.integers(0, size, rows)
    for column in range(1, columns):
        follows = draws.random(rows) < 0.5
        table[:, column] = np.where(follows, table[:, column - 1], draws.integers(0, size, rows))
    return table


def invent_mixed(rows: int) -> tuple[np.ndarray, dict[str, int]]:
    """Rows of 50 columns of 2 to 100 values, in which every column follows one earlier column,
    scaled to its own values, or not, by chance."""
    draws = np.random.default_rng(1)
    sizes = (2, 3, 5, 8, 12, 20, 32, 50, 80, 100) * 5
    table = np.empty((rows, len(sizes)), np.int32)
    for column, size in enumerate(sizes):
        table[:, column] = draws.integers(0, size, rows)
        if column:
            earlier = int(draws.integers(0, column))
            follows = draws.random(rows) < 0.5
            scaled = table[:, earlier] * size // sizes[earlier]
            table[:, column] = np.where(follows, scaled, table[:, column])
    return table, {f"c{number}": size for number, size in enumerate(sizes)}


def register(folder: Path, rows: np.ndarray, sizes: dict[str, int]) -> Path:
    """Register rows as a table of people; returns the catalog."""
    os.environ["XDG_STATE_HOME"] = str(folder / "home")  # no relation to budgets of this machine
    lines = []
    for name, size in sizes.items():
        if name in ORDERED:
            kind = f"{{type: integer, bounds: [0, {size - 1}], nulls: drop, provenance: bench}}"
        else:
            labels = ", ".join(f'"{code}"' for code in range(size))
            kind = f"{{type: category, values: [{labels}], other: drop, nulls: drop}}"
        lines.append(f"      {clean_name(name)}: {kind}\n")
    text = write_catalog(
        "".join(lines), population="bench", rows_per_unit=1, max_rows=2 * len(rows)
    )
    columns = {clean_name(name): rows[:, at] for at, name in enumerate(sizes)}
    people = {"person": [f"p{number}" for number in range(len(rows))]}
    pa.csv.write_csv(pa.table(people | columns), folder / "visits.csv")
    file = folder / "bench.yaml"
    file.write_text(text)
    steward.register(file)
    state = State(file.with_suffix(".dither"))
    steward.open_pot(
        state,
        steward.registered_catalog(state),
        "total",
        rule="approx",
        delta="1e-6",
        delta_per_question="1e-9",
        epsilon=1000,
        ceiling=1000,
        purpose=PURPOSE,
    )
    return file


def clean_name(name: str) -> str:
    """A name that SQL needs no quotes for."""
    return name.replace("-", "_").replace(">", "_above_").lower()


# -- one fit, in a process of its own --------------------------------------------------------------


def fit_once(catalog: Path, epsilon: str, sizes: dict[str, int], out: Path) -> None:
    """Fit, draw and write codes; prints CPU seconds and megabytes."""
    warnings.simplefilter("ignore")
    con = connect(catalog)
    import dither.synth.asking  # noqa: F401  what is loaded once does not count

    before = read_memory("VmRSS")
    start = time.process_time()
    names = [clean_name(name) for name in sizes]
    table = con.synthesize("visits", epsilon=epsilon, columns=names, method="aim").sample()
    seconds = time.process_time() - start
    grown = read_memory("VmHWM") - before
    codes = np.stack([table[name].to_numpy().astype(np.int32) for name in names], axis=1)
    np.save(out, codes)
    print(json.dumps({"cpu": seconds, "mb": grown}))


def read_memory(name: str) -> float:
    """Megabytes of this process by its own status: VmRSS now, VmHWM at the peak since its start."""
    for entry in Path("/proc/self/status").read_text().splitlines():
        if entry.startswith(name):
            return int(entry.split()[1]) / 1024
    return float("nan")


def run_fit(catalog: Path, epsilon: str, sizes: dict[str, int]) -> tuple[np.ndarray, Any]:
    """The synthetic codes of one fit, and what it took."""
    out = catalog.parent / "codes.npy"
    given = [str(catalog), epsilon, json.dumps(sizes), str(out)]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__, "--fit", *given],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | threads,
    )
    return np.load(out), json.loads(done.stdout.splitlines()[-1])


# -- how good it is --------------------------------------------------------------------------------


def count_marginal(rows: np.ndarray, columns: tuple[int, ...], sizes: list[int]) -> np.ndarray:
    """Shares of the cells of some columns."""
    shape = [sizes[column] for column in columns]
    codes = np.ravel_multi_index(tuple(rows[:, column] for column in columns), shape)
    counts: np.ndarray = np.bincount(codes, minlength=int(np.prod(shape)))
    return counts / len(rows)


def measure_distance(
    real: np.ndarray, made: np.ndarray, sets: list[tuple[int, ...]], sizes: list[int]
) -> float:
    """The mean total variation distance over sets of columns."""
    return mean(
        0.5
        * float(np.abs(count_marginal(real, own, sizes) - count_marginal(made, own, sizes)).sum())
        for own in sets
    )


def measure_auc(made: np.ndarray, test: np.ndarray, sizes: list[int]) -> float:
    """AUC of a logistic regression with L2 penalty 1 on one-hot columns; the last is predicted."""
    starts = np.cumsum([0, *sizes[:-1]])

    def encode(rows: np.ndarray) -> Any:
        at = (rows[:, :-1] + starts[:-1]).ravel()
        own = np.repeat(np.arange(len(rows)), len(sizes) - 1)
        return sparse.csr_matrix((np.ones(len(at)), (own, at)), (len(rows), starts[-1]))

    features = encode(made)
    signs = 2.0 * made[:, -1] - 1

    def find_loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margins = signs * (features @ weights[1:] + weights[0])
        slopes = -signs * np.exp(-np.logaddexp(0, margins))
        gradient = np.r_[slopes.sum(), features.T @ slopes + weights[1:]]
        return float(np.logaddexp(0, -margins).sum() + 0.5 * weights[1:] @ weights[1:]), gradient

    start = np.zeros(starts[-1] + 1)
    limits = {"maxiter": 100}
    weights = optimize.minimize(find_loss, start, jac=True, method="L-BFGS-B", options=limits).x
    ranks = stats.rankdata(encode(test) @ weights[1:])
    positive = test[:, -1] == 1
    ones = int(positive.sum())
    above = float(ranks[positive].sum()) - ones * (ones + 1) / 2
    return above / (ones * (len(test) - ones))


def measure_boosted(made: np.ndarray, test: np.ndarray) -> float:
    """AUC of gradient boosted trees, trained on synthetic rows and tested on real ones."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    model = HistGradientBoostingClassifier(random_state=1).fit(made[:, :-1], made[:, -1])
    return float(roc_auc_score(test[:, -1], model.predict_proba(test[:, :-1])[:, 1]))


# -- lines -----------------------------------------------------------------------------------------


def measure_adult(folder: Path, runs: int, epsilons: list[str]) -> list[dict[str, object]]:
    """Means over runs, against the targets."""
    fitted, test, sizes = read_adult(folder)
    lengths = list(sizes.values())
    pairs: list[tuple[int, ...]] = list(combinations(range(len(lengths)), 2))
    every = list(combinations(range(len(lengths)), 3))
    order = np.random.default_rng(5).permutation(len(every))[:100]
    triples: list[tuple[int, ...]] = [every[position] for position in order]
    lines = []
    with tempfile.TemporaryDirectory() as scratch:
        catalog = register(Path(scratch), fitted, sizes)
        for epsilon in epsilons:
            kinds = ("TV2", "TV3", "AUC", "boosted", "cpu", "mb")
            found: dict[str, list[float]] = {kind: [] for kind in kinds}
            for _ in range(runs):
                made, took = run_fit(catalog, epsilon, sizes)
                found["TV2"].append(measure_distance(fitted, made, pairs, lengths))
                found["TV3"].append(measure_distance(fitted, made, triples, lengths))
                found["AUC"].append(measure_auc(made, test, lengths))
                found["boosted"].append(measure_boosted(made, test))
                found["cpu"].append(took["cpu"])
                found["mb"].append(took["mb"])
            means = {name: mean(all_) for name, all_ in found.items()}
            lines += write_lines(epsilon, runs, means)
            lines += compare_peers(epsilon, means)
    return lines


def write_lines(epsilon: str, runs: int, found: dict[str, float]) -> list[dict[str, object]]:
    """One line for each target of one epsilon."""
    name = f"Adult at epsilon {epsilon}, mean of {runs}"
    targets = TARGETS[epsilon]
    lines = [
        line(f"{name}: {kind}", found[kind], targets[kind], 1.0, unit="TV")
        for kind in ("TV2", "TV3")
    ]
    missed = 1 - found["AUC"]
    lines.append(line(f"{name}: 1 - AUC", missed, 1 - targets["AUC"], 1.0, unit="AUC"))
    missed = 1 - found["boosted"]
    lines.append(line(f"{name}: 1 - AUC boosted", missed, 1 - targets["AUC"], 1.0, unit="AUC"))
    lines.append(line(f"{name}: CPU", found["cpu"], MOST_CPU_SECONDS, 1.0, unit="CPU s"))
    lines.append(line(f"{name}: memory", found["mb"], MOST_MEGABYTES, 1.0, unit="MB"))
    return lines


def compare_peers(epsilon: str, found: dict[str, float]) -> list[dict[str, object]]:
    """One line for each peer that finished at this epsilon, and one that says why for others."""
    lines = []
    for peer, record in json.loads(PEERS.read_text()).items():
        figures = record["at"].get(epsilon, {"failed": "not run at this epsilon"})
        name = f"Adult at epsilon {epsilon}: against {peer}"
        if "failed" in figures:
            lines.append(skip(name, f"no win, it failed: {figures['failed']}"))
            continue
        lines += [
            line(f"{name}, {kind}", found[kind], figures[kind], 1.0, unit="TV")
            for kind in ("TV2", "TV3")
        ]
    return lines


def measure_size(
    rows: np.ndarray, sizes: dict[str, int], name: str, seconds: float, megabytes: float
) -> list[dict[str, object]]:
    """CPU seconds and memory of one fit at epsilon 1."""
    with tempfile.TemporaryDirectory() as scratch:
        catalog = register(Path(scratch), rows, sizes)
        _, took = run_fit(catalog, "1", sizes)
    return [
        line(f"{name}: CPU", took["cpu"], seconds, 1.0, unit="CPU s"),
        line(f"{name}: memory", took["mb"], megabytes, 1.0, unit="MB"),
    ]


def measure_invented(
    rows: int, columns: int, size: int, seconds: float, megabytes: float
) -> list[dict[str, object]]:
    """One fit on invented rows."""
    sizes = {f"c{number}": size for number in range(columns)}
    name = f"{rows:,} rows x {columns} columns of {size} values"
    return measure_size(invent_rows(rows, columns, size), sizes, name, seconds, megabytes)


def measure_million(folder: Path) -> list[dict[str, object]]:
    """One fit on a million rows of Adult, drawn with replacement from those to fit."""
    fitted, _, sizes = read_adult(folder)
    drawn = fitted[np.random.default_rng(3).integers(0, len(fitted), 1_000_000)]
    name = "1e6 rows of Adult x 14 columns"
    return measure_size(drawn, sizes, name, 2 * MOST_CPU_SECONDS, 2 * MOST_MEGABYTES)


def measure_mixed() -> list[dict[str, object]]:
    """One fit on invented rows of 50 columns of 2 to 100 values."""
    rows, sizes = invent_mixed(50_000)
    name = "50,000 rows x 50 columns of 2 to 100 values"
    return measure_size(rows, sizes, name, MOST_SECONDS_WIDE, 2 * MOST_MEGABYTES)


INVENTED = {"narrow": (50, 12), "wide": (50, 32), "long": (30, 256)}
"""Columns, and values of each column, of invented tables of 20,000 rows."""
LARGE = ("million", "mixed", *INVENTED)


def measure_large(name: str, folder: Path | None) -> list[dict[str, object]]:
    """One fit on a large table."""
    if name == "million":
        return measure_million(folder) if folder is not None else [skip(name, NO_ADULT)]
    if name == "mixed":
        return measure_mixed()
    return measure_invented(20_000, *INVENTED[name], MOST_SECONDS_WIDE, 2 * MOST_MEGABYTES)


def measure_propagation() -> dict[str, object]:
    """Belief propagation over a chain of three tables of 100 x 100 x 100 cells by contraction."""
    draws = np.random.default_rng(1)
    cliques = [(0, 1), (1, 2), (0, 2)]
    potentials = {clique: draws.uniform(-1, 1, (100, 100)) for clique in cliques}
    model = GraphicalModel((100, 100, 100), 1.0, potentials)
    factors = to_factors(potentials)
    model.propagation.find_marginals(factors)
    taken = []
    for _ in range(7):
        start = time.perf_counter()
        model.propagation.find_marginals(factors)
        taken.append(time.perf_counter() - start)
    return line("belief propagation, 1e6 cells", sorted(taken)[3], 4e-3, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description="synthetic tables")
    parser.add_argument("--adult", type=Path, help="the folder of the Adult files")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="epsilon 1 once, no large tables")
    halves = ("adult", "sizes", *LARGE)
    parser.add_argument("--only", choices=halves, help="some of the lines")
    parser.add_argument("--epsilon", choices=tuple(TARGETS), action="append")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--fit", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.fit:
        catalog, epsilon, sizes, out = given.fit
        fit_once(Path(catalog), epsilon, json.loads(sizes), Path(out))
        return
    adult = given.adult if given.adult and (given.adult / ADULT_FILE).exists() else None
    lines = [measure_propagation()] if given.only in (None, "sizes") else []
    if given.only in (None, "adult"):
        epsilons = ["1"] if given.quick else given.epsilon or list(TARGETS)
        runs = 1 if given.quick else given.runs
        if adult is None:
            lines += [skip(f"Adult at epsilon {epsilon}", NO_ADULT) for epsilon in epsilons]
        else:
            lines += measure_adult(adult, runs, epsilons)
    if given.only in LARGE:
        lines += measure_large(given.only, adult)
    elif given.only == "sizes" or (given.only is None and not given.quick):
        for name in LARGE:
            lines += measure_large(name, adult)
    report("synth", lines, ("numpy", "scipy", "duckdb"), as_json=given.json)


if __name__ == "__main__":
    main()
