"""Pages of the console, from request to last byte, against 200 milliseconds.

No schedule is kept (slots of 0 seconds); with one, a page waits for the slot of a question that is
under way.
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


def start_gateway(path: Path) -> str:
    """A gateway with pages; its address."""
    server = make_gateway(path, "127.0.0.1", PORT, make_pages(ConsoleSettings()))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return f"http://127.0.0.1:{PORT}"


def main() -> None:
    chosen = options(__doc__ or "")
    count = 5 if chosen.quick else 50
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "xdg")
        file = register(folder)
        tokens = TokenStore(folder / "home")
        token, _ = tokens.create_token("bench", "bench", "analyst", ("total",), 1)
        path = folder / "s"
        server = make_server(CuratorSettings((file,), path, folder / "home"))
        threading.Thread(target=server.serve, daemon=True).start()
        cookies = {"dither-session": token}
        with httpx.Client(base_url=start_gateway(path), cookies=cookies, timeout=60) as client:
            lines = []
            for page, address in PAGES.items():
                assert client.get(address).status_code == 200, page

                def fetch(address: str = address) -> None:
                    for _ in range(count):
                        client.get(address)

                lines.append(line(page, seconds(fetch, 3) / count, TARGET_S, 1))
        server.stop()
    report("console", lines, ("fastapi", "jinja2"), as_json=chosen.json)


if __name__ == "__main__":
    main()
