"""The SQL people already know: what GoogleSQL and Snowflake write is cut by tokens, and may
tighten, never loosen."""

from __future__ import annotations

import base64
import json
import struct
from fractions import Fraction as F

import pytest

from dither import ParameterError, QueryError, RefusedError, connect
from dither.sql.dialect_question import IntervalColumn
from dither.sql.dialects import read_dialect
from dither.sql.refusals.refuse import refuse
from tests.datasets import clinic

CLAUSE = (
    "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.5, delta=1e-6, "
    "max_groups_contributed=2, privacy_unit_column=v.p)"
)


def test_plain_sql_is_left_alone():
    for sql in (
        "SELECT COUNT(*) FROM t",
        "",
        "SELECT 'contribution_bounds_per_row =>' FROM t",
        "SELECT 'unclosed",
    ):
        assert read_dialect(sql).is_plain and read_dialect(sql).epsilon is None


def test_the_clause_is_cut_and_every_place_is_kept():
    sql = f"SELECT {CLAUSE}\n  k, COUNT(*) AS n FROM visits v GROUP BY k"
    found = read_dialect(sql)
    assert len(found.sql) == len(sql) and found.sql.index("COUNT") == sql.index("COUNT")
    assert (found.epsilon, found.delta, found.max_groups, found.unit) == (
        F(1, 2),
        F(1, 10**6),
        2,
        "p",
    )
    with pytest.raises(QueryError) as caught, found.locate_errors():
        raise refuse(
            "no such column", found.sql, span=(found.sql.index("k,"), found.sql.index("k,") + 1)
        )
    assert (
        str(caught.value) == "no such column\n    k, COUNT(*) AS n FROM visits v GROUP BY k\n    ^"
    )


def test_google_limits_groups_to_one_unless_told_otherwise():
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, privacy_unit_column=p{}) "
        "COUNT(*) FROM t"
    )
    assert read_dialect(sql.format("")).max_groups == 1
    assert read_dialect(sql.format(", max_groups_contributed=7")).max_groups == 7
    public = read_dialect(sql.format(", group_selection_strategy=PUBLIC_GROUPS"))
    assert public.public_groups and public.max_groups is None


def test_the_options_of_a_view_may_be_left_out():
    assert read_dialect("SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM t").sql.split() == [
        "SELECT",
        "COUNT(*)",
        "FROM",
        "t",
    ]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("epsilon=0", "finite and positive"),
        ("epsilon=-1", "finite and positive"),
        ("epsilon=NULL", "finite and positive"),
        ("epsilon=1/0", "finite and positive"),
        ("epsilon=1, delta=2", r"delta must lie in \[0, 1\]"),
        ("epsilon=1, min_privacy_units_per_group=0", "whole number"),
        ("epsilon=1, min_privacy_units_per_group=2.5", "whole number"),
        ("epsilon=1, epsilon=2", "epsilon is given twice"),
        ("epsilon=1, Max_Groups_Contributed=1, max_groups_contributed=9", "given twice"),
        ("epsilon=1, max_groups_contributed=0", "whole number"),
        ("epsilon=1, max_groups_contributed=1.5", "whole number"),
        ("epsilon=1, max_rows_contributed=3", "rows_per_unit in the catalog"),
        ("epsilon=1, k_threshold=5", "the threshold follows"),
        ("epsilon=1, noise=off", "no option noise"),
        ("epsilon=1, group_selection_strategy=NONE", "PUBLIC_GROUPS or"),
        ("epsilon", "write epsilon = value"),
        ("epsilon=1, privacy_unit_column=NULL", "owner's column"),
    ],
)
def test_options_that_loosen_or_mean_nothing_are_refused(said, words):
    with pytest.raises(QueryError, match=words):
        read_dialect(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({said}) COUNT(*) FROM t")


@pytest.mark.parametrize(
    ("word", "says"),
    [("AGGREGATION_THRESHOLD", "not differential privacy"), ("ANONYMIZATION", "older")],
)
def test_what_is_no_differential_privacy_is_told_so(word, says):
    with pytest.raises(QueryError, match=says):
        read_dialect(f"SELECT WITH {word} OPTIONS(threshold=50) COUNT(*) FROM t")


def test_row_bounds_clamp_the_argument():
    sql = (
        "SELECT PERCENTILE_CONT(LEAST(x, y), 0.5, contribution_bounds_per_row => (-1, "
        "9)), SUM(z) FROM t"
    )
    assert (
        read_dialect(sql).sql
        == "SELECT PERCENTILE_CONT(CLAMP(LEAST(x, y), -1, 9), 0.5), SUM(z) FROM t"
    )
    found = read_dialect(sql)
    place = found.sql.index("z)")
    with pytest.raises(QueryError) as caught, found.locate_errors():
        raise refuse("bad z", found.sql, span=(place, place + 1))
    assert str(caught.value).splitlines()[-1].index("^") - 2 == sql.index("z)")


def test_group_bounds_bound_what_one_person_adds_to_a_group():
    sql = (
        f"SELECT {CLAUSE} county, COUNT(*, contribution_bounds_per_group => (0, 3)) AS n, "
        f"SUM(cost), "
        "AVG(cost, contribution_bounds_per_group => (0, 100)) FROM visits v WHERE age > 3 "
        "GROUP BY county HAVING COUNT(*) > 3 ORDER BY n"
    )
    assert read_dialect(sql).sql == (
        "SELECT dp_key_1 AS county, SUM(CLAMP(dp_value_1, 0, 3)) AS n, SUM(dp_value_2) AS "
        "sum_cost, "
        "AVG(CLAMP(dp_value_2 / dp_value_3, 0, 100)) AS avg_cost FROM (SELECT p, county AS "
        "dp_key_1, "
        "COUNT(*) AS dp_value_1, SUM(cost) AS dp_value_2, COUNT(cost) AS dp_value_3 FROM visits AS "
        "v WHERE age > 3 "
        "GROUP BY p, county) AS dp_units GROUP BY dp_key_1 HAVING SUM(dp_value_1) > 3 ORDER BY n"
    )


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        (
            "SELECT SUM(x, contribution_bounds_per_group => (0, 3)) FROM t",
            "name it as privacy_unit_column",
        ),
        (f"SELECT {CLAUSE} SUM(x, contribution_bounds_per_row => (3, 0)) FROM t", "two numbers"),
        (f"SELECT {CLAUSE} SUM(x, contribution_bounds_per_row => (0, NULL)) FROM t", "two numbers"),
        (f"SELECT {CLAUSE} SUM(x, contribution_bounds_per_row => 3) FROM t", r"\(lower, upper\)"),
        (
            f"SELECT {CLAUSE} MEDIAN(x), SUM(x, contribution_bounds_per_group => (0, 3)) FROM t",
            "question of its own",
        ),
        (
            f"SELECT {CLAUSE} COUNT(*) FROM (SELECT {CLAUSE} 1 FROM t)",
            "one WITH DIFFERENTIAL_PRIVACY",
        ),
        ("SELECT COUNT(*) AS n, 1 + DP_INTERVAL_LOW(n) FROM t", "column of its own"),
    ],
)
def test_what_cannot_be_said_says_what_to_write(sql, words):
    with pytest.raises(QueryError, match=words):
        read_dialect(sql)


def test_snowflakes_interval_columns_name_columns_that_are_there():
    sql = "SELECT k, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS lo, DP_INTERVAL_HIGH(n) FROM t GROUP BY k"
    found = read_dialect(sql)
    assert found.sql.split() == [
        "SELECT",
        "k,",
        "COUNT(*)",
        "AS",
        "n",
        "FROM",
        "t",
        "GROUP",
        "BY",
        "k",
    ]
    assert found.intervals == (
        IntervalColumn("n", "low", "lo"),
        IntervalColumn("n", "high", "n_high"),
    )


@pytest.fixture
def con(tmp_path):
    text = clinic.CATALOG.replace(
        "values: [north, south], other: keep", "values: undeclared, width: 9"
    )
    rows = [
        clinic.row(f"v{i}", f"p{i // 3}", ward="north" if i % 2 else "south") for i in range(600)
    ]
    file, place = clinic.register(tmp_path, rows, text)
    clinic.open_total(place, rule="approx", delta="1e-3", delta_per_question="1e-6")
    return connect(file)


class TestAsked:
    """A BigQuery user pastes a question, a Snowflake user another; both get what they expect, or a
    reason."""

    GOOGLE = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=3, delta=1e-5, max_groups_contributed=2, "
        "privacy_unit_column=patient) ward, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n "
        "FROM visits "
        "GROUP BY ward"
    )

    def test_a_bigquery_question(self, con):
        found = con.sql(self.GOOGLE)
        assert F(found.info["price_asked"]) == 3 and found.info["sql"] == self.GOOGLE
        assert found.to_dict()["ward"] == ["north", "south"]
        assert all(
            abs(n - 200) < 40 for n in found.to_dict()["n"]
        )  # every person once in both wards: 200, not 300
        assert con.preview(self.GOOGLE).smallest_group < 60

    def test_the_catalog_knows_the_unit(self, con):
        left_out = self.GOOGLE.replace(", privacy_unit_column=patient", "")
        assert con.bind(left_out).queries == con.bind(self.GOOGLE).queries
        aliased = left_out.replace("FROM visits", "FROM visits v").replace("(*,", "(v.age,")
        assert con.bind(aliased).queries

    def test_null_groups_are_those_of_the_catalog(self, con):
        """P14: NULL is the limit of the catalog, three rows per person, and never less."""
        plain = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
        clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_groups_contributed={}) "
        unlimited = con.bind(clause.format("NULL") + plain.removeprefix("SELECT "))
        assert unlimited.queries == con.bind(plain).queries
        limited = con.bind(clause.format(1) + plain.removeprefix("SELECT "))
        assert limited.queries == con.bind(plain, max_groups=1).queries != unlimited.queries

    def test_a_least_number_of_units_is_a_floor_on_a_noisy_paid_count(self, con):
        """P14: an exact threshold would be a noiseless test of one person."""
        sql = (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=3, max_groups_contributed=2, "
            "min_privacy_units_per_group={}) ward, SUM(age) AS s FROM visits GROUP BY ward"
        )
        recipe = con.bind(sql.format(50))
        plain = (
            "SELECT ward, SUM(age) AS s FROM visits GROUP BY ward "
            "HAVING COUNT(DISTINCT visits.patient) >= 50"
        )
        written = con.bind(plain, max_groups=2)
        assert recipe.queries == written.queries and recipe.having == written.having
        assert "COUNT(DISTINCT visits.patient)" in [atom.aggregate for atom in recipe.atoms]
        assert len(con.sql(sql.format(50)).to_dict()["ward"]) == 2
        assert con.sql(sql.format(5000)).to_dict()["ward"] == []
        bounded = sql.replace("SUM(age)", "SUM(age, contribution_bounds_per_group => (0, 9))")
        assert con.bind(bounded.format(50)).having is not None

    def test_its_options_tighten_and_never_loosen(self, con):
        with pytest.raises(RefusedError, match="its budget takes 1e-6"):
            con.sql(self.GOOGLE.replace("delta=1e-5", "delta=1e-9"))
        with pytest.raises(RefusedError, match="the catalog protects patient"):
            con.sql(self.GOOGLE.replace("privacy_unit_column=patient", "privacy_unit_column=visit"))
        with pytest.raises(ParameterError, match="OPTIONS"):
            con.sql(self.GOOGLE, epsilon=1)
        assert con._kernel.ledger.pot("total").spent == 0

    def test_public_groups_are_public(self, con):
        public = self.GOOGLE.replace(
            "max_groups_contributed=2", "group_selection_strategy=PUBLIC_GROUPS"
        )
        with pytest.raises(QueryError, match="some keys are in no list"):
            con.sql(public)
        assert len(con.sql(public.replace("ward", "kind")).to_dict()["kind"]) == 2

    def test_a_snowflake_question(self, con):
        sql = (
            "SELECT kind, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS lo, DP_INTERVAL_HIGH(n) "
            "AS hi FROM visits GROUP BY kind"
        )
        found = con.sql(sql, epsilon=1)
        assert list(found.to_dict()) == ["kind", "n", "lo", "hi"]
        assert all(
            low < n < high
            for n, low, high in zip(*(found.to_dict()[k] for k in ("n", "lo", "hi")), strict=True)
        )
        assert "lo" in found.interval(0.5).to_dict() and "95% interval" in str(found)
        assert "<table>" in found._repr_html_()
        with pytest.raises(QueryError, match="there is no value column m"):
            con.sql("SELECT COUNT(*) AS n, DP_INTERVAL_LOW(m) FROM visits", epsilon=1)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS", "opening parenthesis"),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS epsilon=1 COUNT(*) FROM t",
            "opening parenthesis",
        ),
        ("SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS", "AS name"),
    ],
)
def test_text_that_stops_inside_a_clause_is_a_query_error(sql, words):
    with pytest.raises(QueryError, match=words):
        read_dialect(sql)


REPORTS = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=3, max_groups_contributed=2) ward, "
    "COUNT(*, report_format => {}) AS n, "
    "AVG(age, contribution_bounds_per_group => (0, 90), report_format => {}) FROM visits "
    "GROUP BY ward"
)


class TestReports:
    """`report_format`: the value with the interval of its noise, as GoogleSQL gives them."""

    def test_json_has_the_value_and_the_interval_of_its_noise(self, con):
        plain = con.sql(REPORTS.replace(", report_format => {}", ""))
        result = con.sql(REPORTS.format("JSON", "'json'"))
        assert [result.info[name] for name in ("repeated", "charged")] == [True, "0/1"]
        columns = plain.to_dict()
        for name in ("n", "avg_age"):
            reports = [json.loads(text)["result"] for text in result.to_dict()[name]]
            assert [report["value"] for report in reports] == columns[name]
            ends = zip(columns[name], columns[f"{name}_low"], columns[f"{name}_high"], strict=True)
            for report, (value, low, high) in zip(reports, ends, strict=True):
                interval = report["noise_confidence_interval"]
                assert interval == {
                    "lower_bound": value - high,
                    "upper_bound": value - low,
                    "confidence_level": 0.95,
                }
        assert result.to_dict()["n_low"] == columns["n_low"]

    def test_proto_is_the_message_of_googlesql(self, con):
        """Read here by hand: field 1 is the value, whose field 4 is the interval of three
        doubles."""
        count, average = (
            base64.b64decode(con.sql(REPORTS.format("PROTO", "PROTO")).to_dict()[name][0])
            for name in ("n", "avg_age")
        )
        columns = con.sql(REPORTS.replace(", report_format => {}", "")).to_dict()
        assert count[0] == 0x0A and count[1] == len(count) - 2
        assert count[2:5] == bytes([0x08, columns["n"][0] % 128 | 128, columns["n"][0] // 128])
        assert count[5:7] == bytes([0x22, 27])
        ends = [struct.unpack("<d", count[at + 1 : at + 9])[0] for at in (7, 16, 25)]
        noise = columns["n"][0] - columns["n_low"][0]
        assert ends == [-noise, noise, 0.95]
        assert average[2] == 0x11
        assert struct.unpack("<d", average[3:11])[0] == columns["avg_age"][0]

    def test_another_level_changes_the_report_and_costs_nothing(self, con):
        result = con.sql(REPORTS.format("JSON", "JSON"))
        spent = con._kernel.ledger.pot("total").spent
        narrow = json.loads(result.interval(0.5).to_dict()["n"][0])["result"]
        wide = json.loads(result.to_dict()["n"][0])["result"]
        assert narrow["value"] == wide["value"]
        upper = [report["noise_confidence_interval"]["upper_bound"] for report in (narrow, wide)]
        assert 0 < upper[0] < upper[1]
        assert con._kernel.ledger.pot("total").spent == spent
        assert "noise_confidence_interval" in str(result) and result._repr_html_()

    def test_what_needs_numbers_is_refused(self, con):
        result = con.sql(REPORTS.format("JSON", "JSON"))
        for act in (result.nonnegative, result.consistent, result.plot):
            with pytest.raises(ParameterError, match="leave report_format out"):
                act()

    @pytest.mark.parametrize(
        ("written", "words"),
        [
            ("COUNT(*, report_format => xml)", "JSON or PROTO"),
            ("COUNT(*, report_format => JSON) + 1", "a column by itself"),
            ("COUNT(*, report_format => JSON, report_format => JSON)", "given twice"),
            ("UPPER(ward, report_format => JSON)", "function of a key"),
        ],
    )
    def test_a_report_that_cannot_be_given_says_why(self, con, written, words):
        with pytest.raises(QueryError, match=words):
            con.sql(f"SELECT ward, {written} AS n FROM visits GROUP BY ward", epsilon=1)
        assert con._kernel.ledger.pot("total").spent == 0
