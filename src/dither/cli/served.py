"""`dither curator`, `dither gateway`, `dither serve`: a dataset for others, over HTTP."""

from __future__ import annotations

import os
import signal
import socket as sockets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from dither import steward
from dither.catalog.file.load import load
from dither.cli.clinic import write_clinic
from dither.cli.output import make_console
from dither.cli.token import Home
from dither.commands import write_command
from dither.errors import DitherError
from dither.identity import TokenStore, default_home
from dither.state import State

PORT = 8765
DEMO_PEOPLE = 5_000
SECONDS_TO_START = 120
DEMO_PURPOSE = {
    "question": "How busy are the wards of the invented clinic?",
    "population": "residents whom a program invented",
    "recipient": "whoever tries dither",
}
ONE_USER_BANNER = (
    "curator and gateway run as one user here: the gateway could read the data, the ledger and the "
    "keys. For people's data give each a user of its own: docs/how-to/deploy.md"
)
Catalogs = Annotated[list[Path], typer.Argument(help="Catalogs of registered datasets.")]
SocketPath = Annotated[
    Path | None, typer.Option("--socket", help="The socket between curator and gateway.")
]
Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(help="The port to listen on.", min=1, max=65535)]


def curator(
    catalogs: Catalogs,
    socket: SocketPath = None,
    home: Home = None,
    gateway_user: Annotated[
        str | None,
        typer.Option(help="The user whose processes may connect; by default the curator's own."),
    ] = None,
    stops_with_input: Annotated[
        bool, typer.Option("--stops-with-input", help="Stop when standard input ends.", hidden=True)
    ] = False,
) -> None:
    """Hold data, ledger and keys, and answer requests on a Unix socket."""
    import_server()
    from dither.curator.run import CuratorSettings, run_curator

    chosen = home or default_home()
    settings = CuratorSettings(
        tuple(catalogs), socket or find_socket(chosen), chosen, gateway_user, stops_with_input
    )
    console = make_console(stderr=True)
    chosen.mkdir(mode=0o700, parents=True, exist_ok=True)

    def announce(text: str) -> None:
        if not stops_with_input:
            console.print(text, soft_wrap=True, highlight=False)

    if gateway_user is None:
        announce(ONE_USER_BANNER)
    run_curator(settings, announce)


def gateway(
    socket: SocketPath = None,
    home: Home = None,
    host: Host = "127.0.0.1",
    port: Port = PORT,
) -> None:
    """Answer questions over HTTP from a curator's socket. Holds no data, no ledger and no key."""
    import_server()
    from dither.gateway.run import make_gateway

    run_until_stopped(make_gateway(socket or find_socket(home or default_home()), host, port))


def serve(
    catalogs: Annotated[
        list[Path] | None,
        typer.Argument(help="Catalogs of registered datasets; without any, an invented clinic."),
    ] = None,
    home: Home = None,
    host: Host = "127.0.0.1",
    port: Port = PORT,
) -> None:
    """Start curator and gateway on this machine, and print a link for the administrator."""
    import_server()
    from dither.gateway.run import make_gateway

    console = make_console()
    chosen = home or default_home()
    served = catalogs or [prepare_demo(chosen.parent / "demo", console)]
    names = [load(catalog).dataset for catalog in served]
    with running_curator(served, chosen) as path, admin_tokens(chosen, names) as tokens:
        console.print(ONE_USER_BANNER, soft_wrap=True, highlight=False)
        for name, token in tokens.items():
            print_links(console, f"http://{host}:{port}", name, token)
        run_until_stopped(make_gateway(path, host, port))


def run_until_stopped(server: Any) -> None:
    """Serve until SIGINT or SIGTERM, and end as after a command that is done."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        server.run()


def find_socket(home: Path) -> Path:
    """The socket of a curator's folder."""
    return home / "curator.sock"


def import_server() -> None:
    """Say which extra is missing, where one is."""
    try:
        import argon2
        import fastapi
        import jwt
        import pydantic
        import uvicorn
    except ImportError:
        raise DitherError(
            "serving needs fastapi, uvicorn, pydantic, argon2-cffi and pyjwt: "
            "pip install 'dither[server]'"
        ) from None
    del argon2, fastapi, jwt, pydantic, uvicorn


@contextmanager
def running_curator(catalogs: list[Path], home: Path) -> Iterator[Path]:
    """A curator in a process of its own; the socket, once it answers. It ends with this process."""
    path = find_socket(home)
    command = [sys.executable, "-c", "from dither.cli import main; main()", "curator"]
    command += [*map(str, catalogs), "--home", str(home), "--socket", str(path)]
    process = subprocess.Popen(
        [*command, "--stops-with-input"],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        wait_for_socket(path, process)
        yield path
    finally:
        process.terminate()
        process.communicate()


def wait_for_socket(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Return when a curator answers on its socket; refused where it ended instead."""
    end = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < end:
        if process.poll() is not None:
            raise DitherError("the curator did not start: its message stands above")
        with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
            if probe.connect_ex(os.fspath(path)) == 0:
                return
        time.sleep(0.05)
    raise DitherError(
        "the curator did not start in time: start 'dither curator' by hand to see why"
    )


@contextmanager
def admin_tokens(home: Path, datasets: list[str]) -> Iterator[dict[str, str]]:
    """A token for each dataset, for as long as the command runs."""
    store = TokenStore(home)
    made: dict[str, Any] = {
        name: store.create_token("admin", name, "admin", ("total",), 1) for name in datasets
    }
    try:
        yield {name: text for name, (text, _) in made.items()}
    finally:
        for _, token in made.values():
            store.revoke_token(token.token_id)
        store.close()


def print_links(console: Console, address: str, dataset: str, token: str) -> None:
    """What an administrator can do next; the token is shown this once."""
    link = f"{address}/datasets/{dataset}#token={token}"
    question = '{"sql": "SELECT COUNT(*) AS n FROM ...", "epsilon": 0.1}'
    lines = (
        f"admin link of {dataset}, shown once, ends with this command: {link}",
        f"in Python: dither.connect({link!r})",
        f"with curl: curl -H 'Authorization: Bearer {token}' -H 'Content-Type: application/json' "
        f"-d '{question}' {address}/api/v1/datasets/{dataset}/sql",
        f"routes and bodies: {address}/  others get a token by: "
        + write_command("token", "create", dataset, "NAME"),
    )
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


def prepare_demo(folder: Path, console: Console) -> Path:
    """The invented clinic, registered with a budget the first time."""
    file = folder / "clinic.yaml"
    state = State.beside(file)
    if not state.id_file.exists():
        console.print(f"inventing a clinic in {folder}", soft_wrap=True, highlight=False)
        if not file.exists():
            write_clinic(folder, DEMO_PEOPLE)
        done = steward.register(file, state=state, dev=True)
        steward.open_pot(
            state,
            done.catalog,
            "total",
            rule="zcdp",
            rho="0.5",
            ceiling="1",
            delta_conversion="1e-6",
            delta_selection="1e-7",
            purpose=DEMO_PURPOSE,
        )
    return file
