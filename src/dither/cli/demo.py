"""`dither demo`: a dozen questions to an invented clinic, from registration to a certificate, in
under a minute."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax

from dither import connect, steward
from dither.answer.preview import Preview
from dither.answer.result import Result
from dither.canonical import decimal_text
from dither.catalog.explain import guarantee
from dither.cli.clinic import CATALOG, write_clinic
from dither.cli.demo_report import DemoAnswer, count_covered, demo_report, list_points, list_truths
from dither.cli.output import AsJson, make_console, print_json
from dither.commands import write_command
from dither.errors import BudgetError
from dither.figures import write_figure
from dither.publish import seal
from dither.publish.interpret import interpret_pot
from dither.publish.shown_table import ShownTable
from dither.session import Connection
from dither.state import State

__all__ = ["CATALOG", "demo"]
PRICE = Fraction(6, 1000)
CAP = "0.08"
CEILING = "0.1"
PURPOSE = {
    "question": "How busy are the wards, what do they cost, and who comes?",
    "population": "the invented residents of one county",
    "recipient": "whoever runs this demonstration",
}
QUESTIONS: tuple[tuple[str, str, str], ...] = (
    (
        "How busy is each ward?",
        "Most visits",
        "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward",
    ),
    (
        "What does each ward cost?",
        "Highest cost",
        "SELECT ward, SUM(cost) AS cost FROM visits GROUP BY ward",
    ),
    (
        "What does one visit cost?",
        "Highest average",
        "SELECT ward, AVG(cost) AS cost FROM visits GROUP BY ward",
    ),
    (
        "Where do patients live?",
        "Most patients",
        "SELECT county, COUNT(*) AS patients FROM patients GROUP BY county",
    ),
    (
        "How old are they, by decade?",
        "Most patients in decade",
        "SELECT age // 10 AS decade, COUNT(*) AS patients FROM patients WHERE age < 100 GROUP BY "
        "decade",
    ),
    (
        "Which share smokes?",
        "Largest share of smokers",
        "SELECT county, COUNT(*) FILTER (WHERE smoker) / COUNT(smoker) AS smokers FROM patients "
        "GROUP BY county",
    ),
    (
        "When do they come?",
        "Most visits in month",
        "SELECT MONTH(day) AS month, COUNT(*) AS visits FROM visits GROUP BY month",
    ),
    (
        "How long do they wait?",
        "Longest median wait, in minutes",
        "SELECT ward, MEDIAN(wait) AS minutes FROM visits GROUP BY ward",
    ),
    (
        "Which share is urgent?",
        "Largest share of urgent visits",
        "SELECT ward, COUNT(*) FILTER (WHERE urgent) / COUNT(*) AS urgent FROM visits GROUP BY "
        "ward",
    ),
    (
        "Which drugs are prescribed most?",
        "Most prescriptions",
        "SELECT drug, COUNT(*) AS prescriptions FROM prescriptions GROUP BY drug ORDER BY "
        "prescriptions DESC LIMIT 10",
    ),
    (
        "Which counties fill the wards?",
        "Most visits",
        "SELECT county, COUNT(*) AS visits FROM visits JOIN patients USING (patient_id) GROUP BY "
        "county",
    ),
    (
        "How many people meet cardiology, by smoking?",
        "Most people, by whether they smoke",
        "SELECT smoker, COUNT(DISTINCT patient_id) AS people FROM visits JOIN patients USING "
        "(patient_id) WHERE ward = 'cardiology' GROUP BY smoker",
    ),
)


def demo(
    people: Annotated[
        int, typer.Option(help="How many patients to invent.", min=10, max=1_000_000)
    ] = 50_000,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="Only write clinic.yaml and its CSV files into this folder, to try things on."
        ),
    ] = None,
    report: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("report.html"),
    as_json: AsJson = False,
) -> None:
    """Register an invented clinic, ask a dozen questions, drain the budget, be refused, and write
    report.html."""
    console = make_console(stderr=as_json)
    if keep is not None:
        write_clinic(keep, people)
        console.print(
            f"wrote {keep / 'clinic.yaml'} and its CSV files; next: "
            f"{write_command('register', keep / 'clinic.yaml', '--dev')}",
            highlight=False,
            soft_wrap=True,
        )
        if as_json:
            print_json({"wrote": str(keep / "clinic.yaml")})
        return
    with tempfile.TemporaryDirectory(prefix="dither-demo-") as folder:
        file = Path(folder) / "clinic" / "clinic.yaml"
        state = State(file.with_suffix(".dither"))
        try:
            _Walk(console, file, state).run(people, report)
        finally:
            if state.id_file.exists():
                steward.forget_head(state)
    if as_json:
        print_json({"wrote": str(report)})


@dataclass
class _Walk:
    console: Console
    file: Path
    state: State
    answers: list[DemoAnswer] = field(default_factory=list)

    def run(self, people: int, report: Path) -> None:
        """Play the whole demonstration, and write its report."""
        con = self._register(people)
        self._ask_first(con)
        self._ask_dozen(con)
        refusal = self._drain_pot(con)
        certificate = self.answers[0].result.certificate(self.file.parent / "certificate.json")
        self.console.rule("6. anyone can check it")
        key = certificate["header"]["public_key"]
        verdict = seal.check((self.file.parent / "certificate.json").read_text(), [key])
        self.console.print(
            f"certificate of the first answer: {'intact' if verdict.intact else 'CHANGED'}, key "
            f"{key}"
        )
        self.console.print(str(steward.verify_ledger(self.state)), highlight=False)
        with _show_progress(
            self.console, "finding where the error comes from, and writing the page"
        ):
            text = demo_report(
                con, self.state, self.file, self.answers, refusal, certificate, people
            )
            report.write_text(text, encoding="utf-8")
        self.console.print(
            f"wrote {report}: open it in a browser", style="bold", highlight=False, soft_wrap=True
        )

    def _register(self, people: int) -> Connection:
        """Invent and register the clinic, and open its pot; return a connection."""
        self.console.rule("1. the steward declares who is protected, and registers")
        with _show_progress(self.console, f"inventing {people:,} patients"):
            write_clinic(self.file.parent, people)
        with _show_progress(self.console, "registering"):
            done = steward.register(self.file, state=self.state, dev=True)
        self.console.print(guarantee(done.catalog), highlight=False, markup=False)
        self.console.rule("2. the steward opens a budget: what may ever be learned")
        steward.open_pot(
            self.state,
            done.catalog,
            "total",
            rule="zcdp",
            rho=CAP,
            ceiling=CEILING,
            delta_conversion="1e-6",
            delta_selection="1e-7",
            purpose=PURPOSE,
        )
        con = connect(self.file, state=self.state.root)
        self.console.print(con.budget())
        for line in interpret_pot(con.budget().pots[0]).lines()[1:4]:
            self.console.print(f"  {line}", highlight=False)
        return con

    def _ask_first(self, con: Connection) -> None:
        """Show the preview, the answer and the truth of the first question."""
        title, top_label, sql = QUESTIONS[0]
        self.console.rule("3. the analyst sees price and error first; no data is read")
        self.console.print(Syntax(sql, "sql", background_color="default", word_wrap=True))
        self.console.print(con.preview(sql, rho=PRICE))
        self.console.rule("4. the analyst asks, and pays")
        answer = self._ask(con, title, top_label, sql)
        self.console.print(answer.result)
        self.console.print("the exact answer, which only a dev dataset can show:")
        for label, value in answer.truth.items():
            self.console.print(f"  {label:<12}{value:>10,.0f}", highlight=False)

    def _ask_dozen(self, con: Connection) -> None:
        """Ask the other questions, and print a table of answers beside the truth."""
        self.console.rule("5. a dozen questions, beside the truth")
        with _show_progress(self.console, "asking") as say:
            for title, top_label, sql in QUESTIONS[1:]:
                say(title)
                self._ask(con, title, top_label, sql)
        heads = ("question", "answers", "preview: ± at 95%", "intervals that hold the truth")
        rows = []
        for answer in self.answers:
            inside, intervals = count_covered(answer)
            first = answer.preview.columns[0]
            half_width = "by group size"
            if first.half_width is not None and not first.needs_group_size:
                half_width = write_figure(first.half_width)
            held_truth = f"{inside} of {intervals}" if intervals else "no bounds"
            rows.append((answer.title, str(answer.result.table.num_rows), half_width, held_truth))
        self.console.print(ShownTable(heads, tuple(rows), frozenset({1, 2, 3})))

    def _ask(self, con: Connection, title: str, top_label: str, sql: str) -> DemoAnswer:
        """Ask one question, and note its preview, answer and truth."""
        preview: Preview = con.preview(sql, rho=PRICE)
        result = con.sql(sql, rho=PRICE)
        assert isinstance(result, Result)
        truth = list_truths(self.state, result)
        answer = DemoAnswer(
            title, top_label, sql, preview, result, truth, list_points(result, truth)
        )
        self.answers.append(answer)
        return answer

    def _drain_pot(self, con: Connection) -> str:
        """Ask until the pot cannot pay; the refusal is free."""
        title, _, sql = QUESTIONS[0]
        for _ in range(100):
            try:
                con.sql(sql, rho=PRICE, fresh=True)
            except BudgetError as error:
                self.console.print(
                    f"asking again, for a fresh answer: {error}", highlight=False, markup=False
                )
                self.console.print(con.budget())
                price = decimal_text(Fraction(PRICE))
                return f"Asked once more ({title.lower()}) for rho {price}: {error}"
        raise AssertionError("the budget never ended")


@contextmanager
def _show_progress(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a text; yield the function that adds to the text."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(text)

        def say(more: str) -> None:
            progress.update(task, description=f"{text}: {more}")

        yield say
