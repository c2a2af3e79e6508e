"""`dither demo`: the whole way of one question, on a small invented clinic, in a few seconds."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.syntax import Syntax

from dither import BudgetError, ParameterError, connect, steward
from dither.catalog import guarantee
from dither.plan.algebra import Cells
from dither.privacy import noise
from dither.session import Connection
from dither.state import State

CATALOG = """\
dither: 1
dataset: clinic
lineage: clinic-demo
population: invented-residents
neighbours: add_remove
unit: {kind: person}
people:
  patient_id: {protected: true}
  doctor_id: {protected: false, because: staff listed on the public web page}
source: {engine: csv, location: .}
tables:
  visits:
    kind: private
    from: visits.csv
    owner: {column: patient_id}
    unique: [[visit_id]]
    rows_per_unit: 5
    max_rows: 100000
    columns:
      visit_id:   {type: id}
      patient_id: {type: id}
      doctor_id:  {type: id}
      ward:       {type: category, values: [surgery, cardiology, maternity], other: keep, nulls: drop}
      age:        {type: integer, bounds: [0, 110], nulls: drop, provenance: public life tables}
      cost:       {type: decimal, bounds: [0, 500], resolution: 0.01, nulls: keep, provenance: tariff 2026}
"""
QUESTION = "SELECT ward, COUNT(*) AS visits, SUM(cost) AS cost FROM visits WHERE age >= 18 GROUP BY ward"


def invented_rows(people: int) -> str:
    """A CSV of invented visits; a few values are broken on purpose, as in every real file."""
    draw = noise.uniform_below
    lines = ["visit_id,patient_id,doctor_id,ward,age,cost"]
    wards = ["surgery", "cardiology", "maternity", "dermatology"]
    for person in range(people):
        age = draw(100)
        for _ in range(1 + noise.geometric(1)):
            cost = "n/a" if noise.bernoulli(0.01) else f"{draw(60000) / 100:.2f}"
            lines.append(f"v{len(lines)},p{person},d{draw(20)},{wards[draw(4)]},{age},{cost}")
    return "\n".join(lines) + "\n"


def demo(
    people: Annotated[int, typer.Option(help="How many patients to invent.", min=10, max=100_000)] = 2000,
    keep: Annotated[
        Path | None, typer.Option(help="Only write clinic.yaml and visits.csv into this folder, to try things on.")
    ] = None,
) -> None:
    """Register an invented clinic, open a budget, preview a question, ask it, and check the ledger."""
    console = Console()
    if keep is not None:
        _write_clinic(keep / "clinic.yaml", people)
        console.print(f"wrote {keep / 'clinic.yaml'} and {keep / 'visits.csv'}; next: dither register", highlight=False)
        return
    with tempfile.TemporaryDirectory(prefix="dither-demo-") as folder:
        file = Path(folder) / "clinic" / "clinic.yaml"
        file.parent.mkdir()
        place = State(file.with_suffix(".dither"))
        _walk(console, file, place, people)
        steward.forget_head(place)


def _write_clinic(file: Path, people: int) -> None:
    for path, text in ((file, CATALOG), (file.parent / "visits.csv", invented_rows(people))):
        if path.exists():
            raise ParameterError(f"{path} exists already: choose an empty folder")
        path.write_text(text)


def _walk(console: Console, file: Path, place: State, people: int) -> None:
    console.rule("1. the steward declares who is protected, and registers")
    _write_clinic(file, people)
    done = steward.register(file, state=place, dev=True)
    console.print(guarantee(done.catalog), highlight=False, markup=False)

    console.rule("2. the steward opens a pot: what may ever be learned")
    purpose = {
        "question": "How busy are the wards, and what do they cost?",
        "population": "the invented residents of one county",
        "recipient": "whoever runs this demonstration",
    }
    steward.open_pot(place, done.catalog, "total", epsilon="1", ceiling="2", purpose=purpose)
    con = connect(file, state=place.root)
    console.print(con.budget())

    console.rule("3. the analyst sees price and error first; no data is read")
    console.print(Syntax(QUESTION, "sql", background_color="default", word_wrap=True))
    console.print(con.preview(QUESTION, epsilon=0.5))

    console.rule("4. the analyst asks, and pays")
    console.print(con.sql(QUESTION, epsilon=0.5))
    console.print("the exact answer, which only a dev lineage can show:")
    _truth(console, con, place)

    console.rule("5. the budget holds")
    console.print(con.budget())
    try:
        con.sql(QUESTION, epsilon=0.6)
    except BudgetError as error:
        console.print(f"asking again for 0.6: {error}", highlight=False, markup=False)
    console.print(str(steward.verify_ledger(place)), highlight=False)


def _truth(console: Console, con: Connection, place: State) -> None:
    recipe = con.bind(QUESTION)
    counts, sums = (steward.truth(place, query, con.catalog) for query in recipe.queries if isinstance(query, Cells))
    for ward, (count,), (total,) in zip(("surgery", "cardiology", "maternity", "other"), counts, sums, strict=True):
        console.print(f"  {ward:<12}{count:>8,}{total / 100:>16,.2f}", highlight=False)
