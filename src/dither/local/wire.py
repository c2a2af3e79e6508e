"""The bytes between a device and a collector: format 1, docs/reference/local-wire-format.md.

A report is a header of five bytes (the format number, then the first four bytes of the protocol's
digest) and a payload whose size the protocol fixes. Integers are little-endian and unsigned. A
batch is one header and many payloads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError

if TYPE_CHECKING:
    from dither.local.protocol import Protocol

FORMAT = 1
HEADER_BYTES = 5
_BATCH_MAGIC = b"dLDP"
_BATCH_HEADER_BYTES = 4 + 1 + 3 + 32 + 4 + 8
Payloads = NDArray[np.uint8]


def int_width(largest: int) -> int:
    """Bytes that hold every integer up to `largest`.

    >>> int_width(255), int_width(256)
    (1, 2)
    """
    return max(1, -(-largest.bit_length() // 8))


def put_int(values: NDArray[Any], width: int) -> Payloads:
    """Column bytes of unsigned integers, little-endian."""
    return np.ascontiguousarray(values, "<u8").view(np.uint8).reshape(-1, 8)[:, :width]


def get_int(columns: Payloads) -> NDArray[np.int64]:
    """The integers in the column bytes (at most seven)."""
    integers = np.zeros(len(columns), np.int64)
    for byte_index in range(columns.shape[1]):
        integers |= columns[:, byte_index].astype(np.int64) << (8 * byte_index)
    return integers


def seal(protocol: Protocol, payload: bytes) -> bytes:
    """One report as it travels."""
    return bytes([FORMAT]) + protocol.digest[:4] + payload


def unseal(protocol: Protocol, report: bytes) -> bytes:
    """Return the payload of a report.

    Raises ParameterError for another format, protocol or size.
    """
    if len(report) != HEADER_BYTES + protocol.payload_bytes:
        raise ParameterError(
            f"a report of this protocol has {HEADER_BYTES + protocol.payload_bytes} bytes, got "
            f"{len(report)}"
        )
    if report[0] != FORMAT:
        raise ParameterError(
            f"report format {report[0]} is not known here: this aggregator reads format {FORMAT}"
        )
    if report[1:HEADER_BYTES] != protocol.digest[:4]:
        raise ParameterError(
            "the report was made for another protocol: compare the digests of the protocol "
            "documents"
        )
    return report[HEADER_BYTES:]


def write_batch(protocol: Protocol, payloads: Payloads) -> bytes:
    """Many payloads behind one header of 52 bytes."""
    head = _BATCH_MAGIC + bytes([FORMAT, 0, 0, 0]) + protocol.digest
    head += protocol.payload_bytes.to_bytes(4, "little") + len(payloads).to_bytes(8, "little")
    return head + np.ascontiguousarray(payloads).tobytes()


def read_batch(protocol: Protocol, batch: bytes) -> Payloads:
    """Return the payloads of a batch.

    Raises ParameterError for what was not written for this protocol.
    """
    if batch[:5] != _BATCH_MAGIC + bytes([FORMAT]) or len(batch) < _BATCH_HEADER_BYTES:
        raise ParameterError(f"not a batch of reports in format {FORMAT}")
    if batch[8:40] != protocol.digest:
        raise ParameterError(
            "the batch was made for another protocol: compare the digests of the protocol documents"
        )
    size = int.from_bytes(batch[40:44], "little")
    count = int.from_bytes(batch[44:52], "little")
    if size != protocol.payload_bytes or len(batch) != _BATCH_HEADER_BYTES + size * count:
        raise ParameterError("the batch is cut short or has payloads of another size")
    return np.frombuffer(batch, np.uint8, offset=_BATCH_HEADER_BYTES).reshape(count, size)
