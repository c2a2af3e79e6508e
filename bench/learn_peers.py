"""The peers of bench/learn.py on Adult, each in an environment of its own.

    PEER_PYTHON bench/learn_peers.py PEER ADULT_FOLDER [RUNS]

PEER is `diffprivlib` (which needs scikit-learn below 1.5), `interpret`, or `amp`: approximate
minima perturbation without tuning, from a checkout of sunblaze-ucb/dpml-benchmark in PYTHONPATH;
rows are scaled to norm 1 by public bounds. Prints one JSON object:
AUC by epsilon on the fifth of the rows that bench/learn.py tests on, means over the runs, delta
1e-5 where the peer has one. The figures last recorded are in bench/learn_peers.json, with date and
versions.
"""

from __future__ import annotations

import csv
import json
import sys
import warnings
from datetime import date
from importlib import metadata
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

EPSILONS = (0.1, 0.3, 1, 3)
BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}


def read_adult(folder: str):
    """As bench/learn.py reads it: the same order, the same split."""
    with (Path(folder) / "adult.csv").open() as file:
        names, *rows = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == 15]
    order = np.random.default_rng(0).permutation(len(rows))
    table = np.array(rows, object)[order]
    return names[:-1], table[:, :-1], np.array([row[-1].startswith(">50K") for row in table], int)


def encode_plainly(names, table):
    """Numbers scaled to [0, 1] by public bounds, listed values one-hot: what diffprivlib takes."""
    columns = []
    for position, name in enumerate(names):
        if name in BOUNDS:
            low, high = BOUNDS[name]
            columns.append(((table[:, position].astype(float) - low) / (high - low)).clip(0, 1))
        else:
            columns += [table[:, position] == value for value in sorted(set(table[:, position]))]
    return np.stack(columns, axis=1).astype(float)


def run_diffprivlib(names, table, labels, cut, epsilon):
    from diffprivlib.models import LogisticRegression

    X = encode_plainly(names, table)
    model = LogisticRegression(epsilon=epsilon, data_norm=float(np.sqrt(len(names))), max_iter=500)
    model.fit(X[:cut], labels[:cut])
    return model.decision_function(X[cut:])


def run_interpret(names, table, labels, cut, epsilon):
    from interpret.privacy import DPExplainableBoostingClassifier

    kinds = ["continuous" if name in BOUNDS else "nominal" for name in names]
    bounds = {position: BOUNDS[name] for position, name in enumerate(names) if name in BOUNDS}
    model = DPExplainableBoostingClassifier(
        feature_names=names,
        feature_types=kinds,
        epsilon=epsilon,
        delta=1e-5,
        privacy_bounds=bounds,
        n_jobs=1,
    )
    model.fit(table[:cut], labels[:cut])
    return model.predict_proba(table[cut:])[:, 1]


def run_amp(names, table, labels, cut, epsilon):
    here = str(Path(__file__).parent)
    sys.path[:] = [folder for folder in sys.path if folder != here]  # `common` is theirs
    from algorithms.approximate_minima_perturbation import ApproximateMinimaPerturbationLR

    X = encode_plainly(names, table) / np.sqrt(len(names) + 1)
    X = np.hstack([X, np.full((len(X), 1), 1 / np.sqrt(len(names) + 1))])
    signs = np.where(labels == 1, 1.0, -1.0)
    theta, _ = ApproximateMinimaPerturbationLR.run_classification(
        X[:cut], signs[:cut], epsilon, 1e-5, None, eps_frac=None, gamma=1 / cut**2
    )
    return X[cut:] @ theta


PEERS = {
    "diffprivlib": (run_diffprivlib, ("diffprivlib", "numpy", "scikit-learn")),
    "interpret": (run_interpret, ("interpret-core", "numpy", "scikit-learn")),
    "amp": (run_amp, ("numpy", "scipy")),
}


def main() -> None:
    peer, folder = sys.argv[1:3]
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    warnings.simplefilter("ignore")
    names, table, labels = read_adult(folder)
    cut = len(labels) * 4 // 5
    run, packages = PEERS[peer]
    figures = {}
    for epsilon in EPSILONS:
        scores = [
            roc_auc_score(labels[cut:], run(names, table, labels, cut, epsilon))
            for _ in range(runs)
        ]
        figures[str(epsilon)] = float(np.mean(scores))
    versions = {name: metadata.version(name) for name in packages}
    record = {"date": str(date.today()), "versions": versions, "runs": runs, "auc": figures}
    print(json.dumps({peer: record}))


if __name__ == "__main__":
    main()
