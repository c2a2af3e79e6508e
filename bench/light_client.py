"""A light HTTP client for load: one process, one thread, raw bytes on persistent connections.

It sends requests that were written before, reads each response by its Content-Length, and sends the
next one on the same connection. Results go to standard output as one JSON document.

Usage: python bench/light_client.py PORT SECONDS FILE
FILE holds one JSON list for each connection: the requests that it sends, in turn and again.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from pathlib import Path

MOST_KEPT = 1000


def write_request(path: str, token: str, body: str) -> str:
    """The bytes of a request, as a text."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body.encode())}\r\n\r\n{body}"
    )


class Stream:
    """One connection and the requests that it sends."""

    def __init__(self, port: int, requests: list[str]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests = [text.encode() for text in requests]
        self._sent = 0
        self._received = b""
        self._started = 0.0

    def send(self) -> None:
        """Send the next request."""
        request = self._requests[self._sent % len(self._requests)]
        self._sent += 1
        self._received = b""
        self._started = time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> tuple[int, float, bytes] | None:
        """Status, seconds and body, once the response is complete."""
        chunk = self.socket.recv(2**18)
        if not chunk:
            raise ConnectionError
        self._received += chunk
        head, _, body = self._received.partition(b"\r\n\r\n")
        mark = head.lower().find(b"content-length:")
        if mark < 0 or len(body) < int(head[mark + 15 :].split(b"\r\n")[0]):
            return None
        return int(head[9:12]), time.perf_counter() - self._started, body


def run(port: int, seconds: float, lists: list[list[str]]) -> dict[str, object]:
    """Ask on all connections until the time is over."""
    selector = selectors.DefaultSelector()
    streams = [Stream(port, requests) for requests in lists]
    for stream in streams:
        selector.register(stream.socket, selectors.EVENT_READ, stream)
        stream.send()
    statuses: dict[int, int] = {}
    times: list[float] = []
    releases: set[str] = set()
    end = time.perf_counter() + seconds
    waiting = len(streams)
    while waiting and time.perf_counter() < end + 60:
        for key, _ in selector.select(1):
            response = key.data.receive()
            if response is None:
                continue
            status, taken, body = response
            statuses[status] = statuses.get(status, 0) + 1
            if status == 200:
                times.append(taken)
                mark = body.find(b'"release_id": "')
                releases.add(body[mark + 15 : mark + 31].decode())
            if time.perf_counter() < end:
                key.data.send()
            else:
                waiting -= 1
    errors = waiting + sum(count for status, count in statuses.items() if status != 200)
    return {
        "statuses": statuses,
        "errors": errors,
        "seconds": times,
        "releases": sorted(releases),
        "cpu_s": time.process_time(),
    }


if __name__ == "__main__":
    document = run(int(sys.argv[1]), float(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text()))
    print(json.dumps(document))
