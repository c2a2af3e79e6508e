"""Mutual TLS between a curator and a gateway on two hosts: both show certificates.

The authority is the steward's own, made for these two alone: whoever holds a certificate of it may
connect. TLS 1.3 is the oldest version that is spoken.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from dither.errors import ParameterError


@dataclass(frozen=True)
class TlsFiles:
    """The certificate of this side, its key, and the authority that the other side must have."""

    certificate: Path
    key: Path
    authority: Path


def make_server_context(files: TlsFiles) -> ssl.SSLContext:
    """The context of a curator: a peer without a certificate of the authority is refused."""
    return _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), files)


def make_client_context(files: TlsFiles) -> ssl.SSLContext:
    """The context of a gateway: the curator's certificate must be for the host that is called."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = True
    return _load(context, files)


def _load(context: ssl.SSLContext, files: TlsFiles) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(files.certificate, files.key)
        context.load_verify_locations(cafile=files.authority)
    except (OSError, ssl.SSLError):
        raise ParameterError(
            f"{files.certificate}, {files.key} and {files.authority} are no certificate, key and "
            "authority in PEM that belong together"
        ) from None
    return context


def read_host_and_port(text: str) -> tuple[str, int]:
    """A host and a port from HOST:PORT.

    >>> read_host_and_port("curator.example:8766")
    ('curator.example', 8766)
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ParameterError("write HOST:PORT, such as curator.example:8766")
    return host.strip("[]"), int(port)
