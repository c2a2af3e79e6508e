"""Completion in shells: a script of text alone, which knows every command and every option."""

from __future__ import annotations

import subprocess

import pytest
import typer
from typer.testing import CliRunner

from dither.cli.completion import (
    CompletedOption,
    Shell,
    list_completions,
    write_bash,
    write_fish,
    write_zsh,
)
from dither.cli.main import app
from tests.case_lists import mark_rest
from tests.command_tree import COMMANDS

ENTRIES = list_completions(typer.main.get_command(app))


def complete_in_bash(*lines: tuple[str, ...]) -> list[list[str]]:
    """What bash offers for the last word of each line, with no program on its path."""
    asked = "\n".join(
        f"COMP_WORDS=({' '.join(map(repr, ('dither', *words)))}); COMP_CWORD={len(words)}; "
        'COMPREPLY=(); _dither; echo "${COMPREPLY[@]}"'
        for words in lines
    )
    ran = subprocess.run(
        ["/bin/bash", "--norc", "-c", f"PATH=/nowhere\n{write_bash(ENTRIES)}\n{asked}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    return [line.split() for line in ran.stdout.split("\n")[:-1]]


def test_bash_offers_every_option_of_every_command_without_a_program():
    lines = [(*words, "-") for words, _ in COMMANDS]
    for (_, command), offered in zip(COMMANDS, complete_in_bash(*lines), strict=True):
        names = {name for option in command.params for name in option.opts + option.secondary_opts}
        assert set(offered) >= {name for name in names if name.startswith("--")}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("reg",), ["register", "registry"]),
        (("budget", ""), ["open", "raise", "show", "clear"]),
        (("budget", "open", "clinic.yaml", "--ru"), ["--rule"]),
        (("budget", "open", "clinic.yaml", "--rule", ""), ["pure", "approx", "zcdp", "rdp"]),
        (("sql", "clinic.yaml", "SELECT 1", "--format", "c"), ["csv"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("sql", ""), []),  # bash completes the names of files then
        (("nonsense", "--"), []),
    ],
)
def test_bash_completes_what_can_follow(words, offered):
    assert complete_in_bash(words) == [offered]


@pytest.mark.parametrize("write", [write_zsh, write_fish])
def test_other_shells_have_every_command_and_every_option(write):
    script = write(ENTRIES)
    for words, command in COMMANDS:
        assert all(word in script for word in words)
        for option in command.params:
            for name in option.opts if option.param_type_name == "option" else ():
                assert (f"-l {name[2:]} " if write is write_fish else f"{name} ") in script


def test_no_script_calls_a_program():
    for write in (write_bash, write_zsh, write_fish):
        assert "python" not in write(ENTRIES) and "_DITHER_COMPLETE" not in write(ENTRIES)


def test_fish_reads_every_line_as_one_command():
    """Every quote that is opened is closed on its line, so no help text can run."""
    for line in write_fish(ENTRIES).splitlines():
        assert line.startswith("complete -c dither ")
        assert line.replace("\\'", "").count("'") % 2 == 0


def test_a_hostile_help_text_stays_a_text():
    option = CompletedOption(("--x",), "it's \\' (rm -rf) $HOME", takes_value=False)
    (entry,) = [entry for entry in ENTRIES if entry.words == ("status",)]
    from dataclasses import replace

    script = write_fish([replace(entry, options=(option,))])
    assert script.endswith("-d 'it\\'s \\\\\\' (rm -rf) $HOME'\n")


@pytest.mark.parametrize("shell", mark_rest([shell.value for shell in Shell], quick=1))
def test_the_command_prints_the_script(shell):
    ran = CliRunner().invoke(app, ["completion", shell])
    write = {"bash": write_bash, "zsh": write_zsh, "fish": write_fish}[shell]
    assert ran.exit_code == 0 and ran.output == write(ENTRIES)
