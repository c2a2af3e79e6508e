"""`dither completion`: a script with which a shell completes commands, options and choices.

The script holds all of them as text, so that completing a word starts no Python. It is written anew
after an update: dither completion bash > ~/.local/share/bash-completion/completions/dither
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, get_args

import typer

from dither.cli.output import AsJson, print_json


class Shell(StrEnum):
    """A shell that a script can be written for."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


@dataclass(frozen=True)
class CompletedOption:
    """An option with its meaning, and the values to choose among, if they are few."""

    names: tuple[str, ...]
    meaning: str
    takes_value: bool
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class CompletedCommand:
    """A command by its words (`budget open`), with what can follow them."""

    words: tuple[str, ...]
    meaning: str
    options: tuple[CompletedOption, ...]
    inner: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def names(self) -> str:
        """All names of options, apart."""
        return " ".join(name for option in self.options for name in option.names)


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(help="The shell that will read the script.")],
    as_json: AsJson = False,
) -> None:
    """Print a script that completes commands and options in a shell, without starting dither."""
    write_script = {Shell.bash: write_bash, Shell.zsh: write_zsh, Shell.fish: write_fish}[shell]
    script = write_script(list_completions(context.find_root().command))
    if as_json:
        print_json({"shell": shell.value, "script": script})
    else:
        typer.echo(script, nl=False)


def list_completions(command: Any, words: tuple[str, ...] = ()) -> list[CompletedCommand]:
    """List a command and all commands inside it."""
    context = typer.Context(command)
    inner = command.list_commands(context) if hasattr(command, "list_commands") else []
    parameters = command.get_params(context)
    options = tuple(
        CompletedOption(
            (*option.opts, *option.secondary_opts),
            _cut_sentence(getattr(option, "help", "") or ""),
            not option.is_flag,
            _list_choices(option),
        )
        for option in parameters
        if option.param_type_name == "option"
    )
    arguments = (
        _list_choices(argument) for argument in parameters if argument.param_type_name == "argument"
    )
    meaning = _cut_sentence(command.help or "")
    completed = CompletedCommand(words, meaning, options, tuple(inner), next(arguments, ()))
    below = (list_completions(command.get_command(context, name), (*words, name)) for name in inner)
    return [completed, *(entry for entries in below for entry in entries)]


def _list_choices(parameter: Any) -> tuple[str, ...]:
    """The values of a parameter that has a list of them.

    Older versions of typer keep it in `type`, newer ones know the annotation.
    """
    if hasattr(parameter, "type"):
        return tuple(map(str, getattr(parameter.type, "choices", ())))
    annotation = parameter.type_descriptor.annotation
    kinds = (annotation, *get_args(annotation))
    enums = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, StrEnum)]
    return tuple(choice.value for kind in enums for choice in kind)


def _cut_sentence(text: str) -> str:
    """The first sentence of a help text, on one line and without markup.

    >>> _cut_sentence("Raise a pot's cap. At most \\\\[so far]\\nto its ceiling.")
    "Raise a pot's cap"
    """
    return " ".join(text.replace("\\", "").split()).partition(". ")[0].rstrip(".")


def write_bash(commands: list[CompletedCommand]) -> str:
    """A script for bash; files are completed where no word of ours fits."""
    groups = "|".join(entry.words[0] for entry in commands if entry.words and entry.inner)
    return "\n".join(
        [
            "_dither() {",
            '    local current="${COMP_WORDS[COMP_CWORD]}"',
            '    local previous="${COMP_WORDS[COMP_CWORD-1]}"',
            '    local command=""',
            "    local names=",
            "    local choices=",
            '    (( COMP_CWORD > 1 )) && command="${COMP_WORDS[1]}"',
            '    case "$command" in',
            f'        {groups}) (( COMP_CWORD > 2 )) && command+=" ${{COMP_WORDS[2]}}" ;;',
            "    esac",
            '    case "$command" in',
            *_write_cases(commands),
            "    esac",
            '    case "$command $previous" in',
            *_write_choice_cases(commands),
            "    esac",
            '    [[ "$current" == -* ]] && choices="$names"',
            '    COMPREPLY=($(compgen -W "$choices" -- "$current"))',
            "}",
            "complete -o default -F _dither dither",
            "",
        ]
    )


def write_zsh(commands: list[CompletedCommand]) -> str:
    """A script for zsh, to be read by compinit or by `source`."""
    groups = "|".join(entry.words[0] for entry in commands if entry.words and entry.inner)
    return "\n".join(
        [
            "#compdef dither",
            "_dither() {",
            '    local command=""',
            "    local names=",
            "    local choices=",
            '    (( CURRENT > 2 )) && command="${words[2]}"',
            '    case "$command" in',
            f'        ({groups}) (( CURRENT > 3 )) && command+=" ${{words[3]}}" ;;',
            "    esac",
            '    case "$command" in',
            *_write_cases(commands),
            "    esac",
            '    case "$command ${words[CURRENT-1]}" in',
            *_write_choice_cases(commands),
            "    esac",
            '    [[ "${words[CURRENT]}" == -* ]] && choices="$names"',
            '    if [[ -n "$choices" ]]; then',
            "        compadd -- ${=choices}",
            "    else",
            "        _files",
            "    fi",
            "}",
            "compdef _dither dither",
            "",
        ]
    )


def _write_cases(commands: list[CompletedCommand]) -> Iterator[str]:
    """The options of every command, and what stands first after its words."""
    for entry in commands:
        choices = " ".join(entry.inner or entry.choices)
        yield f'        "{" ".join(entry.words)}") names="{entry.names}"; choices="{choices}" ;;'


def _write_choice_cases(commands: list[CompletedCommand]) -> Iterator[str]:
    """The values of the options that have few, by the words before them."""
    for entry in commands:
        for option in entry.options:
            for name in option.names if option.choices else ():
                words = " ".join((*entry.words, name))
                yield f'        "{words}") choices="{" ".join(option.choices)}" ;;'


def write_fish(commands: list[CompletedCommand]) -> str:
    """A script for fish: one line for each command and for each option."""
    return "\n".join([*_write_fish_lines(commands), ""])


def _write_fish_lines(commands: list[CompletedCommand]) -> Iterator[str]:
    meanings = {entry.words: entry.meaning for entry in commands}
    for entry in commands:
        condition = _write_fish_condition(entry.words)
        if entry.inner:
            none_yet = f"{condition}; and not __fish_seen_subcommand_from {' '.join(entry.inner)}"
            condition_of_inner = none_yet if entry.words else "__fish_use_subcommand"
            for name in entry.inner:
                meaning = _quote_for_fish(meanings[(*entry.words, name)])
                yield f"complete -c dither -f -n '{condition_of_inner}' -a {name} -d {meaning}"
        if entry.choices:
            yield f"complete -c dither -f -n '{condition}' -a '{' '.join(entry.choices)}'"
        for option in entry.options:
            yield f"complete -c dither -n '{condition}' {_write_fish_option(option)}"


def _write_fish_condition(words: tuple[str, ...]) -> str:
    if not words:
        return "__fish_use_subcommand"
    return "; and ".join(f"__fish_seen_subcommand_from {word}" for word in words)


def _write_fish_option(option: CompletedOption) -> str:
    names = " ".join(f"-l {name.removeprefix('--')}" for name in option.names)
    value = " -r" if option.takes_value else ""
    choices = f" -f -a '{' '.join(option.choices)}'" if option.choices else ""
    return f"{names}{value}{choices} -d {_quote_for_fish(option.meaning)}"


def _quote_for_fish(text: str) -> str:
    """A text in single quotes, as fish reads it.

    >>> print(_quote_for_fish("a pot's cap"))
    'a pot\\'s cap'
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
