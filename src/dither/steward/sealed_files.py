"""A stream of bytes under a passphrase: what a backup is.

The key is scrypt of the passphrase. The stream is cut into chunks, each sealed by ChaCha20-Poly1305
under a nonce that holds its number and whether it is the last (the STREAM construction of Hoang,
Reyhanitabar, Rogaway and Vizar 2015): none can be changed, left out, moved or cut off unnoticed.
"""

from __future__ import annotations

from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from dither.errors import ParameterError
from dither.privacy.noise.source import fresh_bytes

MAGIC = b"dither backup 1\n"
SALT_BYTES = 16
CHUNK_BYTES = 2**20
SHORTEST = 12
"""Characters of a passphrase."""
_TAG_BYTES = 16
_SCRYPT = {"length": 32, "n": 2**16, "r": 8, "p": 1}


def seal_stream(source: BinaryIO, target: BinaryIO, passphrase: str) -> None:
    """Write all that `source` holds, sealed."""
    if len(passphrase) < SHORTEST:
        raise ParameterError(
            f"a passphrase has at least {SHORTEST} characters: choose a longer one"
        )
    salt = fresh_bytes(SALT_BYTES)
    target.write(MAGIC + salt)
    cipher = _make_cipher(passphrase, salt)
    number = 0
    chunk = source.read(CHUNK_BYTES)
    while True:
        following = source.read(CHUNK_BYTES)
        target.write(cipher.encrypt(_write_nonce(number, is_last=not following), chunk, MAGIC))
        if not following:
            return
        chunk = following
        number += 1


def open_stream(source: BinaryIO, target: BinaryIO, passphrase: str) -> None:
    """Write all that was sealed; ParameterError where one byte of it is not as it was written."""
    head = source.read(len(MAGIC) + SALT_BYTES)
    if not head.startswith(MAGIC) or len(head) < len(MAGIC) + SALT_BYTES:
        raise ParameterError(
            "this file is no backup of dither: 'dither backup CATALOG FILE' writes one"
        )
    cipher = _make_cipher(passphrase, head[len(MAGIC) :])
    number = 0
    chunk = source.read(CHUNK_BYTES + _TAG_BYTES)
    while True:
        following = source.read(CHUNK_BYTES + _TAG_BYTES)
        try:
            nonce = _write_nonce(number, is_last=not following)
            target.write(cipher.decrypt(nonce, chunk, MAGIC))
        except InvalidTag:
            raise ParameterError(
                "the passphrase is not that of this backup, or the file was changed or cut off"
            ) from None
        if not following:
            return
        chunk = following
        number += 1


def _make_cipher(passphrase: str, salt: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(Scrypt(salt=salt, **_SCRYPT).derive(passphrase.encode()))


def _write_nonce(number: int, *, is_last: bool) -> bytes:
    """The nonce of a chunk: eleven bytes of its number, one that says whether it is the last."""
    return number.to_bytes(11, "big") + bytes([is_last])
