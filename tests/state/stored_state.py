"""Reading a stored state through the public doors: what its maker records, its test compares."""

from __future__ import annotations

import hashlib
import inspect
import json
import tarfile
from dataclasses import dataclass, field, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
from typer.testing import CliRunner

from dither import Connection, connect, steward
from dither.builder import Aggregate
from dither.cli.main import app
from dither.plan import algebra, expressions
from dither.plan.algebra import to_json
from dither.privacy.kernel.request import Price, Request, Step
from dither.state import State
from dither.stored import stored_keys, stored_name

Facts = dict[str, Any]
PASSING = ("-wal", "-shm", "lock", "scratch")
"""What lies in a state folder while a process has it open."""
PLAN_NODES = [
    cls
    for module in (algebra, expressions)
    for cls in vars(module).values()
    if inspect.isclass(cls) and is_dataclass(cls) and cls is not algebra.OverCells
]


@dataclass(frozen=True)
class Site:
    """One dataset of a stored state: its catalog, its state folder and what lies beside them."""

    name: str
    root: Path
    _connections: dict[str, Connection] = field(default_factory=dict, compare=False, repr=False)

    def connect(self, pot: str) -> Connection:
        """The analyst's door to a pot, opened once."""
        if pot not in self._connections:
            self._connections[pot] = connect(self.catalog_file, pot=pot)
        return self._connections[pot]

    @property
    def folder(self) -> Path:
        return self.root / self.name

    @property
    def catalog_file(self) -> Path:
        return self.folder / f"{self.name}.yaml"

    @property
    def state(self) -> State:
        return State.beside(self.catalog_file)

    @property
    def anchors_file(self) -> Path:
        return self.folder / "anchors.txt"

    @property
    def dump_file(self) -> Path:
        """The ledger's tables as PostgreSQL dumped them; missing where the ledger is a file."""
        return self.folder / "ledger.sql"


def unpack_states(archive: Path, folder: Path) -> None:
    """Put the state folders and the machine's own folder (heads, lineages, keys) into a folder."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")


def pack_states(folder: Path, archive: Path) -> None:
    """The reverse, at rest, without names and times of the machine that made it."""

    def strip_owner(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if member.name.endswith(PASSING):
            return None
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = 0
        return member

    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for path in sorted(folder.iterdir()):
            packed.add(path, path.name, filter=strip_owner)


def run_command(*arguments: object) -> Any:
    """The JSON that a command prints; AssertionError where it fails."""
    ran = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert ran.exit_code == 0, f"dither {arguments}: {ran.output} {ran.exception!r}"
    return json.loads(ran.stdout)


def read_balances(site: Site) -> Facts:
    """Number of entries, and every pot's balances, of a ledger that verifies with its anchors."""
    anchors = ("--anchors", site.anchors_file)
    verified = run_command("ledger", "verify", site.catalog_file, *anchors)
    assert verified["notes"] == []
    keys = ("spent", "left", "delta_spent", "cap", "ceiling")
    pots = run_command("budget", "show", site.catalog_file)
    return {
        "entries": verified["entries"],
        "releases": verified["releases"],
        "pots": {pot["pot"]: {key: str(pot[key]) for key in keys} for pot in pots},
    }


def read_query(tree: Any) -> Any:
    """A query, plan or part of one from its stored form, by stored names alone."""
    if isinstance(tree, list):
        return tuple(read_query(part) for part in tree)
    if not isinstance(tree, dict):
        return tree
    if set(tree) == {"number"}:
        return Fraction(tree["number"])
    kind = next(cls for cls in PLAN_NODES if stored_name(cls) == tree["type"])
    keys = {key: name for key, name in stored_keys(kind).items() if key in tree}
    return kind(**{name: read_query(tree[key]) for key, name in keys.items()})


def make_request(tree: Facts, pot: str) -> Request:
    """Laplace noise at epsilon 1 for a stored query."""
    query = read_query(tree)
    assert to_json(query) == tree
    return Request((Step(query, "laplace", Fraction(1)),), Price(Fraction(1)), pot)


def ask_question(site: Site, question: Facts, **more: Any) -> Any:
    """The result, suggestion or release that a question gets through its public call."""
    con = site.connect(question["pot"])
    if "request" in question:
        return con._kernel.answer(make_request(question["request"], question["pot"]))
    terms = question["terms"] | more
    if "suggest" in question:
        return con.suggest(*question["suggest"], **terms)
    if "sql" in question:
        return con.sql(question["sql"], **terms)
    table, *steps = question["built"]
    built = con.table(table)
    for method, given in steps:
        if isinstance(given, dict):
            built = built.agg(**{name: Aggregate(text) for name, text in given.items()})
        else:
            built = getattr(built, method)(*given)
    return built.ask(**terms)


def describe_answer(answer: Any) -> Facts:
    """Every released value of an answer, as JSON holds it, and whether it was stored before."""
    if hasattr(answer, "to_arrow"):
        table = answer.to_arrow(intervals=False)
        values = {
            "types": {field.name: str(field.type) for field in table.schema},
            "columns": table.to_pydict(),
            "raw": answer.raw.to_pydict(),
        }
    elif hasattr(answer, "provenance"):
        values = {"low": answer.low, "high": answer.high, "provenance": answer.provenance}
    else:
        values = {"raw": answer.values}
    info = getattr(answer, "info", None)
    release_id = info["release_id"] if info else answer.release_id
    repeated = info["repeated"] if info else answer.repeated
    plain = json.loads(json.dumps(values, default=str))
    return {"release": release_id, "repeated": repeated, **plain}


def read_releases(site: Site) -> dict[str, Facts]:
    """Every stored release by its number: key, digest of its bytes, and pot."""
    ledger = steward.open_ledger(site.state)
    try:
        releases = {}
        for record in ledger.history():
            stored = ledger.release(record.seq)
            assert stored is not None
            releases[str(record.seq)] = {
                "request_hash": record.request_hash,
                "arrow_sha256": hashlib.sha256(stored.arrow_bytes).hexdigest(),
                "pots": list(record.pots),
                "supersedes": record.supersedes,
                "shared_by": list(record.shared_by),
                "is_lease": bool(record.public.get("lease")),
            }
        return releases
    finally:
        ledger.close()


def read_lease(site: Site, number: int) -> list[Any]:
    """The outputs of a lease, step by step."""
    ledger = steward.open_ledger(site.state)
    try:
        stored = ledger.release(number)
    finally:
        ledger.close()
    assert stored is not None
    outputs: list[Any] = pa.ipc.open_stream(stored.arrow_bytes).read_all().to_pydict()["steps"]
    return outputs


def read_requests(site: Site) -> list[Facts]:
    """The plans, families and losses of all that was charged."""
    ledger = steward.open_ledger(site.state)
    try:
        return [{"loss": r.loss, **r.public} for r in ledger.history(unreleased=True)]
    finally:
        ledger.close()
