"""A real process that asks one question and dies (SIGKILL) right before or after a named kernel
step."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import dither
from dither.privacy.kernel.kernel import Kernel, KernelStep


def main(catalog: str, step: str, when: str) -> None:
    method = "send" if step == "release" else step
    honest = getattr(Kernel, method)

    def dying(self, *arguments):
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        honest(self, *arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    if step != "never":
        KernelStep(step)
        con = dither.connect(catalog)  # binding and preview price too; die in the release only
        request = con.request("SELECT ward, COUNT(*) FROM visits GROUP BY ward", epsilon=1)
        setattr(Kernel, method, dying)
        con._kernel.release(request)
    Path(catalog).with_name("answered").write_text("the answer left")


if __name__ == "__main__":
    main(*sys.argv[1:])
