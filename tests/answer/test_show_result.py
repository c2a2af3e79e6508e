"""What a person sees of an answer: limits, bounds of averages, reasons of NULLs, rehearsals."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from dither import connect, steward
from dither.answer.average_bounds import clamp_interval, clamp_value
from dither.answer.result import ABOUT_NOBODY
from dither.answer.show_result import list_footnotes
from dither.catalog import load
from dither.cli.main import app
from tests.case_lists import mark_between, mark_rest
from tests.datasets import clinic

COUNTS = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
AVERAGES = "SELECT ward, AVG(cost) AS m FROM visits GROUP BY ward"
LIMIT = "at most 3 rows per person"


def words(shown) -> str:
    """A text with its lines joined."""
    return " ".join(str(shown).split())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        heads = str(tmp_path_factory.mktemp("heads"))
        patch.setenv("XDG_STATE_HOME", heads)
        rows = [clinic.row(f"v{i}", f"p{i}", ward=["north", "south"][i % 2]) for i in range(40)]
        file, state = clinic.register(tmp_path_factory.mktemp("shown") / "clinic", rows)
        clinic.open_total(state)
        yield file, connect(file), heads


@pytest.fixture
def con(made):
    return made[1]


def with_release(result, numbers):
    """The result that would be shown if these integers had been released."""
    return replace(result, _release=replace(result._release, values=(tuple(numbers),)))


class TestLimits:
    @pytest.mark.parametrize(
        "sql",
        mark_between(
            [
                COUNTS,
                AVERAGES,
                "SELECT COUNT(*) AS n FROM visits",
                "SELECT MEDIAN(age) AS a FROM visits",
                "SELECT ward, n, SUM(n) OVER () AS s FROM "
                "(SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)",
            ],
            step=2,
        ),
    )
    def test_every_printed_answer_has_the_limit(self, con, sql):
        result = con.sql(sql, epsilon=1, dry_run=True)
        assert LIMIT in words(result)
        assert LIMIT in words(repr(result))
        assert LIMIT in result._repr_html_()
        assert any(LIMIT in note for note in result.footnotes)

    def test_a_chart_has_it_too(self, con):
        pytest.importorskip("matplotlib").use("Agg")
        axes = con.sql(COUNTS, epsilon=1, dry_run=True).plot()
        assert LIMIT in axes.get_xlabel() and "about nobody" in axes.get_xlabel()

    def test_a_unit_of_rows_has_none(self, tmp_path):
        text = clinic.CATALOG.replace("unit: {kind: person}", "unit: {kind: row}")
        text = text.replace("people:\n  patient: {protected: true}\n", "people: {}\n")
        text = text.replace("    owner: {column: patient}\n", "")
        text = text.replace("patient: {type: id}", "patient: {type: text, width: 9, nulls: keep}")
        text = text.replace("rows_per_unit: 3", "rows_per_unit: 1")
        file, state = clinic.register(tmp_path / "rows", [clinic.row("v1", "p1")], text)
        clinic.open_total(state)
        assert "per row" not in words(connect(file).sql(COUNTS, epsilon=1, dry_run=True))


class TestAverages:
    """The cost lies in [-10, 500]; its average is 245 plus a sum of hundredths over a count."""

    def test_values_beyond_the_public_bounds_are_shown_at_the_bound_with_the_raw_value(self, con):
        result = con.sql(AVERAGES, epsilon=1, dry_run=True)
        # (count, sum of cost - 245 in hundredths) of north, south, other and NULL
        far = with_release(result, (2, 200_000, 10, -400_000, 1000, 0, 1000, 100))
        # Means: 245 + 2000 / 2, 245 - 4000 / 10, 245, 245 + 1 / 1000.
        assert far.to_dict()["m"] == [1245.0, -155.0, 245.0, 245.001]
        assert far.to_pandas()["m"].tolist() == far.to_arrow()["m"].to_pylist()
        shown = words(far)
        assert "500.00 (raw 1,245.00)" in shown and "-10.00 (raw -155.00)" in shown
        assert shown.count("(raw") == 2
        assert "m: an average of values in [-10, 500] lies there too" in shown
        assert "500.00 (raw 1,245.00)" in far._repr_html_()

    @pytest.mark.parametrize(
        ("order", "expected"),
        [
            ("m DESC", [2945.0, 1245.0, 245.001, -155.0]),
            ("m", [-155.0, 245.001, 2945.0, 1245.0]),
            ("AVG(cost) DESC, ward", [1245.0, 2945.0, 245.001, -155.0]),
        ],
    )
    def test_averages_are_sorted_as_they_are_shown(self, con, order, expected):
        """Two raw values are shown at 500: they tie, and keep the order of the keys, which is
        north, south, other, NULL, or are ordered by the next sort key, which has north first."""
        sql = f"{AVERAGES} ORDER BY {order}"
        result = con.sql(sql, epsilon=1, dry_run=True)
        # (count, sum of cost - 245 in hundredths) of north, south, other and NULL
        far = with_release(result, (10, -400_000, 1, 270_000, 2, 200_000, 1000, 100))
        table = far.to_dict()
        if "ward" in order:
            tied = dict(zip(table["m"], table["ward"], strict=True))
            assert tied[1245.0] < tied[2945.0]  # by ward: other before south
        assert table["m"] == expected
        assert "and sorted as shown" in words(far)

    def test_a_limit_takes_averages_as_they_are_shown(self, con):
        """The far noise of a small group does not win: the first of those at the bound does."""
        result = con.sql(f"{AVERAGES} ORDER BY m DESC LIMIT 1", epsilon=1, dry_run=True)
        far = with_release(result, (1, 30_000, 1, 270_000, 2, 200_000, 1000, 100))
        assert far.to_dict()["m"] == [545.0]

    def test_the_chart_stays_within_the_bounds(self, con):
        pytest.importorskip("matplotlib").use("Agg")
        result = con.sql(AVERAGES, epsilon=1, dry_run=True)
        far = with_release(result, (2, 200_000, 10, -400_000, 1000, 0, 1000, 100))
        assert [bar.get_width() for bar in far.plot().patches] == [500.0, -10.0, 245.0, 245.001]

    def test_values_within_are_shown_as_they_are(self, con):
        result = con.sql(AVERAGES, epsilon=1, dry_run=True)
        near = with_release(result, (1000, 0) * 4)
        assert "(raw" not in words(near) and "lies there too" not in words(near)

    def test_clamping_an_interval_keeps_the_exact_answer(self):
        """Whatever the interval, a number within the bounds is in it before and after, or not."""
        bounds = (0, 10)
        ends = (None, -5, 0, 4, 10, 15)
        for low in ends:
            for high in (end for end in ends if low is None or end is None or end >= low):
                cut = clamp_interval(low, high, bounds)
                for exact in range(11):
                    assert _covers(low, high, exact) == _covers(*cut, exact)
        assert clamp_interval(12, 15, bounds) == (12, 15)

    def test_a_value_without_bounds_stays(self):
        assert clamp_value(1e9, None) == 1e9 and clamp_value(None, (0, 1)) is None


def _covers(low, high, exact):
    return (low is None or low <= exact) and (high is None or exact <= high)


class TestEmptyAnswers:
    """An answer without a row says why, and what would show more."""

    def test_keys_that_too_few_people_share(self, tmp_path):
        """Five people share no key that is shown at epsilon 1, delta 1e-9: the chance that one
        passes is below its share of delta."""
        text = clinic.CATALOG.replace(
            "values: [north, south], other: keep, nulls: keep",
            "values: undeclared, width: 8, nulls: drop",
        )
        assert "undeclared" in text
        rows = [clinic.row(f"v{i}", f"p{i}") for i in range(5)]
        file, state = clinic.register(tmp_path / "few", rows, text)
        terms = {"rule": "approx", "delta": "1e-8", "delta_per_question": "1e-9"}
        steward.open_pot(state, load(file), "total", epsilon="2", ceiling="2",
                         purpose=clinic.PURPOSE, **terms)  # fmt: skip
        con = connect(file)
        result = con.sql(COUNTS, epsilon=1)
        size = con.preview(COUNTS, epsilon=1).smallest_group
        assert result.table.num_rows == 0
        why = f"no group is shown: a group of {size:,} persons is shown with 95%"
        assert why in words(result) and why in result._repr_html_()
        assert any(why in note for note in result.footnotes)

    def test_a_condition_that_no_group_meets(self, con):
        result = con.sql(f"{COUNTS} HAVING n > 1000000", epsilon=1, dry_run=True)
        assert result.table.num_rows == 0
        assert "no released group meets HAVING, OFFSET and LIMIT" in words(result)

    def test_an_answer_with_rows_says_neither(self, con):
        shown = words(con.sql(COUNTS, epsilon=1, dry_run=True))
        assert "no group is shown" not in shown and "no row is left" not in shown


class TestNulls:
    def test_no_interval_has_a_sentence(self, con):
        result = con.sql(AVERAGES, epsilon=1, dry_run=True)
        small = with_release(result, (1, 0) * 4)
        assert small.to_dict()["m_low"] == [None] * 4 == small.to_dict()["m_high"]
        assert "NULL … NULL is no interval: the noise is too large beside" in words(small)

    def test_no_value_has_a_sentence(self, con):
        result = con.sql(AVERAGES, epsilon=1, dry_run=True)
        empty = with_release(result, (0, 7) * 4)
        assert empty.to_dict()["m"] == [None] * 4
        assert "m: a value NULL is undefined at the numbers released" in words(empty)

    def test_a_quantile_without_ends_says_its_own_reason(self, con):
        sql = "SELECT MEDIAN(age) AS a FROM visits"
        shown = words(con.sql(sql, epsilon=1, quantile_intervals=False, dry_run=True))
        assert "NULL … NULL is no interval" in shown and "no interval in values" in shown
        assert "the noise is too large" not in shown

    def test_answers_with_intervals_say_nothing_of_null(self, con):
        result = con.sql(AVERAGES, epsilon=1, dry_run=True)
        large = with_release(result, (10_000, 0) * 4)
        notes = list_footnotes(large.columns, (), large.table.to_pylist())
        assert not [note for note in notes if "NULL" in note]


class TestRehearsals:
    @pytest.mark.parametrize("sql", [COUNTS, f"{COUNTS} UNION ALL {COUNTS}"])
    def test_it_is_marked_everywhere(self, con, sql):
        result = con.sql(sql, epsilon=1, dry_run=True)
        assert ABOUT_NOBODY in result.notes
        assert ABOUT_NOBODY in words(result) and ABOUT_NOBODY in words(repr(result))
        assert ABOUT_NOBODY in result._repr_html_()
        assert result.info["about"] == ABOUT_NOBODY
        assert json.loads(result.to_arrow().schema.metadata[b"dither"])["about"] == ABOUT_NOBODY
        assert ABOUT_NOBODY in result.interval(0.5).notes

    def test_it_names_no_price(self, con):
        assert "epsilon" not in words(con.sql(COUNTS, epsilon=1, dry_run=True))

    @pytest.mark.parametrize("form", mark_rest(["table", "json", "csv"], quick=1))
    def test_the_command_line_marks_it(self, made, form):
        command = ["sql", str(made[0]), COUNTS, "--epsilon", "1", "--dry-run", "--format", form]
        terms = {"COLUMNS": "200", "XDG_STATE_HOME": made[2]}
        done = CliRunner().invoke(app, command, env=terms)
        assert done.exit_code == 0 and ABOUT_NOBODY in done.output
        if form == "json":
            document = json.loads(done.stdout)
            assert ABOUT_NOBODY in document["info"]["footnotes"]
            assert document["info"]["about"] == ABOUT_NOBODY

    def test_an_answer_that_was_paid_is_not_marked(self, con):
        result = con.sql(COUNTS, epsilon=0.5)
        assert "nobody" not in words(result) and "about" not in result.info


class TestNotebook:
    def test_a_grouped_answer_has_a_chart(self, con):
        markup = con.sql(COUNTS, epsilon=1, dry_run=True)._repr_html_()
        assert "role='img'" in markup and "aria-label='n: north" in markup

    def test_a_single_number_has_none(self, con):
        markup = con.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1, dry_run=True)._repr_html_()
        assert "role='img'" not in markup
