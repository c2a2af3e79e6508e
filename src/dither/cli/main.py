"""The command line: one file a command, wired together here."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from dither import DitherError, __version__
from dither.cli import ask, audit, bench, budget, catalog, ledger, local, registry
from dither.cli.account import account
from dither.cli.demo import demo
from dither.cli.interpret import interpret
from dither.cli.output import BROKEN, INTERRUPTED, exit_code, make_console
from dither.cli.register import register
from dither.cli.report import report
from dither.cli.verify import verify

_CODES = (
    "Exit codes: 0 done; 1 refused or failed; 2 wrong command line; 3 a certificate is intact but its key unknown; "
    "4 the budget cannot pay; 5 the answer is unavailable and the charge stays; 70 a fault of dither; 130 interrupted."
)
app = typer.Typer(
    name="dither",
    help="A differential-privacy curator: questions about the population, proofs about each person.",
    epilog=_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # main() turns every exception into a message; locals can hold exact values
    pretty_exceptions_show_locals=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dither {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the command itself."""


_COMMANDS = (
    (demo, "dither demo"),
    (register, "dither register clinic.yaml --dev"),
    (ask.preview, "dither preview clinic.yaml 'SELECT COUNT(*) FROM visits' --epsilon 0.1"),
    (ask.sql, "dither sql clinic.yaml 'SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward' --epsilon 0.5"),
    (ask.reissue, "dither reissue clinic.yaml 7 'SELECT ...' --epsilon 0.1 --note 'the tariff had changed'"),
    (ledger.history, "dither history clinic.yaml"),
    (verify, "dither verify certificate.json --key clinic.pub"),
    (interpret, "dither interpret --epsilon 1 --delta 1e-6 --unit person"),
    (report, "dither report clinic.yaml --to report.html"),
    (account, "dither account '10000 * poisson(0.01, gaussian(1.1))' --delta 1e-5"),
    (bench.bench, "dither bench noise"),
)
for command, example in _COMMANDS:
    app.command(epilog=f"Example: {example}")(command)
for group in (budget.app, ledger.app, catalog.app, registry.app, local.app, audit.app):
    app.add_typer(group)


def main() -> None:
    """Entry point: whatever goes wrong is one message and an exit code, never a traceback."""
    try:
        app()
    except DitherError as error:
        _end(type(error).__name__, str(error), exit_code(error))
    except KeyboardInterrupt:
        _end("interrupted", "a question that was charged is answered and stored: ask it again, for free", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output went away: nothing to say, and nowhere to say it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _end("error", f"{place}{error.strerror or type(error).__name__}", 1)
    except Exception as error:  # its message may quote a row, so only its kind and place are told
        _end("fault of dither", f"{type(error).__name__} at {_place(error)}; please report it", BROKEN)


def _place(error: BaseException) -> str:
    """The last line of dither's own code on the way to an error; nothing of what it worked on."""
    home = Path(__file__).parents[1]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(home)]
    return f"{Path(frames[-1].filename).relative_to(home)}:{frames[-1].lineno}" if frames else "an unknown place"


def _end(kind: str, message: str, code: int) -> NoReturn:
    console = make_console(stderr=True)
    console.print(kind, style="bold red", end=": ", highlight=False)
    console.print(message, markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)
