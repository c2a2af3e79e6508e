"""ChaCha20 blocks (RFC 8439) on arrays of NumPy or PyTorch alike: the cipher of noise on a device.

The state is 16 words of 32 bits, here in int64 numbers that are cut to 32 bits after every step, so
that the same lines run on a host and on a device. `triton_noise.py` has the same rounds in one
kernel; tests hold both to the vectors of the RFC.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
_QUARTERS = (
    (0, 4, 8, 12),
    (1, 5, 9, 13),
    (2, 6, 10, 14),
    (3, 7, 11, 15),
    (0, 5, 10, 15),
    (1, 6, 11, 12),
    (2, 7, 8, 13),
    (3, 4, 9, 14),
)
_DOUBLE_ROUNDS = 10
_WORD = 0xFFFFFFFF


def chacha_blocks(key: Sequence[int], counters: Any, nonce: Sequence[Any]) -> list[Any]:
    """The 16 words of the block of every counter, as 16 arrays like `counters`.

    `key` has 8 words, `nonce` 3. The first word of the RFC's second vector (section 2.3.2):

    >>> import numpy as np
    >>> key = [int.from_bytes(bytes(range(4 * i, 4 * i + 4)), "little") for i in range(8)]
    >>> hex(chacha_blocks(key, np.ones(1, np.int64), [0x09000000, 0x4A000000, 0])[0][0])
    '0xe4e7f110'
    """
    zeros = counters & 0
    start = [zeros + word for word in (*_CONSTANTS, *key)]
    start += [counters & _WORD, *(zeros + word for word in nonce)]
    state = list(start)
    for _ in range(_DOUBLE_ROUNDS):
        for a, b, c, d in _QUARTERS:
            _mix(state, a, b, c, d)
    return [(word + first) & _WORD for word, first in zip(state, start, strict=True)]


def _mix(state: list[Any], a: int, b: int, c: int, d: int) -> None:
    """A quarter round, in place."""
    state[a] = (state[a] + state[b]) & _WORD
    state[d] = _rotate(state[d] ^ state[a], 16)
    state[c] = (state[c] + state[d]) & _WORD
    state[b] = _rotate(state[b] ^ state[c], 12)
    state[a] = (state[a] + state[b]) & _WORD
    state[d] = _rotate(state[d] ^ state[a], 8)
    state[c] = (state[c] + state[d]) & _WORD
    state[b] = _rotate(state[b] ^ state[c], 7)


def _rotate(word: Any, bits: int) -> Any:
    return ((word << bits) | (word >> (32 - bits))) & _WORD
