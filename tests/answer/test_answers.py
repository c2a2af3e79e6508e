"""From SQL text to rows: without noise the numbers of the oracle, and with it intervals that cover
them."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction as F
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

from dither.answer.asked import read_question
from dither.answer.blocks import make_blocks
from dither.answer.choose_rows import choose_rows
from dither.answer.evaluate import evaluate, make_inputs
from dither.answer.intervals import compute_interval
from dither.answer.noises import list_noises
from dither.answer.result import make_result
from dither.answer.table import make_column
from dither.privacy.kernel.release import Release
from dither.privacy.kernel.request import Price
from dither.question.expressions import Apply, KeyValue, Noisy
from dither.question.recipe import Order, Output
from tests.answer import asked, handmade
from tests.case_lists import mark_between, mark_rest
from tests.datasets import clinic_sql, hospital

QUESTIONS = [
    "SELECT ward, COUNT(*) AS n, SUM(cost) AS c, AVG(cost) AS m FROM visits GROUP BY ward",
    "SELECT COUNT(*) AS n, VARIANCE(cost) AS v, STDDEV(cost) AS s, CORR(cost, score) AS r FROM "
    "visits",
    "SELECT sex, REGR_SLOPE(age, age) AS b, AVG(age) AS a FROM patients GROUP BY sex",
    "SELECT county, ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP(county, ward)",
    "SELECT ward, COUNT(*) AS n FROM visits WHERE county IN (SELECT county FROM stations) GROUP BY "
    "ward",
    "SELECT COUNT(*) AS n FROM visits v WHERE NOT EXISTS (SELECT 1 FROM stations s WHERE s.county "
    "= v.county)",
    "SELECT k, SUM(x) AS s "
    "FROM (SELECT ward AS k, cost AS x FROM visits UNION ALL SELECT sex, age FROM patients) GROUP "
    "BY k",
    "SELECT COUNT(doctor_id) AS n, COUNT(*) AS a, COUNT_IF(doctor_id IS NULL) AS m FROM visits",
    "SELECT county, urgent, COUNT(*) AS n, GROUPING(urgent) AS g FROM visits GROUP BY CUBE(county, "
    "urgent)",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) > 30 ORDER BY n DESC",
    "SELECT diagnosis, COUNT(*) AS n FROM visits GROUP BY diagnosis ORDER BY n DESC LIMIT 2",
    "SELECT diagnosis, urgent, SUM(cost) AS c FROM visits GROUP BY diagnosis, urgent",
    "SELECT DATE_TRUNC('month', date) AS m, COUNT_IF(urgent) / COUNT(*) AS u FROM visits GROUP BY "
    "1 ORDER BY 1 DESC",
    "SELECT score, 100 * SUM(cost) / NULLIF(COUNT(cost), 0) AS pence FROM visits GROUP BY score",
    "SELECT p.sex, COUNT(DISTINCT v.patient_id) AS people FROM patients p JOIN visits v ON "
    "p.patient_id = v.patient_id "
    "GROUP BY p.sex",
    "SELECT c.region, SUM(v.cost) AS c FROM visits v JOIN counties c ON v.county = c.county GROUP "
    "BY c.region",
    "SELECT c.county, COUNT(v.visit_id) AS n FROM counties c LEFT JOIN visits v ON c.county = "
    "v.county GROUP BY 1",
    "SELECT n, COUNT(*) AS people FROM (SELECT patient_id, LEAST(COUNT(*), 6) AS n FROM visits "
    "GROUP BY patient_id) "
    "GROUP BY n",
    "SELECT MEDIAN(cost) AS m, QUANTILE(cost, 0.9) AS q FROM visits",
    "SELECT ward, CASE WHEN COUNT(*) > 40 THEN 'busy' ELSE 'quiet' END AS how, ROUND(AVG(cost), 1) "
    "AS m FROM visits "
    "GROUP BY ward",
    "SELECT urgent, COUNT(*) AS n FROM visits WHERE date BETWEEN DATE '2024-03-01' AND DATE "
    "'2025-03-01' "
    "GROUP BY urgent ORDER BY n NULLS FIRST LIMIT 1 OFFSET 1",
]


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("heads")))
        yield asked.connection(tmp_path_factory.mktemp("answers") / "clinic", rows=asked.few_rows())


@pytest.fixture(scope="module")
def oracle():
    with hospital.registered(asked.few_rows(), clinic_sql.catalog()) as found:
        yield found


def without_noise(con, sql):
    question = read_question(sql)
    found = con._offers.offer(con._offers.bind(question), question, Price(F(10)), con._view())
    values = asked.exact_values(con, found.priced)
    return found.recipe, Release("1", found.priced, values, F(1), F(1), F(1), "now")


@pytest.mark.parametrize("sql", mark_between(QUESTIONS, step=3))
def test_without_noise_the_rows_are_those_of_the_oracle(con, oracle, sql):
    """The oracle walks Python lists with fractions; it shares no code with plans, engine or
    answers."""
    recipe, release = without_noise(con, sql)
    found = make_result(release, recipe, 0.95, INFO).to_dict(intervals=False)
    expected = clinic_sql.answers(con.bind(sql), oracle)
    names = [output.name for output in recipe.outputs]
    assert list(found) == names
    assert len(next(iter(found.values()))) == len(expected)
    for row, want in enumerate(expected):
        for name in names:
            got, wanted = asked.plain(found[name][row]), asked.plain(want[name])
            if isinstance(wanted, float) and isinstance(got, bool):
                got = float(got)
            if isinstance(wanted, float):
                assert got == pytest.approx(wanted, rel=1e-6, abs=1e-6), (sql, row, name)
            elif wanted is None and not want["_empty"]:
                assert got is None, (sql, row, name)
            elif wanted is not None:
                assert got == wanted, (sql, row, name)


INFO = {
    "measure": "epsilon", "charged": "1/1", "pot": "total", "repeated": False, "sql": "SELECT ...",
    "unit": "person",
    "neighbours": "add_remove", "unprotected": ["time"],
}  # fmt: skip


class TestCoverage:
    """Real releases of the whole way, 500 of each, against the exact answer on the registered
    table."""

    SQL = (
        "SELECT ward, COUNT(*) AS n, SUM(cost) AS c, AVG(cost) AS m, COUNT_IF(urgent) / COUNT(*) "
        "AS u "
        "FROM visits GROUP BY ROLLUP(ward)"
    )

    @pytest.mark.parametrize(
        "price", mark_rest([{"epsilon": 4}, {"rho": F(1, 2)}, {"epsilon": 40}], quick=1)
    )
    def test_columns_of_a_rollup(self, con, price):
        """90 % intervals of every cell and column; each check alarms falsely below 1e-9 (exact
        binomial)."""
        question = read_question(self.SQL, quantile_intervals=False)
        exact_price = Price(**{name: F(value) for name, value in price.items()})
        found = con._offers.offer(con._offers.bind(question), question, exact_price, con._view())
        recipe, priced = found.recipe, found.priced
        assert {each.step.family for each in priced.steps} == {
            "gaussian" if "rho" in price else "box"
        }
        noises = list_noises(recipe, [each.mechanism for each in priced.steps])
        truth = make_blocks(recipe, asked.exact_values(con, priced))
        measurer = con._kernel.prepare(priced)
        exact = con._kernel.measure_with_retries(priced, measurer)
        measurer.close()
        found = [make_blocks(recipe, con._kernel.randomise(priced, exact)) for _ in range(500)]
        for i, noise in enumerate(noises):
            atoms = tuple(
                np.concatenate([each[i].atoms[a] for each in found])
                for a in range(len(recipe.atoms))
            )
            cells = truth[i].rows
            many = replace(
                truth[i],
                rows=500 * cells,
                atoms=atoms,
                keys={k: v * 500 for k, v in truth[i].keys.items()},
            )
            for output in recipe.outputs:
                if output.role == "value":
                    wanted = np.tile(evaluate(output.formula, make_inputs(recipe, truth[i])), 500)
                    low, high = compute_interval(
                        output.formula, make_inputs(recipe, many), noise, F(9, 10)
                    )
                    hits = ~((wanted < low - 1e-6) | (wanted > high + 1e-6)).reshape(500, cells)
                    assert (hits.sum(0) >= binom.ppf(1e-9, 500, 0.9)).all(), (
                        output.name,
                        hits.sum(0),
                    )

    def test_rows_chosen_by_their_noise_still_cover(self):
        """The ten largest of 200 equal cells: at the plain level they miss far too often, at the
        widened one not."""
        recipe = handmade.by_ward(
            Output("n", Noisy(0), "value"),
            keys=("day",),
            order=(Order(Noisy(0), descending=True),),
            limit=10,
        )
        priced = SimpleNamespace(steps=[SimpleNamespace(mechanism=_laplace(20), width=2**62)] * 3)
        noises = list_noises(recipe, [each.mechanism for each in priced.steps])
        cells = 366 + 1
        from dither.privacy import noise

        plain = wide = shown = 0
        for _ in range(60):
            values = (
                tuple(int(v) for v in 100 + noise.discrete_laplace(20, cells)),
                (0,) * cells,
                (0,) * cells,
            )
            rows = choose_rows(recipe, values)
            assert rows.is_choice and (rows.shown_count, rows.candidate_count) == (10, cells)
            for level, add in ((F(9, 10), "plain"), (rows.level(F(9, 10)), "wide")):
                found = make_column(recipe, recipe.outputs[1], rows, noises, [2**62] * 3, level)
                hits = sum(
                    low <= 100 <= high for low, high in zip(found.low, found.high, strict=True)
                )
                plain, wide = plain + hits * (add == "plain"), wide + hits * (add == "wide")
            shown += rows.shown_count
        assert plain < binom.ppf(1e-9, shown, 0.9)  # planted: the level is not widened
        assert wide >= binom.ppf(1e-9, shown, 0.9)


def _laplace(scale):
    from dither.plan.norms import Sensitivity
    from dither.privacy.mechanisms import IntegerLaplace

    return IntegerLaplace(F(scale), Sensitivity.of())


class TestRows:
    def release(self, values, width=2**62):
        steps = [SimpleNamespace(mechanism=_laplace(2), width=width) for _ in values]
        priced = SimpleNamespace(steps=steps)
        version = SimpleNamespace(analyses=None)
        return SimpleNamespace(values=tuple(values), priced=priced, version=version)

    def test_a_choice_by_public_conditions_is_no_choice(self):
        recipe = handmade.by_ward(
            having=Apply("ne", (KeyValue(0), handmade.Constant("other"))), limit=1
        )
        rows = choose_rows(recipe, ((1, 2, 3, 4),) * 3)
        assert (rows.shown_count, rows.is_choice, rows.level(F(1, 2))) == (1, False, F(1, 2))

    def test_order_is_stable_and_puts_nulls_where_asked(self):
        ratio = Apply("divide", (Noisy(1), Noisy(0)))
        values = ((1, 0, 1, 2), (700, 5, 300, 600), (0, 0, 0, 0))
        for first, expected in (
            (False, ["other", None, "north", "south"]),
            (True, ["south", "other", None, "north"]),
        ):
            recipe = handmade.by_ward(order=(Order(ratio, nulls_first=first),))
            found = make_result(self.release(values), recipe, 0.9, INFO)
            assert found.to_dict()["ward"] == expected  # 3.00 and 3.00 tie: order of the keys

    def test_numbers_beyond_64_bits_stay_whole(self):
        big = 10**25
        recipe = handmade.by_ward(Output("n", Noisy(0), "value"))
        found = make_result(
            self.release([(big, -big, 0, 1)] * 3, width=10**38 - 1), recipe, 0.95, INFO
        )
        assert found.to_dict()["n"][:2] == [Decimal(big), Decimal(-big)]
        assert found.to_dict()["n_high"][0] == big + 6
        assert str(found.table.schema.field("n").type) == "decimal128(38, 0)"

    def test_steps_of_different_shapes_are_all_in_raw(self):
        recipe = handmade.rollup()
        shapes = [8, 8, 4, 4, 1, 1]
        found = make_result(
            self.release([tuple(range(size)) for size in shapes]), recipe, 0.95, INFO
        )
        assert [found.raw[f"step_{i}"].drop_null().to_pylist() for i in range(6)] == [
            list(range(n)) for n in shapes
        ]
        assert found.to_dict()["urgent"] == [False, True] * 4 + [None] * 5
        assert found.to_dict()["ward"][-1] is None

    def test_dates_have_dates_at_their_ends(self, con):
        found = con.sql("SELECT MAX(date) AS last, COUNT(*) AS n FROM visits", epsilon=50)
        assert isinstance(found.to_dict()["last"][0], datetime.date)
        assert (
            found.to_dict()["last_low"][0]
            <= found.to_dict()["last"][0]
            <= found.to_dict()["last_high"][0]
        )
        assert any("99% quantile" in note for note in found.columns[0].notes)

    def test_nothing_selected_has_the_same_types_as_something(self, con):
        """A price so small that no key is shown: no rows, no error, and the types are those of the
        recipe."""
        sql = (
            "SELECT diagnosis, COUNT(*) AS n, AVG(cost) AS m, STDDEV(cost) AS s FROM "
            "visits GROUP BY diagnosis"
        )
        none, some = con.sql(sql, epsilon="0.5"), con.sql(sql, epsilon=500)
        assert none.table.num_rows == 0 < some.table.num_rows
        assert none.table.schema.equals(some.table.schema) and none.raw.schema.equals(
            some.raw.schema
        )
        assert "NULL" not in str(none) and none._repr_html_().count("<tr>") == 1

    @pytest.mark.parametrize("level", ["0.000001", "0.9999", "0.999999", "0.999999999999"])
    def test_any_level_has_an_answer(self, con, level):
        """Whatever fails after the charge costs: so nothing may."""
        sql = (
            "SELECT ward, COUNT(*) AS n, AVG(cost) AS m, STDDEV(cost) AS s FROM visits "
            "GROUP BY 1 ORDER BY n LIMIT 3"
        )
        found = con.sql(sql, epsilon=20, confidence=level).to_dict()
        assert found["n_low"][0] <= found["n"][0] <= found["n_high"][0]
        assert len(found["m"]) == 3


class TestShown:
    @pytest.fixture
    def result(self, con):
        return con.sql(
            "SELECT ward, COUNT(*) AS n, AVG(cost) AS m FROM visits GROUP BY ward", epsilon=20
        )

    def test_text_and_html(self, result):
        assert "95% interval" in str(result) and "…" in str(result)
        html = result._repr_html_()
        assert html.count("<tr>") == 1 + result.table.num_rows and "<script" not in html

    def test_labels_are_escaped(self):
        recipe = handmade.by_ward(Output("<b>[red]n", Noisy(0), "value"))
        release = TestRows().release([(1, 2, 3, 4)] * 3)
        found = make_result(release, recipe, 0.95, INFO)
        assert "<b>" not in found._repr_html_() and "&lt;b&gt;" in found._repr_html_()
        assert "<b>[red]n" in str(found)

    def test_explanation_names_limits_and_what_is_not_protected(self, result):
        words = result.explain()
        assert "at most 20 rows per person" in words and "clamped to" in words
        assert "Not protected:" in words and "not covered" in words

    def test_plot_has_a_bar_and_an_interval_for_every_row(self, result):
        import matplotlib

        matplotlib.use("Agg")
        axes = result.plot("n")
        assert len(axes.patches) == result.table.num_rows and len(axes.containers) >= 1
        with pytest.raises(Exception, match="no value column 'nothing'"):
            result.plot("nothing")
        matplotlib.pyplot.close("all")

    def test_nan_never_reaches_the_table(self, result):
        for name in result.table.column_names:
            assert not any(
                isinstance(v, float) and math.isnan(v) for v in result.table[name].to_pylist()
            )
