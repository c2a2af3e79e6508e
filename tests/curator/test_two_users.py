"""Curator and gateway as two users of the system: the gateway's cannot read the curator's files.

Needs root, useradd and the system's python3 (`make test-all`). The environment is built outside
any home by the system's interpreter: another one may lie below the home of root, and a second user
would silently fall back to other libraries. A run with one user would prove nothing, and fails.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

import dither
from tests.datasets import clinic
from tests.datasets.served_clinic import COUNT

SYSTEM_PYTHON = "/usr/bin/python3"
MAIN = "from dither.cli import main; main()"
LIBRARIES = [Path(dither.__file__).parents[1], Path(httpx.__file__).parents[1]]
READ_FILES = """
import json, os, sys
from pathlib import Path
seen = {"uid": os.getuid(), "prefix": sys.base_prefix, "readable": [], "listed": []}
for path in json.loads(sys.argv[1]):
    try:
        Path(path).read_bytes()
        seen["readable"].append(path)
    except OSError:
        pass
    try:
        os.listdir(path)
        seen["listed"].append(path)
    except OSError:
        pass
print(json.dumps(seen))
"""
TALK = """
import os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
    stream.settimeout(30)
    stream.connect(sys.argv[1])
    try:
        stream.sendall(bytes.fromhex(sys.argv[2]))
        print(len(stream.recv(1 << 20)))
    except (ConnectionResetError, BrokenPipeError):
        print(0)
"""


@dataclass(frozen=True)
class TwoUsers:
    """Two users, an environment that both can read, and a folder of the curator's."""

    curator: str
    gateway: str
    root: Path

    @property
    def python(self) -> str:
        return str(self.root / "env" / "bin" / "python")

    @property
    def home(self) -> Path:
        return self.root / "curator"

    @property
    def socket(self) -> Path:
        return self.root / "run" / "curator.sock"

    def command(self, user: str, *words: str) -> list[str]:
        state = f"XDG_STATE_HOME={self.home / 'state'}"
        clean = ["env", "-i", "PATH=/usr/bin:/bin", state, "LANG=C.UTF-8"]
        return ["runuser", "-u", user, "--", *clean, self.python, *words]

    def run(self, user: str, *words: str) -> str:
        ended = subprocess.run(
            self.command(user, *words), capture_output=True, text=True, cwd="/", check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def dither(self, *words: str) -> str:
        return self.run(self.curator, "-c", MAIN, *words)


@pytest.fixture(scope="module")
def users() -> Iterator[TwoUsers]:
    assert os.getuid() == 0, "this test makes two users: run it as root"
    assert shutil.which("useradd") and shutil.which("runuser") and shutil.which("unshare")
    names = [f"dither-t-{kind}{os.getpid()}" for kind in ("cur", "gate")]
    root = Path(tempfile.mkdtemp(prefix="dither-users", dir="/var/tmp"))
    root.chmod(0o755)
    try:
        for name in names:
            subprocess.run(["useradd", "--system", "--no-create-home", name], check=True)
        two = TwoUsers(names[0], names[1], root)
        prepare(two)
        yield two
    finally:
        for name in names:
            subprocess.run(["userdel", name], check=False, capture_output=True)
        shutil.rmtree(root)


def prepare(two: TwoUsers) -> None:
    """Environment, folders, registration and budget, each by the user that would do it."""
    command = [SYSTEM_PYTHON, "-m", "venv", "--without-pip", str(two.root / "env")]
    subprocess.run(command, check=True, env={"PATH": "/usr/bin:/bin"})
    (packages,) = (two.root / "env" / "lib").glob("python3.*/site-packages")
    (packages / "libraries.pth").write_text("\n".join(map(str, LIBRARIES)))
    two.home.mkdir(mode=0o700)
    (two.root / "run").mkdir(mode=0o711)
    rows = [clinic.row(str(i), str(i % 40)) for i in range(100)]
    (two.home / "clinic.yaml").write_text(clinic.CATALOG)
    clinic.write_csv(two.home / "visits.csv", rows)
    for path in (two.home, two.root / "run", *two.home.iterdir()):
        shutil.chown(path, two.curator)
    two.dither("register", str(two.home / "clinic.yaml"))
    purpose = [word for key, text in clinic.PURPOSE.items() for word in (f"--{key}", text)]
    terms = ["--epsilon", "10", "--ceiling", "10", *purpose]
    two.dither("budget", "open", str(two.home / "clinic.yaml"), "total", *terms)


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, cwd="/", stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def wait_for(check) -> None:
    end = time.monotonic() + 120
    while not check():
        assert time.monotonic() < end, "it did not start"
        time.sleep(0.05)


def find_process(user: str, text: str) -> int:
    """The Python process of a user whose command line holds a word."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            is_python = words[0].endswith(b"/env/bin/python") and text.encode() in words
            if is_python and folder.stat().st_uid == pwd.getpwnam(user).pw_uid:
                found.append(int(folder.name))
    (number,) = found
    return number


def read_user(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (uids,) = [line.split()[1:] for line in lines if line.startswith("Uid:")]
    assert len(set(uids)) == 1
    return int(uids[0])


@contextmanager
def platform(two: TwoUsers) -> Iterator[tuple[str, int, int]]:
    """Both processes, the curator without network; the address and their process numbers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    words = ["curator", str(two.home / "clinic.yaml"), "--home", str(two.home / "home")]
    words += ["--socket", str(two.socket), "--gateway-user", two.gateway]
    curator = ["unshare", "-n", *two.command(two.curator, "-c", MAIN, *words)]
    serve = ["gateway", "--socket", str(two.socket), "--port", port]
    with running(curator), running(two.command(two.gateway, "-c", MAIN, *serve)):
        address = f"http://127.0.0.1:{port}"
        wait_for(two.socket.exists)
        wait_for(lambda: is_up(address))
        yield address, find_process(two.curator, "curator"), find_process(two.gateway, "gateway")


def is_up(address: str) -> bool:
    try:
        return httpx.get(f"{address}/healthz", timeout=60).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.all
def test_the_gateway_answers_and_cannot_read_what_the_curator_holds(users):
    token = users.dither(
        "token", "create", "clinic", "alice", "--home", str(users.home / "home")
    ).strip()
    with platform(users) as (address, curator, gateway):
        # two users, and the system's interpreter in both
        uids = (read_user(curator), read_user(gateway))
        assert len({*uids, os.getuid()}) == 3, "a run with one user proves nothing"
        for process in (curator, gateway):
            assert os.path.realpath(f"/proc/{process}/exe") == os.path.realpath(SYSTEM_PYTHON)

        # it works, and says in its certificate that there were two users
        headers = {"authorization": f"Bearer {token}"}
        body = {"sql": COUNT, "epsilon": 1, "certificate": True}
        url = f"{address}/api/v1/datasets/clinic/sql"
        answer = httpx.post(url, json=body, headers=headers, timeout=120).json()
        assert answer["columns"]["n"] and answer["info"]["mode"] == "split"
        promised = answer["certificate"]["body"]["mode"]
        assert promised["name"] == "split" and "one user" not in json.dumps(promised)

        # the gateway's user reads neither files nor the process of the curator
        files = [str(path) for path in users.home.rglob("*")]
        kept = {Path(path).name for path in files}
        assert {"ledger.sqlite", "data.duckdb", "signing.key", "curator.sqlite", "key"} <= kept
        secrets = [f"/proc/{curator}/{name}" for name in ("environ", "mem", "maps", "fd", "io")]
        words = json.dumps([str(users.home), *files, *secrets])
        seen = json.loads(users.run(users.gateway, "-c", READ_FILES, words))
        assert (seen["uid"], seen["prefix"]) == (uids[1], "/usr")
        assert seen["readable"] == [] and seen["listed"] == []
        own = json.loads(users.run(users.curator, "-c", READ_FILES, words))
        assert (own["uid"], own["prefix"]) == (uids[0], "/usr")
        assert str(users.home / "clinic.dither" / "ledger.sqlite") in own["readable"]
        state = users.home / "clinic.dither"
        assert (state.stat().st_mode & 0o777, users.home.stat().st_mode & 0o777) == (0o700, 0o700)
        open_files = {
            path.name for path in state.rglob("*") if path.is_file() and path.stat().st_mode & 0o077
        }
        assert open_files == set()

        # nothing secret stands in the arguments, which everybody may read
        assert token.encode() not in Path(f"/proc/{curator}/cmdline").read_bytes()

        # the curator has no network, and talks to the gateway's user alone
        interfaces = Path(f"/proc/{curator}/net/dev").read_text().splitlines()[2:]
        assert [line.split(":")[0].strip() for line in interfaces] == ["lo"]
        frame = b'{"call":{"kind":"facts"},"dataset":"clinic","number":1,"token":"","v":1}'
        sent = (len(frame).to_bytes(4, "big") + frame).hex()
        talk = ("-c", TALK, str(users.socket), sent)
        assert int(users.run(users.gateway, *talk)) > 0
        assert int(users.run("nobody", *talk)) == 0
        assert int(users.run("root", *talk)) == 0
        assert int(users.run(users.curator, *talk)) == 0
