"""The clinic of the SQL reference behind a connection: registered, with pots, ready to be asked."""

from __future__ import annotations

import csv
import datetime
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

from dither import connect, steward
from dither.answer.asked import read_price, read_question
from dither.answer.earlier_rules import has_newer_laws
from dither.catalog.file.load import load
from dither.plan.algebra import Cells, Keys, Quantiles
from dither.privacy.kernel.families import FIRST_LAWS
from dither.privacy.kernel.randomise import dense
from dither.state import State
from tests.datasets import clinic, clinic_sql

PURPOSE = {
    "question": "How busy are the wards, and what do they cost?",
    "population": "all residents of the county",
    "recipient": "the board of the clinic",
}


def connection(folder: Path, people: int = 40, *, rows: Any = None, **terms: Any) -> Any:
    """A connection to a newly registered clinic with one large pot; an approximate one unless
    `terms` say otherwise."""
    (folder / "data").mkdir(parents=True)
    file = folder / "clinic.yaml"
    file.write_text(clinic_sql.CATALOG)
    for name, table in (clinic_sql.raws(people) if rows is None else rows).items():
        names = [column.name for column in clinic_sql.catalog().table(name).columns]
        with (folder / "data" / f"{name}.csv").open("w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(names)
            writer.writerows(
                [["" if row[each] is None else row[each] for each in names] for row in table]
            )
    place = State.beside(file)
    steward.register(file, state=place)
    terms = (
        {"rule": "approx", "delta": "1e-2", "delta_per_question": "1e-6", **terms}
        if "rule" not in terms
        else terms
    )
    told = {"epsilon": "100000", "ceiling": "100000", **terms}
    told = {name: value for name, value in told.items() if value is not None}
    steward.open_pot(place, clinic_sql.catalog(), "total", purpose=PURPOSE, **told)
    return connect(file)


def connect_small_clinic(folder: Path, neighbours: str = "add_remove", rows: int = 3) -> Any:
    """A connection to forty people with at most `rows` visits each, and a pure pot."""
    file = folder / "clinic.yaml"
    text = clinic.CATALOG.replace("add_remove", neighbours)
    file.write_text(text.replace("rows_per_unit: 3", f"rows_per_unit: {rows}"))
    clinic.write_csv(folder / "visits.csv", [clinic.row(str(i), str(i)) for i in range(40)])
    steward.register(file)
    state = State.beside(file)
    steward.open_pot(state, load(file), "total", epsilon=99, ceiling=99, purpose=PURPOSE)
    return connect(file)


def sell_by_the_first_laws(con: Any, sql: str, epsilon: Any) -> Any:
    """The release of an answer as release 0.1 sold it: none but its own families are offered."""
    question = read_question(sql, epsilon=epsilon)
    bound = con._offers.bind(question)
    price = read_price(question, bound.dialect)
    offered = con._offers.offer(bound, question, price, con._view(), FIRST_LAWS)
    assert not has_newer_laws(offered.priced.request)
    return con._kernel.answer(offered.priced.request)


def few_rows(people: int = 40) -> dict[str, list[dict[str, Any]]]:
    """The generated rows less those past a limit: which of them are kept depends on a secret
    key."""
    rows = clinic_sql.raws(people)
    kept: list[dict[str, Any]] = []
    owners = Counter()  # type: ignore[var-annotated]
    for visit in rows["visits"]:
        owners[visit["patient_id"]] += 1
        if owners[visit["patient_id"]] <= 12:
            kept.append(visit)
    names = {visit["visit_id"] for visit in kept}
    return {
        **rows,
        "visits": kept,
        "prescriptions": [row for row in rows["prescriptions"] if row["visit_id"] in names],
    }


def exact_values(con: Any, priced: Any) -> tuple[Any, ...]:
    """What would be released if there were no noise: tests alone may look."""
    measurer = con._kernel.prepare(priced)
    try:
        found = con._kernel.measure_with_retries(priced, measurer)
    finally:
        measurer.close()
    by_query = {each.step.query: exact for each, exact in zip(priced.steps, found, strict=True)}
    selected = {
        query.plan: sorted(
            exact, key=lambda labels: [(label is None, label or "") for label in labels]
        )
        for query, exact in by_query.items()
        if isinstance(query, Keys)
    }
    values: list[Any] = []
    for each, exact in zip(priced.steps, found, strict=True):
        query = each.step.query
        if isinstance(query, Keys):
            values.append(tuple(selected[query.plan]))
        elif isinstance(query, Cells):
            keys = selected.get(query.plan, [()]) if each.unlisted else [()]
            shape = (each.cells, len(query.columns))
            cells = [dense(exact[key], shape) if each.unlisted else exact[key] for key in keys]
            values.append(tuple(int(number) for block in cells for number in block.ravel()))
        else:
            assert isinstance(query, Quantiles)
            values.append(
                _quantiles(each, exact, selected.get(query.plan, [()]) if each.unlisted else [()])
            )
    return tuple(values)


def _quantiles(each: Any, exact: Any, keys: list[Any]) -> tuple[int, ...]:
    found = []
    for key in keys:
        codes = exact.get(key, {})
        for code in range(each.cells):
            places, counts = codes.get(code, ([], []))
            rows = [
                each.points.value(p)
                for p, c in zip(places, counts, strict=True)
                for _ in range(int(c))
            ]
            found += [
                rows[max(0, -(-share.numerator * len(rows) // share.denominator) - 1)]
                if rows
                else 0
                for share in each.step.query.shares
                * (each.step.query.width // len(each.step.query.shares))
            ]
    return tuple(int(value) for value in found)


def plain(value: Any) -> Any:
    """A value of the oracle as an answer shows it."""
    if isinstance(value, Fraction):
        return float(value)
    if (
        isinstance(value, bool)
        or value is None
        or isinstance(value, (datetime.date, datetime.datetime))
    ):
        return value
    return float(value) if isinstance(value, int) else value
