"""Make the stored state of a release: `python -m tests.state.make_state tests/state/0.1`.

It asks, with the code as it is, every kind of question of four invented datasets (one of them
twice, with its ledger in SQLite and in PostgreSQL), collects local reports, and writes state,
certificates and all that was released to the folder, which it replaces. Later code must find every
answer again, free and the same.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from dither import UnavailableError, connect, steward
from dither.data.measure import Measurer
from dither.privacy.kernel.lease import Lease
from dither.version import __version__
from tests.state import state_catalogs as catalogs
from tests.state.local_state import write_local_state
from tests.state.state_questions import HOSPITAL
from tests.state.state_questions_of_rules import CERTIFIED, CLOSED, EXACT_VISITS, MONTHS, SHOPS
from tests.state.stored_state import (
    Facts,
    Site,
    ask_question,
    describe_answer,
    pack_states,
    read_balances,
    read_lease,
    read_releases,
)

PURPOSE = {
    "question": "How busy are the two wards?",
    "population": "residents of the county",
    "recipient": "the hospital board",
}
SCHEMA = "stored_ledger"
PLACEHOLDER_URL = "postgresql:///replaced-when-the-dump-is-loaded"
APPROX = {"rule": "approx", "delta": "0.01", "delta_per_question": "1e-6"}
ZCDP = {"rule": "zcdp", "delta_conversion": "1e-6", "delta_selection": "0.001"}
RDP = {"rule": "rdp", "alpha": 8, "delta_conversion": "1e-6", "delta_selection": "0.001"}
ASKED = {
    "hospital": (*HOSPITAL, EXACT_VISITS),
    "hospital_postgres": (*HOSPITAL, EXACT_VISITS),
    "shops": SHOPS,
    "months": MONTHS,
    "closed": CLOSED,
}


def open_pot(site: Site, name: str, cap: object, ceiling: object, **terms: Any) -> None:
    """Open a pot for the registered catalog; the first is the total."""
    measure = {"zcdp": "rho", "rdp": "renyi"}.get(terms.get("rule", "pure"), "epsilon")
    if "inside" not in terms:
        terms["relations"] = {"*": "unknown"}
    catalog = steward.registered_catalog(site.state)
    terms |= {measure: cap, "ceiling": ceiling, "purpose": PURPOSE}
    steward.open_pot(site.state, catalog, name, **terms)


def register(
    site: Site,
    catalog: str,
    write: Callable[[Path], None],
    url: str | None = None,
) -> None:
    """Write catalog and rows, and register them as the next version."""
    write(site.folder / "data")
    site.catalog_file.write_text(catalog, encoding="utf-8")
    steward.register(site.catalog_file, ledger_url=url)


def fail_after_charge(site: Site, pot: str, table: str) -> None:
    """An incident: the engine fails after the charge."""
    with mock.patch.object(Measurer, "measure", side_effect=RuntimeError("out of memory")):
        try:
            site.connect(pot).sql(f"SELECT COUNT(*) FROM {table}", epsilon=1)
        except UnavailableError:
            return
    raise AssertionError("the failure was not noticed")


def abandon_charge(site: Site, pot: str, table: str) -> None:
    """A process that ends between its charge and its answer; the next charge counts it."""
    child = os.fork()
    if child == 0:
        con = connect(site.catalog_file, pot=pot)  # one that no fork inherited
        kernel = con._kernel
        request = con.request(f"SELECT COUNT(*) FROM {table}", epsilon=1)
        kernel.reserve(kernel.price(request))
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def serve_lease(site: Site, pot: str, table: str) -> None:
    """Two steps of a planned three; the outputs are stored when the lease closes."""
    con = site.connect(pot)
    kernel = con._kernel
    request = con.request(f"SELECT COUNT(*) FROM {table}", epsilon="0.1")
    with Lease(kernel, kernel.price(request).loss * 3, pot) as lease:
        lease.release(request)
        lease.release(request)


def find_question(asked: tuple[Facts, ...], name: str) -> Facts:
    """A question by its name."""
    return next(question for question in asked if question["name"] == name)


def ask_all(site: Site, asked: tuple[Facts, ...]) -> None:
    """Ask every question for the first time."""
    for question in asked:
        try:
            ask_question(site, question)
        except Exception as error:
            error.add_note(f"{site.name}: {question}")
            raise


def write_anchor(site: Site) -> None:
    """Append a signed line that says how far the ledger has come."""
    with site.anchors_file.open("a", encoding="utf-8") as file:
        file.write(steward.anchor_line(site.state) + "\n")


def make_hospital(site: Site, url: str | None = None) -> None:
    """Rules approx and pure, a partition, two versions, a reissue, a lease, incidents."""
    register(site, catalogs.HOSPITAL, lambda folder: catalogs.write_hospital(folder, 12), url)
    open_pot(site, "total", 3000, 6000, reissue=20, max_incidents=3, **APPROX)
    open_pot(site, "plain", 1000, 1500, inside="total", kind="analyst")
    open_pot(site, "broken", 20, 20, inside="total", kind="purpose")
    ask_all(site, HOSPITAL[:2])  # answers of version 1 stay stored
    write_anchor(site)
    register(site, catalogs.HOSPITAL, lambda folder: catalogs.write_hospital(folder, 24))
    steward.raise_cap(site.state, "total", 5000, "the yearly report needs more tables")
    partition = {"kind": "partition", "column": "patients.sex", **APPROX}
    open_pot(site, "sexes", 100, 200, inside="total", **partition)
    for name, value in (("women", "f"), ("men", "m")):
        open_pot(site, name, 50, 100, inside="sexes", kind="part", value=value, **APPROX)
    abandon_charge(site, "broken", "items")
    ask_all(site, ASKED[site.name])
    steward.clear_incidents(site.state, "the engine has more memory now")
    ask_question(site, find_question(HOSPITAL, "asked twice"), fresh=True)
    reissue(site, find_question(HOSPITAL, "reissued"))
    serve_lease(site, "plain", "visits")
    fail_after_charge(site, "broken", "visits")


def reissue(site: Site, question: Facts) -> None:
    """Answer a question again out of the reserve for reissues."""
    old = describe_answer(ask_question(site, question))["release"]
    con = site.connect(question["pot"])
    request = con.request(question["sql"], **question["terms"])
    steward.reissue(site.state, request, old, "the catalog had a wrong bound")


def make_shops(site: Site) -> None:
    """Rule zcdp, neighbours replace, groups that share answers, a partition inside a group."""
    register(site, catalogs.SHOPS, catalogs.write_shops)
    open_pot(site, "total", 2000, 4000, policy="separate", **ZCDP)
    for group in ("board", "press"):
        open_pot(site, group, 1000, 1500, inside="total", kind="group", **ZCDP)
    column = "customers.region"
    open_pot(site, "regions", 100, 200, inside="board", kind="partition", column=column, **ZCDP)
    for region in ("north", "south"):
        open_pot(site, region, 50, 80, inside="regions", kind="part", value=region, **ZCDP)
    ask_all(site, ASKED[site.name])


def make_months(site: Site) -> None:
    """Rule rdp, (person, window) units, a pot for every window."""
    register(site, catalogs.MONTHS, catalogs.write_months)
    open_pot(site, "total", 9000, 20000, **RDP)
    open_pot(site, "months", 8000, 10000, inside="total", kind="windows", **RDP)
    open_pot(site, "ann", 4000, 5000, inside="total", kind="analyst", **RDP)
    ask_all(site, ASKED[site.name])


def make_closed(site: Site) -> None:
    """Rule pure, row units; a failure of the total suspends the dataset."""
    register(site, catalogs.CLOSED, catalogs.write_closed)
    open_pot(site, "total", 10, 20)
    ask_all(site, ASKED[site.name])
    fail_after_charge(site, "total", "parcels")


def dump_ledger(server: Any, programs: Path, site: Site) -> None:
    """The tables as PostgreSQL dumps them; the state folder then names no server."""
    options = ["--inserts", "--no-owner", "--no-privileges", f"--schema={SCHEMA}"]
    command = [programs / "pg_dump", *options, server.get_uri()]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line for line in ran.stdout.splitlines() if not line.startswith(("\\", "--"))]
    site.dump_file.write_text("\n".join(lines), encoding="utf-8")
    (site.state.root / "ledger.url").write_text(PLACEHOLDER_URL, encoding="utf-8")


def settle_ledger(site: Site) -> None:
    """Everything into the one file, as SQLite leaves it when the last process closes it."""
    if not site.state.ledger.exists():
        return
    connection = sqlite3.connect(site.state.ledger)
    is_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    connection.close()
    assert not is_busy


def record_site(site: Site) -> Facts:
    """All that later code must find again."""
    write_anchor(site)
    before = read_balances(site)
    answers = []
    for question in ASKED[site.name]:
        answer = describe_answer(ask_question(site, question))
        assert answer.pop("repeated"), f"{site.name}: {question['name']} was charged again"
        answers.append({"question": question, "answer": answer})
    releases = read_releases(site)
    leased = [number for number, facts in releases.items() if facts["is_lease"]]
    leases = {number: read_lease(site, int(number)) for number in leased}
    assert read_balances(site) == before
    return before | {"releases_by_number": releases, "leases": leases, "answers": answers}


def write_certificates(site: Site, folder: Path) -> None:
    """Certificates of some answers, each with the file of values that opens it."""
    for name in CERTIFIED[site.name]:
        result = ask_question(site, find_question(ASKED[site.name], name))
        stem = f"{site.name}-{name.replace(' ', '_')}"
        write_certificate(result, folder, stem)
        if name == "count by county":
            write_certificate(result.nonnegative(), folder, f"{stem}-derived")


def write_certificate(result: Any, folder: Path, stem: str) -> None:
    result.certificate(folder / f"{stem}.json")
    result.opening(folder / f"{stem}.values.json")


def make_states(root: Path, out: Path) -> Facts:
    """Every dataset under `root`, certificates in `out`; what was released."""
    import pgserver  # not at the top: collecting the tests imports this file, and needs no server

    server = pgserver.get_server(root.parent / "postgres", cleanup_mode="delete")
    programs = Path(pgserver.__file__).parent / "pginstall" / "bin"
    sites = {name: Site(name, root) for name in ASKED}
    try:
        server.psql(f"CREATE SCHEMA {SCHEMA};")
        url = f"{server.get_uri()}&options=-csearch_path%3D{SCHEMA}"
        make_hospital(sites["hospital"])
        make_hospital(sites["hospital_postgres"], url)
        make_shops(sites["shops"])
        make_months(sites["months"])
        make_closed(sites["closed"])
        for site in sites.values():
            write_certificates(site, out)
        recorded = {name: record_site(site) for name, site in sites.items()}
        dump_ledger(server, programs, sites["hospital_postgres"])
    finally:
        server.cleanup()
    for site in sites.values():
        settle_ledger(site)
    return recorded


def main(out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    (out / "certificates").mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="dither-state-") as folder:
        root = Path(folder) / "states"
        root.mkdir()
        os.environ["XDG_STATE_HOME"] = str(root / "machine")
        states = make_states(root, out / "certificates")
        pack_states(root, out / "states.tar.xz")
    write_local_state(out)
    text = json.dumps({"made_by": __version__, "states": states}, indent=1, ensure_ascii=False)
    (out / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
