"""The peers of bench/synth.py on Adult, each in an environment of its own.

    python bench/synth_peers.py --adult FOLDER --venvs FOLDER [--runs 1] [--only NAME] [--limit 600]

FOLDER of --venvs holds one environment for each package: synth-mbi (`mbi==2.0.0`), synth-opendp
(`opendp[polars,mbi]==0.16.0` and pandas), synth-dpmm (`dpmm==0.1.9`), synth-datasynthesizer
(`DataSynthesizer==0.1.13`) and synth-smartnoise (`smartnoise-synth==1.0.8`). Rows, split and
distances are those of bench/synth.py; delta is 1e-9 where a peer has one. A peer that fails or runs
past a limit (CPU seconds of one fit, twice that by the clock, 12 GB) is recorded so and is no win.
The figures last recorded are in bench/synth_peers.json; --only adds to them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from datetime import date
from importlib import metadata
from pathlib import Path

import numpy as np

EPSILONS = ("0.3", "1", "3")
DELTA = 1e-9
MOST_BYTES = 12 << 30
RECORD = Path(__file__).with_name("synth_peers.json")


# -- in the environment of the peer ----------------------------------------------------------------


def fit_dpmm(kind, rows, sizes, epsilon):
    import pandas as pd
    from dpmm.models.aim import AIMGM
    from dpmm.models.mst import MSTGM
    from dpmm.models.priv_bayes import PrivBayesGM

    names = [f"c{number}" for number in range(len(sizes))]
    domain = dict(zip(names, sizes, strict=True))
    build = {"aim": AIMGM, "mst": MSTGM, "privbayes": PrivBayesGM}[kind]
    model = build(epsilon=epsilon, delta=DELTA, domain=domain)
    model.set_random_state(np.random.RandomState())
    model.fit(pd.DataFrame(rows, columns=names))
    return model.generate(n_records=len(rows))[names].to_numpy().astype(int)


def fit_smartnoise(kind, rows, sizes, epsilon):
    import pandas as pd
    from snsynth import Synthesizer

    names = [f"c{number}" for number in range(len(sizes))]
    model = Synthesizer.create(kind, epsilon=epsilon, delta=DELTA)
    frame = pd.DataFrame(rows, columns=names)
    made = model.fit_sample(frame, categorical_columns=names, preprocessor_eps=0.0)
    return made[names].to_numpy().astype(int)


def fit_opendp(kind, rows, sizes, epsilon):
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    names = [f"c{number}" for number in range(len(sizes))]
    # zCDP within (epsilon, delta), as the peer's own examples pay
    rho = (np.sqrt(np.log(1 / DELTA) + epsilon) - np.sqrt(np.log(1 / DELTA))) ** 2
    loss = dp.loss_of(rho=float(rho))
    context = dp.Context.compositor(
        data=pl.LazyFrame(dict(zip(names, rows.T.astype(np.int64), strict=True))),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=loss,
    )
    algorithm = {"aim": dp.mbi.AIM, "mst": dp.mbi.MST}[kind]()
    keys = {name: list(range(size)) for name, size in zip(names, sizes, strict=True)}
    table = (
        context.query(rho=float(rho))
        .select(*names)
        .contingency_table(keys=keys, algorithm=algorithm)
        .release()
    )
    return table.synthesize()[names].to_numpy().astype(int)


def fit_datasynthesizer(kind, rows, sizes, epsilon):
    import pandas as pd
    from DataSynthesizer.DataDescriber import DataDescriber
    from DataSynthesizer.DataGenerator import DataGenerator

    names = [f"c{number}" for number in range(len(sizes))]
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "rows.csv"
        pd.DataFrame(rows, columns=names).to_csv(source, index=False)
        describer = DataDescriber(category_threshold=max(sizes) + 1)
        describer.describe_dataset_in_correlated_attribute_mode(
            dataset_file=str(source),
            epsilon=epsilon,
            k=2,
            attribute_to_is_categorical=dict.fromkeys(names, True),
            attribute_to_datatype=dict.fromkeys(names, "Integer"),
            seed=int.from_bytes(os.urandom(4), "big"),
        )
        describer.save_dataset_description_to_file(str(Path(scratch) / "about.json"))
        generator = DataGenerator()
        generator.generate_dataset_in_correlated_attribute_mode(
            len(rows), str(Path(scratch) / "about.json")
        )
        return generator.synthetic_dataset[names].to_numpy().astype(int)


def fit_mbi(kind, rows, sizes, epsilon):
    import mbi

    raise RuntimeError(
        f"the package mbi {metadata.version('mbi')} estimates models and ships no mechanism that "
        f"selects marginals (it has {', '.join(n for n in dir(mbi) if n[0] != '_')[:120]}...)"
    )


PEERS = {
    "private-pgm mbi": ("synth-mbi", fit_mbi, "", ("mbi", "jax", "numpy")),
    "OpenDP MST": ("synth-opendp", fit_opendp, "mst", ("opendp", "mbi", "jax")),
    "OpenDP AIM": ("synth-opendp", fit_opendp, "aim", ("opendp", "mbi", "jax")),
    "dpmm MST": ("synth-dpmm", fit_dpmm, "mst", ("dpmm", "numpy")),
    "dpmm PrivBayes": ("synth-dpmm", fit_dpmm, "privbayes", ("dpmm", "numpy")),
    "dpmm AIM": ("synth-dpmm", fit_dpmm, "aim", ("dpmm", "numpy")),
    "DataSynthesizer": (
        "synth-datasynthesizer",
        fit_datasynthesizer,
        "",
        ("DataSynthesizer", "numpy"),
    ),
    "SmartNoise MST": ("synth-smartnoise", fit_smartnoise, "mst", ("smartnoise-synth", "mbi")),
    "SmartNoise AIM": ("synth-smartnoise", fit_smartnoise, "aim", ("smartnoise-synth", "mbi")),
}


def work(name: str, source: str, out: str, epsilon: str) -> None:
    """Fit one peer, in its own environment; writes codes, prints seconds, memory and versions."""
    _, fit, kind, packages = PEERS[name]
    stored = np.load(source)
    versions = {package: metadata.version(package) for package in packages}
    print(json.dumps({"versions": versions}), flush=True)
    start = time.process_time()
    made = fit(kind, stored["rows"], [int(size) for size in stored["sizes"]], float(epsilon))
    seconds = time.process_time() - start
    np.save(out, made)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu": seconds, "mb": peak, "versions": versions}))


# -- here ------------------------------------------------------------------------------------------


def run_peer(name: str, given: argparse.Namespace) -> dict:
    """Distances and costs of one peer by epsilon, or why it did not finish."""
    from synth import measure_auc, measure_distance, read_adult

    fitted, test, sizes = read_adult(given.adult)
    lengths = list(sizes.values())
    pairs, triples = list_marginals(len(lengths))
    record: dict = {"date": str(date.today()), "runs": given.runs, "at": {}}
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "rows.npz"
        out = Path(scratch) / "made.npy"
        np.savez(source, rows=fitted, sizes=lengths)
        for epsilon in EPSILONS:
            figures = []
            for _ in range(given.runs):
                took = run_worker(name, given, source, out, epsilon)
                record["versions"] = took.pop("versions", {}) or record.get("versions", {})
                if "failed" in took:
                    record["at"][epsilon] = took
                    break
                made = np.clip(np.load(out), 0, np.array(lengths) - 1)
                took["TV2"] = measure_distance(fitted, made, pairs, lengths)
                took["TV3"] = measure_distance(fitted, made, triples, lengths)
                took["AUC"] = measure_auc(made, test, lengths)
                figures.append(took)
            else:
                record["at"][epsilon] = {
                    key: float(np.mean([figure[key] for figure in figures])) for key in figures[0]
                }
            print(name, epsilon, json.dumps(record["at"][epsilon]), flush=True)
            if "failed" in record["at"][epsilon]:
                break
    return record


def set_limits(seconds: int) -> None:
    """Limit CPU time and memory of the process that runs a peer."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


def list_marginals(columns: int) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The pairs and triples of bench/synth.py."""
    from itertools import combinations

    every = list(combinations(range(columns), 3))
    order = np.random.default_rng(5).permutation(len(every))[:100]
    return list(combinations(range(columns), 2)), [every[position] for position in order]


def run_worker(name: str, given: argparse.Namespace, source: Path, out: Path, epsilon: str) -> dict:
    """One fit in the peer's environment, within the limits of time and memory."""
    python = given.venvs / PEERS[name][0] / "bin" / "python"
    if not python.exists():
        return {"failed": f"no environment {PEERS[name][0]} under --venvs"}
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [str(python), __file__, "--work", name, str(source), str(out), epsilon]
    worker = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | threads | {"PYTHONPATH": ""},
        preexec_fn=lambda: set_limits(int(given.limit)),
        start_new_session=True,  # a pool of processes ends with it
    )
    try:
        stdout, stderr = worker.communicate(timeout=2 * given.limit)
    except subprocess.TimeoutExpired:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.communicate()
        return {"failed": f"no end within {2 * given.limit:.0f} s at epsilon {epsilon}"}
    printed = [json.loads(text) for text in stdout.splitlines() if text.startswith("{")]
    if worker.returncode:
        why = (stderr.strip().splitlines() or ["killed"])[-1][:300]
        if worker.returncode < 0:
            why = f"killed at {given.limit:.0f} CPU s at epsilon {epsilon}, or out of memory"
        return {"failed": why, **(printed[0] if printed else {})}
    return printed[-1]


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description="peers of synthetic tables")
    parser.add_argument("--adult", type=Path, required=True)
    parser.add_argument("--venvs", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--only", choices=tuple(PEERS), action="append")
    given = parser.parse_args()
    for name in given.only or PEERS:
        record = run_peer(name, given)
        stored = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        RECORD.write_text(json.dumps(stored | {name: record}, indent=1) + "\n")


if __name__ == "__main__":
    main()
