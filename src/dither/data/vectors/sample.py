"""Which units a sample holds: each by itself, with the same probability, by a secret key.

A unit is in the sample where the first 64 bits of AES-256 of its number, under the key of this
release and query, lie below rate * 2**64. AES is the cipher that all noise stands on: to tell these
bits from independent coins is to break it. Never an affine hash, whose values for three units
determine that of a fourth. Proof: docs/proofs/unit-vectors.md#sampling.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray


def draw_units(
    units: NDArray[Any], rate: Fraction, release_key: bytes, query_hash: str
) -> NDArray[np.bool_]:
    """Whether each of these units is in the sample of a query, by the secret key of a release.

    The numbers of units need only differ: the law of the sample is the same whatever they are.
    """
    key = hashlib.sha256(b"dither sample of units" + release_key + query_hash.encode()).digest()
    blocks = np.zeros((len(units), 2), "<u8")
    blocks[:, 0] = units
    # one block of AES for each unit: a pseudorandom function of its number, not a mode for texts
    encrypted = Cipher(AES(key), ECB()).encryptor().update(blocks.tobytes())
    is_in_sample: NDArray[np.bool_] = np.frombuffer(encrypted, "<u8")[::2] < int(rate * 2**64)
    return is_in_sample
