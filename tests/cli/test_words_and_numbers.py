"""What every command prints: the words of the glossary, and numbers that people can read."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from html import unescape
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dither import BudgetError, connect
from dither.canonical import decimal_text
from dither.cli.main import app
from dither.privacy.ledger import Pot
from tests.case_lists import mark_between
from tests.command_tree import COMMANDS
from tests.datasets import adult, clinic

ROOT = Path(__file__).parents[2]
DECIDED = ["--header", "--person", "none", "--no-two-rows", "--max-rows", "1000", "--column",
           "hours-per-week = hours_a_week", "--purpose", "How long do people work?"]  # fmt: skip
UNREAD = {"serve", "curator", "gateway", "token", "user", "group", "grant", "issuer", "sign",
          "steward-key", "access-log", "completion", "bench", "discard", "reissue",
          "backup", "restore", "engine"}  # fmt: skip
QUESTION = "SELECT ward, AVG(cost) AS m FROM visits GROUP BY ward"
PRICE = "0.3333333333333333"
"""A price whose decimals nobody wants to read."""
OPEN = ["--question", "How busy are the wards?", "--population", "residents of the county",
        "--recipient", "the hospital board"]  # fmt: skip
FORBIDDEN = re.compile(r"(?<![-\w.'\"/=])(?:pots?(?![-\w=])|lineages?(?![-\w=:]))", re.IGNORECASE)
"""Words of code. Names of options (`--pot`), of fields (`lineage:`) and of code stay what they
are."""
AMOUNT = re.compile(
    r"\b(?:epsilon|rho|delta|left|spent|cap|ceiling|afterwards|of)\s+(?:at )?"
    r"(\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)(?:/(\d+))?"
)
MOST_DIGITS = 6
PADDED = re.compile(r"(?<![\w.-])[1-9]\d*(?:\.\d+)?e[+-]?0\d(?!\w)|(?<![\w.])\d+\.\d*0000\b")
"""A padded exponent (1e-09), or digits that only fill a column (0.0000); no part of an id, such as
01e03."""


def find_words(text: str) -> list[str]:
    """The lines that say a word of code."""
    return [line for line in text.splitlines() if FORBIDDEN.search(line)]


def find_long_numbers(text: str) -> list[str]:
    """The amounts with more digits than people read, as fractions, or with a padded exponent."""
    long = []
    for match in AMOUNT.finditer(text):
        lead, _, exponent = match[1].replace(",", "").partition("e")
        digits = lead.replace(".", "").lstrip("0").rstrip("0")
        if len(digits) > MOST_DIGITS or match[2] or re.match(r"[+-]?0", exponent):
            long.append(match[0])
    return long


def find_padded_numbers(text: str) -> list[str]:
    """The numbers with digits that say nothing."""
    return PADDED.findall(text)


def run(*arguments: object, code: int = 0) -> str:
    ran = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})
    assert ran.exit_code == code, f"{arguments}: {ran.output} {ran.exception!r}"
    return ran.output


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """What the commands print, and what is printed of Python objects, by name; and the budget."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("heads")))
        patch.setenv("COLUMNS", "200")
        folder = tmp_path_factory.mktemp("words")
        file = folder / "clinic.yaml"
        file.write_text(clinic.CATALOG)
        rows = [clinic.row(f"v{i}", f"p{i}", ward="north") for i in range(30)]
        clinic.write_csv(folder / "visits.csv", rows)
        yield show_everything(folder, file)


@pytest.fixture
def shown(everything):
    return everything[0]


@pytest.fixture(scope="module")
def products(tmp_path_factory):
    """What the commands print that need no registered dataset, by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("heads")))
        return show_products(tmp_path_factory.mktemp("products"))


def show_products(folder: Path) -> dict[str, str]:
    adult.write_adult(folder / "adult.csv", rows=100)
    pairs = folder / "pairs.csv"
    pairs.write_text("a,1\nb,2\na,1\nb,1\n" * 25)
    program = folder / "mine.py"
    program.write_text("import random\ndef answer(data): return sum(data) + random.randrange(3)\n")
    inputs = ["--first", "[1, 0]", "--second", "[0, 0]", "--epsilon", "1e-05", "--runs", "2000"]
    page = folder / "audit.html"
    report = folder / "report.html"
    simulation = ["--domain", "8", "--epsilon", "1", "--users", "100"]
    texts = {
        "demo": run("demo", "--people", "50", "--report", report),
        "quickstart": run("quickstart", folder / "adult.csv", *DECIDED, "--ask"),
        "synth": run(
            "synth", folder / "adult.yaml", "adult", "--epsilon", "0.3", "--to", folder / "shared"
        ),
        "workload": run(
            "workload",
            folder / "adult.yaml",
            "adult",
            "identity(hours_per_week)",
            "--epsilon",
            "0.1",
        ),
        "account": run("account", "3 * gaussian(10) + laplace(2)", "--delta", "1e-09"),
        "local simulate": run("local", "simulate", *simulation),
        "local search": run("local", "search", "--bits", "20", "--users", "3000"),
        "audit function": run("audit", "function", f"{program}:answer", *inputs, code=1),
        "audit leakage": run("audit", "leakage", pairs),
        "audit accountant": run("audit", "accountant", "--compositions", "1", "--runs", "200"),
        "audit mechanisms": run(
            "audit", "mechanisms", "IntegerLaplace", "--runs", "200", "--report", page
        ),
        "audit zoo": run("audit", "zoo", "biased-coin", "rdp-orders-mixed", "half-noise"),
    }
    texts["demo.html"] = strip_tags(report.read_text())
    texts["audit.html"] = strip_tags(page.read_text())
    return texts


def show_everything(folder: Path, file: Path) -> tuple[dict[str, str], Pot]:
    cap = ["--rule", "approx", "--epsilon", "1", "--ceiling", "2", "--delta", "1e-5"]
    certificate = folder / "certificate.json"
    texts = {
        "register": run("register", file),
        "budget open": run(
            "budget", "open", file, "total", *cap, "--delta-per-question", "3e-7", *OPEN
        ),
        "catalog check": run("catalog", "check", file),
        "preview": run("preview", file, QUESTION, "--epsilon", PRICE),
        "within": run("preview", file, QUESTION, "--within", "500", "--group-size", "1000"),
        "explain": run("sql", file, f"EXPLAIN PRIVACY {QUESTION}", "--epsilon", PRICE),
        "dry run": run("sql", file, QUESTION, "--epsilon", PRICE, "--dry-run"),
        "sql": run("sql", file, QUESTION, "--epsilon", PRICE, "--certificate", certificate),
        "repeated": run("sql", file, QUESTION, "--epsilon", PRICE),
        "status": run("status", file),
        "status of this machine": run("status"),
        "budgets of this machine": run("budget", "show"),
        "budget show": run("budget", "show", file),
        "budget raise": run(
            "budget", "raise", file, "total", "--cap", "1.1", "--reason", "the board asked again"
        ),
        "history": run("history", file, "--sql"),
        "verify": run("verify", certificate),
        "ledger verify": run("ledger", "verify", file),
        "interpret": run("interpret", file),
        "ledger export": run("ledger", "export", file),
        "ledger export --sql": run("ledger", "export", file, "--sql"),
        "report": run("report", file, "--to", folder / "page.html"),
        "report.html": strip_tags((folder / "page.html").read_text()),
        "registry export": run("registry", "export", file, "--to", folder),
        "statement.md": (folder / "statement.md").read_text(),
    }
    con = connect(file)
    result = con.sql(QUESTION, epsilon=PRICE)
    objects = {
        "connection": con,
        "preview": con.preview(QUESTION, epsilon=PRICE),
        "explanation": con.explain(QUESTION, epsilon=PRICE),
        "result": result,
        "budget": con.budget(),
        "history": con.history(),
        "tables": con.tables,
    }
    texts |= {f"str {name}": str(thing) for name, thing in objects.items()}
    texts |= {
        f"html {name}": strip_tags(thing._repr_html_())
        for name, thing in objects.items()
        if hasattr(thing, "_repr_html_")
    }
    texts["result.explain()"] = result.explain()
    with pytest.raises(BudgetError) as refused:
        con.sql(QUESTION, epsilon="0.9999999999")
    texts["refusal"] = str(refused.value)
    return texts, con.budget().pots[0]


def strip_tags(page: str) -> str:
    """The text of a page, one line for each element."""
    visible = re.sub(r"<(style|script)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", "\n", visible))


def test_the_checks_find_what_they_look_for():
    assert find_words("left in the pot: epsilon 1") and find_words("two Lineages")
    assert not find_words("--pot total, lineage: clinic, con.pot, {'pot': 'total'}, pothole")
    assert find_long_numbers("epsilon 0.3333333333") and find_long_numbers("spent 163840/273067")
    assert find_long_numbers("delta 1e-09, for one person")
    assert not find_long_numbers("epsilon 0.333334, delta 1e-9, left 12.5 of 20")
    assert find_padded_numbers("false alarms at most 1e-09; 0.0000 and 2.5000e+03") != []
    assert find_padded_numbers("power 1.0000") and find_padded_numbers("1.5e-06")
    assert not find_padded_numbers("1e-9, 0.5, 10,000 of 100000, 2e11, 127.0.0.1, 0.50")


def test_no_command_says_a_word_of_code(shown, products):
    texts = shown | products
    assert {name: lines for name, text in texts.items() if (lines := find_words(text))} == {}


def test_no_amount_has_more_digits_than_people_read(shown, products):
    texts = shown | products
    assert {name: long for name, text in texts.items() if (long := find_long_numbers(text))} == {}


def test_no_number_has_digits_that_say_nothing(shown, products):
    texts = shown | products
    padded = {
        name: numbers for name, text in texts.items() if (numbers := find_padded_numbers(text))
    }
    assert padded == {}


def test_every_command_that_people_read_is_looked_at(shown, products):
    """But for commands that serve, write keys, users or grants (tests of their own), and `bench`,
    which measures this machine."""
    looked_at = {" ".join(text.split()[:1]) for text in shown | products}
    named = {words[0] for words, _ in COMMANDS}
    assert named - looked_at - UNREAD == set()


def test_what_is_asked_and_spent_is_rounded_up_and_what_is_left_down(everything):
    """The price is a third, to sixteen digits; what it takes is the same in every display."""
    shown, total = everything
    spent = decimal_text(total.spent, up=True)
    assert Fraction(spent) > total.spent  # so that rounding shows
    assert "epsilon 0.333334 asked" in shown["str preview"]
    for name in ("sql", "history", "str history"):
        assert f"epsilon {spent}, delta" in shown[name], name
    assert f"spent epsilon {spent}, delta" in " ".join(shown["report.html"].split())
    left = decimal_text(total.left)
    for name in ("str preview", "str connection", "refusal"):
        assert re.search(f"{left}(?![0-9])", shown[name]), name


@pytest.mark.parametrize(
    "words", mark_between([(words,) for words, _ in COMMANDS], step=3), ids=" ".join
)
def test_no_help_text_says_a_word_of_code(words):
    assert find_words(run(*words, "--help")) == []


@pytest.mark.parametrize(
    "page",
    ["README.md", "docs/index.md", "docs/first-hour.md", *(
        str(file.relative_to(ROOT))
        for folder in ("tutorial", "roles", "how-to")
        for file in sorted((ROOT / "docs" / folder).glob("*.md"))
        if file.name != "add-a-mechanism.md"
    )],
)  # fmt: skip
def test_no_page_for_users_says_a_word_of_code(page):
    """Code between backquotes, and in blocks, keeps its names."""
    text = re.sub(r"```(?:python|bash|sh|sql|yaml)\n.*?```", "", (ROOT / page).read_text(),
                  flags=re.DOTALL)  # fmt: skip
    assert find_words(re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", text)) == []


@pytest.mark.parametrize("numerator", [1, 2, 163840, 999999, 10**9 + 1, 123456789])
@pytest.mark.parametrize("denominator", [1, 3, 7, 8, 273067, 10**9, 10**40])
def test_an_amount_has_six_digits_and_is_rounded_to_the_safe_side(numerator, denominator):
    """The value lies between what is shown rounded down and up, a unit of the last digit apart."""
    value = Fraction(numerator, denominator)
    down = Fraction(decimal_text(value))
    up = Fraction(decimal_text(value, up=True))
    assert down <= value <= up <= down * (1 + Fraction(1, 10**5))
    assert find_long_numbers(f"epsilon {decimal_text(value)}") == []
    if value == 0 or json.loads(decimal_text(value)) == value:
        assert down == up
