"""`dither audit system`: the whole path from SQL to release, on databases invented here."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from dither import connect, steward
from dither.audit.alpha_budget import next_share
from dither.audit.report import Section, write
from dither.audit.system import audit_system
from dither.cli.audit_output import Alpha, Report, Year, say_written, show_limits
from dither.cli.output import AsJson, make_console, print_json
from dither.figures import write_bound
from dither.plan.algebra import Query
from dither.privacy.noise.source import fresh_bytes
from dither.state import State


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
        findings = audit_system(Registrar(Path(folder)), seconds=60 * minutes, alpha=alpha_share)
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
        f"{write_bound(alpha_share, up=True)} together",
        f"times of the two sides: rank test p = {write_bound(findings.slower)} "
        "(shown, not judged: embedded mode promises nothing)",
        *findings.faults[:20],
    ]
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    show_limits(console)
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
        say_written(console, write(report, "Audit of the whole path", sections))
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


class Registrar:
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
        """Register the files as a dev dataset, open a pot that is never empty, and connect."""
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
