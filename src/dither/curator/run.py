"""Runs a curator: opens its datasets, listens, and stops when it is told to."""

from __future__ import annotations

import os
import pwd
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from dither.curator.ask_log import AskLog
from dither.curator.dataset import ServedDataset
from dither.curator.dataset_lock import DatasetLock
from dither.curator.leadership import Leadership
from dither.curator.limit_acts import LimitActs
from dither.curator.listeners import Listener, TlsListener, UnixListener
from dither.curator.saved_questions import SavedQuestions
from dither.curator.server import CuratorServer
from dither.curator.service import CuratorService
from dither.curator.suspensions import SuspensionLog
from dither.embedded import EmbeddedCurator
from dither.errors import DitherError, ParameterError
from dither.identity import AccessLog, Authority
from dither.privacy.ledger import default_head_path
from dither.privacy.ledger.takeover import end_holders
from dither.protocol.tls import TlsFiles, read_host_and_port
from dither.state import State


@dataclass(frozen=True)
class CuratorSettings:
    """What a curator serves, where, and to which other user of the computer."""

    catalogs: tuple[Path, ...]
    socket: Path
    home: Path
    gateway_user: str | None = None
    slot_s: float = 0
    job_s: float = 0
    """How long a job holds the dataset, where answers leave at slots."""
    tls_address: str | None = None
    """HOST:PORT to listen on for a gateway of another host, in the place of the socket."""
    tls_files: TlsFiles | None = None
    takeover_after_s: float | None = None
    """For one of several curators of a ledger: how long another may give no sign of life."""
    stops_with_input: bool = False
    """Whether it stops when its standard input ends, as under a parent that was killed."""


def run_curator(settings: CuratorSettings, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; what is under way then is finished, stored and sent."""
    os.umask(0o077)
    leaders = _await_leadership(settings, announce)
    server = make_server(settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.request_stop())
    if settings.stops_with_input:
        threading.Thread(target=_stop_at_end_of_input, args=(server,), daemon=True).start()

    def yield_to_successor() -> None:
        announce("another curator took over: this one sends nothing more, and stops")
        server.request_stop()

    for leader in leaders:
        leader.begin(server.check_epochs, yield_to_successor)
    announce(f"listening on {settings.tls_address or settings.socket}")
    try:
        server.serve()
    finally:
        for leader in leaders:
            leader.end()


def _await_leadership(
    settings: CuratorSettings, announce: Callable[[str], None]
) -> tuple[Leadership, ...]:
    """Wait until no other curator serves the ledgers; nothing of them is opened before."""
    if settings.takeover_after_s is None:
        return ()
    announce("waiting until no other curator gives signs of life")
    leaders = []
    for catalog in settings.catalogs:
        state = State.beside(catalog)
        head_path = default_head_path(state.installation_id())
        leader = Leadership(head_path, settings.takeover_after_s)
        leader.await_silence()
        # silent for so long, a curator has held what it holds for at least half of that
        end_holders(state.ledger_location(), head_path, settings.takeover_after_s / 2)
        leaders.append(leader)
    return tuple(leaders)


def make_server(settings: CuratorSettings) -> CuratorServer:
    """The server of some settings; refused where two catalogs have one name.

    The datasets are locked before it waits for the slots of earlier releases. Else a curator that
    still runs could release another answer meanwhile, which this one would show too early.
    """
    users = _read_users(settings.gateway_user)
    is_one_user = users == {os.getuid()} and settings.tls_address is None
    if settings.tls_address is not None:
        _require_tls_files(settings)  # before a dataset is opened
    authority = Authority(settings.home)
    asks = AskLog(authority.tokens.file)
    accesses = AccessLog(settings.home)
    suspensions = SuspensionLog(settings.home)
    datasets = [
        ServedDataset(
            EmbeddedCurator(catalog, is_served=True),
            asks,
            accesses,
            LimitActs(catalog),
            suspensions,
            is_one_user=is_one_user,
            slot_s=settings.slot_s,
            job_s=settings.job_s,
        )
        for catalog in settings.catalogs
    ]
    _refuse_same_names(dataset.name for dataset in datasets)
    locks = _lock_datasets(datasets)
    try:
        for dataset in datasets:
            dataset.begin_epoch(is_shared=settings.takeover_after_s is not None)
        listener = _make_listener(settings, users)
    except BaseException:
        _release_locks(locks)
        raise
    service = CuratorService(datasets, authority, SavedQuestions(settings.home))
    authority.start()  # once the socket is ours: another curator may still use these tokens
    return CuratorServer(service, listener, locks)


def _lock_datasets(datasets: Iterable[ServedDataset]) -> tuple[DatasetLock, ...]:
    """The locks of all datasets, or none of them."""
    locks: list[DatasetLock] = []
    try:
        locks.extend(DatasetLock(dataset.limits.state.root) for dataset in datasets)
    except DitherError:
        _release_locks(locks)
        raise
    return tuple(locks)


def _release_locks(locks: Iterable[DatasetLock]) -> None:
    for lock in locks:
        lock.release()


def _make_listener(settings: CuratorSettings, users: frozenset[int]) -> Listener:
    """The socket, or the port of a curator whose gateway is on another host."""
    if settings.tls_address is None:
        return UnixListener(settings.socket, users)
    return TlsListener(*read_host_and_port(settings.tls_address), _require_tls_files(settings))


def _require_tls_files(settings: CuratorSettings) -> TlsFiles:
    """The certificates that both sides show; refused where they are not named."""
    if settings.tls_files is None:
        raise ParameterError("between hosts both sides show certificates: name the three files")
    return settings.tls_files


def _read_users(gateway_user: str | None) -> frozenset[int]:
    """The users whose processes may connect: the gateway's alone, or without one our own."""
    if gateway_user is None:
        return frozenset({os.getuid()})
    try:
        return frozenset({pwd.getpwnam(gateway_user).pw_uid})
    except KeyError:
        raise ParameterError(
            f"this computer has no user {gateway_user!r}: make one for the gateway, or leave "
            "--gateway-user out"
        ) from None


def _refuse_same_names(names: Iterable[str]) -> None:
    listed = list(names)
    if len(set(listed)) < len(listed):
        raise ParameterError("two catalogs have the same dataset name: serve them apart")


def _stop_at_end_of_input(server: CuratorServer) -> None:
    sys.stdin.buffer.read()
    server.request_stop()
