"""Questions over answers, asked: what they cost, what they return, and what costs nothing."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dither import BudgetError, ParameterError, QueryError, connect
from tests.datasets import clinic

SHARE = "SELECT ward, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY ward"
RANKED = (
    "SELECT ward, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM visits "
    "GROUP BY ward"
)
TWO = "SELECT ward, COUNT(*) / (SELECT COUNT(*) FROM visits) AS share FROM visits GROUP BY ward"
ABOVE = "SELECT COUNT(*) AS n FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)"


@pytest.fixture
def con(tmp_path):
    rows = [
        clinic.row(f"v{i}", f"p{i}", ward=["north", "south"][i % 2], cost="100") for i in range(100)
    ]
    file, place = clinic.register(tmp_path, rows)
    clinic.open_total(place)
    return connect(file)


def spent(con) -> Fraction:
    return next(pot.spent for pot in con.budget().pots if pot.name == "total")


def test_shares_are_computed_from_the_counts_that_were_released(con):
    result = con.sql(SHARE, epsilon=1)
    counts = result.answers[0].to_dict()["COUNT(*)"]
    assert result.to_dict()["share"] == pytest.approx([n / sum(counts) for n in counts])
    assert spent(con) == 1


def test_each_part_is_paid_an_equal_share_and_asked_again_is_free(con):
    first = con.sql(TWO, epsilon=1)
    assert [Fraction(part.info["charged"]) for part in first.answers] == [Fraction(1, 2)] * 2
    assert Fraction(first.info["charged"]) == 1 == spent(con)
    again = con.sql(TWO, epsilon=1)
    assert again.to_dict() == first.to_dict()
    assert again.info["repeated"]
    assert spent(con) == 1


def test_a_column_that_is_shown_as_it_is_has_the_interval_of_its_answer(con):
    result = con.sql(RANKED, epsilon=1)
    part = result.answers[0].to_dict()
    rows = zip(*(part[name] for name in ("ward", "n", "n_low", "n_high")), strict=True)
    by_ward = {ward: values for ward, *values in rows}
    table = result.to_dict()
    assert list(table) == ["ward", "n", "n_low", "n_high", "r"]
    for index, ward in enumerate(table["ward"]):
        assert [table[name][index] for name in ("n", "n_low", "n_high")] == by_ward[ward]
    assert "no interval of its own" in str(result)


def test_another_level_is_free(con):
    narrow = con.sql(RANKED, epsilon=1).interval(0.5)
    assert spent(con) == 1
    assert narrow.columns[2].confidence == Fraction(1, 2)


def test_a_number_for_a_condition_on_rows_is_bought_first(con):
    result = con.sql(ABOVE, epsilon=2)
    average = result.answers[0].to_dict()["AVG(cost)"][0]
    assert f"cost > {average:.6f}" in result.answers[1].info["sql"]
    assert spent(con) == 2


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ward, RANK() OVER (ORDER BY COUNT(*) DESC) + ward AS r FROM visits GROUP BY ward",
        "WITH t AS (SELECT COUNT(*) AS n FROM visits) SELECT nothing FROM t, t AS u",
        "SELECT ward, RANK() OVER (ORDER BY nothing(COUNT(*))) AS r FROM visits GROUP BY ward",
    ],
)
def test_a_statement_that_fails_costs_nothing(con, sql):
    with pytest.raises(QueryError):
        con.sql(sql, epsilon=1)
    assert spent(con) == 0


@pytest.mark.parametrize(
    "number",
    [
        "SELECT AVG(cost) FROM visits HAVING COUNT(*) > 1000000",
        "SELECT SQRT(-1e9 - COUNT(*)) FROM visits",
        "SELECT 1 / (COUNT(*) - COUNT(*)) FROM visits",
        "SELECT -COUNT(*) FROM visits",
    ],
)
def test_a_number_that_is_undefined_or_negative_is_compared_with_after_it_was_paid(con, number):
    result = con.sql(f"SELECT COUNT(*) AS n FROM visits WHERE cost > ({number})", epsilon=1)
    assert spent(con) == 1
    assert len(result.to_dict()["n"]) == 1


@pytest.mark.parametrize(
    ("number", "error"),
    [
        ("SELECT MEDIAN(day) FROM visits", ParameterError),
        ("SELECT COUNT(*) > 3 FROM visits", ParameterError),
    ],
)
def test_what_is_no_number_is_refused_and_costs_nothing(con, number, error):
    with pytest.raises(error, match="a number"):
        con.sql(f"SELECT COUNT(*) AS n FROM visits WHERE age > ({number})", epsilon=1)
    assert spent(con) == 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ward, COUNT(*) AS n, COUNT(*) * 2 AS n, RANK() OVER (ORDER BY COUNT(*)) AS r "
        "FROM visits GROUP BY ward",
        "SELECT ward, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) AS n_low FROM visits "
        "GROUP BY ward",
        "SELECT * FROM (SELECT COUNT(*) AS n FROM visits) a, (SELECT COUNT(*) AS n FROM visits) b",
    ],
)
def test_two_columns_of_one_name_are_refused_and_cost_nothing(con, sql):
    with pytest.raises(QueryError, match="rename one"):
        con.sql(sql, epsilon=1)
    assert spent(con) == 0


def test_a_part_that_is_refused_costs_nothing_and_says_why(con):
    with pytest.raises(QueryError, match="GROUP BY"):
        con.sql(
            "SELECT patient, COUNT(*), RANK() OVER (ORDER BY COUNT(*)) AS r FROM visits "
            "GROUP BY patient",
            epsilon=1,
        )
    assert spent(con) == 0


def test_parts_that_the_budget_cannot_pay_together_cost_nothing(con):
    left = con.preview("SELECT COUNT(*) FROM visits", epsilon=1).left
    with pytest.raises(BudgetError, match="cost"):
        con.sql(TWO, epsilon=left * Fraction(3, 2))
    assert spent(con) == 0


def test_a_part_with_a_number_that_the_budget_cannot_pay_after_the_first_costs_nothing(con):
    with pytest.raises(BudgetError, match="2 answers"):
        con.sql(ABOVE, epsilon=15)
    assert con.sql(ABOVE, epsilon=15, dry_run=True).info["context"] == "dry_run"
    assert spent(con) == 0


def test_stored_answers_that_are_bought_anew_must_fit_the_budget_together(con):
    con.sql(TWO, epsilon=6)
    with pytest.raises(BudgetError, match="2 answers"):
        con.sql(TWO, epsilon=6, fresh=True)
    assert spent(con) == 6


def test_stored_answers_are_free_when_nothing_is_left(con):
    first = con.sql(ABOVE, epsilon=10)
    paid = spent(con)
    assert con.sql(ABOVE, epsilon=10).to_dict() == first.to_dict()
    assert spent(con) == paid


def test_a_preview_prices_all_parts_and_reads_nothing(con):
    preview = con.preview(TWO, epsilon=1)
    assert (preview.price, preview.charged.amount) == (1, 1)
    assert [column.name for column in preview.columns] == ["COUNT(*)", "COUNT(*)"]
    assert spent(con) == 0


def test_windows_over_rows_are_refused_as_before(con):
    with pytest.raises(QueryError, match="window functions"):
        con.sql("SELECT COUNT(*) OVER () FROM visits", epsilon=1)


def test_what_belongs_to_an_answer_is_taken_from_the_parts(con):
    result = con.sql(SHARE, epsilon=1)
    with pytest.raises(ParameterError, match=r"result\.answers"):
        result.certificate()
    assert result.answers[0].certificate()


def test_a_limit_of_groups_in_the_options_holds_for_the_parts(con):
    result = con.sql(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_groups_contributed=1) ward, "
        "COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) AS r FROM visits GROUP BY ward"
    )
    plain = con.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=1, max_groups=1)
    assert plain.info["repeated"] and plain.to_dict() == result.answers[0].to_dict()


@pytest.mark.parametrize(
    ("options", "column"),
    [
        (", delta=0", ""),
        (", group_selection_strategy=PUBLIC_GROUPS", ""),
        ("", ", DP_INTERVAL_LOW(n) AS low"),
    ],
)
def test_options_that_parts_would_not_know_of_are_refused(con, options, column):
    with pytest.raises(QueryError, match="window functions"):
        con.sql(
            f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1{options}) ward, COUNT(*) AS n"
            f"{column}, RANK() OVER (ORDER BY COUNT(*)) AS r FROM visits GROUP BY ward"
        )
    assert spent(con) == 0


def test_a_rehearsal_of_a_question_over_answers_is_free(con):
    assert con.sql(TWO, epsilon=1, dry_run=True).info["context"] == "dry_run"
    assert spent(con) == 0


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT MODE(ward) FROM visits", "mode_ward"),
        ("SELECT MODE() WITHIN GROUP (ORDER BY ward) AS often FROM visits", "often"),
    ],
)
def test_the_mode_is_the_key_with_the_largest_released_count(con, sql, name):
    result = con.sql(sql, epsilon=1)
    released = result.answers[0].to_dict(intervals=False)
    counts = dict(zip(released["ward"], released["mode_count"], strict=True))
    counts.pop(None, None)
    assert list(result.to_dict()) == [name]
    assert counts[result.to_dict()[name][0]] == max(counts.values())
    assert spent(con) == 1


def test_the_mode_of_each_group_is_chosen_within_it(con):
    result = con.sql("SELECT kind, MODE(ward) AS m FROM visits GROUP BY kind", epsilon=1)
    table = result.answers[0].to_dict(intervals=False)
    rows = list(zip(table["kind"], table["ward"], table["mode_count"], strict=True))
    counts = {(kind, ward): n for kind, ward, n in rows if ward is not None}
    chosen = list(zip(*result.to_dict().values(), strict=True))
    assert {kind for kind, _ in chosen} == set(table["kind"])
    for kind, ward in chosen:
        assert counts[kind, ward] == max(n for (group, _), n in counts.items() if group == kind)


def test_an_option_about_one_answer_is_not_lost_in_parts(con):
    """A column of intervals that is not there was answered without it, and charged."""
    with pytest.raises(QueryError, match="there is no value column m"):
        con.sql("SELECT COUNT(*) AS n, DP_INTERVAL_LOW(m) FROM visits", epsilon=1)
    assert spent(con) == 0


def test_a_position_that_is_no_whole_number_is_refused(con):
    with pytest.raises(QueryError):
        con.sql("SELECT COUNT(*) FROM visits GROUP BY 1e-400", epsilon=1)
    assert spent(con) == 0
