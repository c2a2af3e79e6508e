"""The command line for programs and shells: JSON errors, completion, help texts, large epsilons."""

from __future__ import annotations

import json
import math
import re
import sys
from fractions import Fraction

import pytest
from typer.testing import CliRunner

from dither import connect
from dither.cli.large_epsilon import describe_factor
from dither.cli.main import app, main
from tests.case_lists import mark_between
from tests.command_tree import COMMANDS
from tests.datasets import clinic

QUESTION = "SELECT COUNT(*) AS n FROM visits"
OPEN = ["--question", "How busy are the wards?", "--population", "residents of the county",
        "--recipient", "the hospital board"]  # fmt: skip


@pytest.fixture
def dataset(tmp_path):
    file, state = clinic.register(tmp_path / "clinic", [clinic.row("1", "1")])
    return file, state


class TestJsonErrors:
    @pytest.mark.parametrize(
        ("arguments", "kind", "code"),
        [
            (["sql", "missing.yaml", QUESTION, "--epsilon", "1"], "CatalogError", 1),
            (["sql"], "usage", 2),
            (["nonsense"], "usage", 2),
            (["sql", "a.yaml", QUESTION, "--nonsense"], "usage", 2),
            (["account", "gausian(1)"], "QueryError", 2),
            (["account", "laplace(1)", "--delta", "2"], "ParameterError", 2),
            (["budget", "raise", "a.yaml", "total", "--reason", "Because."], "ParameterError", 1),
        ],
    )
    def test_an_error_is_one_json_document(self, monkeypatch, capsys, arguments, kind, code):
        monkeypatch.setattr(sys, "argv", ["dither", *arguments, "--json"])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == code
        error = json.loads(capsys.readouterr().out)["error"]
        assert error["kind"] == kind and error["exit_code"] == code and error["message"]

    def test_without_the_option_it_is_a_sentence(self, monkeypatch, capsys):
        monkeypatch.setattr(sys, "argv", ["dither", "sql", "missing.yaml", QUESTION])
        with pytest.raises(SystemExit):
            main()
        shown = capsys.readouterr()
        assert shown.out == "" and shown.err.startswith("CatalogError: ")

    def test_what_succeeds_ends_with_0(self, monkeypatch, capsys, dataset):
        monkeypatch.setattr(sys, "argv", ["dither", "history", str(dataset[0]), "--json"])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == 0 and json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    "words", mark_between([(words,) for words, _ in COMMANDS], step=3), ids=" ".join
)
def test_help_shows_every_text_in_full(words):
    """Brackets too, which rich would take for markup; every text ends with a stop."""
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "1000"}).output
    command = dict(COMMANDS)[words]
    for option in command.params:
        text = (getattr(option, "help", None) or "").replace("\\[", "[")
        assert " ".join(text.split()) in " ".join(re.sub("[│╭╰─╮╯]", " ", shown).split())
        assert text == "" or text.endswith("."), option.name
    assert (command.help or "").endswith(".")


class TestLargeEpsilon:
    def test_a_question_above_10_needs_yes(self, dataset):
        file, state = dataset
        clinic.open_total(state)
        command = ["sql", str(file), QUESTION, "--epsilon"]
        refused = CliRunner().invoke(app, [*command, "10.5"])
        assert refused.exit_code == 1 and "--yes" in str(refused.exception)
        assert "36,316 times as likely" in str(refused.exception)  # e^10.5, mpmath: 36315.50...
        assert CliRunner().invoke(app, [*command, "10"]).exit_code == 0
        assert "--yes" not in str(CliRunner().invoke(app, [*command, "11", "--yes"]).exception)

    @pytest.mark.parametrize("terms", [("11", "11"), ("1", "11")])
    def test_a_budget_above_10_needs_yes(self, dataset, terms):
        command = ["budget", "open", str(dataset[0]), "total", "--epsilon", terms[0],
                   "--ceiling", terms[1], *OPEN]  # fmt: skip
        refused = CliRunner().invoke(app, command)
        assert refused.exit_code == 1 and "59,874 times as likely" in str(refused.exception)
        assert CliRunner().invoke(app, [*command, "--yes"]).exit_code == 0

    @pytest.mark.parametrize(("rho", "refused"), [("1.5", False), ("1.6", True)])
    @pytest.mark.parametrize("by", ["cap", "ceiling"])
    def test_a_budget_in_rho_is_judged_by_what_it_converts_to(self, dataset, rho, refused, by):
        """At delta 1e-6, by mpmath: the minimum over orders a of a rho + log(1/delta)/(a - 1) +
        log(1 - 1/a) - log(a)/(a - 1) is 9.8482... for rho 1.5 and 10.2319... for rho 1.6."""
        cap = rho if by == "cap" else "1"
        command = ["budget", "open", str(dataset[0]), "total", "--rule", "zcdp", "--rho", cap,
                   "--ceiling", rho, "--delta-conversion", "1e-6", "--reissue", "0",
                   *OPEN]  # fmt: skip
        ran = CliRunner().invoke(app, command)
        assert ran.exit_code == refused
        if refused:
            assert "rho 1.6 at delta 1e-6 converts to 10.23" in str(ran.exception)
            assert CliRunner().invoke(app, [*command, "--yes"]).exit_code == 0

    def test_a_cap_in_rho_is_raised_above_epsilon_10_with_yes_alone(self, dataset):
        file = str(dataset[0])
        opened = ["budget", "open", file, "total", "--rule", "zcdp", "--rho", "1", "--ceiling", "4",
                  "--delta-conversion", "1e-6", "--yes", *OPEN]  # fmt: skip
        assert CliRunner().invoke(app, opened).exit_code == 0
        command = ["budget", "raise", file, "total", "--reason", "the board asked again", "--cap"]
        assert "converts to 10.23" in str(CliRunner().invoke(app, [*command, "1.6"]).exception)
        assert CliRunner().invoke(app, [*command, "1.5"]).exit_code == 0
        assert CliRunner().invoke(app, [*command, "1.6", "--yes"]).exit_code == 0

    def test_a_price_in_rho_is_judged_by_what_it_converts_to(self, dataset):
        file, state = dataset
        clinic.open_total(state, None, "3", rho="3", rule="zcdp", delta_conversion="1e-6",
                          reissue="0")  # fmt: skip
        command = ["sql", str(file), QUESTION, "--rho"]
        refused = CliRunner().invoke(app, [*command, "1.6"])
        assert refused.exit_code == 1 and "converts to 10.23" in str(refused.exception)
        assert connect(file).budget().pots[0].spent == 0
        assert CliRunner().invoke(app, [*command, "1.5"]).exit_code == 0

    def test_a_price_inside_the_question_is_judged_too(self, dataset):
        file, state = dataset
        clinic.open_total(state, "20", "30")
        asked = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=11) COUNT(*) AS n FROM visits"
        refused = CliRunner().invoke(app, ["sql", str(file), asked])
        assert refused.exit_code == 1 and "--yes" in str(refused.exception)
        assert CliRunner().invoke(app, ["sql", str(file), asked, "--yes"]).exit_code == 0

    def test_the_factor_is_e_to_the_epsilon(self):
        assert describe_factor(Fraction(12)) == f"{round(math.e**12):,}"
        digits = int(describe_factor(Fraction(700)).rpartition("^")[2])
        assert 10.0**digits <= math.exp(700) < 10.0 ** (digits + 1)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("register", "stopped; nothing changed"),
        ("sql", "answered and stored: ask it again, for free"),
        ("audit", "interrupted: stopped\n"),
        ("preview", "interrupted: stopped\n"),
    ],
)
def test_an_interrupt_says_what_it_left_behind(monkeypatch, capsys, command, words):
    """A command that asks nothing speaks of no charge."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["dither.cli.main"], "app", interrupt)
    monkeypatch.setattr(sys, "argv", ["dither", command, "clinic.yaml"])
    with pytest.raises(SystemExit) as stopped:
        main()
    shown = capsys.readouterr().err
    assert stopped.value.code == 130 and words in shown
