"""The peers of bench/synth.py on Adult, each in an environment of its own.

    python bench/synth_peers.py --adult FOLDER --venvs FOLDER [--runs 1] [--only NAME]
        [--epsilon 1] [--limit 600]

FOLDER of --venvs holds one environment for each package: synth-mbi (`mbi==2.0.0`), synth-opendp
(`opendp[polars,mbi]==0.16.0` and pandas), synth-dpmm (`dpmm==0.1.9`), synth-datasynthesizer
(`DataSynthesizer==0.1.13`) and synth-smartnoise (`smartnoise-synth==1.0.8`). Rows, split and
distances are those of bench/synth.py; delta is 1e-9 where a peer has one. A peer that fails or runs
past a limit (CPU seconds of one fit, twice that by the clock, 12 GB) is recorded so and is no win.
The figures last recorded are in bench/synth_peers.json; --only and --epsilon add to them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from datetime import date
from fractions import Fraction
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
    """Its MST refuses most budgets by a rounding error of its own: it gets the largest one that it
    takes, which is less by some millionths."""
    whole = find_rho(epsilon)
    budgets = [whole * (1 - step * 1e-6) for step in range(1000)] if kind == "mst" else [whole]
    is_taken = [kind != "mst" or is_taken_by_mst(rho, len(sizes)) for rho in budgets]
    return fit_opendp_once(kind, rows, sizes, budgets[is_taken.index(True)])


def is_taken_by_mst(rho, columns):
    """Whether the prices of its choices, added with rounding up, stay within what it set aside."""
    pairs = step_down(rho - rho * 0.5, 2)
    choices = step_down(pairs - pairs * 0.9, 2)
    price = step_down(choices / (columns - 1), 1)
    spent = 0.0
    for _ in range(columns - 1):
        exact = Fraction(spent) + Fraction(price)
        spent += price
        spent = float(np.nextafter(spent, np.inf)) if Fraction(spent) < exact else spent
    return spent <= choices


def step_down(number, floats):
    """The float that lies so many floats below."""
    for _ in range(floats):
        number = float(np.nextafter(number, -np.inf))
    return number


def fit_opendp_once(kind, rows, sizes, rho):
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    names = [f"c{number}" for number in range(len(sizes))]
    context = dp.Context.compositor(
        data=pl.LazyFrame(dict(zip(names, rows.T.astype(np.int64), strict=True))),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
    )
    algorithm = {"aim": dp.mbi.AIM, "mst": dp.mbi.MST}[kind]()
    keys = {name: list(range(size)) for name, size in zip(names, sizes, strict=True)}
    table = (
        context.query(rho=rho)
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
            k=int(kind),  # parents of a column
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
    """MST as McKenna, Miklau and Sheldon (2021) describe it, over the estimators of mbi: the
    package ships no mechanism since 1.0, and its repository has none for this version."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from mbi import Domain, LinearMeasurement, estimation

    draws = np.random.default_rng()
    columns = range(len(sizes))
    third = find_rho(epsilon) / 3
    names = [f"c{number}" for number in columns]
    whole = Domain(names, sizes)
    sigma = np.sqrt(len(sizes) / (2 * third))
    noisy = [np.bincount(rows[:, a], minlength=sizes[a]) for a in columns]
    noisy = [counts + draws.normal(0, sigma, len(counts)) for counts in noisy]
    groups = [group_values(counts >= 3 * sigma) for counts in noisy]
    singles = [LinearMeasurement(noisy[a], (names[a],), sigma) for a in columns]
    total = estimation.minimum_variance_unbiased_total(singles)  # left out once compressed
    singles = [singles[a].compress({names[a]: groups[a]}, whole) for a in columns]
    coded = np.stack([groups[a][rows[:, a]] for a in columns], axis=1)
    own = [int(group.max()) + 1 for group in groups]
    domain = Domain(names, own)
    model = estimation.MirrorDescent().estimate(domain, singles, total, iters=1000)

    def count(a, b):
        return np.bincount(coded[:, a] * own[b] + coded[:, b], minlength=own[a] * own[b])

    scores = {
        (a, b): np.abs(
            count(a, b) - np.asarray(model.project((names[a], names[b])).datavector())
        ).sum()
        for a in columns
        for b in range(a + 1, len(sizes))
    }
    tree = choose_tree(scores, len(sizes), np.sqrt(8 * third / (len(sizes) - 1)), draws)
    sigma = np.sqrt(len(tree) / (2 * third))
    pairs = [
        LinearMeasurement(
            count(a, b) + draws.normal(0, sigma, own[a] * own[b]), (names[a], names[b]), sigma
        )
        for a, b in tree
    ]
    model = estimation.MirrorDescent().estimate(domain, singles + pairs, total, iters=5000)
    made = model.synthetic_data().to_dict()
    return np.stack([ungroup(made[names[a]], groups[a], draws) for a in columns], axis=1)


def group_values(is_common):
    """A group for every common value, and one for the others."""
    return np.where(is_common, np.cumsum(is_common) - 1, np.sum(is_common))


def ungroup(codes, groups, draws):
    """Values of groups, at random where there are several."""
    values = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    return np.array([draws.choice(values[code]) for code in np.asarray(codes)])


def choose_tree(scores, columns, epsilon, draws):
    """A spanning tree of pairs by the exponential mechanism, sensitivity 1."""
    labels = list(range(columns))
    tree = []
    while len(tree) < columns - 1:
        pairs = [pair for pair in scores if labels[pair[0]] != labels[pair[1]]]
        logs = epsilon / 2 * np.array([scores[pair] for pair in pairs])
        shares = np.exp(logs - logs.max())
        pair = pairs[draws.choice(len(pairs), p=shares / shares.sum())]
        tree.append(pair)
        labels = [labels[pair[0]] if label == labels[pair[1]] else label for label in labels]
    return tree


def fit_mbi_aim(kind, rows, sizes, epsilon):
    """AIM as McKenna, Mullins, Sheldon and Miklau (2022) describe it, for all pairs of columns,
    over the estimators of mbi: 16 rounds a column are planned, a model has at most 80 MB, and 1,000
    steps are taken a round, the settings of their repository."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)  # as the package advises
    from mbi import Domain, LinearMeasurement, estimation
    from mbi.junction_tree import hypothetical_model_size

    draws = np.random.default_rng()
    columns = range(len(sizes))
    names = [f"c{number}" for number in columns]
    domain = Domain(names, sizes)
    budget = find_rho(epsilon)
    pairs = [(a, b) for a in columns for b in range(a + 1, len(sizes))]
    weights = {(a,): len(sizes) - 1 for a in columns} | dict.fromkeys(pairs, 2 * len(sizes) - 2)
    exact = {own: count_codes(rows, own, sizes) for own in weights}
    rounds = 16 * len(sizes)
    sigma = np.sqrt(rounds / (2 * 0.9 * budget))
    choice = np.sqrt(8 * 0.1 * budget / rounds)
    measured = []

    def measure(own):
        noisy = exact[own] + draws.normal(0, sigma, len(exact[own]))
        measured.append(LinearMeasurement(noisy, tuple(names[a] for a in own), sigma))

    def project(own):
        return np.asarray(model.project(tuple(names[a] for a in own)).datavector())

    for a in columns:
        measure((a,))
    spent = len(sizes) * 0.5 / sigma**2
    model = estimation.MirrorDescent().estimate(domain, measured, iters=1000)
    is_over = False
    while not is_over:
        left = budget - spent
        if left < 2 * (0.5 / sigma**2 + choice**2 / 8):
            sigma = np.sqrt(1 / (2 * 0.9 * left))
            choice = np.sqrt(8 * 0.1 * left)
            is_over = True
        spent += 0.5 / sigma**2 + choice**2 / 8
        most = 80 * spent / budget
        cliques = [one.clique for one in measured]
        scores = {
            own: weight
            * (np.abs(exact[own] - project(own)).sum() - 0.798 * sigma * len(exact[own]))
            for own, weight in weights.items()
            if hypothetical_model_size(domain, [*cliques, tuple(names[a] for a in own)]) <= most
        }
        own = choose_one(scores, choice / max(weights.values()), draws)
        before = project(own)
        measure(own)
        model = estimation.MirrorDescent().estimate(domain, measured, iters=1000, warm_start=model)
        print(f"round {len(measured) - len(sizes)}: {spent / budget:.0%} spent", file=sys.stderr)
        if np.abs(project(own) - before).sum() <= 0.798 * sigma * len(before):
            sigma /= 2
            choice *= 2
    made = model.synthetic_data().to_dict()
    return np.stack([np.asarray(made[name]) for name in names], axis=1)


def count_codes(rows, own, sizes):
    """Rows by the values of some columns, the last one fastest."""
    shape = [sizes[a] for a in own]
    codes = np.ravel_multi_index(tuple(rows[:, a] for a in own), shape)
    return np.bincount(codes, minlength=int(np.prod(shape)))


def choose_one(scores, epsilon, draws):
    """One key by the exponential mechanism, sensitivity 1; scores are not monotone."""
    keys = list(scores)
    logs = epsilon / 2 * np.array([scores[key] for key in keys])
    shares = np.exp(logs - logs.max())
    return keys[draws.choice(len(keys), p=shares / shares.sum())]


def find_rho(epsilon):
    """The largest rho of zCDP within (epsilon, DELTA), by Canonne, Kamath and Steinke (2020)."""
    excess = np.logspace(-4, 6, 20_001)
    orders = 1 + excess
    low, high = 0.0, float(epsilon) + 1
    for _ in range(60):
        rho = (low + high) / 2
        logs = excess * (orders * rho - epsilon) + orders * np.log1p(-1 / orders) - np.log(excess)
        low, high = (rho, high) if logs.min() <= np.log(DELTA) else (low, rho)
    return low


PEERS = {
    "private-pgm MST": ("synth-mbi", fit_mbi, "", ("mbi", "jax", "numpy")),
    "private-pgm AIM": ("synth-mbi", fit_mbi_aim, "", ("mbi", "jax", "numpy")),
    "OpenDP MST": ("synth-opendp", fit_opendp, "mst", ("opendp", "mbi", "jax")),
    "OpenDP AIM": ("synth-opendp", fit_opendp, "aim", ("opendp", "mbi", "jax")),
    "dpmm MST": ("synth-dpmm", fit_dpmm, "mst", ("dpmm", "numpy")),
    "dpmm PrivBayes": ("synth-dpmm", fit_dpmm, "privbayes", ("dpmm", "numpy")),
    "dpmm AIM": ("synth-dpmm", fit_dpmm, "aim", ("dpmm", "numpy")),
    "DataSynthesizer": (
        "synth-datasynthesizer",
        fit_datasynthesizer,
        "2",
        ("DataSynthesizer", "numpy"),
    ),
    "DataSynthesizer degree 1": (
        "synth-datasynthesizer",
        fit_datasynthesizer,
        "1",
        ("DataSynthesizer", "numpy"),
    ),
    "SmartNoise MST": ("synth-smartnoise", fit_smartnoise, "mst", ("smartnoise-synth", "mbi")),
    "SmartNoise AIM": ("synth-smartnoise", fit_smartnoise, "aim", ("smartnoise-synth", "mbi")),
}


def count_cpu_seconds() -> float:
    """CPU seconds of this process and of its processes that ended: some peers work in a pool."""
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in own)


def work(name: str, source: str, out: str, epsilon: str) -> None:
    """Fit one peer, in its own environment; writes codes, prints seconds, memory and versions."""
    _, fit, kind, packages = PEERS[name]
    stored = np.load(source)
    versions = {package: metadata.version(package) for package in packages}
    print(json.dumps({"versions": versions}), flush=True)
    start = count_cpu_seconds()
    made = fit(kind, stored["rows"], [int(size) for size in stored["sizes"]], float(epsilon))
    seconds = count_cpu_seconds() - start
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
    record: dict = {"date": str(date.today()), "runs": given.runs, "limit": given.limit, "at": {}}
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "rows.npz"
        out = Path(scratch) / "made.npy"
        np.savez(source, rows=fitted, sizes=lengths)
        for epsilon in given.epsilon or EPSILONS:
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
        stdout, stderr = worker.communicate()
        why = f"no end within {2 * given.limit:.0f} s at epsilon {epsilon}{find_last_round(stderr)}"
        return {"failed": why, **next(iter(read_printed(stdout)), {})}
    printed = read_printed(stdout)
    if worker.returncode:
        lines = stderr.strip().splitlines() or ["killed"]
        errors = [text for text in lines if re.match(r"[\w.]*(Error|Exception)\b", text)]
        why = " ".join(lines[lines.index(errors[-1]) :] if errors else lines[-1:])[:300]
        if worker.returncode < 0:
            why = f"killed at {given.limit:.0f} CPU s at epsilon {epsilon}, or out of memory"
            why += find_last_round(stderr)
        return {"failed": why, **(printed[0] if printed else {})}
    return printed[-1]


def read_printed(stdout: str) -> list[dict]:
    """The lines of JSON that a worker printed."""
    return [json.loads(text) for text in stdout.splitlines() if text.startswith("{")]


def find_last_round(printed: str) -> str:
    """The last round that a worker said it had reached, after a semicolon; empty if none."""
    rounds = [text for text in printed.splitlines() if text.startswith("round ")]
    return f"; {rounds[-1]}" if rounds else ""


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
    parser.add_argument("--epsilon", choices=EPSILONS, action="append")
    given = parser.parse_args()
    for name in given.only or PEERS:
        record = run_peer(name, given)
        stored = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        if given.epsilon:
            record["at"] = stored.get(name, {}).get("at", {}) | record["at"]
        RECORD.write_text(json.dumps(stored | {name: record}, indent=1) + "\n")


if __name__ == "__main__":
    main()
