"""Which of several curators of one ledger serves: the one that gives signs of life.

The leader rewrites a small file in the folder of heads every few seconds. Who finds the same file
for longer than its patience, by its own clock, takes over (`ledger.epochs`). Signs of life decide
about being served alone: a leader that was only slow, paused or cut off is fenced by the ledger.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dither.errors import DitherError
from dither.privacy.ledger.epochs import FencedError
from dither.privacy.noise.source import fresh_bytes

SIGNS_PER_PATIENCE = 5
"""So many signs of life fit into the time that others wait for one."""


class Leadership:
    """Signs of life of the curator that serves one ledger."""

    def __init__(self, head_path: Path, patience_s: float) -> None:
        self._file = head_path.with_name(head_path.name + ".leader")
        self._patience_s = patience_s
        self._name = fresh_bytes(8).hex()
        self._signs = 0
        self._ended = threading.Event()

    def await_silence(self, is_stopped: Callable[[], bool] = lambda: False) -> bool:
        """Wait until no other curator gives signs of life; False where `is_stopped` came first."""
        latest = self._read()
        silent_since = time.monotonic()
        while latest is not None and not is_stopped():
            if time.monotonic() - silent_since > self._patience_s:
                return True
            time.sleep(self._patience_s / (4 * SIGNS_PER_PATIENCE))
            sign = self._read()
            if sign != latest:
                latest = sign
                silent_since = time.monotonic()
        return not is_stopped()

    def begin(self, check_epoch: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Give signs of life from now on; `on_lost` is called once another curator has taken over.

        `check_epoch` raises FencedError then. The file does not decide: a curator that was paused
        in the act may write one sign over its successor's.
        """
        self._write()
        arguments = (check_epoch, on_lost)
        threading.Thread(target=self._renew, args=arguments, daemon=True).start()

    def end(self) -> None:
        """Give no more signs, so that the next curator need not wait."""
        self._ended.set()
        if self._is_ours():
            with suppress(OSError):
                self._file.unlink()

    def _renew(self, check_epoch: Callable[[], None], on_lost: Callable[[], None]) -> None:
        while not self._ended.wait(self._patience_s / SIGNS_PER_PATIENCE):
            try:
                check_epoch()
            except FencedError:
                on_lost()
                return
            except DitherError:
                continue  # cut off from the ledger: no sign, so that another one takes over
            self._write()

    def _is_ours(self) -> bool:
        sign = self._read()
        return sign is None or sign.startswith(self._name)

    def _read(self) -> str | None:
        try:
            return self._file.read_text(encoding="ascii")
        except OSError:
            return None

    def _write(self) -> None:
        """Write a new sign; a folder that cannot be written is tried again at the next one."""
        self._signs += 1
        beside = self._file.with_name(f"{self._file.name}.{self._name}")
        with suppress(OSError):
            beside.write_text(f"{self._name} {self._signs}", encoding="ascii")
            beside.rename(self._file)
