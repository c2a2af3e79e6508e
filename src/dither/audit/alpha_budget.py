"""One error budget for runs that repeat: nightly audits of a year share one alpha (rule
audits-fixed-in-advance).

The k-th run of a year gets alpha / (k (k + 1)); these shares add up to alpha however many runs
there are, so the chance of any false alarm in the year is at most alpha. The count is kept in a
small file and moved before the run starts, so that a run that breaks off has spent its share; the
alpha of a year is that of its first run.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
from pathlib import Path

from dither.audit.confidence import check_alpha
from dither.errors import ParameterError
from dither.figures import write_bound


def share(run: int, alpha: float) -> float:
    """The share of alpha that the run of this number (from 1) may spend.

    >>> share(1, 0.01), round(sum(share(k, 0.01) for k in range(1, 366)), 6)
    (0.005, 0.009973)
    """
    return check_alpha(alpha) / (run * (run + 1))


def next_share(file: Path, alpha: float, year: int | None = None) -> float:
    """Count one more run in the file and return its share; a new year starts anew."""
    now = datetime.datetime.now(tz=datetime.UTC).year if year is None else year
    check_alpha(alpha)
    with file.with_name(file.name + ".lock").open("w") as lock:
        fcntl.flock(
            lock, fcntl.LOCK_EX
        )  # two runs that start together must not spend the same share
        record = json.loads(file.read_text()) if file.exists() else {}
        same = record.get("year") == now
        if same and record["alpha"] != alpha:
            raise ParameterError(
                f"the runs of {now} share alpha {write_bound(record['alpha'])}, fixed by the "
                f"first of them: use that, got {write_bound(alpha)}"
            )
        run = int(record["runs"]) + 1 if same else 1
        new = file.with_name(file.name + ".new")
        new.write_text(json.dumps({"year": now, "runs": run, "alpha": alpha}))
        os.replace(new, file)
    return share(run, alpha)
