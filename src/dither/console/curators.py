"""What pages ask of the curator: connections, stored answers, and who the visitor is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from dither.console.rendering import write_moment
from dither.console.settings import ConsoleSettings
from dither.console.visitors import SignInNeededError, Visitor
from dither.gateway.connections import AskedConnection, ConnectionPool
from dither.protocol import messages
from dither.protocol.page_messages import DatasetStatus
from dither.remote.curator import StoredAnswers
from dither.remote.transport import SocketPool, SocketTransport
from dither.session import Connection

Read = TypeVar("Read")


class Curators:
    """The curator of a gateway, for the pages of all visitors."""

    def __init__(self, sockets: SocketPool, settings: ConsoleSettings) -> None:
        self._sockets = sockets
        self._connections = ConnectionPool(sockets)
        self.settings = settings

    def make_transport(self, token: str | None, dataset: str = "") -> SocketTransport:
        """Calls under a token; those that open a session need none."""
        return SocketTransport(self._sockets, dataset, token or "")

    def list_datasets(self, visitor: Visitor) -> list[str]:
        """The datasets that the visitor may do something with."""
        transport = self.make_transport(visitor.token)
        return transport.call(messages.ListDatasets(), messages.DatasetNames).names

    @contextmanager
    def borrow(
        self, dataset: str, visitor: Visitor, pot: str | None = None, ask_key: str | None = None
    ) -> Iterator[AskedConnection]:
        """A connection for one request of a visitor."""
        if visitor.token is None:
            raise SignInNeededError("sign in first")
        with self._connections.borrow(dataset, visitor.token, pot, ask_key) as borrowed:
            yield borrowed

    def open_stored(self, dataset: str, visitor: Visitor, pot: str | None) -> Connection:
        """A connection that hands out stored answers and can buy none."""
        curator = StoredAnswers(self.make_transport(visitor.token, dataset))
        return Connection(curator, pot=pot or curator.first_pot, reuse_releases=False)

    def find_reader(self, dataset: str, visitor: Visitor) -> Visitor:
        """Who reads a public page: the auditor whose token the gateway was given, or the visitor.

        Everybody sees what the auditor sees: parameters and prices, neither texts nor values.
        """
        token = self.settings.register_tokens.get(dataset)
        return visitor if token is None else Visitor(token, visitor.form_token)


@dataclass(frozen=True)
class DatasetHead:
    """What the head of every page of a dataset shows."""

    name: str
    principal: str
    role: str
    pots: tuple[str, ...]
    pot: str
    version: int
    context: str
    suspended: str = ""

    @property
    def prepares_acts(self) -> bool:
        """Whether the page of stewards is linked. The curator decides by itself what it allows."""
        return self.role != "analyst"


def describe_head(borrowed: AskedConnection) -> DatasetHead:
    """The head of a dataset's pages. The curator says anew who the visitor is."""
    return _make_head(borrowed, borrowed.curator.read_status())


_READERS = ThreadPoolExecutor(16, "dither-pages")


def read_beside_head(
    borrowed: AskedConnection, read: Callable[[], Read]
) -> tuple[DatasetHead, Read]:
    """The head of a page, and what `read` asks for beside it.

    Replies leave on a grid, so calls one after the other would each wait for it: status and
    balances are asked for at once.
    """
    status = _READERS.submit(borrowed.curator.read_status)
    with borrowed.curator.reading_pots_ahead(_READERS):
        answer = read()
    return _make_head(borrowed, status.result()), answer


def _make_head(borrowed: AskedConnection, status: DatasetStatus) -> DatasetHead:
    facts = borrowed.curator.kernel
    return DatasetHead(
        facts.catalog.dataset,
        status.name,
        status.role,
        tuple(status.own_pots),
        borrowed.pot,
        facts.version.number,
        facts.version.context,
        describe_suspension(status),
    )


def describe_suspension(status: DatasetStatus) -> str:
    """Who may not ask and since when; nothing where nobody is suspended.

    >>> facts = {"name": "ann", "role": "analyst", "own_pots": ["total"], "is_for_all": False}
    >>> since = "2026-03-01T12:00:05+00:00"
    >>> describe_suspension(DatasetStatus(**facts, pots=["total"], since=since))
    'Budget total is suspended since 2026-03-01 12:00:05 UTC.'
    >>> describe_suspension(DatasetStatus(**facts, pots=[], since=None))
    ''
    """
    if status.since is None:
        return ""
    moment = write_moment(status.since)
    if status.is_for_all:
        return f"Nobody can ask: this dataset is suspended since {moment}."
    if not status.pots:
        return f"A budget of this dataset is suspended since {moment}."
    is_one = len(status.pots) == 1
    subject = "Budget" if is_one else "Budgets"
    return (
        f"{subject} {', '.join(status.pots)} {'is' if is_one else 'are'} suspended since {moment}."
    )


def list_page_values(
    visitor: Visitor, head: DatasetHead, page: str, files: str = "", query: str = ""
) -> dict[str, Any]:
    """Values that every page of a dataset needs. `files` names the page as a table."""
    address = f"/datasets/{quote(head.name)}/{files}.KIND" if files else ""
    address += f"?{query}" if files and query else ""
    return {"visitor": visitor, "head": head, "page": page, "page_files": address}
