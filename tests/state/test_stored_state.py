"""State that earlier releases wrote: later code opens it and answers every old question for free.

A folder for each release (`0.1`) holds state folders, certificates and local collections as that
release wrote them, and all that it had released. A question that is not found again would be
charged again: the same people would pay twice for one answer.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from typer.testing import CliRunner

from dither import RefusedError, local
from dither.cli.main import app
from dither.plan import algebra
from dither.plan.functions import TABLE
from dither.privacy import losses, mechanisms
from dither.privacy.kernel.request import Family
from dither.stored import stored_name
from tests.state.local_state import describe_tally
from tests.state.stored_state import (
    PLAN_NODES,
    Facts,
    Site,
    ask_question,
    describe_answer,
    read_balances,
    read_lease,
    read_releases,
    read_requests,
    run_command,
    unpack_states,
)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


SCHEMA = "stored_ledger"
DOCUMENTS = sorted(Path(__file__).parent.glob("*/expected.json"))
FOLDERS = {path.parent.name: path.parent for path in DOCUMENTS}
EXPECTED: dict[str, Facts] = {name: read_json(FOLDERS[name] / "expected.json") for name in FOLDERS}
SITES = [(release, name) for release in EXPECTED for name in EXPECTED[release]["states"]]
LEASED = [site for site in SITES if EXPECTED[site[0]]["states"][site[1]]["leases"]]
EXACT = [
    (release, name, old)
    for release, name in SITES
    for old in EXPECTED[release]["states"][name]["answers"]
    if old["question"].get("is_exact")
]
NEWER_THAN_THE_FIXTURES: frozenset[str] = frozenset(
    {
        '"function": "index_in"',
        '"type": "linear"',
        '"type": "scores"',
        '"type": "unitvectors"',
        '"type": "jointscores"',
        '"type": "blockcounts"',
        '"type": "limittotal"',
    }
)
"""Stored names of nodes, functions and families that no release has written yet."""

OpenSite = Callable[[str, str], Site]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The state of each release, to be copied and not used."""
    roots = {}
    for release, folder in FOLDERS.items():
        roots[release] = tmp_path_factory.mktemp("unpacked")
        unpack_states(folder / "states.tar.xz", roots[release])
    return roots


@pytest.fixture
def open_site(
    unpacked: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> OpenSite:
    """Copies a dataset, and the heads, lineages and keys of the machine that it was made on."""

    def copy(release: str, name: str) -> Site:
        root = tmp_path / release
        for folder in ("machine", name):
            if not (root / folder).exists():
                shutil.copytree(unpacked[release] / folder, root / folder)
        monkeypatch.setenv("XDG_STATE_HOME", str(root / "machine"))
        site = Site(name, root)
        if site.dump_file.exists():
            load_dump(request.getfixturevalue("server"), site)
        return site

    return copy


def load_dump(server: Any, site: Site) -> None:
    """Put the dumped tables into a fresh schema, and let the state folder name it."""
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        connection.execute(site.dump_file.read_text("utf-8"))
    url = f"{server.get_uri()}&options=-csearch_path%3D{SCHEMA}"
    (site.state.root / "ledger.url").write_text(url, encoding="utf-8")


def find_differences(site: Site, answers: list[Facts]) -> Iterator[str]:
    """Old questions whose answers are not free, or not the same."""
    for old in answers:
        answer = describe_answer(ask_question(site, old["question"]))
        if not answer.pop("repeated"):
            yield f"{old['question']['name']}: charged again"
        elif answer != old["answer"]:
            yield f"{old['question']['name']}: another answer"


@pytest.mark.parametrize(("release", "name"), SITES)
def test_old_answers_are_free_and_the_same(open_site: OpenSite, release: str, name: str) -> None:
    site = open_site(release, name)
    expected = EXPECTED[release]["states"][name]
    balances = {key: expected[key] for key in ("entries", "releases", "pots")}
    assert read_balances(site) == balances
    assert list(find_differences(site, expected["answers"])) == []
    assert read_balances(site) == balances
    assert read_releases(site) == expected["releases_by_number"]


@pytest.mark.parametrize(("release", "name"), LEASED)
def test_the_outputs_of_leases_are_readable(open_site: OpenSite, release: str, name: str) -> None:
    site = open_site(release, name)
    for number, outputs in EXPECTED[release]["states"][name]["leases"].items():
        assert read_lease(site, int(number)) == outputs


@pytest.mark.parametrize(("release", "name", "old"), EXACT)
def test_the_old_copy_of_the_data_answers_new_questions(
    open_site: OpenSite, release: str, name: str, old: Facts
) -> None:
    """At a price at which the noise is 0 but for odds below 1e-12."""
    site = open_site(release, name)
    answer = describe_answer(ask_question(site, old["question"], fresh=True))
    assert not answer["repeated"]
    assert answer["columns"] == old["answer"]["columns"]
    entries = run_command("ledger", "verify", site.catalog_file)["entries"]
    assert entries == EXPECTED[release]["states"][name]["entries"] + 2


@pytest.mark.parametrize("release", EXPECTED)
def test_what_was_suspended_still_refuses(open_site: OpenSite, release: str) -> None:
    for name, pot, table in (("closed", "total", "parcels"), ("hospital", "broken", "items")):
        site = open_site(release, name)
        with pytest.raises(RefusedError, match="suspended until the data steward clears"):
            site.connect(pot).sql(f"SELECT COUNT(*) FROM {table}", epsilon="0.3")


@pytest.mark.parametrize("release", EXPECTED)
def test_certificates_verify_with_their_values(
    open_site: OpenSite,
    release: str,
    tmp_path: Path,
) -> None:
    open_site(release, "closed")  # for the keys of the machine
    certificates = sorted((FOLDERS[release] / "certificates").glob("*.values.json"))
    assert len(certificates) > 5
    for values in certificates:
        assert verify_certificate(values, values) == 0
    changed = read_json(values)
    for column in changed["columns"].values():
        column.append(None)
    (tmp_path / "changed.json").write_text(json.dumps(changed), "utf-8")
    assert verify_certificate(values, tmp_path / "changed.json") == 1


def verify_certificate(opening: Path, values: Path) -> int:
    """The exit code of the check of the certificate beside a file of values, against other values.

    0 for a certificate of these values that was signed by a key of this machine.
    """
    certificate = opening.with_name(opening.name.replace(".values", ""))
    arguments = ["verify", str(certificate), "--values", str(values)]
    return CliRunner().invoke(app, arguments).exit_code


@pytest.mark.parametrize("release", EXPECTED)
def test_local_tallies_load_and_estimate_the_same(release: str) -> None:
    stored = read_json(FOLDERS[release] / "local.json")
    assert len(stored["tallies"]) > 20
    for tally in stored["tallies"]:
        aggregator = local.Aggregator.from_bytes(bytes.fromhex(tally["stored"]))
        assert aggregator.to_bytes().hex() == tally["stored"]
        assert_close(describe_tally(aggregator), tally["expected"])


def assert_close(computed: Facts, expected: Facts) -> None:
    """Counts alike, and floats to nine digits: their last ones may differ between machines."""
    assert computed.keys() == expected.keys()
    for key, value in expected.items():
        if isinstance(value, list):
            np.testing.assert_allclose(computed[key], value, rtol=1e-9, atol=1e-9)
        else:
            assert computed[key] == value


@pytest.mark.parametrize("release", EXPECTED)
def test_clients_repeat_reports_within_their_budget(release: str, tmp_path: Path) -> None:
    stored = read_json(FOLDERS[release] / "local.json")
    shutil.copy(FOLDERS[release] / "device_budget.json", tmp_path / "budget")
    answers = len(stored["clients"])
    budget = local.budget_file(tmp_path / "budget", stored["lifetime"], known_answers=answers)
    assert str(budget.left) == stored["left"]
    for device in stored["clients"]:
        client = local.Client.from_json(device["client"], budget=budget)
        assert client.report(device["value"]).hex() == device["report"]
    assert str(budget.left) == stored["left"]
    assert budget.answers == answers


def test_every_stored_name_of_today_is_in_a_fixture(open_site: OpenSite) -> None:
    """A node, function or family that is newer than the last release is listed until the next."""
    in_files = [site for site in SITES if site[1] != "hospital_postgres"]
    texts = json.dumps([read_requests(open_site(*site)) for site in in_files])
    today = {f'"type": "{stored_name(node)}"' for node in PLAN_NODES}
    today |= {f'"function": "{function}"' for function in TABLE}
    today |= {f'"family": "{family}"' for family in get_args(Family)}
    assert {name for name in today if name not in texts} == NEWER_THAN_THE_FIXTURES


PLANTED = [
    (algebra.Scan, "__stored_name__", "hospital", "count by county"),
    (algebra.Quantiles, "__stored_name__", "hospital", "a median"),
    (losses.DiscreteLaplace, "type", "hospital", "asked twice"),
    (mechanisms.IntegerLaplace, "stored_name", "hospital", "count by county"),
    (mechanisms.IntegerBox, "stored_name", "hospital", "two sums in a box"),
    (mechanisms.TruncatedGeometricKeys, "stored_name", "hospital", "undeclared keys"),
    (mechanisms.FlippedQuantile, "stored_name", "hospital", "a median"),
    (mechanisms.JointQuantiles, "stored_name", "hospital", "joint quantiles"),
    (mechanisms.QuantilesWithEnds, "stored_name", "hospital", "a median with ends"),
    (mechanisms.IntegerGaussian, "stored_name", "shops", "Gaussian"),
    (mechanisms.GaussianKeys, "stored_name", "shops", "Gaussian keys"),
    (mechanisms.Quantile, "stored_name", "shops", "a median in rho"),
]


@pytest.mark.parametrize(
    ("kind", "attribute", "name", "asked"),
    PLANTED,
    ids=[planted[0].__name__ for planted in PLANTED],
)
def test_a_stored_name_that_changed_would_be_noticed(
    open_site: OpenSite,
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    attribute: str,
    name: str,
    asked: str,
) -> None:
    """Planted bug: a stored name follows a rename in the source. (Without it, the first test.)"""
    expected = EXPECTED["0.1"]["states"][name]["answers"]
    answers = [old for old in expected if old["question"]["name"] == asked]
    monkeypatch.setattr(kind, attribute, "renamed")
    differences = list(find_differences(open_site("0.1", name), answers))
    assert differences == [f"{asked}: charged again"]
