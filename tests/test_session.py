"""The analyst's day: preview, ask, look at intervals, see what is left."""

from __future__ import annotations

import json
from fractions import Fraction

import pyarrow as pa
import pytest

from dither import BudgetError, DitherError, ParameterError, QueryError, RefusedError, connect
from dither.data.measure import Measurer
from dither.laws import find_error_law
from dither.privacy.kernel.kernel import Kernel
from tests.case_lists import mark_rest
from tests.datasets import clinic

QUESTION = "SELECT ward, COUNT(*) AS n, SUM(cost) AS cost FROM visits WHERE age >= 18 GROUP BY ward"


@pytest.fixture
def con(tmp_path):
    rows = [
        clinic.row(f"v{i}", f"p{i}", ward=["north", "south"][i % 2], cost="100") for i in range(100)
    ]
    file, place = clinic.register(tmp_path, rows)
    clinic.open_total(place)
    return connect(file)


class TestResult:
    """What a question returns."""

    def test_every_value_is_followed_by_its_interval(self, con):
        res = con.sql(QUESTION, epsilon=2)
        assert [c.name for c in res.columns] == [
            "ward",
            "n",
            "n_low",
            "n_high",
            "cost",
            "cost_low",
            "cost_high",
        ]
        assert [c.role for c in res.columns] == ["key", *["value", "low", "high"] * 2]
        table = res.to_dict()
        for name in ("n", "cost"):
            for value, low, high in zip(
                table[name], table[f"{name}_low"], table[f"{name}_high"], strict=True
            ):
                assert low < value < high
                assert value - low == pytest.approx(high - value)

    def test_all_declared_keys_come_back_in_catalog_order_then_other_then_null(self, con):
        assert con.sql(QUESTION, epsilon=1).to_dict()["ward"] == ["north", "south", "other", None]

    def test_types_come_from_the_catalog(self, con):
        schema = con.sql(QUESTION, epsilon=1).to_arrow().schema
        assert [schema.field(name).type for name in ("ward", "n", "cost")] == [
            pa.string(),
            pa.int64(),
            pa.float64(),
        ]
        by = con.sql("SELECT urgent, score, COUNT(*) FROM visits GROUP BY urgent, score", epsilon=1)
        assert by.to_arrow().schema.field("urgent").type == pa.bool_()
        assert by.to_dict()["score"][:12] == [*range(-5, 6), None]
        assert by.table.num_rows == 2 * 12

    def test_values_are_raw_noisy_integers_on_the_grid(self, con):
        res = con.sql(QUESTION, epsilon=0.1)
        raw = res.raw.to_pydict()
        assert list(raw) == ["step_0"], (
            "counts and sums of the same rows share a step, cell by cell"
        )
        assert res.to_dict()["n"] == raw["step_0"][::2]
        assert res.to_dict()["cost"] == [value / 100 for value in raw["step_0"][1::2]]

    def test_interval_recomputes_for_free(self, con):
        res = con.sql(QUESTION, epsilon=1)
        spent = con.budget().pots[0].spent
        wide = res.interval(0.999)
        assert wide.to_dict()["n"] == res.to_dict()["n"]
        assert wide.to_dict()["n_low"][0] < res.to_dict()["n_low"][0]
        assert con.budget().pots[0].spent == spent

    def test_frames_carry_the_facts(self, con):
        res = con.sql(QUESTION, epsilon=1)
        assert res.to_pandas().attrs["dither"]["charged"] == res.info["charged"]
        assert list(res.to_pandas(intervals=False).columns) == ["ward", "n", "cost"]
        assert res.to_polars().columns[:2] == ["ward", "n"]
        stored = json.loads(res.to_arrow().schema.metadata[b"dither"])
        assert stored == res.info

    def test_info_is_complete_and_tells_nothing_of_the_data(self, con):
        info = con.sql(QUESTION, epsilon=1).info
        assert set(info) == {
            "release_id", "dataset", "lineage", "version", "catalog_hash", "plan_hash", "sql",
            "context", "mode",
            "principal", "pot", "rule", "unit", "neighbours", "price_asked", "charged", "loss",
            "pot_spent_after",
            "pot_cap", "repeated", "measure", "price_in", "charges",
            "released_at", "dither_version", "loss_version", "unprotected",
        }  # fmt: skip
        assert (info["unit"], info["neighbours"], info["context"]) == (
            "person",
            "add_remove",
            "prod",
        )
        assert len(info["unprotected"]) == 7

    def test_columns_say_what_was_done(self, con):
        cost = con.sql(QUESTION, epsilon=1).columns[4]
        assert cost.limits == ("at most 3 rows per person", "cost clamped to [-10, 500]")
        assert (cost.sensitivity, cost.scale, cost.resolution) == (1500, 1500, Fraction(1, 100))

    def test_without_group_by_there_is_one_row(self, con):
        assert con.sql("SELECT COUNT(*) FROM visits", epsilon=1).table.num_rows == 1

    def test_an_empty_table_has_the_same_shape(self, con, tmp_path):
        file, place = clinic.register(tmp_path / "empty", [])
        clinic.open_total(place, relations={"clinic": "same"})
        empty = connect(file).sql(QUESTION, epsilon=1)
        full = con.sql(QUESTION, epsilon=1)
        assert empty.to_arrow().schema.equals(full.to_arrow().schema)
        assert empty.to_dict()["ward"] == full.to_dict()["ward"]
        assert empty.columns == full.columns


def test_intervals_cover_the_answer_on_the_registered_table(con):
    """1,000 releases at 90 %: at least 839 cover, but for a chance below 1e-9 (exact binomial)."""
    from scipy.stats import binom

    priced = con._kernel.price(con.request("SELECT COUNT(*) FROM visits", epsilon=1))
    half = find_error_law(priced.steps[0].mechanism).interval(0.9)
    measured = con._kernel.measure(priced, con._kernel.prepare(priced))
    covered = sum(
        abs(con._kernel.randomise(priced, measured)[0][0] - 100) <= half for _ in range(1000)
    )
    assert covered >= binom.ppf(1e-9, 1000, 0.9)


class TestPreview:
    def test_shows_price_and_error_and_reads_no_data(self, con, monkeypatch):
        monkeypatch.setattr(Measurer, "measure", lambda *_: pytest.fail("read data"))
        shown = con.preview(QUESTION, epsilon=1)
        assert con.budget().pots[0].spent == 0
        count, cost = shown.columns
        assert (count.scale, cost.scale) == (
            3,
            1500,
        )  # one noise for both: 3 rows of at most 1 and 500
        assert (
            count.half_width == 12
        )  # P(|Z| > w) is near e^-y (1 + y/2), y = w/3: 0.055 at 12, 0.052 at 12 + 1/2
        assert shown.rows == 4
        assert "enough for 10 like this" in str(shown)

    def test_is_the_same_for_every_database(self, con, tmp_path):
        file, place = clinic.register(tmp_path / "empty", [])
        clinic.open_total(place, relations={"clinic": "same"})
        here, there = (each.preview(QUESTION, epsilon=1) for each in (con, connect(file)))
        assert (here.columns, here.rows, here.charged) == (there.columns, there.rows, there.charged)

    def test_works_without_a_pot_and_sql_says_what_to_do(self, tmp_path):
        file, _ = clinic.register(tmp_path, [])
        con = connect(file)
        assert con.preview(QUESTION, epsilon=1).left is None
        with pytest.raises(
            BudgetError, match=r"dither budget open \S+clinic\.yaml total --epsilon 3 --ceiling 5"
        ):
            con.sql(QUESTION, epsilon=1)


class TestVersions:
    def test_a_connection_follows_new_versions(self, con, tmp_path):
        assert con.sql(QUESTION, epsilon=1).info["version"] == 1
        clinic.register(tmp_path, [])
        assert con.sql(QUESTION, epsilon=1).info["version"] == 2

    def test_a_new_version_with_another_catalog_ends_old_connections_before_anything_is_charged(
        self, con, tmp_path
    ):
        clinic.register(
            tmp_path, [], clinic.CATALOG.replace("[north, south]", "[north, south, west]")
        )
        with pytest.raises(RefusedError, match="connect again"):
            con.sql(QUESTION, epsilon=1)
        assert con.budget().pots[0].spent == 0

    def test_a_version_registered_during_a_question_does_not_mix_with_it(
        self, con, tmp_path, monkeypatch
    ):
        """Bound and priced on version 1, the release is measured on version 1 and says so."""
        honest = Kernel.prepare

        def racing(self, priced):
            monkeypatch.setattr(Kernel, "prepare", honest)
            clinic.register(
                tmp_path, [], clinic.CATALOG.replace("[north, south]", "[north, south, west]")
            )
            return honest(self, priced)

        monkeypatch.setattr(Kernel, "prepare", racing)
        res = con.sql(QUESTION, epsilon=1)
        assert (res.info["version"], res.table.num_rows) == (1, 4)


BAD_PRICES = [0, "x", float("nan"), -1, float("inf"), True, None, "1/0", [1]]
BAD_LEVELS = [1, "high", 0, 2, -0.5, float("nan"), "0.99999999999999999999"]


class TestBadInput:
    """A clear error before any data is read, and nothing spent."""

    @pytest.mark.parametrize("epsilon", mark_rest(BAD_PRICES, quick=3))
    def test_prices(self, con, epsilon):
        with pytest.raises(ParameterError, match="epsilon|price"):
            con.sql(QUESTION, epsilon=epsilon)
        assert con.budget().pots[0].spent == 0

    @pytest.mark.parametrize("confidence", mark_rest(BAD_LEVELS, quick=2))
    def test_levels(self, con, confidence):
        with pytest.raises(ParameterError, match="confidence"):
            con.sql(QUESTION, epsilon=1, confidence=confidence)
        assert con.budget().pots[0].spent == 0

    def test_other_currencies(self, con):
        with pytest.raises(RefusedError, match="a pure budget cannot pay for"):
            con.sql(QUESTION, rho=0.1)
        with pytest.raises(ParameterError, match="delta is not the asker's to choose"):
            con.sql(QUESTION, epsilon=1, delta=1e-6)
        assert con.budget().pots[0].spent == 0

    def test_questions(self, con):
        with pytest.raises(QueryError):
            con.sql("SELECT nothing FROM visits", epsilon=1)
        assert con.budget().pots[0].spent == 0

    def test_an_absurdly_small_price_is_refused_before_it_is_charged(self, con):
        with pytest.raises(DitherError):
            con.sql(QUESTION, epsilon="1e-30")
        assert con.budget().pots[0].spent == 0

    def test_nothing_registered(self, tmp_path):
        (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
        with pytest.raises(DitherError, match="dither register"):
            connect(tmp_path / "clinic.yaml")


def test_a_refused_question_is_bound_once_for_a_connection(con, monkeypatch):
    """All its reasons are found when it is refused first; asked again, nothing is bound."""
    sql = "SELECT nothing, AVG(absent) FROM visits"
    with pytest.raises(QueryError) as first:
        con.preview(sql, epsilon=1)

    def refuse_to_bind(*arguments, **named):
        raise AssertionError("bound again")

    monkeypatch.setattr("dither.answer.asked.bind", refuse_to_bind)
    for ask in (con.preview, con.sql, con.explain):
        with pytest.raises(QueryError) as again:
            ask(sql, epsilon=1)
        assert str(again.value) == str(first.value)
