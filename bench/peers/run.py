"""The peers side by side: the same work at the same price, each in an environment of its own.

    python bench/peers/run.py [--quick] [--rows N ...] [--only NAME ...] [--again]
        [--limit SECONDS] [--file F] [--json]

Every result is stored as soon as it is there, in a dated file beside this one, so a second run
fills the gaps (--again measures anew). Environments are made once, with pinned versions, under
bench/peers/.venvs. `work.py` says what the work is, `page.py` writes docs/reference/peers.md from
the newest dated file. --quick: 1e5 rows, 60 s a peer, into a file that is not kept.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
from work import KEYS, table_sql

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENTS = HERE / ".venvs"
TASKS = ("keys", "median")
REPETITIONS = 200  # or as many as fit into a sixth of the time limit
ENOUGH = 5  # errors: from fewer, a root mean square says too little to be compared
SLOWEST_FOR_MORE = 20.0  # seconds at 1e6 rows: who takes longer is not asked at 1e7


class Peer(NamedTuple):
    script: str
    needs: tuple[str, ...] = ()  # none: the interpreter that runs this file
    command: str = ""  # a program that must be there


PEERS = {
    "dither": Peer("ours.py"),
    "DuckDB, no privacy": Peer("plain.py"),
    "Qrlew": Peer(
        "qrlew.py", ("pyqrlew==0.9.27", "duckdb==2.0.0", "numpy==1.26.4", "pandas==3.0.6",
        "sqlalchemy==2.1.8")
    ),
    "OpenDP": Peer("opendp_polars.py", ("opendp==0.16.0", "polars==1.36.1", "numpy==2.4.6",
    "pyarrow==26.0.1")),
    "SmartNoise SQL": Peer(
        "smartnoise.py",
        ("smartnoise-sql==1.0.10", "opendp==0.14.2", "pandas==2.3.3", "numpy==2.4.6",
        "pyarrow==26.0.1"),
    ),
    "PyDP": Peer("google_pydp.py", ("python-dp==1.1.5", "pandas==3.1.1", "numpy==2.4.6",
    "pyarrow==26.0.1")),
    "PipelineDP": Peer(
        "pipelinedp.py",
        ("pipeline-dp==0.3.1", "python-dp==1.1.5", "pandas==3.1.1", "numpy==2.4.6",
        "pyarrow==26.0.1"),
    ),
    "Tumult Analytics": Peer(
        "tumult.py",
        (
            "tmlt.analytics==0.21.0", "tmlt.core==0.19.1", "pyspark==3.5.9", "pandas==1.5.3",
            "numpy==1.26.4",
            "pyarrow==18.1.0",
        ),
        "java",
    ),
}  # fmt: skip


def main() -> None:
    chosen = options()
    rows_asked = chosen.rows or ([100_000] if chosen.quick else [1_000_000, 10_000_000])
    limit = chosen.limit or (60.0 if chosen.quick else 300.0)
    kept = chosen.file or HERE / (
        "results-quick.json" if chosen.quick else f"results-{datetime.date.today()}.json"
    )
    results = read(kept)
    with tempfile.TemporaryDirectory() as folder:
        for rows in rows_asked:
            file = Path(folder) / f"t{rows}.parquet"
            for task in chosen.task or (TASKS if rows <= 1_000_000 else TASKS[:1]):
                for name in chosen.only or PEERS:
                    if (name, task, rows) in keys_of(results) and not chosen.again:
                        continue
                    if why := too_slow(results, name, task, rows):
                        say(f"{name}, {task}, {rows:,} rows: {why}")
                        continue
                    if not file.exists():
                        duckdb.execute(f"COPY ({table_sql(rows)}) TO '{file}' (FORMAT parquet)")
                    new_line = measured(name, task, rows, file, limit)
                    replaced = [
                        old_line
                        for old_line in results["lines"]
                        if key_of(old_line) == (name, task, rows)
                    ]
                    results.setdefault("earlier", []).extend(
                        replaced
                    )  # a second run does not hide the first
                    results["lines"] = [
                        old_line for old_line in results["lines"] if old_line not in replaced
                    ]
                    results["lines"].append(new_line)
                    kept.write_text(json.dumps(results, indent=1) + "\n")
                    say(describe_line(new_line))
    lines = compared(results)
    table(lines)
    if chosen.json:
        print(
            json.dumps(
                {
                    "bench": "peers",
                    "versions": versions(results),
                    "cores": os.cpu_count(),
                    "lines": lines,
                }
            )
        )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="1e5 rows, 60 s a peer, a file that is not kept"
    )
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--rows", type=int, nargs="+", help="sizes; 1e6 and 1e7 unless told")
    parser.add_argument(
        "--only", nargs="+", choices=list(PEERS), metavar="NAME", help=", ".join(PEERS)
    )
    parser.add_argument(
        "--task", nargs="+", choices=TASKS, help="both unless told; the median at 1e6 rows at most"
    )
    parser.add_argument(
        "--again", action="store_true", help="measure also what the file already holds"
    )
    parser.add_argument(
        "--limit",
        type=float,
        help="seconds for one peer and task; repetitions end at a sixth of it",
    )
    parser.add_argument("--file", type=Path, help="where results are kept")
    return parser.parse_args()


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def read(kept: Path) -> dict[str, Any]:
    if kept.exists():
        results: dict[str, Any] = json.loads(kept.read_text())
        return results
    return {
        "date": str(datetime.date.today()),
        "machine": {
            "cores": os.cpu_count(),
            "memory_gib": memory_gib(),
            "python": platform.python_version(),
        },
        "price": {"epsilon": 1, "delta": 1e-6, "rows_per_owner": 10},
        "lines": [],
    }


def memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def key_of(line: dict[str, Any]) -> tuple[str, str, int]:
    return line["peer"], line["task"], line["rows"]


def keys_of(results: dict[str, Any]) -> set[tuple[str, str, int]]:
    return {key_of(line) for line in results["lines"]}


def too_slow(results: dict[str, Any], name: str, task: str, rows: int) -> str:
    """Why a peer is not asked at more than 1e6 rows: it took long, or gave no answer, at 1e6."""
    if rows <= 1_000_000:
        return ""
    before = next(
        (line for line in results["lines"] if key_of(line) == (name, task, 1_000_000)), None
    )
    if before is None or (before.get("answer_s") or 1e9) <= SLOWEST_FOR_MORE:
        return ""
    return f"not asked, since at 1,000,000 rows it took more than {SLOWEST_FOR_MORE:g} s"


def interpreter(name: str) -> str:
    """The Python of a peer's own environment, made when it is not there."""
    peer = PEERS[name]
    if not peer.needs:
        return sys.executable
    folder = ENVIRONMENTS / peer.script.removesuffix(".py")
    python = folder / "bin" / "python"
    stamp = folder / "needs.txt"
    if not stamp.exists() or stamp.read_text().split() != list(peer.needs):
        say(f"{name}: making its environment")
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *peer.needs],
            check=True,
        )
        stamp.write_text("\n".join(peer.needs))
    return str(python)


def measured(name: str, task: str, rows: int, file: Path, limit: float) -> dict[str, Any]:
    """One peer's result; what failed, and why, is a result too."""
    peer = PEERS[name]
    line: dict[str, Any] = {
        "peer": name,
        "task": task,
        "rows": rows,
        "machine_load": round(os.getloadavg()[0], 2),
    }
    if peer.command and not shutil.which(peer.command):
        return line | {"failed": f"needs {peer.command}"}
    try:
        python = interpreter(name)
    except (subprocess.CalledProcessError, OSError) as error:
        return line | {"failed": f"its environment could not be made: {error}"}
    say(f"{name}, {task}, {rows:,} rows ...")
    target = file.with_suffix(".told")
    target.unlink(missing_ok=True)
    command = [python, peer.script, str(file), task, str(REPETITIONS), str(limit / 6), str(target)]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}:{HERE}" if not peer.needs else str(HERE),
    }
    note = ""
    with tempfile.TemporaryFile("w+") as errors:
        started = subprocess.Popen(
            command, cwd=HERE, env=environment, stdout=errors, stderr=errors, start_new_session=True
        )
        try:
            code = started.wait(limit)
            if code:
                errors.seek(0)
                note = (errors.read().strip().splitlines() or ["no word"])[-1][:300]
        except subprocess.TimeoutExpired:
            note = f"stopped after {limit:g} s"
        finally:
            stop(started)
    told_lines = (
        [json.loads(text) for text in target.read_text().splitlines()] if target.exists() else []
    )
    return line | summary(told_lines, truth(file, task), note)


def stop(started: subprocess.Popen[Any]) -> None:
    """End the worker and what it started: they are a session of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, 9)
    started.wait()


def truth(file: Path, task: str) -> Any:
    if task == "median":
        return float(
            duckdb.execute(f"SELECT median(x) FROM read_parquet('{file}')").fetchall()[0][0]
        )
    rows = duckdb.execute(
        f"SELECT key, count(*), sum(x), avg(x) FROM read_parquet('{file}') GROUP BY key"
    ).fetchall()
    return {key: [float(value) for value in values] for key, *values in rows}


def summary(lines: list[dict[str, Any]], exact: Any, note: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for line in lines[:1]:
        facts |= {
            name: line[name]
            for name in ("version", "settings", "refused", "load_s")
            if name in line
        }
    answers = [line for line in lines if "answer" in line]
    if answers:
        taken = [line["answer_s"] for line in answers]
        facts |= {
            "first_s": taken[0],
            "answer_s": statistics.median(taken),
            "peak_mb": answers[-1]["peak_mb"],
            "repetitions": len(answers),
            "errors": errors_of([line["answer"] for line in answers], exact),
        }
    elif "refused" not in facts:
        facts["failed"] = note or "no answer"
    return facts | ({"note": note} if note and answers else {})


def errors_of(answers: list[Any], exact: Any) -> dict[str, dict[str, float]]:
    """Root mean squared errors with their own standard errors, and how far off the mean of all
    answers is."""
    if not isinstance(exact, dict):
        return {"median": rmse([answer - exact for answer in answers])}
    return {
        what: rmse(
            [
                answer.get(key, [0, 0, 0])[position] - exact[key][position]
                for answer in answers
                for key in exact
            ]
        )
        for position, what in enumerate(("count", "sum", "avg"))
    }


def rmse(gaps: list[float]) -> dict[str, float]:
    squares = [gap * gap for gap in gaps]
    mean = statistics.fmean(squares)
    spread = statistics.stdev(squares) / len(squares) ** 0.5 if len(squares) > 1 else mean
    root = mean**0.5
    return {
        "rmse": root,
        "standard_error": spread / (2 * root) if root else 0.0,
        "bias": statistics.fmean(gaps),
    }


def describe_line(line: dict[str, Any]) -> str:
    start = f"{line['peer']}, {line['task']}, {line['rows']:,} rows: "
    if "answer_s" not in line:
        return start + (line.get("refused") or line["failed"])
    errors = ", ".join(f"{what} {figures['rmse']:.4g}" for what, figures in line["errors"].items())
    return (
        start
        + f"load {line['load_s']:.2f} s, answer {line['answer_s']:.3f} s, {line['peak_mb']:,.0f} "
        f"MB, RMSE {errors}"
    )


def versions(results: dict[str, Any]) -> dict[str, str]:
    return {line["peer"]: line["version"] for line in results["lines"] if "version" in line}


def compared(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Ours against the best peer: time (target 1/20) and errors (no larger, within three standard
    errors)."""
    comparisons = []
    for task, rows in sorted({(line["task"], line["rows"]) for line in results["lines"]}):
        here = [
            line
            for line in results["lines"]
            if (line["task"], line["rows"]) == (task, rows) and "answer_s" in line
        ]
        dither_line = next((line for line in here if line["peer"] == "dither"), None)
        peers = [line for line in here if line["peer"] not in ("dither", "DuckDB, no privacy")]
        if dither_line is None or not peers:
            continue
        best = min(peers, key=lambda line: line["answer_s"])
        dither_s = dither_line["answer_s"]
        peer_s = best["answer_s"]
        comparisons.append(
            {"name": f"{task}, {rows:,} rows, time against {best['peer']}", "ours_s": dither_s,
            "base_s": peer_s,
             "ratio": dither_s / peer_s, "target": 0.05, "ok": dither_s <= 0.05 * peer_s}
        )  # fmt: skip
        for what, error in dither_line["errors"].items():
            rivals = [
                line
                for line in peers
                if line["repetitions"] * (1 if task == "median" else len(KEYS)) >= ENOUGH
            ]
            if not rivals:
                continue
            best = min(rivals, key=lambda line: line["errors"][what]["rmse"])
            least = best["errors"][what]
            slack = 3 * (error["standard_error"] ** 2 + least["standard_error"] ** 2) ** 0.5
            comparisons.append(
                {"name": f"{task}, {rows:,} rows, RMSE of {what} against {best['peer']}",
                "unit": "x",
                 "ours_s": error["rmse"], "base_s": least["rmse"],
                 "ratio": error["rmse"] / least["rmse"],
                 "target": 1.0, "ok": error["rmse"] <= least["rmse"] + slack}
            )  # fmt: skip
    return comparisons


def table(lines: list[dict[str, Any]]) -> None:
    print(f"{'':62}{'ours':>12}{'best peer':>12}{'ratio':>8}{'target':>8}  met")
    for line in lines:
        figures = (
            f"{line['ours_s']:12.4g}{line['base_s']:12.4g}{line['ratio']:8.3g}{line['target']:8g}"
        )
        print(f"{line['name']:62}{figures}  {'yes' if line['ok'] else 'NO'}")


if __name__ == "__main__":
    main()
