"""A curator in a process of its own that pauses inside a release: CATALOG SOCKET HOME STEP.

It prints a line when it listens and one when the step is reached, and goes on after a line of
input. The tests kill it there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dither.curator.run import CuratorSettings, run_curator
from dither.privacy.kernel.kernel import Kernel


def pause_before(step: str) -> None:
    """Let the kernel stop before one of its steps until a line comes in."""
    do_step = getattr(Kernel, step)

    def pause_and_do(*arguments, **terms):
        print(step, flush=True)
        sys.stdin.readline()
        return do_step(*arguments, **terms)

    setattr(Kernel, step, pause_and_do)


if __name__ == "__main__":
    catalog, path, home, chosen = sys.argv[1:]
    pause_before(chosen)
    settings = CuratorSettings((Path(catalog),), Path(path), Path(home))
    run_curator(settings, lambda text: print(text, flush=True))
