"""Errors between processes: a token that is not accepted, a curator that is busy."""

from __future__ import annotations

from dither.errors import DitherError


class AccessError(DitherError):
    """The token is unknown, expired or revoked, or its role does not allow what was asked."""


class BusyError(DitherError):
    """Too much is under way, or nobody listens. Nothing was charged."""


class ProtocolError(DitherError):
    """A message that this version of the protocol does not have."""
