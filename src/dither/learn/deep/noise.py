"""Noise of training steps: integers from the CSPRNG, the next step's drawn on a second thread.

Guarantee: every draw is used once, in the process that drew it. What was drawn ahead is thrown away
after a fork, and neither a drawer nor its noise can be copied or pickled:
two releases with the same noise subtract to the truth.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dither.privacy.noise import SystemSource, Words
from dither.privacy.noise.rounded import rounded_gaussian

Integers = NDArray[np.int64]


class NoiseDrawer:
    """Draws `count` rounded Gaussian integers for each step, one step ahead.

    The noise of a step may depend on a public scale that changes: what was drawn ahead for another
    sigma is thrown away, unread.
    """

    def __init__(self, count: int, *, ahead: bool = True) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="noise") if ahead else None
        self._next: tuple[int, int, Future[Integers]] | None = None
        self._source: Words = SystemSource()
        self._taking = Lock()

    def draw(self, sigma: int) -> Integers:
        """Noise for one step."""
        with self._taking:
            waiting = self._next
            self._next = None
        if waiting is not None and waiting[0] == sigma and waiting[1] == os.getpid():
            return waiting[2].result()
        self._forget(waiting)
        return self._fill(sigma)

    def begin(self, sigma: int) -> None:
        """Begin to draw the noise of the next step."""
        if self._pool is not None and self._next is None:
            self._next = (sigma, os.getpid(), self._pool.submit(self._fill, sigma))

    def _forget(self, waiting: tuple[int, int, Future[Integers]] | None) -> None:
        """Wait for a draw of this process that nobody will read; a forked child has no thread, and
        begins one of its own with a source of its own."""
        if waiting is None:
            return
        if waiting[1] == os.getpid():
            waiting[2].result()
        else:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="noise")
            self._source = SystemSource()

    def _fill(self, sigma: int) -> Integers:
        noise: Integers = rounded_gaussian(sigma, self._count, source=self._source)
        return noise

    def close(self) -> None:
        """End the thread."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        self._next = None

    def _never(self, *_: Any) -> NoReturn:
        raise TypeError("noise drawn ahead cannot be copied or pickled: it would be used twice")

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _never
