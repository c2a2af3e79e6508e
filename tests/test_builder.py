"""The chainable builder makes the same recipes and plans as the SQL it stands for."""

from __future__ import annotations

import pytest

from dither import ParameterError, QueryError
from dither.builder import (
    Aggregate,
    avg,
    count,
    count_distinct,
    median,
    quantile,
    stddev,
    sum,
    table,
    variance,
)
from dither.catalog import parse
from dither.sql.bind import bind
from tests.datasets import clinic

CATALOG = parse(clinic.CATALOG)
VISITS = table("visits")


@pytest.mark.parametrize(
    ("built", "written"),
    [
        (VISITS.agg(n=count()), "SELECT COUNT(*) AS n FROM visits"),
        (VISITS.where("age >= 18").group_by("ward").agg(n=count(), cost=sum("cost")),
         "SELECT ward, COUNT(*) AS n, SUM(cost) AS cost FROM visits WHERE age >= 18 GROUP BY ward"),
        (VISITS.where("age < 18 OR age > 65", "urgent").agg(n=count("score")),
         "SELECT COUNT(score) AS n FROM visits WHERE (age < 18 OR age > 65) AND urgent"),
        (VISITS.group_by("ward", "kind").agg(m=avg("cost")).having("m > 3").order_by("m DESC",
        "ward").limit(2),
         "SELECT ward, kind, AVG(cost) AS m FROM visits GROUP BY ward, kind HAVING m > 3 ORDER BY "
         "m DESC, ward "
         "LIMIT 2"),
        (VISITS.agg(share=count().where("urgent") / count() * 100),
         "SELECT (COUNT(*) FILTER (WHERE urgent) / COUNT(*)) * 100 AS share FROM visits"),
        (VISITS.agg(a=median("score"), b=quantile("cost", 0.9)),
         "SELECT MEDIAN(score) AS a, QUANTILE_CONT(cost, 0.9) AS b FROM visits"),
        (VISITS.agg(v=variance("score"), s=stddev("score")),
         "SELECT VARIANCE(score) AS v, STDDEV(score) AS s FROM visits"),
        (VISITS.agg(n=count_distinct("ward")), "SELECT COUNT(DISTINCT ward) AS n FROM visits"),
        (VISITS.agg(x=2 * sum("score") + 1), "SELECT 2 * SUM(score) + 1 AS x FROM visits"),
    ],
)  # fmt: skip
def test_the_same_plans_as_the_sql(built, written):
    mine, theirs = bind(built.sql, CATALOG), bind(written, CATALOG)
    assert mine.queries == theirs.queries
    assert (mine.keys, mine.atoms, mine.sets) == (theirs.keys, theirs.atoms, theirs.sets)
    assert [o.name for o in mine.outputs] == [o.name for o in theirs.outputs]
    assert (mine.having, mine.order, mine.limit) == (theirs.having, theirs.order, theirs.limit)


def test_a_condition_with_or_stays_in_its_place():
    """Without parentheses, `a AND b OR c` would mean another question."""
    built = VISITS.where("urgent", "age < 18 OR age > 65").agg(n=count())
    loose = bind("SELECT COUNT(*) AS n FROM visits WHERE urgent AND age < 18 OR age > 65", CATALOG)
    assert bind(built.sql, CATALOG).queries != loose.queries


def test_a_question_is_a_value():
    base = VISITS.group_by("ward")
    first, second = base.agg(n=count()), base.agg(m=count())
    assert first != second and base == VISITS.group_by("ward")
    with pytest.raises(AttributeError):
        base.source = "other"


@pytest.mark.parametrize(
    "bad",
    ["1) OR (1 = 1", "age >= 18 --", "age /* x", "age; DROP TABLE visits", "", "age,cost",
    "age FROM patients",
     "age) FROM patients WHERE (1=1"],
)  # fmt: skip
def test_a_text_cannot_leave_its_place(bad):
    for use in (VISITS.where, VISITS.group_by, VISITS.having, sum, count().where):
        with pytest.raises((QueryError, ParameterError)):
            use(bad)


def test_names_that_need_quotes_get_them():
    assert table("select").source == '"select"'
    assert 'AS "two words"' in VISITS.agg(**{"two words": count()}).sql
    with pytest.raises(ParameterError):
        table('a"b')


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: VISITS.sql, "agg"),
        (lambda: VISITS.agg(n="COUNT(*)"), "aggregate"),
        (lambda: VISITS.agg(n=count()).limit(-1), "number of rows"),
        (lambda: VISITS.agg(n=count()).ask(epsilon=1), "no connection"),
        (lambda: quantile("cost", 2), "share"),
        (lambda: count() + "x", "numbers"),
    ],
)
def test_mistakes_are_messages_with_a_remedy(wrong, says):
    with pytest.raises(ParameterError, match=says):
        wrong()


def test_joins_name_their_keys():
    assert (
        VISITS.join("patients", using=("patient", "ward")).source
        == "visits JOIN patients USING (patient, ward)"
    )
    assert isinstance(count() - 1, Aggregate)


def test_asked_through_a_connection(tmp_path):
    from dither import connect

    (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
    clinic.write_csv(tmp_path / "visits.csv", [clinic.row(f"v{i}", f"p{i}") for i in range(30)])
    from dither import steward
    from dither.state import State

    done = steward.register(tmp_path / "clinic.yaml")
    steward.open_pot(State(tmp_path / "clinic.dither"), done.catalog, "total", epsilon="2",
        ceiling="2",
                     purpose=clinic.PURPOSE)  # fmt: skip
    con = connect(tmp_path / "clinic.yaml")
    question = con.table("visits").group_by("ward").agg(n=count())
    assert question.preview(epsilon=1).rows == 4
    answer = question.ask(epsilon=1)
    again = con.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=1)
    assert (
        again.info["repeated"] and again.to_dict() == answer.to_dict()
    )  # the same plan, hence the stored answer


def test_in_a_notebook_everything_shows_as_plain_html(monkeypatch):
    """rich notices Jupyter and would write beside the cell, with colour codes; str() and
    _repr_html_ must not."""
    import rich.console

    from dither.privacy.ledger.pots import opened
    from dither.publish.budget import PotBalances
    from dither.publish.interpret import interpret

    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    pot = opened("total", 1, 2, neighbours="add_remove", unit="person", **clinic.PURPOSE)
    shown = PotBalances((pot,))._repr_html_()
    assert (
        shown.startswith("<div class='dither-cell'>") and "\x1b" not in shown and "total" in shown
    )
    assert interpret(1, 0, unit="person", neighbours="add_remove")._repr_html_().startswith("<ul>")
    assert "GROUP BY ward" in VISITS.group_by("ward").agg(n=count())._repr_html_()
