"""Where every random bit comes from.

It is a fresh AES-256-CTR stream for every release, keyed by the operating system.

No seed parameter exists, here or anywhere. A stream cannot be pickled or copied, and a process that
was forked gets a new key before its next word, so no two releases ever share noise (two answers
with the same noise subtract to the truth). Samplers take any `Words`; the kernel builds its own
`SystemSource` and offers no way to hand it another.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import NoReturn, final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from dither.errors import ParameterError

_forks = 0
_BLOCK = 1 << 16
_ZEROS = memoryview(bytes(8 * _BLOCK))
"""What most blocks of the stream are added to, made once."""
_SLACK = 15
"""Bytes beyond those drawn that `update_into` asks for and does not write."""


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


def fresh_bytes(count: int) -> bytes:
    """Draw `count` bytes from the operating system, for keys and nonces."""
    return os.urandom(count)


class Words(ABC):
    """A supply of independent uniform words: `words(n, width)` are n integers in [0, 2**width)."""

    __slots__ = ()

    @abstractmethod
    def words(self, count: int, width: int = 64) -> NDArray[np.uint64]: ...


@final
class SystemSource(Words):
    """The source of production: AES-256-CTR.

    The operating system drew its key for this object alone.
    """

    __slots__ = ("_forks", "_pid", "_stream")

    def __init__(self) -> None:
        self._rekey()

    def _rekey(self) -> None:
        self._stream = Cipher(AES(os.urandom(32)), CTR(bytes(16))).encryptor()
        self._pid = os.getpid()
        self._forks = _forks

    def words(self, count: int, width: int = 64) -> NDArray[np.uint64]:
        """Draw `count` words of `width` random bits.

        After a fork the stream gets a new key first.
        """
        if self._forks != _forks or self._pid != os.getpid():
            self._rekey()
        memory = np.empty(8 * count + _SLACK, np.uint8)
        zeros = _ZEROS[: 8 * count] if count <= _BLOCK else bytes(8 * count)
        if self._stream.update_into(zeros, memory.data) != len(zeros):
            raise RuntimeError("the stream gave fewer bytes than were asked for")
        drawn = memory[: len(zeros)].view(np.uint64)
        return drawn if width == 64 else drawn >> np.uint64(64 - width)

    def _never(self, *_: object) -> NoReturn:
        raise TypeError(
            "a source of randomness cannot be copied, pickled or restored: its stream would repeat"
        )

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = __setstate__ = _never

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("SystemSource is final")


def check_source(source: Words | None) -> Words:
    """Return `source`, or a fresh `SystemSource` where it is None.

    Raises ParameterError for anything that is no `Words`, such as a NumPy generator.
    """
    if source is None:
        return SystemSource()
    if not isinstance(source, Words):
        raise ParameterError(f"source must be left out or be a Words, got {type(source).__name__}")
    return source
