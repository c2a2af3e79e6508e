"""Import what a serving process needs before it serves, and keep it out of garbage collection.

Python's garbage collector now and then looks through all objects, also those of imported libraries,
which are never garbage. That was a fifth of the CPU time of a new answer.
"""

from __future__ import annotations

import atexit
import gc
from importlib import import_module

CURATOR_MODULES = ("dither.curator.run", "dither.data.measure", "mpmath.ctx_iv")
GATEWAY_MODULES = ("dither.gateway.run", "dither.answer.table")


def preload_modules(modules: tuple[str, ...]) -> None:
    """Import modules and what Arrow needs, and exclude what now exists from later collections."""
    for name in modules:
        import_module(name)
    import pyarrow as pa

    pa.array([0])  # the first array imports pandas, where it is installed
    gc.collect()
    gc.freeze()
    # unfrozen before the process ends: else a library would list what stays frozen as leaked
    atexit.register(gc.unfreeze)
