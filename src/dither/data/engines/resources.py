"""Resources: how much memory and how many threads the engine may take."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from dither.errors import DitherError

COUNTED = 0.8
"""The share of the stated memory that DuckDB may use: with 2 GB its process held 2.15 after 1e8
rows. With a share of 0.7 the same registration ran out of memory."""
MEMORY = re.compile(r"[1-9][0-9]{0,5}(MB|GB)")
THREADS = re.compile(r"[1-9][0-9]{0,3}")


@dataclass(frozen=True)
class Resources:
    """Limits of the engine; None leaves the engine's own default.

    >>> Resources("2GB").counted_memory, Resources.from_environment({"DITHER_THREADS": "2"})
    ('1600000 KB', Resources(memory=None, threads=2))
    """

    memory: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.memory is not None and not MEMORY.fullmatch(self.memory):
            raise DitherError(f"memory must be written as 512MB or 2GB, got {self.memory[:20]!r}")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Resources:
        """Read the limits from DITHER_MEMORY and DITHER_THREADS.

        Raises DitherError where one cannot be read.
        """
        threads = environment.get("DITHER_THREADS") or None
        if threads is not None and not THREADS.fullmatch(threads):
            raise DitherError(
                f"DITHER_THREADS must be a whole number from 1 to 9999, got {threads[:20]!r}"
            )
        return cls(
            environment.get("DITHER_MEMORY") or None, None if threads is None else int(threads)
        )

    @property
    def counted_memory(self) -> str | None:
        """Write the limit to tell the engine, which holds more than it counts; None without a
        limit."""
        if self.memory is None:
            return None
        kilobytes = int(self.memory[:-2]) * {"MB": 10**3, "GB": 10**6}[self.memory[-2:]]
        return f"{int(kilobytes * COUNTED)} KB"
