"""`dither curator`, `dither gateway`, `dither serve`: a dataset for others, over HTTP."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from dither import steward
from dither.canonical import quote
from dither.catalog import Catalog
from dither.catalog.file.load import load
from dither.cli.clinic import write_clinic
from dither.cli.cores import take_cores
from dither.cli.curator_process import find_socket, running_curator
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.preload import CURATOR_MODULES, GATEWAY_MODULES, preload_modules
from dither.cli.token import Home
from dither.commands import write_command
from dither.errors import DitherError, ParameterError
from dither.identity import TokenStore, default_home
from dither.identity.principal import Role
from dither.protocol.tls import TlsFiles
from dither.state import State

PORT = 8765
DEMO_PEOPLE = 5_000
DEMO_INCIDENTS = 3
"""Failures of all askers together that suspend the invented clinic; one suspends its own pot."""
SLOT_S = 0.14
JOB_S = 60.0
TAKEOVER_S = 10.0
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
SlotSeconds = Annotated[
    float,
    typer.Option(
        "--slot",
        help="Answers leave at slots of so many seconds, large questions after several of them; "
        "0: at once, and their time tells of the data.",
        min=0,
        max=3600,
    ),
]
JobSeconds = Annotated[
    float,
    typer.Option(
        "--job-slot",
        help="Synthetic tables and models hold the dataset so many seconds, whatever they need.",
        min=1,
        max=500,
    ),
]
Certificate = Annotated[
    Path | None, typer.Option(help="Between hosts: the certificate of this side, in PEM.")
]
PrivateKey = Annotated[Path | None, typer.Option("--key", help="Between hosts: its key.")]
Authority = Annotated[
    Path | None, typer.Option(help="Between hosts: the authority of the other side's certificate.")
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
    slot: SlotSeconds = SLOT_S,
    job_slot: JobSeconds = JOB_S,
    listen: Annotated[
        str | None,
        typer.Option(help="HOST:PORT for a gateway on another host, by mutual TLS."),
    ] = None,
    certificate: Certificate = None,
    key: PrivateKey = None,
    authority: Authority = None,
    shared: Annotated[
        bool,
        typer.Option(
            "--shared", help="One of several curators of a ledger: wait until no other serves it."
        ),
    ] = False,
    takeover_after: Annotated[
        float,
        typer.Option(help="With --shared: seconds without a sign of life.", min=1, max=3600),
    ] = TAKEOVER_S,
    stops_with_input: Annotated[
        bool, typer.Option("--stops-with-input", help="Stop when standard input ends.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Hold data, ledger and keys, and answer requests on a Unix socket."""
    import_server()
    from dither.curator.run import CuratorSettings, run_curator

    chosen = home or default_home()
    settings = CuratorSettings(
        tuple(catalogs),
        socket or find_socket(chosen),
        chosen,
        gateway_user,
        slot,
        job_slot,
        listen,
        read_tls_files(certificate, key, authority),
        takeover_after if shared else None,
        stops_with_input,
    )
    console = make_console(stderr=True)
    chosen.mkdir(mode=0o700, parents=True, exist_ok=True)

    def announce(text: str) -> None:
        if not stops_with_input:
            console.print(text, soft_wrap=True, highlight=False)

    if gateway_user is None and listen is None:
        announce(ONE_USER_BANNER)
    if as_json:
        print_json({"listening": listen or str(settings.socket)})
    if slot and listen is None:
        take_cores(is_gateway=False)
    preload_modules(CURATOR_MODULES)
    run_curator(settings, announce)


def gateway(
    socket: Annotated[
        list[Path] | None,
        typer.Option(help="The curator's socket; given again, another curator of its ledger."),
    ] = None,
    home: Home = None,
    host: Host = "127.0.0.1",
    port: Port = PORT,
    curator: Annotated[
        list[str] | None,
        typer.Option(
            help="HOST:PORT of a curator on another host, by mutual TLS; given again, another "
            "curator of its ledger."
        ),
    ] = None,
    certificate: Certificate = None,
    key: PrivateKey = None,
    authority: Authority = None,
    sign_on: Annotated[
        Path | None,
        typer.Option(help="JSON of a provider of OpenID Connect, for the console's sign-in."),
    ] = None,
    public_register: Annotated[
        Path | None,
        typer.Option(help="Lines 'DATASET TOKEN' with auditors' tokens: registers open to all."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer questions over HTTP from a curator's socket. Holds no data, no ledger and no key."""
    import_server()
    from dither.console.pages import make_pages
    from dither.gateway.run import make_gateway, make_tls_gateway

    pages = make_pages(read_console_settings(sign_on, public_register))
    files = read_tls_files(certificate, key, authority)
    if as_json:
        print_json({"address": f"http://{host}:{port}"})
    if not curator:
        take_cores(is_gateway=True)
        paths = socket or [find_socket(home or default_home())]
        run_until_stopped(make_gateway(paths, host, port, pages))
    elif files is None:
        raise ParameterError("a curator on another host needs --certificate, --key, --authority")
    else:
        run_until_stopped(make_tls_gateway(curator, files, host, port, pages))


def serve(
    catalogs: Annotated[
        list[Path] | None,
        typer.Argument(help="Catalogs of registered datasets; without any, an invented clinic."),
    ] = None,
    home: Home = None,
    host: Host = "127.0.0.1",
    port: Port = PORT,
    slot: SlotSeconds = SLOT_S,
    job_slot: JobSeconds = JOB_S,
    as_json: AsJson = False,
) -> None:
    """Start curator and gateway on this machine, and print a link for the administrator."""
    import_server()
    from dither.console.pages import make_pages
    from dither.console.settings import ConsoleSettings
    from dither.gateway.run import make_gateway

    check_loopback(host)
    console = make_console(stderr=as_json)
    chosen = home or default_home()
    served = catalogs or [prepare_demo(chosen.parent / "demo", console)]
    facts = {loaded.dataset: loaded for loaded in map(load, served)}
    with (
        running_curator(served, chosen, slot, job_slot) as path,
        lasting_tokens(chosen, list(facts), "admin", ("total",)) as tokens,
        lasting_tokens(chosen, list(facts), "auditor", ()) as auditors,
    ):
        console.print(ONE_USER_BANNER, soft_wrap=True, highlight=False)
        address = f"http://{host}:{port}"
        if as_json:
            print_json({name: write_link(address, name, token) for name, token in tokens.items()})
        for name, token in () if as_json else tokens.items():
            print_links(console, address, facts[name], token)
        pages = make_pages(ConsoleSettings(register_tokens=auditors))
        if slot:
            take_cores(is_gateway=True)
        run_until_stopped(make_gateway(path, host, port, pages))


def check_loopback(host: str) -> None:
    """Refuse an address that other machines reach: tokens would travel to it in clear."""
    with suppress(ValueError):
        if host == "localhost" or ip_address(host).is_loopback:
            return
    raise ParameterError(
        f"'dither serve' is for this machine alone, got --host {quote(host)}: leave it out. For "
        "others start 'dither curator' and 'dither gateway' behind a proxy that ends TLS"
    )


def run_until_stopped(server: Any) -> None:
    """Serve until SIGINT or SIGTERM, and end as after a command that is done."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        preload_modules(GATEWAY_MODULES)
        server.run()


def read_tls_files(
    certificate: Path | None, key: Path | None, authority: Path | None
) -> TlsFiles | None:
    """The three files of mutual TLS: all, or none."""
    if certificate is None or key is None or authority is None:
        if certificate or key or authority:
            raise ParameterError("name --certificate, --key and --authority together")
        return None
    return TlsFiles(certificate, key, authority)


def import_server() -> None:
    """Say which extra is missing, where one is."""
    try:
        import argon2
        import fastapi
        import httpx
        import jinja2
        import jwt
        import pydantic
        import uvicorn
    except ImportError:
        raise DitherError(
            "serving needs fastapi, uvicorn, pydantic, argon2-cffi, pyjwt, jinja2 and httpx: "
            "pip install 'dither[server]'"
        ) from None
    del argon2, fastapi, httpx, jinja2, jwt, pydantic, uvicorn


def read_console_settings(sign_on: Path | None, public_register: Path | None) -> Any:
    """What the files of a gateway say about its pages; both hold secrets of the gateway alone."""
    from dither.console.settings import ConsoleSettings, read_register_tokens, read_sign_on

    return ConsoleSettings(
        None if sign_on is None else read_sign_on(read_secret_file(sign_on)),
        {} if public_register is None else read_register_tokens(read_secret_file(public_register)),
    )


def read_secret_file(file: Path) -> str:
    """The text of a file; refused where other users can read it."""
    if file.stat().st_mode & 0o077:
        raise ParameterError(f"{file} can be read by others: chmod 600 it")
    return file.read_text(encoding="utf-8")


@contextmanager
def lasting_tokens(
    home: Path, datasets: list[str], role: Role, pots: tuple[str, ...]
) -> Iterator[dict[str, str]]:
    """A token for each dataset, for as long as the command runs, or until the next curator."""
    store = TokenStore(home)
    made = {name: store.create_serve_token(name, role, pots) for name in datasets}
    try:
        yield {name: text for name, (text, _) in made.items()}
    finally:
        for _, token in made.values():
            store.revoke_token(token.token_id)
        store.close()


def write_link(address: str, dataset: str, token: str) -> str:
    """The address of a dataset with a token, which stands in the part that no server is sent."""
    return f"{address}/datasets/{dataset}#token={token}"


def print_links(console: Console, address: str, catalog: Catalog, token: str) -> None:
    """What an administrator can do next; the token is shown this once."""
    dataset = catalog.dataset
    link = write_link(address, dataset, token)
    table = catalog.private_tables[0].name
    question = f'{{"sql": "SELECT COUNT(*) AS n FROM {table}", "epsilon": 0.1}}'
    lines = (
        f"open in a browser, shown once, ends with this command: {link}",
        f"in Python: dither.connect({link!r})",
        f"with curl: {write_curl(address, dataset, token, question)}",
        f"routes and bodies: {address}/api  others get a token by: "
        + write_command("token", "create", dataset, "NAME"),
    )
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


def write_curl(address: str, dataset: str, token: str, body: str) -> str:
    """A command that asks. The token is piped: all users can list the arguments of processes."""
    header = f"printf 'Authorization: Bearer %s' {token}"
    url = f"{address}/api/v1/datasets/{dataset}/sql"
    return f"{header} | curl -H @- -H 'Content-Type: application/json' -d '{body}' {url}"


def prepare_demo(folder: Path, console: Console) -> Path:
    """The invented clinic, registered with a budget the first time."""
    file = folder / "clinic.yaml"
    state = State.beside(file)
    if not state.id_file.exists():
        console.print(f"inventing a clinic in {folder}", soft_wrap=True, highlight=False)
        if not file.exists():
            write_clinic(folder, DEMO_PEOPLE, declares_people=True)
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
            max_incidents=DEMO_INCIDENTS,
            purpose=DEMO_PURPOSE,
        )
    return file
