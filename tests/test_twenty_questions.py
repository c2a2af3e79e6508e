"""The questions of the tutorial on the generated clinic: right answers, and intervals that cover at
their rate."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest
from scipy.stats import binom

from dither import connect, steward
from dither.answer.asked import read_question
from dither.answer.result import make_result
from dither.catalog import load
from dither.cli.clinic import write_clinic
from dither.data.lower.columns import UNIT, engine_null
from dither.plan.algebra import Quantiles
from dither.plan.domain import declared_domain
from dither.privacy.kernel.release import Release
from dither.state import State
from tests.answer.asked import PURPOSE, exact_values
from tests.case_lists import mark_between

PAGE = Path(__file__).parents[1] / "docs" / "tutorial" / "twenty-questions.md"


def questions() -> dict[str, str]:
    """The dictionary in the page's own code."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S))
    found = next(
        node.value
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "QUESTIONS"
    )
    return ast.literal_eval(found)


QUESTIONS = questions()


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    write_clinic(folder, 1500)
    file = folder / "clinic.yaml"
    steward.register(file, dev=True)
    terms = {"rule": "approx", "delta": "0.5", "delta_per_question": "1e-6"}
    steward.open_pot(
        State.beside(file),
        load(file),
        "total",
        epsilon="9999",
        ceiling="9999",
        purpose=PURPOSE,
        **terms,
    )
    return connect(file)


@pytest.fixture(scope="module")
def raw(con):
    """The registered rows in their own units, for a plain engine: a view per table, with the owner
    by its number."""
    place = con._kernel._state.version(1) / "data.duckdb"
    bare = duckdb.connect()
    bare.execute(f"ATTACH '{place}' AS copy (READ_ONLY)")
    for table in con.catalog.tables:
        stored = [row[0] for row in bare.execute(f'DESCRIBE copy."{table.name}"').fetchall()]
        shown = []
        for column in table.columns:
            if column.name in stored:
                shown.append(
                    f'{_natural(column, table, con._kernel.version.facts)} AS "{column.name}"'
                )
            elif UNIT in stored and column.name == "patient_id":
                shown.append(f'{UNIT} AS "{column.name}"')
        bare.execute(
            f'CREATE TABLE "{table.name}" AS SELECT {", ".join(shown)} FROM copy."{table.name}"'
        )
    return bare


def _natural(column, table, facts):
    name = f'"{column.name}"'
    if table.kind == "private":
        name = engine_null(name, declared_domain(column, table, facts))
    match column.type:
        case "category":
            if isinstance(column.values, tuple):
                labels = list(column.values)
            elif hasattr(column.values, "table"):
                labels = list(facts.labels(column.values.table, column.values.column))
            else:
                return name
            return f"({[*labels, 'other']!r})[{name} + 1]"
        case "decimal":
            return f"{name} / {1 / column.step}"
        case "date":
            return f"DATE '1970-01-01' + CAST({name} AS INTEGER)"
        case "boolean":
            return f"CAST({name} AS BOOLEAN)"
    return name


def noiseless(con, sql):
    asked = read_question(sql)
    found = con._offers.offer(con._offers.bind(asked), asked, _price(), con._view())
    priced = found.priced
    values = exact_values(con, priced)
    return found, priced, values


def _price():

    from dither.privacy.kernel.request import Price

    return Price(Fraction(4))


def table_of(found, priced, values, confidence=0.9):
    release = Release("test", priced, values, *[_price().value] * 3, "2026-01-01T00:00:00+00:00")
    return make_result(release, found.recipe, confidence, {}, found.bands)


@pytest.mark.parametrize("title", QUESTIONS)
def test_right_answers(con, raw, title):
    """Without noise the answer is that of a plain engine on the registered rows."""
    sql = QUESTIONS[title]
    found, priced, values = noiseless(con, sql)
    answer = table_of(found, priced, values).to_arrow(intervals=False).to_pylist()
    quantiles = any(isinstance(query, Quantiles) for query in found.recipe.queries)
    asked = re.sub(
        r"\bMEDIAN\((\w+)\)",
        r"quantile_disc(\1, 0.5)",
        re.sub(r"QUANTILE\(", "quantile_disc(", sql),
    )
    names = [column[0] for column in raw.execute(asked if quantiles else sql).description]
    expected = [dict(zip(names, row, strict=True)) for row in raw.fetchall()]
    keys = [
        name for name in names if not isinstance(expected[0][name], float) and name in _keys(found)
    ]
    theirs, ours = (_by_key(rows, keys, names) for rows in (expected, answer))
    if "LIMIT" not in sql:
        assert set(theirs) <= set(ours)
    for key in set(theirs) & set(ours):
        if len(ours[key]) > len(theirs[key]):  # a plain engine leaves out groups without rows
            ours[key] = ours[key][len(ours[key]) - len(theirs[key]) :]
        for right, mine in zip(theirs[key], ours[key], strict=True):
            for name in set(names) - set(keys):
                if right[name] is not None:
                    assert float(mine[name]) == pytest.approx(
                        float(right[name]), rel=1e-6, abs=1e-6
                    ), (key, name)
    assert set(theirs) & set(ours)


def _by_key(rows, keys, names):
    """Rows of each key, in order: a rollup has a NULL for a missing value and one for all
    values."""
    found = defaultdict(list)
    for row in rows:
        found[tuple(str(row[key]).removesuffix(" 00:00:00") for key in keys)].append(row)
    value = next(name for name in names if name not in keys)
    return {
        key: sorted(mine, key=lambda row: float(row[value] or 0)) for key, mine in found.items()
    }


def _keys(found):
    return {output.name for output in found.recipe.outputs if output.role == "key"}


def _covered(con, sql, repetitions):
    """(covered, tried): over value columns with an interval, rows matched by their keys."""
    found, priced, values = noiseless(con, sql)
    truth = table_of(replace_order(found), priced, values)
    keys = [each.name for each in truth.columns if each.role == "key"]
    rows = [(tuple(row[key] for key in keys), row) for row in truth.to_arrow().to_pylist()]
    seen = Counter(key for key, _ in rows)  # in a rollup NULL is a missing value, or all values
    exact = {key: row for key, row in rows if seen[key] == 1}
    measurer = con._kernel.prepare(priced)
    measured = con._kernel.measure_with_retries(priced, measurer)
    measurer.close()
    covered = tried = 0
    for _ in range(repetitions):
        noisy = table_of(found, priced, con._kernel.randomise(priced, measured))
        for row in noisy.to_arrow().to_pylist():
            right = exact.get(tuple(row[key] for key in keys))
            for each in noisy.columns:
                if each.role != "value" or right is None or right[each.name] is None:
                    continue
                low, high = row[f"{each.name}_low"], row[f"{each.name}_high"]
                if low is None and high is None:
                    continue  # no interval is claimed
                tried += 1
                covered += (low is None or low <= right[each.name]) and (
                    high is None or right[each.name] <= high
                )
    return covered, tried


def replace_order(found):
    """The exact answer for every key, whatever HAVING and LIMIT would leave."""
    return replace(found, recipe=replace(found.recipe, having=None, limit=None, offset=0, order=()))


def _check(con, sql, repetitions):
    covered, tried = _covered(con, sql, repetitions)
    # rows of one answer share noise at most in pairs: the effective number is at least the
    # repetitions
    rate = covered / tried if tried else 1.0
    floor = binom.ppf(1e-9, repetitions, 0.9) / repetitions
    assert rate >= floor, (rate, floor, tried)


@pytest.mark.parametrize(
    "title", mark_between([title for title in QUESTIONS if title != "age and cost"], step=3)
)
def test_intervals_cover_at_their_rate(con, title):
    """Nominal 90 %; the full 500 repetitions are in the soak."""
    _check(con, QUESTIONS[title], 25)


@pytest.mark.soak
@pytest.mark.parametrize("title", QUESTIONS)
def test_intervals_cover_at_their_rate_over_500_repetitions(con, title):
    _check(con, QUESTIONS[title], 500)


@pytest.mark.parametrize("title", ["what wards cost", "visits per person", "drugs nobody listed"])
def test_what_limits_and_clamps_did_is_named(con, title):
    told = con.sql(QUESTIONS[title], epsilon=4).explain()
    assert "at most" in told
    if "cost" in title:
        assert "clamped to [0, 2000]" in told
