"""Serving processes import before they serve, and keep that out of garbage collection."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIBRARIES = 10_000
"""Far fewer objects than the imported libraries hold."""


@pytest.mark.parametrize("modules", ["CURATOR_MODULES", "GATEWAY_MODULES"])
def test_what_is_preloaded_is_left_out_of_garbage_collection_until_the_end(modules):
    program = (
        "import gc, sys\n"
        "from dither.cli import preload\n"
        f"preload.preload_modules(preload.{modules})\n"
        f"assert set(preload.{modules}) | {{'pyarrow', 'pandas'}} <= sys.modules.keys()\n"
        f"assert gc.isenabled() and gc.get_freeze_count() > {LIBRARIES}\n"
        f"assert len(gc.get_objects()) < {LIBRARIES}\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=True, stderr=subprocess.PIPE)
    assert ended.stderr == b""  # DuckDB's module names what the end of a process leaves over
