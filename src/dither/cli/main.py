"""The command line: one file a command, wired together here."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from dither.commands import CHARGED_IS_STORED
from dither.errors import DitherError
from dither.version import __version__

_CODES = (
    "Exit codes: 0 done; 1 refused or failed; 2 wrong command line; 3 a certificate is intact but "
    "its key unknown; 4 the budget cannot pay; 5 the answer is unavailable and the charge stays; "
    "70 a fault of dither; 130 interrupted."
)
_COMMANDS = {
    "demo": ("demo", "dither demo"),
    "quickstart": ("quickstart", "dither quickstart adult.csv"),
    "register": ("register", "dither register clinic.yaml --dev"),
    "status": ("status", "dither status clinic.yaml"),
    "discard": ("discard", "dither discard clinic.yaml"),
    "preview": ("ask", "dither preview clinic.yaml 'SELECT COUNT(*) FROM visits' --epsilon 0.1"),
    "sql": (
        "ask",
        "dither sql clinic.yaml 'SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward' --epsilon "
        "0.5",
    ),
    "workload": (
        "workload",
        "dither workload clinic.yaml patients 'ranges(age) * identity(sex)' --epsilon 0.5",
    ),
    "synth": ("synth", "dither synth clinic.yaml patients visits --epsilon 1 --to shared"),
    "reissue": (
        "ask",
        "dither reissue clinic.yaml 7 'SELECT ...' --epsilon 0.1 --note 'the tariff had changed'",
    ),
    "history": ("ledger", "dither history clinic.yaml"),
    "verify": ("verify", "dither verify certificate.json --key clinic.pub"),
    "interpret": ("interpret", "dither interpret --epsilon 1 --delta 1e-6 --unit person"),
    "report": ("report", "dither report clinic.yaml --to report.html"),
    "account": ("account", "dither account '10000 * poisson(0.01, gaussian(1.1))' --delta 1e-5"),
    "serve": ("served", "dither serve clinic.yaml"),
    "curator": ("served", "dither curator clinic.yaml --gateway-user dither-gateway"),
    "gateway": ("served", "dither gateway --socket /run/dither/curator.sock"),
    "backup": ("backup", "dither backup clinic.yaml clinic.backup"),
    "restore": ("backup", "dither restore clinic.backup clinic.yaml"),
    "sign": ("sign", "dither sign act.json --key steward.key"),
    "completion": ("completion", "dither completion bash"),
    "bench": ("bench", "dither bench noise"),
}
"""Each command: the module of `dither.cli` that has a function of its name, and an example."""
_GROUPS = (
    *("budget", "ledger", "catalog", "registry", "token", "user", "group", "grant"),
    *("issuer", "steward-key", "access-log", "local", "audit", "engine"),
)
"""Groups of commands: modules of `dither.cli`, each with an `app`."""


_NOTHING_CHANGED = "stopped; nothing changed"
_REGISTERING = ("register", "quickstart")
_NEVER_ASKING = (
    *(
        "account",
        "audit",
        "bench",
        "catalog",
        "completion",
        "engine",
        "history",
        "interpret",
        "ledger",
    ),
    *("local", "preview", "registry", "report", "status", "verify", "backup", "restore"),
)
"""Commands that charge nothing, so that an interrupt leaves nothing to say."""


class InterruptedCommand(Exception):
    """Ctrl-C ended a command; the text says what it left behind, if the command knows."""


class LazyGroup(TyperGroup):
    """Commands whose modules are imported when they are needed.

    `dither --version` imports none of them.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return [*_COMMANDS, *_GROUPS]

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Typer would end an interrupted one without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise InterruptedCommand(str(interrupt)) from None

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands and cmd_name in self.list_commands(ctx):
            self.add_command(_load_command(cmd_name), cmd_name)
        return self.commands.get(cmd_name)


def _load_command(name: str) -> TyperCommand | TyperGroup:
    """Import the module of a command, and build the command from it."""
    if name in _GROUPS:
        group = typer.main.get_group(import_module(f"dither.cli.{name.replace('-', '_')}").app)
        for command in group.commands.values():
            _prepare_help(command)
        return group
    module, example = _COMMANDS[name]
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name, epilog=f"Example: {example}")(
        getattr(import_module(f"dither.cli.{module}"), name)
    )
    command = typer.main.get_command(single)
    assert isinstance(command, TyperCommand)
    _prepare_help(command)
    return command


def _prepare_help(command: Any) -> None:
    """Keep the brackets of help texts, which rich would read as markup and leave out, and fold
    sentences where the terminal ends, not where the source does."""
    from rich.markup import escape

    command.help = " ".join((command.help or "").split())
    for option in command.params:
        if getattr(option, "help", None):
            option.help = escape(option.help)


app = typer.Typer(
    name="dither",
    cls=LazyGroup,
    help="A differential-privacy curator: questions about the population, proofs about "
    "each person.",
    epilog=_CODES,
    no_args_is_help=True,
    add_completion=False,  # `dither completion` writes a script that starts no Python
    # main() turns every exception into a message; locals can hold exact values
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
)


def _version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"dither {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    """Entry point: whatever goes wrong is one message and an exit code, never a traceback.

    Under `--json` the message is JSON on standard output, also for a wrong command line.
    """
    try:
        if _wants_json():
            _run_for_program()
        else:
            app()
    except DitherError as error:
        from dither.cli.output import exit_code

        _end(type(error).__name__, _name_catalog_file(str(error)), exit_code(error))
    except (InterruptedCommand, KeyboardInterrupt) as interrupt:
        from dither.cli.output import INTERRUPTED

        _end("interrupted", str(interrupt) or _describe_interrupt(), INTERRUPTED)
    # The reader of our output went away: nothing to say, and nowhere to say it.
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        prefix = f"{error.filename}: " if error.filename else ""
        _end("error", f"{prefix}{error.strerror or type(error).__name__}", 1)
    except (
        Exception
    ) as error:  # its message may quote a row, so only its kind and position are shown
        from dither.cli.output import BROKEN

        _end(
            "fault of dither",
            f"{type(error).__name__} at {_locate_error(error)}; please report it",
            BROKEN,
        )


def _name_catalog_file(message: str) -> str:
    """The message with the catalog of this command line in the commands that it tells to run."""
    from dither.commands import name_catalog

    catalog = next((word for word in sys.argv[2:] if word.endswith((".yaml", ".yml"))), None)
    return message if catalog is None else name_catalog(message, catalog)


def _describe_interrupt() -> str:
    """What an interrupt left behind, where the command itself did not say."""
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if command in _NEVER_ASKING:
        return "stopped"
    return _NOTHING_CHANGED if command in _REGISTERING else CHARGED_IS_STORED


def _wants_json() -> bool:
    return "--json" in sys.argv[1:]


def _run_for_program() -> NoReturn:
    """Run the command; what typer would print about a wrong command line is raised here."""
    try:
        code = app(standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        _end("usage", str(error.format_message()), getattr(error, "exit_code", 2))
    sys.exit(code if isinstance(code, int) else 0)


def _locate_error(error: BaseException) -> str:
    """Find the last line of dither's own code that an error passed.

    It says nothing of what that line worked on.
    """
    home = Path(__file__).parents[1]
    frames = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if Path(f.filename).is_relative_to(home)
    ]
    return (
        f"{Path(frames[-1].filename).relative_to(home)}:{frames[-1].lineno}"
        if frames
        else "an unknown place"
    )


def _end(kind: str, message: str, code: int) -> NoReturn:
    """Print an error, for people or as JSON, and exit with its code."""
    from dither.cli.output import make_console, print_json

    if _wants_json():
        print_json({"error": {"kind": kind, "message": message, "exit_code": code}})
        sys.exit(code)
    console = make_console(stderr=True)
    console.print(kind, style="bold red", end=": ", highlight=False)
    console.print(message, markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)
