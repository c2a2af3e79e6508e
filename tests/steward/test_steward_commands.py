"""The steward's and the auditor's commands: rules, groups, lineages, populations, exports,
reissues."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dither import steward
from dither.cli.main import app
from dither.errors import DitherError, RefusedError
from dither.privacy.ledger import default_head_path
from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.state import State
from tests.datasets import monthly_clinic
from tests.datasets.regional_clinic import BY_REGION, COUNT, GAUSSIAN, PURPOSE, Clinic

SENTENCES = [part for key, value in PURPOSE.items() for part in (f"--{key}", value)]


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def budget(clinic: Clinic, *arguments: object) -> str:
    return run("budget", "open", clinic.file, *arguments, *SENTENCES)


def test_pots_of_every_rule_by_command(clinic: Clinic) -> None:
    zcdp = [
        "--rule",
        "zcdp",
        "--rho",
        "0.5",
        "--ceiling",
        "1",
        "--delta-conversion",
        "1e-6",
        "--policy",
        "separate",
    ]
    said = budget(clinic, "total", *zcdp)
    assert "whatever is asked: epsilon 7.766" in said and "delta 1e-6" in said
    budget(
        clinic, "board", "--inside", "total", "--kind", "group", "--epsilon", "1", "--ceiling", "1"
    )
    approx = [
        "--rule",
        "approx",
        "--epsilon",
        "1",
        "--ceiling",
        "1",
        "--delta",
        "1e-6",
        "--delta-per-question",
        "1e-7",
    ]
    budget(clinic, "ann", "--inside", "board", "--kind", "analyst", *approx)
    rdp = [
        "--rule",
        "rdp",
        "--renyi",
        "1",
        "--ceiling",
        "1",
        "--alpha",
        "16",
        "--delta-conversion",
        "1e-6",
    ]
    budget(clinic, "press", "--inside", "total", "--kind", "purpose", *rdp)
    run("sql", clinic.file, COUNT, "--epsilon", "0.1", "--pot", "ann")
    shown = run("budget", "show", clinic.file)
    assert (
        "ann in board" in shown
        and "rdp at 16" in shown
        and "policy separate: each group's own budget" in shown
    )
    assert "all groups together, whatever is asked: epsilon 7.766" in shown
    assert "total, so far, as if stopped at a point fixed in advance" in shown
    assert "ann, so far: epsilon 0.1" in shown
    assert run("ledger", "verify", clinic.file).startswith("the ledger verifies")


@pytest.mark.parametrize(
    "terms",
    [
        ["--rule", "zcdp", "--epsilon", "1"],
        ["--rule", "zcdp", "--rho", "1"],
        ["--rule", "approx", "--epsilon", "1", "--delta", "1e-6"],
        ["--rule", "rdp", "--renyi", "1", "--delta-conversion", "1e-6"],
        ["--epsilon", "1", "--delta", "1e-6"],
        ["--epsilon", "1", "--rho", "1"],
        ["--epsilon", "3"],
        ["--epsilon", "1", "--inside", "nowhere", "--kind", "group"],
        ["--epsilon", "1", "--policy", "shared"],
        ["--epsilon", "1", "--max-incidents", "0"],
        ["--epsilon", "1", "--relation", "x"],
    ],
)
def test_impossible_openings_say_so_and_open_nothing(clinic: Clinic, terms: list[str]) -> None:
    with pytest.raises(DitherError):
        budget(clinic, "total", "--ceiling", "2", *terms)
    assert clinic.ledger().pots() == ()


def test_history_and_exports_show_parameters_never_values(clinic: Clinic) -> None:
    clinic.open(**GAUSSIAN)
    con = clinic.connect()
    # Noise of some 10^12: values of twelve digits are in no hash, price or date by chance.
    result = con.sql(BY_REGION, rho="1e-24")
    values = [str(abs(value)) for value in result.to_dict(intervals=False)["n"]]
    kernel = clinic.kernel()
    kernel.reserve(kernel.price(con.request(COUNT, rho="0.1")))  # charged, never released
    stored = clinic.ledger().release(clinic.ledger().number_of(result.info["release_id"]))
    assert stored is not None
    exports = [
        run("ledger", "export", clinic.file),
        run("ledger", "export", clinic.file, "--format", "csv"),
    ]
    for text in (*exports, run("history", clinic.file)):
        assert not any(value in text for value in values if len(value) >= 12)
        assert stored.nonce.hex() not in text and "nonce" not in text
    tree = json.loads(exports[0])
    (release,) = tree[
        "releases"
    ]  # what is between charge and release is the steward's to see alone
    assert (
        release["mechanisms"] == ["discrete_gaussian"]
        and release["released_at"] == result.info["released_at"]
    )
    assert tree["pots"][0]["purpose"] == PURPOSE and tree["pots"][0]["rule"]["name"] == "zcdp"
    (row,) = csv.DictReader(io.StringIO(exports[1]))
    assert row["charge"] == release["charge"] and json.loads(row["loss"]) == release["loss"]
    assert "never" not in run("history", clinic.file) and "never" in run(
        "history", clinic.file, "--unreleased"
    )


def test_visible_times_are_release_times_in_whole_seconds(clinic: Clinic) -> None:
    clinic.open()
    at = clinic.connect().sql(COUNT, epsilon=1).info["released_at"]
    assert len(at) == len("2026-03-01T12:00:00+00:00")
    text = run("ledger", "export", clinic.file)
    assert text.count("T") - text.replace(at, "").count("T") == text.count(at) == 1


def test_a_reissue_by_command(clinic: Clinic) -> None:
    clinic.open(epsilon=1, ceiling=2, reissue="0.5")
    con = clinic.connect()
    first = con.sql(COUNT, epsilon="0.4")
    note = "the catalog had a wrong bound"
    said = run(
        "reissue", clinic.file, first.info["release_id"], COUNT, "--epsilon", "0.4", "--note", note
    )
    assert f"supersedes {first.info['release_id']}" in said
    again = con.sql(COUNT, epsilon="0.4")
    assert again.info["repeated"] and again.info["release_id"] != first.info["release_id"]
    assert "superseded by" in run("history", clinic.file)
    pot = clinic.ledger().pot("total")
    assert (float(pot.spent), float(pot.reissued)) == (0.4, 0.4) and clinic.verify().ok


# -- lineages
# --------------------------------------------------------------------------------------------------


def second(clinic: Clinic, **changes: str) -> Clinic:
    """The same data registered elsewhere, under a catalog that may be renamed."""
    folder = clinic.file.parent.parent / f"copy{len(list(clinic.file.parent.parent.iterdir()))}"
    folder.mkdir()
    for name in ("patients.csv", "visits.csv", "clinic.yaml"):
        shutil.copy(clinic.file.parent / name, folder)
    text = (folder / "clinic.yaml").read_text()
    for old, new in changes.items():
        text = text.replace(f"{old}: {old if old != 'lineage' else 'clinic'}", f"{old}: {new}")
    (folder / "clinic.yaml").write_text(text)
    steward.register(folder / "clinic.yaml")
    return Clinic(folder / "clinic.yaml")


@pytest.mark.parametrize("changes", [{}, {"lineage": "hospital"}], ids=["copied", "renamed"])
def test_a_copied_or_renamed_catalog_opens_no_budget_silently(
    clinic: Clinic, changes: dict[str, str]
) -> None:
    clinic.open(epsilon=2, ceiling=3)
    copy = second(clinic, **changes)
    with pytest.raises(
        RefusedError,
        match=r"has a budget already. Are these the same people\? Say --relation clinic=",
    ):
        copy.open(epsilon=1, ceiling=4)
    for relation in ({"clinic": "maybe"}, {"elsewhere": "same", "*": "same"}):
        with pytest.raises(DitherError):
            copy.open(epsilon=1, ceiling=4, relations=relation)
    assert copy.ledger().pots() == ()
    pot = copy.open(epsilon=1, ceiling=4, relations={"clinic": "unknown"})
    assert list(pot.relations.values()) == ["unknown"] and copy.verify().ok
    shown = run("budget", "show", copy.file)
    assert "(unknown people): epsilon 3" in shown
    assert (
        "population county-residents, all its datasets together, whatever is asked: epsilon 7"
        in shown
    )
    # and the first dataset's report counts the second from now on
    assert "all its datasets together, whatever is asked: epsilon 7" in run(
        "budget", "show", clinic.file
    )


def test_disjoint_people_do_not_add_up_unless_the_population_is_one(clinic: Clinic) -> None:
    clinic.open(epsilon=2, ceiling=3)
    copy = second(clinic, lineage="other")
    copy.open(epsilon=1, ceiling=4, relations={"*": "disjoint"})
    # rule populations-add-up: datasets of one population are added up in reports
    assert "all its datasets together" in run("budget", "show", copy.file)


def test_people_said_to_be_disjoint_by_the_later_opening_do_not_add_up_in_either_report(
    clinic: Clinic,
) -> None:
    clinic.open(epsilon=2, ceiling=3)
    copy = second(clinic, lineage="abroad", population="foreigners")
    copy.file.write_text(copy.file.read_text().replace("county-residents", "foreigners"))
    steward.register(copy.file)
    copy.open(epsilon=1, ceiling=4, relations={"clinic": "disjoint"})
    for each in (clinic, copy):
        assert "datasets together" not in run("budget", "show", each.file)


def changed(clinic: Clinic, old: str, new: str) -> Clinic:
    """Another dataset of the same population with other terms."""
    folder = clinic.file.parent.parent / "changed"
    shutil.copytree(clinic.file.parent, folder, ignore=shutil.ignore_patterns("*.dither"))
    text = (folder / "clinic.yaml").read_text().replace("lineage: clinic", "lineage: changed")
    assert old in text
    (folder / "clinic.yaml").write_text(text.replace(old, new))
    steward.register(folder / "clinic.yaml")
    return Clinic(folder / "clinic.yaml")


def test_a_population_sums_what_one_person_is_promised(clinic: Clinic) -> None:
    """Rule populations-add-up: units and neighbours of all datasets are brought to one person, then
    added."""
    clinic.open(epsilon=2, ceiling=3)
    clinic.connect().sql(COUNT, epsilon="0.5")
    replacing = changed(clinic, "neighbours: add_remove", "neighbours: replace")
    replacing.open(epsilon=1, ceiling=4, relations={"*": "same"})
    shown = run("budget", "show", replacing.file)
    # replacing a person = removing one and adding another: 2 * 3 for the first, 4 for the second
    assert "whatever is asked: epsilon 10, delta 0, for replacing a person" in shown
    assert (
        "so far, as if stopped at a point fixed in advance: epsilon 1, delta 0, for replacing a "
        "person" in shown
    )
    assert "dataset changed (same people): epsilon 4" in run("budget", "show", clinic.file)


def test_what_promises_nothing_to_people_is_named_and_the_sum_says_at_least(clinic: Clinic) -> None:
    clinic.open(epsilon=2, ceiling=3)
    other = second(clinic)
    other.open(epsilon=1, ceiling=4, relations={"*": "same"})
    shutil.rmtree(other.place.root)
    shown = run("budget", "show", clinic.file)
    assert "its ledger cannot be read, so it is not in the sum" in shown
    assert (
        "whatever is asked: at least epsilon 3, delta 0, for adding or removing a person" in shown
    )


def test_a_population_over_windows_sums_all_of_a_persons_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    months = monthly_clinic.register(tmp_path / "months")
    months.open(epsilon=1, ceiling=1)
    again = monthly_clinic.register(
        tmp_path / "again", monthly_clinic.CATALOG.replace("lineage: clinic", "lineage: again")
    )
    again.open(epsilon=1, ceiling=2, relations={"*": "unknown"})
    assert "together, whatever is asked: epsilon 18, delta 0, for adding" in run(
        "budget", "show", again.file
    )  # 6 * 1 + 6 * 2
    rows = monthly_clinic.CATALOG.replace("lineage: clinic", "lineage: rows").replace(
        "people:", "people: {}", 1
    )
    unit = "{kind: person_window, column: day, every: month, zone: UTC}"
    rows = (
        rows.replace(unit, "{kind: row}")
        .replace("  person: {protected: true}\n", "")
        .replace("{type: id}", ID)
    )
    by_row = monthly_clinic.register(
        tmp_path / "rows",
        rows.replace("    owner: {column: person}\n", "").replace("unit: 2", "unit: 1"),
    )
    by_row.open(epsilon=1, ceiling=2, relations={"*": "same"})
    shown = run("budget", "show", months.file)
    assert (
        "dataset rows (same people): it protects rows, not people, so it is not in the sum" in shown
    )
    assert "whatever is asked: at least epsilon 18" in shown


ID = "{type: text, width: 4, nulls: keep}"


@pytest.mark.parametrize("renamed", [False, True])
def test_what_ever_had_a_budget_cannot_be_dev_elsewhere(clinic: Clinic, renamed: bool) -> None:
    """A dev lineage shows exact answers (rule dev-never-prod): neither the lineage nor its source,
    in any folder."""
    steward.register(clinic.file)  # also with no total yet
    clinic.open()
    if renamed:
        clinic.file.write_text(clinic.file.read_text().replace("lineage: clinic", "lineage: toy"))
    other = State(clinic.file.parent.parent / "toy.dither")
    with pytest.raises(RefusedError, match="what ever had a budget cannot be dev"):
        steward.register(clinic.file, state=other, dev=True)
    assert steward.open_ledger(other).registered() is None


def test_a_lost_ledger_and_head_open_no_second_total(clinic: Clinic) -> None:
    """Delete ledger, head and versions, register again in the same folder: still the same
    people."""
    clinic.open()
    clinic.connect().sql(COUNT, epsilon=1)
    head = default_head_path(clinic.place.installation_id())
    for file in (*clinic.place.root.glob("ledger.sqlite*"), *head.parent.glob(head.name + "*")):
        file.unlink()
    shutil.rmtree(clinic.place.versions)
    steward.register(clinic.file)
    with pytest.raises(RefusedError, match="was opened before, and this ledger does not know it"):
        clinic.open()
    assert clinic.ledger().pots() == ()


def test_a_crash_before_the_first_total_does_not_block_it(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise OSError("power cut")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="power cut"):
        patch.setattr(StewardLedger, "open_pot", crash)
        clinic.open()
    clinic.open()
    assert clinic.verify().ok


def test_a_restored_folder_is_refused_by_its_head(clinic: Clinic, tmp_path: Path) -> None:
    clinic.open()
    shutil.copytree(clinic.file.parent, backup := tmp_path / "backup")
    clinic.connect().sql(COUNT, epsilon=1)
    shutil.rmtree(clinic.file.parent)
    shutil.copytree(backup, clinic.file.parent)
    with pytest.raises(RefusedError, match="rolled back"):
        clinic.connect()
    assert "older copy" in run("ledger", "verify", clinic.file)


def test_another_lineage_cannot_move_into_a_ledger(clinic: Clinic) -> None:
    clinic.open()
    clinic.file.write_text(clinic.file.read_text().replace("lineage: clinic", "lineage: hospital"))
    with pytest.raises(RefusedError, match="follows 'clinic'"):
        steward.register(clinic.file)


def test_an_erased_person_refunds_nothing(clinic: Clinic) -> None:
    clinic.open()
    clinic.connect().sql(COUNT, epsilon=1)
    rows = (clinic.file.parent / "patients.csv").read_text().splitlines()
    (clinic.file.parent / "patients.csv").write_text("\n".join(rows[:1] + rows[2:]) + "\n")
    steward.register(clinic.file)
    assert clinic.spent() == {"total": 1}


def test_budgets_in_python_say_what_their_numbers_are(clinic: Clinic) -> None:
    clinic.open(**GAUSSIAN)
    con = clinic.connect()
    con.sql(COUNT, rho="0.5")
    shown = con.budget()
    (pot,) = shown.pots
    assert "as if stopped at a point fixed in advance" in str(shown.so_far(pot))
    assert "whatever is asked" in str(shown.guarantee(pot))
    assert shown.guarantee(pot).epsilon > shown.so_far(pot).epsilon
    total: Any = shown.worst_case()
    assert total.epsilon == shown.guarantee(pot).epsilon
