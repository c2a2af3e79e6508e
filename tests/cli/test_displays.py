"""What people read: an epsilon never stands without its delta and its unit, and every command
speaks JSON."""

from __future__ import annotations

import hashlib
import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dither import BudgetError, accounting, connect
from dither.cli.main import app
from dither.local import Client, Direct
from tests.case_lists import mark_between, mark_rest
from tests.command_tree import COMMANDS
from tests.datasets import clinic

ROOT = Path(__file__).parents[2]
QUESTION = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
OPEN = ["--ceiling", "2", "--question", "How busy are the wards?", "--population",
    "residents of the county",
        "--recipient", "the hospital board"]  # fmt: skip
EPSILON = re.compile(
    r"(?<![-\w])epsilon(?: =| of| is)? (?=[\d.])"
)  # not --epsilon 1, not epsilon=1: those are input
DELTA = re.compile(r"\bdelta (?:= )?[\d.]")
UNIT = re.compile(
    r"\b(?:one|a|each|replacing a|\d+) (?:person|people|persons|row|rows|user|person_month|x "
    r"person)\b|in all"
)


def bare(text: str) -> list[str]:
    """The lines, wrapped ones joined, that say an epsilon without a delta or without whom it
    protects."""
    said = [
        line for line in re.sub(r"\n {4,}(?=\w)", " ", text).splitlines() if EPSILON.search(line)
    ]
    return [line for line in said if not (DELTA.search(line) and UNIT.search(line))]


def test_the_check_itself_finds_what_is_bare():
    assert (
        bare("left epsilon 0.5")
        and bare("epsilon 0.5, delta 0")
        and bare("epsilon 0.5 for one person")
    )
    assert not bare("epsilon 0.5, delta 0, for one person")
    assert not bare("dither budget open total --epsilon 3\nchoose epsilon=0.5")


@pytest.fixture(params=mark_rest(["approx", "pure", "zcdp", "row", "window"], quick=1))
def dataset(request, tmp_path, monkeypatch):
    """A registered clinic with a pot of every kind, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "220")
    text = clinic.CATALOG
    if request.param == "row":
        text = text.replace("unit: {kind: person}", "unit: {kind: row}").replace(
            "    owner: {column: patient}\n", ""
        )
        text = text.replace("rows_per_unit: 3", "rows_per_unit: 1")
        text = text.replace(
            "{protected: true}", "{protected: false, because: the rows are about buildings}"
        )
    if request.param == "window":
        text = text.replace(
            "unit: {kind: person}",
            "unit: {kind: person_window, column: day, every: month, zone: UTC}",
        )
        text = text.replace("day:     {type: date, bounds: [2024-01-01, 2024-12-31], nulls: keep",
                            "day:     {type: date, bounds: [2024-01-01, 2024-12-31], nulls: "
                            "drop")  # fmt: skip
    file = tmp_path / "clinic.yaml"
    file.write_text(text)
    clinic.write_csv(tmp_path / "visits.csv", [clinic.row(f"v{i}", f"p{i}") for i in range(30)])
    cap = {
        "approx": [
            "--rule",
            "approx",
            "--epsilon",
            "1",
            "--delta",
            "1e-5",
            "--delta-per-question",
            "1e-6",
        ],
        "zcdp": ["--rule", "zcdp", "--rho", "1", "--delta-conversion", "1e-6", "--yes"],
    }.get(request.param, ["--epsilon", "1"])
    told("register", file)
    told("budget", "open", file, "total", *cap, *OPEN)
    return file, "--rho" if request.param == "zcdp" else "--epsilon"


def told(*arguments: object) -> str:
    ran = CliRunner().invoke(app, [str(each) for each in arguments])
    assert ran.exit_code == 0, f"{arguments}: {ran.output} {ran.exception!r}"
    return ran.output


def test_an_epsilon_never_stands_without_its_delta_and_its_unit(dataset, tmp_path):
    file, price = dataset
    certificate = tmp_path / "certificate.json"
    shown = {
        "preview": told("preview", file, QUESTION, price, "0.5"),
        "within": told("preview", file, QUESTION, "--within", "50"),
        "explain": told("sql", file, f"EXPLAIN PRIVACY {QUESTION}", price, "0.5"),
        "dry run": told("sql", file, QUESTION, price, "0.5", "--dry-run"),
        "result": told("sql", file, QUESTION, price, "0.5", "--certificate", certificate),
        "repeated": told("sql", file, QUESTION, price, "0.5"),
        "budget": told("budget", "show", file),
        "raise": told(
            "budget", "raise", file, "total", "--cap", "1.1", "--reason", "the board asked again"
        ),
        "history": told("history", file),
        "verify": told("verify", certificate),
        "interpret": told("interpret", file),
        "check": told("catalog", "check", file),
        "report": told("report", file, "--to", tmp_path / "page.html")
        + (tmp_path / "page.html").read_text(),
        "registry": told("registry", "export", file, "--to", tmp_path)
        + (tmp_path / "statement.md").read_text(),
    }
    con = connect(file)
    result = con.sql(QUESTION, **{price[2:]: "0.5"})
    shown |= {"str result": str(result), "words": result.explain(), "str budget": str(con.budget())}
    shown |= {"str history": str(con.history()), "person": str(result.info.get("person", ""))}
    with pytest.raises(BudgetError) as refused:
        con.sql(QUESTION, **{price[2:]: "0.9"})
    shown["refusal"] = str(refused.value)
    assert {name: lines for name, text in shown.items() if (lines := bare(text))} == {}
    if price == "--epsilon":  # the check looked at something
        seen = {name for name, text in shown.items() if EPSILON.search(text)}
        assert seen >= {
            "preview",
            "result",
            "budget",
            "history",
            "refusal",
            "interpret",
            "verify",
            "report",
        }


def test_a_suggestion_and_the_outputs_in_the_docs_say_it_too(tmp_path):
    file = tmp_path / "clinic.yaml"
    file.write_text(clinic.CATALOG)
    clinic.write_csv(tmp_path / "visits.csv", [clinic.row(f"v{i}", f"p{i}") for i in range(30)])
    told("register", file)
    told("budget", "open", file, "total", "--epsilon", "1", *OPEN)
    bought = connect(file).suggest("bounds", "visits.cost", epsilon="0.5")
    assert "epsilon 0.5, delta 0, for one person" in str(bought) and not bare(str(bought))
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    outputs = [
        text
        for page in pages
        for text in re.findall(r"^```text\n(.*?)^```$", page.read_text(), re.S | re.M)
    ]
    assert any(EPSILON.search(text) for text in outputs)
    assert [line for text in outputs for line in bare(text)] == []


def test_refusals_of_delta_and_of_a_reissue_say_the_whole_price(tmp_path):
    file = tmp_path / "clinic.yaml"
    file.write_text(clinic.CATALOG)
    clinic.write_csv(tmp_path / "visits.csv", [clinic.row(f"v{i}", f"p{i}") for i in range(30)])
    told("register", file)
    told("budget", "open", file, "total", "--epsilon", "1", *OPEN)
    told("sql", file, QUESTION, "--epsilon", "0.5")
    ran = CliRunner().invoke(
        app,
        ["reissue", str(file), "3", QUESTION, "--epsilon", "0.9", "--note", "the tariff changed"],
    )
    assert isinstance(ran.exception, BudgetError) and "a reissue at epsilon" in str(ran.exception)
    assert not bare(str(ran.exception))


def test_accounts_and_local_reports_say_it_too(monkeypatch):
    monkeypatch.setenv("COLUMNS", "220")
    shown = told(
        "account", "100 * laplace(10)", "--unit", "person", "--delta", "1e-6", "--epsilon", "2"
    )
    assert "at delta 1e-6, for one person" in shown and "at epsilon 2, for one person" in shown
    assert not bare(
        told("interpret", "--epsilon", "1", "--delta", "0", "--unit", "row", "--rows", "20")
    )
    assert not bare(told("local", "simulate", "--domain", "4", "--epsilon", "1", "--users", "1000"))
    client = Client(Direct(1, 4), lifetime_epsilon=1)
    assert not bare(client.statement()) and EPSILON.search(client.statement())
    client.report(1)
    with pytest.raises(BudgetError, match="epsilon 1, delta 0, for one user"):
        client.report(2)
    with pytest.raises(BudgetError, match="for one unit .epsilon: asked .*; delta 0"):
        rule = accounting.PureRule(Fraction(1))
        rule.empty().add(accounting.charge(accounting.Pure(2), rule))


def test_a_derived_result_keeps_its_derivation_at_another_level(tmp_path):
    file = tmp_path / "clinic.yaml"
    file.write_text(clinic.CATALOG)
    clinic.write_csv(tmp_path / "visits.csv", [clinic.row(f"v{i}", f"p{i}") for i in range(3)])
    told("register", file)
    told("budget", "open", file, "total", "--epsilon", "1", *OPEN)
    plain = connect(file).sql(
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward)", epsilon="0.01"
    )
    fitted = plain.consistent()
    again = fitted.interval("0.5")
    assert (
        again.to_dict()["n"] == fitted.to_dict()["n"] != plain.to_dict()["n"]
        and again.notes == fitted.notes
    )
    widths = [
        [h - low for low, h in zip(r.to_dict()["n_low"], r.to_dict()["n_high"], strict=True)]
        for r in (again, fitted)
    ]
    assert all(a < b for a, b in zip(*widths, strict=True))
    both = plain.consistent().nonnegative().interval("0.5")
    assert min(both.to_dict()["n"]) >= 0 and len(both.notes) == 2
    assert both.to_dict()["n"] == plain.consistent().nonnegative().to_dict()["n"]
    assert both.interval("0.95").table.equals(plain.consistent().nonnegative().table)
    assert plain.interval("0.95").table.equals(plain.table) and plain.interval("0.5").notes == ()


# -- commands
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "command"),
    mark_between(COMMANDS, step=3),
    ids=[" ".join(path) for path, _ in COMMANDS],
)
def test_every_command_has_help_and_json(path, command):
    assert "Usage" in told(*path, "--help")
    options = {name: option for option in command.params for name in option.opts}
    assert "--json" in options, "docs/reference/cli.md says that every command has it"
    assert command.help and all(
        getattr(option, "help", None) for option in command.params if option.name != "help"
    )


def test_the_page_of_commands_says_so():
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert "every one prints JSON with `--json`" in page and len(COMMANDS) > 20


@pytest.mark.all
def test_the_json_of_a_day(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("clinic.yaml").write_text(clinic.CATALOG)
    clinic.write_csv(Path("visits.csv"), [clinic.row(f"v{i}", f"p{i}") for i in range(30)])

    def said(*arguments: str) -> dict:
        ran = CliRunner().invoke(app, [*arguments, "--json"])
        assert ran.exit_code == 0, f"{arguments}: {ran.output} {ran.exception!r}"
        return json.loads(ran.stdout)

    assert said("catalog", "draft", ".")["to_decide"] > 0
    assert said("catalog", "check", "clinic.yaml")["source"]
    assert said("register", "clinic.yaml")["version"] == 1
    opened = said("budget", "open", "clinic.yaml", "total", "--epsilon", "1", *OPEN)
    assert (
        opened["cap"] == "1/1"
        and opened["unit"] == "person"
        and opened["whatever_is_asked"]["delta"] == "0/1"
    )
    raised = said(
        "budget",
        "raise",
        "clinic.yaml",
        "total",
        "--epsilon",
        "1.5",
        "--reason",
        "the board asked again",
    )
    assert raised["cap"] == "3/2"
    found = said("preview", "clinic.yaml", QUESTION, "--within", "n=20", "--confidence", "0.9")
    assert found["columns"][0]["half_width"] <= 20 and found["price"]["unit"] == "person"
    answer = said("sql", "clinic.yaml", QUESTION, "--within", "20", "--confidence", "0.9")
    assert (
        answer["info"]["price_asked"] == found["price"]["asked"]
        and answer["info"]["repeated"] is False
    )
    assert (
        said("sql", "clinic.yaml", QUESTION, "--within", "20", "--confidence", "0.9")["info"][
            "repeated"
        ]
        is True
    )
    fresh = said("sql", "clinic.yaml", QUESTION, "--within", "20", "--confidence", "0.9", "--fresh")
    assert fresh["info"]["repeated"] is False
    explained = said("sql", "clinic.yaml", f"EXPLAIN PRIVACY {QUESTION}", "--epsilon", "0.1")
    assert explained["preview"]["price"]["asked"] == "1/10"
    (first, _) = said("history", "clinic.yaml")
    assert first["unit"] == "person" and first["delta"] == "0/1"
    again = said(
        "reissue",
        "clinic.yaml",
        str(first["release"]),
        QUESTION,
        "--epsilon",
        "0.1",
        "--note",
        "the tariff had changed",
    )
    assert again["supersedes"] == str(first["release"])
    assert said("report", "clinic.yaml", "--to", "page.html") == {
        "wrote": "page.html",
        "releases": 3,
    }
    assert said("ledger", "export", "clinic.yaml") and said("ledger", "verify", "clinic.yaml")["ok"]
    assert len(said("verify", "--show-key", "clinic.yaml")["public_key"]) == 64
    points = said("local", "simulate", "--domain", "4", "--epsilon", "1", "--users", "1000")[
        "error_of_a_share"
    ]
    assert [point["users"] for line in points.values() for point in line] == [1000]
    assert said("demo", "--people", "20", "--keep", "kept") == {"wrote": "kept/clinic.yaml"}
    Path("mine.py").write_text("def answer(data, size):\n    return [0] * size\n")
    claim = ["--first", "[1]", "--second", "[0]", "--epsilon", "1", "--runs", "500"]
    assert said("audit", "function", "mine.py:answer", *claim)["outcome"] != "violated"


@pytest.mark.parametrize("wrong", mark_rest([["5", "6"], ["n="], ["n=5", "n=6"]], quick=1))
def test_a_width_is_said_once(tmp_path, monkeypatch, wrong):
    (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
    clinic.write_csv(tmp_path / "visits.csv", [clinic.row("v", "p")])
    told("register", tmp_path / "clinic.yaml")
    flags = [part for each in wrong for part in ("--within", each)]
    ran = CliRunner().invoke(app, ["preview", str(tmp_path / "clinic.yaml"), QUESTION, *flags])
    assert "--within COLUMN=WIDTH" in str(ran.exception)


# -- a certificate of these numbers
# ------------------------------------------------------------------------------


def test_a_certificate_is_of_one_table_and_shows_none_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("clinic.yaml").write_text(clinic.CATALOG)
    clinic.write_csv(Path("visits.csv"), [clinic.row(f"v{i}", f"p{i}") for i in range(30)])
    told("register", "clinic.yaml")
    told("budget", "open", "clinic.yaml", "total", "--epsilon", "1", *OPEN)
    ask = [
        "sql",
        "clinic.yaml",
        "SELECT ward, COUNT(*) AS n, SUM(cost) AS c, AVG(age) AS a FROM visits GROUP BY ward",
    ]
    ran = CliRunner().invoke(
        app, [*ask, "--epsilon", "0.5", "--json", "--certificate", "certificate.json"]
    )
    Path("results.json").write_text(ran.stdout)
    assert "the numbers that it is of" in told(
        "verify", "certificate.json", "--values", "results.json"
    )
    results = json.loads(ran.stdout)
    certificate = Path("certificate.json").read_text()
    assert results["nonce"] not in certificate
    body = json.loads(certificate)["body"]
    # the definition, written anew
    table = json.dumps(
        results["columns"], sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    promised = hashlib.sha256(bytes.fromhex(results["nonce"]) + table.encode()).hexdigest()
    assert body["values"] == {"commitment": promised}

    def verified(**changes: object) -> tuple[int, str]:
        Path("other.json").write_text(json.dumps(results | changes))
        done = CliRunner().invoke(app, ["verify", "certificate.json", "--values", "other.json"])
        return done.exit_code, done.output + str(done.exception)

    columns = results["columns"]
    assert verified()[0] == 0
    wrong = [
        {"n": [columns["n"][0] + 1, *columns["n"][1:]]},
        {"n": columns["n"][::-1]},
        {"more": [1]},
        {"c": []},
    ]
    for change in wrong:
        code, said = verified(columns=columns | change)
        assert code == 1 and "values: not the numbers" in said, change
    assert verified(nonce="00" * 32)[0] == 1
    for shape in ({"nonce": "00"}, {"nonce": None}, {"columns": [1]}):
        assert "holds columns and nonce" in verified(**shape)[1]
    con = connect("clinic.yaml")
    again = con.sql(ask[2], epsilon="0.5")
    assert (
        again.certificate()["body"]["values"] != body["values"]
    )  # a nonce of its own: two files cannot be linked
    again.certificate("again.json")
    again.opening("values.json")
    told("verify", "again.json", "--values", "values.json")
    again.nonnegative("n", "c").certificate("derived.json")
    assert CliRunner().invoke(
        app, ["verify", "derived.json", "--values", "values.json"]
    ).exit_code == (0 if min(again.to_dict()["n_low"] + again.to_dict()["c_low"]) >= 0 else 1)
