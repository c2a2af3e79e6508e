"""Questions for the end-to-end audit: a small grammar of SQL over an invented clinic, and tiny
extreme databases.

Each entry of FORMS makes one kind of question. A kind that the binder does not know yet is refused,
for every database alike, and counted; it comes alive by itself when SQL learns it. To add a kind,
add a function to FORMS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dither.privacy.noise import uniform_below

CATALOG = """\
dither: 1
dataset: audit
lineage: audit
population: invented-people
neighbours: add_remove
unit: {kind: person}
people:
  person: {protected: true}
source: {engine: csv, location: .}
tables:
  patients:
    kind: private
    from: patients.csv
    owner: {column: person}
    unique: [[person]]
    rows_per_unit: 1
    max_rows: 1000
    columns:
      person: {type: id}
      sex:    {type: category, values: [f, m], other: drop, nulls: keep}
      age:    {type: integer, bounds: [0, 110], nulls: drop, provenance: life tables}
  visits:
    kind: private
    from: visits.csv
    owner: {references: patients, by: person}
    unique: [[visit]]
    rows_per_unit: 3
    max_rows: 1000
    columns:
      visit:  {type: id}
      person: {type: id}
      ward:   {type: category, values: [north, south], other: keep, nulls: keep}
      diag:   {type: category, values: undeclared, width: 4, nulls: keep}
      county: {type: category, values: {from: counties.county}, other: keep, nulls: keep}
      score:  {type: integer, bounds: [-5, 5], nulls: keep, provenance: form}
      cost:   {type: decimal, bounds: [0, 500], resolution: 0.01, nulls: keep, provenance: tariff}
      urgent: {type: boolean, nulls: keep}
  counties:
    kind: public
    from: counties.csv
    unique: [[county]]
    columns:
      county: {type: text, width: 8, nulls: drop}
      beds:   {type: integer, bounds: [0, 9000], nulls: keep, provenance: list}
"""
NEWCOMER = "victim"
PUBLIC = "county,beds\nash,10\nelm,\n"
NUMBERS = {"patients": ("age",), "visits": ("score", "cost")}
KEYS = {"patients": ("sex",), "visits": ("ward", "urgent", "county")}
WILD = ("", "-1e300", "nan", "inf", "7", "500", "499.995", "x" * 9)


def pick(options: Sequence[str]) -> str:
    return str(options[uniform_below(len(options))])


def _table() -> str:
    return pick(("patients", "visits"))


def _where(table: str) -> str:
    """Pick a WHERE clause for a table, or none."""
    column = pick(NUMBERS[table])
    some = (
        "",
        f" WHERE {column} >= 2",
        f" WHERE {column} BETWEEN 1 AND 4",
        f" WHERE {column} IS NULL",
        f" WHERE {pick(KEYS[table])} IS NOT NULL AND {column} <= 3",
    )
    return pick(some)


def _plain() -> str:
    table = _table()
    number = pick(NUMBERS[table])
    return f"SELECT COUNT(*) AS n, SUM({number}) AS s FROM {table}{_where(table)}"


def _grouped() -> str:
    """Write a question with counts or sums by one listed key."""
    table = _table()
    key = pick(KEYS[table])
    number = pick(NUMBERS[table])
    aggregates = pick(
        (f"SUM({number}) AS s", "COUNT(*) AS n", f"COUNT(*) AS n, SUM({number}) AS s")
    )
    return f"SELECT {key}, {aggregates} FROM {table}{_where(table)} GROUP BY {key}"


def _two_keys() -> str:
    return f"SELECT ward, urgent, COUNT(*) AS n FROM visits{_where('visits')} GROUP BY ward, urgent"


def _aggregates() -> str:
    """Write a question with one aggregate other than COUNT(*) and SUM."""
    table = _table()
    number = pick(NUMBERS[table])
    shape = pick(
        (
            "COUNT({})",
            "COUNT(DISTINCT {})",
            "AVG({})",
            "MIN({})",
            "MAX({})",
            "MEDIAN({})",
            "VAR_SAMP({})",
        )
    )
    return f"SELECT {shape.format(number)} AS a FROM {table}{_where(table)}"


def _people() -> str:
    return (
        f"SELECT ward, COUNT(DISTINCT person) AS people FROM visits{_where('visits')} GROUP BY ward"
    )


def _quantile() -> str:
    key = pick(("", "ward", "diag"))
    body = f"QUANTILE_CONT(cost, 0.5) AS q FROM visits{_where('visits')}"
    return f"SELECT {key}, {body} GROUP BY {key}" if key else f"SELECT {body}"


def _join() -> str:
    """Write a question over patients joined with their visits, grouped by a key of either."""
    aggregate = pick(("COUNT(*) AS n", "SUM(v.cost) AS s"))
    kind = pick(("JOIN", "LEFT JOIN"))
    key = pick(("p.sex", "v.diag"))
    return (
        f"SELECT {key}, {aggregate} FROM patients p {kind} visits v ON p.person = "
        f"v.person GROUP BY {key}"
    )


def _public_join() -> str:
    return (
        "SELECT COUNT(*) AS n, SUM(c.beds) AS beds FROM visits v JOIN counties c ON "
        "v.county = c.county"
    )


def _undeclared() -> str:
    """Write a question grouped by a key whose values the catalog does not list."""
    keys = pick(("diag", "diag, ward"))
    aggregates = pick(
        (
            "COUNT(*) AS n",
            "SUM(cost) AS s",
            "COUNT(*) AS n, SUM(score) AS s",
            "COUNT(DISTINCT person) AS p",
        )
    )
    return f"SELECT {keys}, {aggregates} FROM visits{_where('visits')} GROUP BY {keys}"


def _rollup() -> str:
    return "SELECT ward, urgent, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward, urgent)"


def _limits() -> str:
    """Write a question over a subquery that bounds what one person contributes."""
    inner = "SELECT person, LEAST(COUNT(*), 2) AS k FROM visits GROUP BY person"
    return pick(
        (
            f"SELECT SUM(k) AS s FROM ({inner}) t",
            "SELECT COUNT(*) AS n FROM (SELECT DISTINCT ward FROM visits) t",
        )
    )


def _nonsense() -> str:
    """Write a question that must be refused, or that reads no data."""
    return pick(
        (
            "SELECT person FROM visits",
            "SELECT * FROM visits",
            "SELECT COUNT(*) FROM nobody",
            "SELECT SUM(cost) / 0",
        )
    )


FORMS: list[Callable[[], str]] = [
    _plain,
    _grouped,
    _two_keys,
    _aggregates,
    _people,
    _quantile,
    _join,
    _public_join,
    _undeclared,
    _rollup,
    _limits,
    _nonsense,
]


def question() -> str:
    """One question of a random kind."""
    return str(FORMS[uniform_below(len(FORMS))]())


Files = dict[str, str]


def neighbours() -> tuple[Files, Files]:
    """Invent the files of a tiny database, and of the same with one more person.

    That person may have more rows than the limit.
    """
    people = uniform_below(4)
    patients = [_patient(f"p{i}") for i in range(people)]
    visits = [_visit(f"v{i}", f"p{uniform_below(max(1, people))}") for i in range(uniform_below(6))]
    victim = (
        [_patient(NEWCOMER)] if uniform_below(8) else []
    )  # sometimes a person without a row of their own
    victim_visits = [_visit(f"w{i}", NEWCOMER) for i in range(uniform_below(7))]
    return _files(patients, visits), _files([*victim, *patients], [*victim_visits, *visits])


def _patient(name: str) -> str:
    return f"{name},{pick(('f', 'm', 'q', ''))},{pick(('0', '44', '110', '400', *WILD))}"


def _visit(visit: str, person: str) -> str:
    """Write one line of visits.csv, with values in and out of bounds."""
    values = (
        pick(("north", "south", "attic", "")),
        pick(("flu", "cold", "rare", "")),
        pick(("ash", "elm", "nowhere", "")),
        pick(("-5", "5", "3", "99", *WILD)),
        pick(("0", "500", "12.345", "1e9", *WILD)),
        pick(("true", "false", "", "maybe")),
    )
    return ",".join((visit, person, *values))


def _files(patients: list[str], visits: list[str]) -> Files:
    """Make the three CSV files of the clinic from lines of patients and visits."""
    return {
        "patients.csv": "\n".join(["person,sex,age", *patients]) + "\n",
        "visits.csv": "\n".join(["visit,person,ward,diag,county,score,cost,urgent", *visits])
        + "\n",
        "counties.csv": PUBLIC,
    }
