"""Every row of the table of refusals: its example is refused in its words, its rewrite is answered,
the page shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dither import QueryError
from dither.plan.facts import Facts
from dither.sql.bind import bind
from dither.sql.refusals.table import REFUSALS, reference
from tests.datasets import clinic_sql

CATALOG = clinic_sql.catalog()
FACTS = Facts(
    (("counties", ("county",), 1), ("counties", ("region",), 2), ("stations", ("county",), 2)),
    (("counties", "county", ("ash", "elm", "oak", "yew")),),
)
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sql.md"
SHOWN = {name: row for name, row in REFUSALS.items() if row.example}


@pytest.mark.parametrize("name", SHOWN)
def test_the_example_is_refused_and_the_rewrite_is_answered(name):
    row = SHOWN[name]
    with pytest.raises(QueryError) as caught:
        bind(row.example, CATALOG, FACTS)
    message = str(caught.value).split("\n")[0]
    assert message.startswith(f"{row.what}: {row.why}. Instead: ")
    assert message.endswith(row.rule.label)
    assert bind(row.rewrite, CATALOG, FACTS).queries


def test_a_refusal_shows_its_place():
    placed = 0
    for row in SHOWN.values():
        with pytest.raises(QueryError) as caught:
            bind(row.example, CATALOG, FACTS)
        placed += caught.value.end > caught.value.start
    assert placed >= 0.8 * len(SHOWN)


FIXTURES = [
    ("SELECT COUNT(*) FROM visits ORDER",
     "ORDER is no name: complete it (ORDER BY ...), remove it, or write it in quotes, as in "
     '"order"\n'
     "  SELECT COUNT(*) FROM visits ORDER\n"
     "                              ^^^^^"),
    ("SELECT COUNT(*) FROM visits GROUP",
     "GROUP is no name: complete it (GROUP BY ...)"),
    ("SELECT COUNT(*) offset FROM visits",
     "OFFSET is no name: complete it (OFFSET 10)"),
    ("SELECT COUNT(*) FROM visits v, counties c WHERE v.county = c.county AND ward = 'nroth'",
     "ward has no declared label 'nroth'"),
    ("SELECT strftime(date, 'days') AS y, COUNT(*) FROM visits GROUP BY y",
     "strftime takes a day or a time and a constant format of %Y, %m, %d, %H and %M"),
    ("SELECT visit_id, COUNT(*) FROM prescriptions GROUP BY visit_id",
     "an id outside COUNT(DISTINCT ...), joins and GROUP BY in a subquery"),
    ("SELECT AVG(n) FROM (SELECT doctor_id, COUNT(*) AS n FROM visits GROUP BY doctor_id)",
     "an id outside COUNT(DISTINCT ...), joins and GROUP BY in a subquery"),
    ("SELECT COUNT(*) FROM visits a JOIN visits b ON a.date = b.date",
     "a join of two private tables that does not say that both rows have the same owner: rows of "
     "different people would meet. "
     "Instead: add AND a.patient_id = b.patient_id (or join by the foreign key that leads to the "
     "owner) "
     "[rule: no row meets another owner's row]\n"
     "  SELECT COUNT(*) FROM visits a JOIN visits b ON a.date = b.date\n"
     "                                                 ^^^^^^^^^^^^^^^"),
    ("SELECT COUNT(*) FROM patients p JOIN visits v ON p.patient_id = v.doctor_id",
     "a join of two private tables that does not say that both rows have the same owner"),
    ("SELECT COUNT(*) FROM visits v LEFT JOIN counties c ON v.county = c.county AND "
        "v.cost > c.beds",
     "a condition on the left side, or on both, in the ON of a LEFT JOIN: the left side keeps all "
     "of its rows. "
     "Instead: put it in WHERE, which leaves out the rows where it fails, or in a CASE around the "
     "columns of the right side [rule: every row has one owner]\n"
     "  SELECT COUNT(*) FROM visits v LEFT JOIN counties c ON v.county = c.county AND v.cost > "
     "c.beds\n"
     "                                                        "
     "^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"),
    ("SELECT MAX(cost) OVER () FROM visits",
     "window functions: their value depends on the order of rows, or on other people's rows. "
     "Instead: aggregate per person in a "
     "subquery with GROUP BY patient_id [rule: inside a person rows are a set]\n"
     "  SELECT MAX(cost) OVER () FROM visits\n"
     "             ^^^^"),
    ("SELECT COUNT(*) FROM counties c JOIN stations s ON c.county = s.county",
     "a question about public tables alone: there is nobody to protect, and so nothing to answer "
     "with noise"),
    ("SELECT COUNT(*) FROM counties c JOIN stations s ON c.county = s.county JOIN visits v ON "
     "v.county = c.county",
     "a join of two public tables comes after the private one: put the private table first "
     "[rule: plans read registered private tables]"),
    ("SELECT county FROM counties WHERE EXISTS (SELECT 1 FROM visits v WHERE v.county = "
     "counties.county)",
     "rows of public tables that rows of people choose: which of them are shown would say exactly "
     "who has rows"),
    ("SELECT COUNT(*) FROM visits WHERE date + 4000000 > DATE '2025-01-01'",
     "add_days: the day could lie outside the years 1 to 9999: narrow the bounds of its arguments "
     "[rule: functions take their declared arguments]\n"
     "  SELECT COUNT(*) FROM visits WHERE date + 4000000 > DATE '2025-01-01'\n"
     "                                    ^^^^^^^^^^^^^^"),
]  # fmt: skip


def test_a_condition_of_the_left_side_can_be_a_case_around_the_right_sides_columns():
    """The second remedy of "left condition": it keeps all rows of the left side."""
    joined = "FROM visits v LEFT JOIN counties c ON v.county = c.county"
    for condition in ("v.cost > 5", "v.cost > c.beds"):
        with pytest.raises(QueryError, match="or in a CASE around"):
            bind(f"SELECT SUM(c.beds) {joined} AND {condition}", CATALOG, FACTS)
        rewritten = f"SELECT SUM(CASE WHEN {condition} THEN c.beds END) {joined}"
        assert bind(rewritten, CATALOG, FACTS).queries


@pytest.mark.parametrize(("sql", "message"), FIXTURES)
def test_messages(sql, message):
    with pytest.raises(QueryError) as caught:
        bind(sql, CATALOG, FACTS)
    assert str(caught.value).startswith(message), str(caught.value)
    assert "\n" not in message or str(caught.value) == message


def test_the_reference_page_has_the_table():
    assert reference() in PAGE.read_text()


def test_every_refusal_of_the_code_is_in_the_table_and_none_is_left_over():
    import re

    folder = Path(__file__).parents[2] / "src" / "dither" / "sql"
    used = set()
    for file in folder.glob("*.py"):
        used |= set(re.findall(r'make_refusal\(\s*"([a-z ]+)"', file.read_text()))
        used |= set(re.findall(r'REFUSALS\["([a-z ]+)"\]', file.read_text()))
        used |= set(
            re.findall(r'make_refusal\("[a-z ]+" if .*? else "([a-z ]+)"', file.read_text())
        )
    assert used == set(REFUSALS)


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT COUNT(*) AS "order" FROM visits',
        "SELECT COUNT(*) AS order FROM visits",
        "SELECT COUNT(*) FROM visits AS o ORDER BY 1",
        'SELECT COUNT(*) FROM visits "order"',
    ],
)
def test_a_word_of_a_clause_is_a_name_after_as_and_in_quotes(sql):
    assert bind(sql, CATALOG, FACTS).queries


def test_an_equality_that_joins_is_no_condition_to_leave_out():
    """Of `FROM a, b WHERE a.x = b.x AND wrong` only the wrong condition is a reason."""
    sql = (
        "SELECT COUNT(*) FROM patients p, visits v WHERE p.patient_id = v.patient_id AND "
        "ward = 'nroth'"
    )
    with pytest.raises(QueryError) as caught:
        bind(sql, CATALOG, FACTS)
    assert "tables with a comma" not in str(caught.value)


@pytest.mark.parametrize(
    "subquery",
    [
        "SELECT MAX(cost) FROM visits v WHERE v.patient_id = p.patient_id",
        "SELECT COUNT(*) + 1 FROM visits v WHERE v.patient_id = p.patient_id AND v.cost > p.age",
        "SELECT 1 FROM visits v WHERE v.patient_id = p.patient_id HAVING COUNT(*) > 2",
        "SELECT SUM(beds) FROM counties c WHERE c.beds = p.age",
    ],
)
@pytest.mark.parametrize("word", ["EXISTS", "NOT EXISTS"])
def test_an_aggregate_in_exists_is_refused(word, subquery):
    """It has one row whatever it is an aggregate of, so EXISTS would hold for everybody."""
    with pytest.raises(QueryError, match="an aggregate without GROUP BY inside a subquery"):
        bind(f"SELECT COUNT(*) FROM patients p WHERE {word} ({subquery})", CATALOG, FACTS)


@pytest.mark.parametrize(
    ("table", "beside"),
    [
        ("stations", "SELECT note AS k FROM visits"),
        ("counties", "SELECT note AS k FROM visits"),
        ("stations", "SELECT 'zz' AS k FROM visits"),
    ],
)
def test_texts_beside_those_of_a_public_table_are_no_keys(table, beside):
    """The texts of one input are not all that a union holds: others would be counted as null."""
    facts = replace(FACTS, texts=(("stations", "county", ("ash", "elm")),))
    public = f"SELECT t.county AS k FROM visits v JOIN {table} t ON v.county = t.county"
    with pytest.raises(QueryError, match="GROUP BY a text"):
        bind(
            f"SELECT k, COUNT(*) AS n FROM ({public} UNION ALL {beside}) GROUP BY k", CATALOG, facts
        )


LEFT_JOIN = "patients p LEFT JOIN visits v ON p.patient_id = v.patient_id"
DOSES = "visits v LEFT JOIN prescriptions r ON v.visit_id = r.visit_id"


@pytest.mark.parametrize(
    ("rows", "remedy"),
    [
        (f"(SELECT DISTINCT v.patient_id FROM {LEFT_JOIN})", "name the patient_id of the table"),
        (f"(SELECT DISTINCT r.visit_id FROM {DOSES})", "name the visit_id of the table"),
        (f"{LEFT_JOIN} LEFT JOIN visits w ON w.patient_id = v.patient_id", "name the patient_id"),
        (
            f"{DOSES} WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE w.visit_id = r.visit_id)",
            "name the visit_id",
        ),
        (
            f"patients q WHERE EXISTS (SELECT 1 FROM {LEFT_JOIN} WHERE v.patient_id = "
            "q.patient_id)",
            "write JOIN in its place",
        ),
        (
            f"visits w WHERE NOT EXISTS (SELECT 1 FROM {DOSES} WHERE r.visit_id = w.visit_id AND "
            "r.dose > w.score)",
            "write JOIN in its place",
        ),
    ],
)
def test_an_id_that_a_left_join_may_leave_null_is_refused_where_null_counts(rows, remedy):
    """Its value is read from the row that the join keeps, as if there always were another row."""
    with pytest.raises(QueryError, match=remedy):
        bind(f"SELECT COUNT(*) FROM {rows}", CATALOG, FACTS)
