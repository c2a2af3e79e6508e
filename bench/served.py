"""Answers through a curator's socket and through a gateway, against the same answers embedded.

Repeats of one stored answer: no data is read, so what is measured is the way there and back. No
schedule is kept (slots of 0 seconds); with one, every answer takes its slot.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from pathlib import Path

from common import line, options, report, seconds, write_catalog

import dither
from dither import steward
from dither.curator.run import CuratorSettings, make_server
from dither.gateway.run import make_gateway
from dither.identity import TokenStore
from dither.protocol import messages
from dither.remote.curator import RemoteCurator
from dither.remote.transport import SocketPool, SocketTransport, connect_to_socket
from dither.session import Connection
from dither.state import State

SQL = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
COLUMNS = "      ward: {type: category, values: [north, south], other: keep, nulls: keep}\n"
PURPOSE = {
    "question": "How fast is the platform?",
    "population": "people whom a benchmark invented",
    "recipient": "readers of the benchmark",
}


def register(folder: Path) -> Path:
    """A small registered dataset with a budget."""
    file = folder / "bench.yaml"
    text = write_catalog(COLUMNS, population="bench", rows_per_unit=1, max_rows=1000)
    file.write_text(text)
    rows = [f"{i},{('north', 'south')[i % 2]}" for i in range(100)]
    (folder / "visits.csv").write_text("\n".join(["person,ward", *rows]))
    registered = steward.register(file)
    state = State.beside(file)
    steward.open_pot(state, registered.catalog, "total", epsilon=10, ceiling=10, purpose=PURPOSE)
    return file


def start_gateway(path: Path) -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = make_gateway(path, "127.0.0.1", port)
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return f"http://127.0.0.1:{port}/datasets/bench"


def main() -> None:
    chosen = options(__doc__ or "")
    count = 50 if chosen.quick else 500
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "xdg")
        file = register(folder)
        tokens = TokenStore(folder / "home")
        token, _ = tokens.create_token("bench", "bench", "analyst", ("total",), 1)
        path = folder / "s"
        server = make_server(CuratorSettings((file,), path, folder / "home"))
        threading.Thread(target=server.serve, daemon=True).start()
        transport = SocketTransport(SocketPool(lambda: connect_to_socket(path)), "bench", token)
        over_socket = Connection(RemoteCurator(transport))
        over_http = dither.connect(start_gateway(path), token=token)
        embedded = dither.connect(file)

        def repeat(con: Connection) -> float:
            return seconds(lambda: [con.sql(SQL, epsilon=1) for _ in range(count)], 3) / count

        def call() -> float:
            read = messages.ReadView(pot="total")
            work = lambda: [transport.call(read, messages.PotView) for _ in range(count)]  # noqa: E731
            return seconds(work, 3) / count

        base = repeat(embedded)
        lines = [
            line("a repeat over the socket, against embedded", repeat(over_socket), base, 4),
            line("a repeat over HTTP, against embedded", repeat(over_http), base, 8),
            line("one call over the socket, against a repeat embedded", call(), base, 1),
        ]
        server.stop()
    report("served", lines, ("duckdb", "pydantic", "fastapi"), as_json=chosen.json)


if __name__ == "__main__":
    main()
