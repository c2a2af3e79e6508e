"""Serving processes import before they serve, and leave what they loaded out of later searches."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIBRARIES = 10_000
"""Far fewer objects than the imported libraries hold."""


@pytest.mark.parametrize("modules", ["CURATOR_MODULES", "GATEWAY_MODULES"])
def test_what_is_loaded_is_left_out_of_searches_for_garbage(modules):
    program = (
        "import gc, sys\n"
        "from dither.cli import loaded\n"
        f"loaded.load_for_good(loaded.{modules})\n"
        f"assert set(loaded.{modules}) | {{'pyarrow', 'pandas'}} <= sys.modules.keys()\n"
        f"assert gc.isenabled() and gc.get_freeze_count() > {LIBRARIES}\n"
        f"assert len(gc.get_objects()) < {LIBRARIES}\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
