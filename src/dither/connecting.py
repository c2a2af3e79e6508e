"""Opening a connection: to a registered dataset, to data frames, or to a dataset that is served."""

from __future__ import annotations

import warnings
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dither.canonical import Number
from dither.catalog import Catalog
from dither.embedded import EmbeddedCurator
from dither.errors import DitherError, ParameterError, PrivacyWarning
from dither.publish.library import NO_TOTAL
from dither.session import Connection

if TYPE_CHECKING:
    from dither.remote.async_connection import AsyncConnection


def connect(
    data: Any = None,
    *,
    catalog: str | Path | Catalog | None = None,
    pot: str | None = None,
    state: str | Path | None = None,
    epsilon: Number | None = None,
    token: str | None = None,
) -> Connection:
    """Open a registered dataset by its catalog: a file, or a Catalog loaded from one.

    `connect("https://host/datasets/clinic", token=...)` asks a dataset that a gateway serves, by
    the same methods; without `token` the variable DITHER_TOKEN has it, and without `pot` the
    token's own pot pays.

    `connect(frame, catalog="adult.yaml")` asks a pandas, polars or Arrow frame that the caller
    holds (several as `{"table": frame}`), with a budget of `epsilon` (1) for this connection alone:
    each one starts from zero, and no total is promised.
    """
    if data is not None and catalog is not None:
        if pot is not None or state is not None:
            raise ParameterError(
                "a data frame has no budget and no state: each connect has its own"
            )
        return _connect_frames(data, catalog, 1 if epsilon is None else epsilon)
    if epsilon is not None:
        raise ParameterError("the budget of a registered dataset is opened by its data steward")
    opened = catalog if data is None else data
    if isinstance(opened, str) and opened.startswith(("http://", "https://")):
        if state is not None:
            raise ParameterError("a served dataset keeps its state where it is served")
        return _connect_remote(opened, token, pot)
    if token is not None:
        raise ParameterError("a token opens a served dataset: connect('https://...', token=...)")
    if not isinstance(opened, (str, Path, Catalog)):
        raise ParameterError(
            "connect takes the catalog of a registered dataset, or a data frame with its catalog: "
            "connect(frame, catalog='adult.yaml')"
        )
    return Connection(EmbeddedCurator(opened, state), pot=pot or "total")


def connect_async(url: str, *, token: str | None = None, pot: str | None = None) -> AsyncConnection:
    """A served dataset for programs with an event loop: `await con.sql(...)`."""
    _import_client()
    from dither.remote.async_connection import AsyncConnection

    return AsyncConnection(lambda: _connect_remote(url, token, pot))


def _connect_remote(url: str, token: str | None, pot: str | None) -> Connection:
    """Open a dataset that a gateway serves. What that needs is imported for the first one."""
    _import_client()
    from dither.remote.curator import RemoteCurator
    from dither.remote.http import HttpTransport, read_address

    curator = RemoteCurator(HttpTransport(read_address(url, token)))
    return Connection(curator, pot=pot or curator.first_pot)


def _import_client() -> None:
    """Say which extra is missing, where one is."""
    try:
        import httpx
        import pydantic
    except ImportError:
        raise DitherError(
            "a served dataset needs httpx and pydantic: pip install 'dither[client]'"
        ) from None
    del httpx, pydantic


def _connect_frames(frames: Any, catalog: str | Path | Catalog, epsilon: Number) -> Connection:
    """Copy data frames, and connect to the copy; it is removed with the connection.

    Warns that no total is promised.
    """
    from dither.steward.frames import POT, copy_frames

    copy = copy_frames(frames, catalog, epsilon)
    try:
        connection = Connection(EmbeddedCurator(copy.catalog, copy.state.root), pot=POT)
    except BaseException:
        copy.remove()
        raise
    weakref.finalize(connection, copy.remove)
    warnings.warn(NO_TOTAL, PrivacyWarning, stacklevel=3)
    return connection
