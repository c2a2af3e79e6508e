"""`dither audit`: try to break a promise, ours or anyone's. Never reads a registered dataset.

dither audit mechanisms --report audit.html
dither audit zoo --quick
dither audit function mine.py:answer --first '[1, 0]' --second '[0, 0]' --epsilon 1
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dither import connect, steward
from dither.audit.accountant import audit_accountant
from dither.audit.alpha_budget import next_share
from dither.audit.black_box import test
from dither.audit.report import Section, finite, write
from dither.audit.shipped_mechanisms import Subject, subjects
from dither.audit.system import audit_system
from dither.audit.verdict import LIMITS, Budget, Verdict
from dither.audit.zoo import ALPHA, BUGS, Bug, Catch
from dither.cli.audit_leakage import leakage
from dither.cli.output import AsJson, make_console, print_json
from dither.errors import ParameterError
from dither.plan.algebra import Query
from dither.privacy.noise.source import fresh_bytes
from dither.state import State
from dither.strict_json import read_document

app = typer.Typer(
    name="audit",
    help="Try to break a promise: ours, or a function of your own.",
    no_args_is_help=True,
)
Report = Annotated[
    Path | None, typer.Option(help="Write this HTML file, and the same as JSON beside it.")
]
Alpha = Annotated[float, typer.Option(help="Rate of false alarms of each test.")]
Year = Annotated[
    Path | None,
    typer.Option(help="A file that counts runs: all runs of a year share alpha (nightly audits)."),
]


@app.callback()
def _group() -> None:
    """Audits."""


app.command()(leakage)


@app.command()
def mechanisms(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which mechanisms; all by default.")
    ] = None,
    runs: Annotated[
        int, typer.Option(help="Runs on each of two neighbours, where many can be drawn at once.")
    ] = 200_000,
    slow_runs: Annotated[int, typer.Option(help="Runs where each is one call.")] = 2_000,
    alpha: Alpha = ALPHA,
    year: Year = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Test every shipped mechanism against its whole claimed curve. Exit status 1 if one is
    refuted."""
    console = make_console(stderr=as_json)
    by_name = {subject.name: subject for subject in subjects()}
    for name in names or []:
        if name not in by_name:
            raise ParameterError(f"no mechanism {name!r}: choose among {', '.join(by_name)}")
    chosen = [by_name[name] for name in names] if names else list(by_name.values())
    if year is not None:
        alpha = next_share(year, alpha * len(chosen)) / len(
            chosen
        )  # one share of the year for all of them
    verdicts = [
        subject.audit(runs if subject.vectorised else slow_runs, alpha)
        for subject in track(chosen, description="auditing", console=console, transient=True)
    ]
    table = Table(
        "mechanism",
        "claimed",
        "delta",
        "shown",
        "ceiling",
        "runs",
        "verdict",
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.columns[0].no_wrap = True
    for verdict in verdicts:
        table.add_row(*_make_row(verdict))
    console.print(table)
    console.print(
        "epsilon claimed, epsilon shown at least, and the most that so many runs could show",
        style="dim",
    )
    _show_limits(console)
    if report is not None:
        head = (
            "mechanism",
            "claimed epsilon",
            "delta",
            "shown at least",
            "ceiling",
            "runs",
            "verdict",
        )
        text = (
            f"A mechanism that keeps its claim is accused with probability at most {alpha:g} for "
            f"each test.",
        )
        rows = tuple(_make_row(verdict) for verdict in verdicts)
        _say_written(
            console,
            write(
                report,
                "Audit of the mechanisms",
                [Section("Mechanisms", text, head, rows, tuple(verdicts))],
            ),
        )
    accused = [verdict.name for verdict in verdicts if verdict.violated]
    console.print(_summarise(accused, len(verdicts), alpha), soft_wrap=True)
    if as_json:
        documents = [verdict.to_json() for verdict in verdicts]
        print_json(finite({"accused": accused, "alpha": alpha, "verdicts": documents}))
    raise typer.Exit(1 if accused else 0)


@app.command()
def zoo(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which bugs; all, and all of ours, by default.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer runs of our own mechanisms; under 50 seconds.")
    ] = False,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Catch every planted bug, accuse none of our own mechanisms. Exit status 1 if a bug escapes or
    ours is accused."""
    console = make_console(stderr=as_json)
    for name in names or []:
        if name not in BUGS:
            raise ParameterError(f"no bug {name!r}: choose among {', '.join(BUGS)}")
    chosen = [BUGS[name] for name in names] if names else list(BUGS.values())
    catches = [
        (bug, bug.catch())
        for bug in track(chosen, description="catching", console=console, transient=True)
    ]
    _show_catches(console, catches, why=bool(names))
    fast, slow = (20_000, 300) if quick else (200_000, 2_000)
    own_mechanisms: list[Subject] = [] if names else subjects()
    verdicts = [
        subject.audit(fast if subject.vectorised else slow, ALPHA)
        for subject in track(own_mechanisms, description="our own", console=console, transient=True)
    ]
    accused = [verdict.name for verdict in verdicts if verdict.violated]
    escaped = [bug.name for bug, catch in catches if not catch.caught]
    _show_limits(console)
    if report is not None:
        rows = tuple(_make_catch_row(bug, catch) for bug, catch in catches)
        catch_verdicts = tuple(catch.verdict for _, catch in catches if catch.verdict is not None)
        sections = [
            Section(
                "Planted bugs",
                ("Every bug keeps its real parameters.",),
                _CATCH_HEAD,
                rows,
                catch_verdicts,
            ),
            Section(
                "Our own mechanisms",
                (_summarise(accused, len(verdicts), ALPHA),),
                verdicts=tuple(verdicts),
            ),
        ]
        _say_written(console, write(report, "Audit zoo", sections))
    line = f"zoo: {len(catches) - len(escaped)} of {len(catches)} bugs caught"
    line += f" (escaped: {', '.join(escaped)})" if escaped else ""
    console.print(
        f"{line}; {_summarise(accused, len(verdicts), ALPHA)}" if own_mechanisms else line,
        soft_wrap=True,
    )
    if as_json:
        bugs = [
            dict(zip(_CATCH_HEAD, _make_catch_row(bug, catch), strict=True))
            for bug, catch in catches
        ]
        own_documents = [verdict.to_json() for verdict in verdicts]
        print_json(
            finite(
                {"escaped": escaped, "accused": accused, "bugs": bugs, "verdicts": own_documents}
            )
        )
    raise typer.Exit(1 if accused or escaped else 0)


@app.command()
def function(
    where: Annotated[
        str, typer.Argument(help="file.py:name or module:name; takes data, or data and size.")
    ],
    first: Annotated[str, typer.Option(help="The first input, as JSON.")],
    second: Annotated[str, typer.Option(help="Its neighbour, as JSON.")],
    epsilon: Annotated[float, typer.Option(help="The claim.")],
    delta: Annotated[float, typer.Option(help="The claim's delta.")] = 0.0,
    runs: Annotated[int, typer.Option(help="Runs on each input, fixed in advance.")] = 100_000,
    alpha: Alpha = 1e-6,
    year: Year = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Test a function of your own on two neighbours. Exit status 1 if its claim is refuted."""
    console = make_console(stderr=as_json)
    mechanism = _load_function(where)
    pair = (
        read_document(first, "the first input", allow_floats=True),
        read_document(second, "the second input", allow_floats=True),
    )
    spend = Budget(runs, alpha if year is None else next_share(year, alpha))
    verdict = test(mechanism, *pair, epsilon, delta, budget=spend, name=where, progress=True)
    console.print(str(verdict), soft_wrap=True, highlight=False, markup=False)
    _show_limits(console)
    if report is not None:
        sentence = f"inputs {first} and {second}"
        _say_written(
            console,
            write(
                report, f"Audit of {where}", [Section("Verdict", (sentence,), verdicts=(verdict,))]
            ),
        )
    if as_json:
        print_json(finite(verdict.to_json()))
    raise typer.Exit(1 if verdict.violated else 0)


@app.command()
def accountant(
    compositions: Annotated[int, typer.Option(help="How many random compositions.")] = 20,
    runs: Annotated[int, typer.Option(help="Draws of the privacy loss on each side.")] = 200_000,
    alpha: Alpha = 1e-6,
    as_json: AsJson = False,
) -> None:
    """Draw the loss of random compositions and compare with what the accountant says. Exit status 1
    if refuted."""
    console = make_console(stderr=as_json)
    claims = audit_accountant(compositions, runs=runs, alpha=alpha)
    table = Table("composition", "epsilon", "accountant's delta", "shown at least")
    for claim in claims:
        table.add_row(
            repr(claim.loss)[:70],
            f"{claim.epsilon:.4g}",
            f"{claim.claimed:.4g}",
            f"{claim.shown:.4g}",
        )
    console.print(table)
    refuted = sum(claim.refuted for claim in claims)
    console.print(
        f"{refuted} of {len(claims)} claims refuted; false alarms at most {alpha:g}", soft_wrap=True
    )
    if as_json:
        documents = [
            {
                "loss": claim.loss.to_json(),
                "epsilon": claim.epsilon,
                "claimed_delta": claim.claimed,
                "shown_delta": claim.shown,
                "refuted": claim.refuted,
            }
            for claim in claims
        ]
        print_json(finite({"refuted": refuted, "alpha": alpha, "claims": documents}))
    raise typer.Exit(1 if refuted else 0)


@app.command()
def system(
    minutes: Annotated[float, typer.Option(help="How long.")] = 1.0,
    alpha: Alpha = 1e-6,
    year: Year = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """SQL to release on tiny neighbouring databases invented here. Exit status 1 if anything
    depends on one person."""
    console = make_console(stderr=as_json)
    alpha_share = alpha if year is None else next_share(year, alpha)
    with tempfile.TemporaryDirectory(prefix="dither-audit-") as folder:
        findings = audit_system(_Registrar(Path(folder)), seconds=60 * minutes, alpha=alpha_share)
    lines = [
        f"{findings.pairs:,} pairs of neighbours, {sum(findings.answered.values()):,} questions "
        f"answered on both, "
        f"{sum(findings.refused.values()):,} refused alike on both",
        "exact integers compared with their claims: "
        + (
            ", ".join(f"{kind} {count:,}" for kind, count in findings.measured.most_common())
            or "none"
        ),
        f"{findings.row_pairs:,} more pairs whose plans' rows were compared (symmetric difference)",
        f"{len(findings.verdicts)} black-box tests of the whole path, false alarms at most "
        f"{alpha_share:g} together",
        f"times of the two sides: rank test p = {findings.slower:.3g} "
        "(shown, not judged: embedded mode promises nothing)",
        *findings.faults[:20],
    ]
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    _show_limits(console)
    if report is not None:
        rows = tuple((kind, str(count)) for kind, count in findings.answered.most_common())
        refused = tuple((words, str(count)) for words, count in findings.refused.most_common(30))
        sections = [
            Section(
                "What was asked",
                tuple(lines),
                ("kind", "questions"),
                rows,
                tuple(findings.verdicts[:20]),
            ),
            Section("Refused alike on both sides", (), ("words", "times"), refused),
        ]
        _say_written(console, write(report, "Audit of the whole path", sections))
    state = "no fault" if not findings.faults else f"{len(findings.faults)} FAULTS"
    console.print(f"system: {state} in {findings.pairs:,} pairs", soft_wrap=True)
    if as_json:
        print_json(
            {
                "pairs": findings.pairs,
                "row_pairs": findings.row_pairs,
                "answered": dict(findings.answered),
                "measured": dict(findings.measured),
                "refused": dict(findings.refused),
                "tests": len(findings.verdicts),
                "alpha": alpha_share,
                "faults": list(findings.faults),
            }
        )
    raise typer.Exit(1 if findings.faults else 0)


class _Registrar:
    """Registers invented files as a dev lineage of their own, with a pot that is never empty.

    All share one installation key: which rows of a person are kept depends on it, and neighbours
    are two states of *one* installation.
    """

    def __init__(self, folder: Path, key: bytes | None = None) -> None:
        self._folder = folder
        self._count = 0
        self._key = key or fresh_bytes(32)

    def __call__(self, catalog: str, files: dict[str, str]) -> _DevDataset:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir(parents=True)
        for name, text in {"audit.yaml": catalog, **files}.items():
            (folder / name).write_text(text, encoding="utf-8")
        state = State(folder / "audit.dither")
        state.root.mkdir(mode=0o700)
        state.key_file.write_bytes(self._key)
        state.key_file.chmod(0o600)
        return _DevDataset(folder / "audit.yaml")


class _DevDataset:
    def __init__(self, file: Path) -> None:
        self._state = State(file.with_suffix(".dither"))
        done = steward.register(file, state=self._state, dev=True)
        purpose = dict.fromkeys(
            ("question", "population", "recipient"), "Does the software keep its promise?"
        )
        terms: Any = {
            "epsilon": "1000000",
            "ceiling": "1000000",
            "delta": "1/1000",
            "delta_per_question": "1/1000000000",
        }
        steward.open_pot(
            self._state, done.catalog, "total", rule="approx", purpose=purpose, **terms
        )
        self.connection = connect(file, state=self._state.root)
        self._catalog = done.catalog

    def measured(self, query: Query) -> Any:
        """Exact integers, which a dev lineage may show."""
        return steward.measured(self._state, query, self._catalog)

    def close(self) -> None:
        """Forget everything."""
        steward.forget_head(self._state)
        shutil.rmtree(self._state.root.parent, ignore_errors=True)


def _make_row(verdict: Verdict) -> tuple[str, ...]:
    numbers = (
        f"{verdict.epsilon:.4g}",
        f"{verdict.delta:.3g}",
        f"{verdict.epsilon_lower:.4g}",
        f"{verdict.ceiling:.4g}",
    )
    return (verdict.name, *numbers, f"{verdict.runs:,}", verdict.outcome)


_CATCH_HEAD = (
    "bug",
    "what",
    "origin",
    "claim",
    "detector",
    "runs",
    "alpha",
    "power",
    "black box needs",
    "caught",
    "evidence",
)


def _make_catch_row(bug: Bug, catch: Catch) -> tuple[str, ...]:
    drawn = (
        (f"{catch.runs:,}", f"{catch.alpha:g}", _format_power(catch.power))
        if catch.runs
        else ("-", "-", "certain")
    )
    return (
        bug.name,
        bug.what,
        bug.origin,
        bug.claim,
        bug.detector,
        *drawn,
        catch.needs,
        "yes" if catch.caught else "NO",
        catch.evidence,
    )


def _format_power(power: float) -> str:
    """Four digits, or as many nines as there are.

    >>> _format_power(0.99312), _format_power(1 - 2e-11), _format_power(1.0)
    ('0.9931', '0.99999999998', '1.0000')
    """
    return (
        f"{power:.4f}"
        if power == 1 or power < 0.9999
        else f"{math.floor(power * 1e11) / 1e11:.11f}"
    )


def _show_catches(console: Console, catches: list[tuple[Bug, Catch]], *, why: bool) -> None:
    """A table where there is room, else a few lines for each bug; with `why`, what is wrong and how
    it shows."""
    names = ("bug", "detector", "claim", "runs", "alpha", "power", "black box needs", "caught")
    table = Table(*names)
    for bug, catch in catches:
        row = dict(zip(_CATCH_HEAD, _make_catch_row(bug, catch), strict=True))
        table.add_row(*(row[name] for name in names))
        if why or console.width < 140:
            runs = (
                f"{catch.runs:,} runs a side, alpha {row['alpha']}, power {row['power']}"
                if catch.runs
                else "certain"
            )
            state = "caught" if catch.caught else "NOT CAUGHT"
            line = f"{bug.name}: {state} by {bug.detector} ({runs}); claim {bug.claim}"
            needs = "" if catch.runs else f"; a black box would need: {catch.needs}"
            console.print(line + needs, soft_wrap=True, highlight=False, markup=False)
        if why:
            explanation = f"  {bug.what} ({bug.origin}). {catch.evidence}"
            console.print(explanation, soft_wrap=True, highlight=False, markup=False)
    if not why and console.width >= 140:
        console.print(table)


def _summarise(accused: list[str], tested: int, alpha: float) -> str:
    rate = f"chance of any false alarm at most {min(1.0, alpha * tested):.2g}"
    named = f" (accused: {', '.join(accused)})" if accused else ""
    return f"{tested - len(accused)} of {tested} of our mechanisms not accused{named}, {rate}"


def _show_limits(console: Console) -> None:
    console.print(LIMITS[0], style="dim", soft_wrap=True)


def _say_written(console: Console, files: tuple[Path, Path]) -> None:
    console.print(f"wrote {files[0]} and {files[1]}", soft_wrap=True)


def _load_function(where: str) -> Callable[..., Any]:
    """The function at file.py:name or module:name."""
    module_path, _, name = where.rpartition(":")
    if not module_path:
        raise ParameterError(f"name a function as file.py:name or module:name, got {where!r}")
    if module_path.endswith(".py"):
        spec = importlib.util.spec_from_file_location("audited", module_path)
        if spec is None or spec.loader is None or not Path(module_path).exists():
            raise ParameterError(f"there is no file {module_path}")
        module = importlib.util.module_from_spec(spec)
        sys.modules["audited"] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(module_path)
    attribute = getattr(module, name, None)
    if not callable(attribute):
        raise ParameterError(f"{module_path} has no function {name}")
    mechanism: Callable[..., Any] = attribute
    return mechanism
