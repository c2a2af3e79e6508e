"""What a serving process loads before it serves, and never searches for garbage again.

Python looks for unreachable objects now and then, and a full search walks all that imported
libraries hold: that was a fifth of the CPU time of a new answer.
"""

from __future__ import annotations

import gc
from importlib import import_module

CURATOR_MODULES = ("dither.curator.run", "dither.data.measure", "mpmath.ctx_iv")
GATEWAY_MODULES = ("dither.gateway.run", "dither.answer.table")


def load_for_good(modules: tuple[str, ...]) -> None:
    """Import modules and what Arrow needs, and leave all objects of now out of later searches."""
    for name in modules:
        import_module(name)
    import pyarrow as pa

    pa.array([0])  # the first array imports pandas, where it is installed
    gc.collect()
    gc.freeze()
