"""Pages of the console, from request to last byte, against 200 milliseconds.

Once without a schedule (slots of 0 seconds), and once with the schedule of `dither serve`, where
every reply of the curator leaves on a grid of 50 milliseconds. A page that is fetched while a
question is under way waits for its slot; here none is.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlencode

import httpx
from common import line, options, report, seconds
from served import SQL, register

from dither.cli.served import SLOT_S
from dither.console.pages import make_pages
from dither.console.settings import ConsoleSettings
from dither.curator.run import CuratorSettings, make_server
from dither.gateway.run import make_gateway
from dither.identity import TokenStore

TARGET_S = 0.2
QUESTION = urlencode({"sql": SQL, "amount": "0.1"})
PAGES = {
    "Datasets": "/datasets",
    "Ask, with a preview": f"/datasets/bench/ask?{QUESTION}",
    "Budget": "/datasets/bench/budget",
    "History": "/datasets/bench/history",
    "About the guarantee": "/datasets/bench/about",
}
PORT = 8799


def start_gateway(path: Path, port: int) -> str:
    """A gateway with pages; its address."""
    server = make_gateway(path, "127.0.0.1", port, make_pages(ConsoleSettings()))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return f"http://127.0.0.1:{port}"


def measure_pages(folder: Path, slot_s: float, count: int) -> list[dict[str, object]]:
    """The mean time of every page, the least of three runs."""
    file = register(folder)
    tokens = TokenStore(folder / "home")
    token, _ = tokens.create_token("bench", "bench", "analyst", ("total",), 1)
    path = folder / "s"
    server = make_server(CuratorSettings((file,), path, folder / "home", slot_s=slot_s))
    threading.Thread(target=server.serve, daemon=True).start()
    address = start_gateway(path, PORT + (slot_s > 0))
    schedule = ", with a schedule" if slot_s else ""
    lines = []
    with httpx.Client(base_url=address, cookies={"dither-session": token}, timeout=60) as client:
        for page, target in PAGES.items():
            assert client.get(target).status_code == 200, page

            def fetch(target: str = target) -> None:
                for _ in range(count):
                    client.get(target)

            lines.append(line(f"{page}{schedule}", seconds(fetch, 3) / count, TARGET_S, 1))
    server.stop()
    return lines


def main() -> None:
    chosen = options(__doc__ or "")
    count = 5 if chosen.quick else 50
    lines = []
    for slot_s in (0.0, SLOT_S):
        with tempfile.TemporaryDirectory() as name:
            os.environ["XDG_STATE_HOME"] = str(Path(name) / "xdg")
            lines += measure_pages(Path(name), slot_s, count)
    report("console", lines, ("fastapi", "jinja2"), as_json=chosen.json)


if __name__ == "__main__":
    main()
