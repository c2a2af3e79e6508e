"""One error budget for runs that repeat: nightly audits of a year share one alpha (privacy-rules 35).

The k-th run of a year gets alpha / (k (k + 1)); these shares add up to alpha however many runs there are, so the chance
of any false alarm in the year is at most alpha. The count is kept in a small file and moved before the run starts.
"""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

from dither.audit.confidence import check_alpha


def share(run: int, alpha: float) -> float:
    """What the run of this number (from 1) may spend.

    >>> share(1, 0.01), round(sum(share(k, 0.01) for k in range(1, 366)), 6)
    (0.005, 0.009973)
    """
    return check_alpha(alpha) / (run * (run + 1))


def next_share(file: Path, alpha: float, year: int | None = None) -> float:
    """Count one more run in the file and return its share; a new year starts anew."""
    now = datetime.datetime.now(tz=datetime.UTC).year if year is None else year
    known = json.loads(file.read_text()) if file.exists() else {}
    run = int(known.get("runs", 0)) + 1 if known.get("year") == now else 1
    new = file.with_name(file.name + ".new")
    new.write_text(json.dumps({"year": now, "runs": run, "alpha": alpha}))
    os.replace(new, file)
    return share(run, alpha)
