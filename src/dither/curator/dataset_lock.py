"""One curator for a dataset: a second one would keep a schedule of its own beside the first."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from dither.errors import DitherError

LOCK_NAME = "curator.lock"


class DatasetLock:
    """A lock in the state folder of a dataset; the system ends it with the process."""

    def __init__(self, root: Path) -> None:
        """Take the lock; DitherError where another curator has it."""
        self._descriptor = os.open(root / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise DitherError(
                f"another curator serves {root}: stop it first, or let it serve all your datasets"
            ) from None

    def release(self) -> None:
        """Let another curator serve the dataset."""
        with suppress(OSError):
            os.close(self._descriptor)
