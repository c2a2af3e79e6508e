"""What a question costs and how far off it will be, from public facts alone."""

from __future__ import annotations

import math
import re
from fractions import Fraction as F

import numpy as np
import pytest
from scipy.stats import binom, norm

from dither import ParameterError, Result, canonical
from dither.answer.documents import read_preview, write_preview
from dither.answer.explain import Explanation
from dither.answer.preview_columns import find_joint_level
from dither.answer.price_for_accuracy import find_least_price
from dither.builder import count
from dither.data.measure import Measurer
from dither.errors import DitherError
from dither.laws import find_error_law
from dither.privacy import noise
from dither.strict_json import read_json
from tests.answer import asked
from tests.case_lists import mark_rest

SQL = "SELECT ward, COUNT(*) AS n, AVG(cost) AS m FROM visits GROUP BY ward"
KEYS = "SELECT diagnosis, COUNT(*) AS n FROM visits GROUP BY diagnosis"


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("heads")))
        yield asked.connection(
            tmp_path_factory.mktemp("previews") / "clinic",
            rows=asked.few_rows(),
            epsilon="10",
            ceiling="10",
        )


def _words(shown):
    """A text with its lines joined."""
    return " ".join(str(shown).split())


class TestFigures:
    def test_laplace_against_the_formulas(self, con):
        """Laplace: sd sqrt(2) b, half-width b ln(1/beta), m cells jointly b ln(m/beta); integer
        noise rounds up."""
        shown = con.preview(
            "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=F(1, 2)
        ).column("n")
        b = 20 / 0.5
        assert shown.scale == b
        assert shown.standard_error == pytest.approx(math.sqrt(2) * b, rel=1e-3)
        assert shown.half_width == pytest.approx(b * math.log(20), abs=1)
        assert shown.joint_half_width == pytest.approx(
            b * math.log(1 / -math.expm1(math.log(0.95) / 4)), abs=1
        )

    def test_gaussian_against_the_formulas(self, con):
        """sigma = sqrt(D2^2 / 2 rho), half-width z sigma."""
        shown = con.preview("SELECT COUNT(*) AS n FROM visits", rho=F(1, 8)).column("n")
        assert shown.scale == pytest.approx(40) and shown.half_width == pytest.approx(
            40 * norm.ppf(0.975), abs=1.1
        )

    def test_relative_error_and_break_even(self, con):
        shown = con.preview("SELECT COUNT(*) AS n FROM visits", epsilon=1, group_size=4000).column(
            "n"
        )
        assert shown.relative_error == pytest.approx(shown.half_width / 4000)

    def test_an_average_without_a_group_size_is_that_of_the_smallest_group_that_survives(self, con):
        """By brute force: the group before it has no interval narrower than the bounds [0, 5000]
        of the cost, for one cell or for all of them."""

        def is_narrow(size):
            column = con.preview(SQL, epsilon=1, group_size=size).column("m")
            widths = (column.half_width, column.joint_half_width)
            return all(width is not None and width <= 2500 for width in widths)

        preview = con.preview(SQL, epsilon=1)
        (note,) = (note for note in preview.column("m").notes if "smallest" in note)
        size = int(re.search(r"a group of ([\d,]+) rows", note).group(1).replace(",", ""))
        assert is_narrow(size) and not is_narrow(size - 1)
        with_size = con.preview(SQL, epsilon=1, group_size=size).column("m")
        assert preview.column("m").half_width == with_size.half_width
        assert preview.group_size is None and "pass group_size= for another" in _words(preview)

    def test_an_average_over_all_rows_says_for_how_many_rows_its_width_holds(self, con):
        """By brute force as above; ten times the rows divide the width by more than seven. There
        is no group to speak of."""
        sql = "SELECT AVG(cost) AS m FROM visits"
        preview = con.preview(sql, epsilon=1).column("m")
        (note,) = (note for note in preview.notes if "rows" in note and "±" in note)
        assert "smallest" not in note and "a group of" not in note
        size = int(re.search(r"holds for ([\d,]+) rows in all", note).group(1).replace(",", ""))
        widths = {
            rows: con.preview(sql, epsilon=1, group_size=rows).column("m").half_width
            for rows in (size - 1, size, 10 * size)
        }
        assert widths[size - 1] is None or widths[size - 1] > 2500 >= widths[size]
        assert preview.half_width == widths[size] > 7 * widths[10 * size]

    def test_where_keys_are_selected_the_smallest_group_is_one_that_is_shown(self, con):
        sql = "SELECT diagnosis, AVG(cost) AS m FROM visits GROUP BY diagnosis"
        preview = con.preview(sql, epsilon=1000)
        assert preview.smallest_group > 1
        note = preview.column("m").notes[0]
        size = int(re.search(r"a group of ([\d,]+) rows", note).group(1).replace(",", ""))
        assert size >= preview.smallest_group

    def test_an_average_errs_less_in_large_groups(self, con):
        widths = [
            con.preview(SQL, epsilon=1, group_size=size).column("m").half_width
            for size in (2000, 8000, 32000)
        ]
        assert widths[0] > 3 * widths[1] > 9 * widths[2]

    def test_the_average_errs_as_predicted(self, con):
        """At the reference cell, AVG of 8,000 rows half at 0 and half at 5000: 1,000 draws, nine in
        ten inside."""
        shown = con.preview(SQL, epsilon=1, group_size=8000, confidence=F(9, 10)).column("m")
        priced = con._kernel.price(con.request(SQL, epsilon=1))
        (step,) = priced.steps
        drawn = step.mechanism.release(np.zeros((1000, 3), np.int64)).T
        draws = {
            type(column).__name__: noise
            for column, noise in zip(step.step.query.columns, drawn, strict=True)
        }
        means = (draws["Sum"] / 100) / (
            8000 + draws["CountValues"]
        )  # around the middle of the bounds
        inside = (np.abs(means) <= shown.half_width * 1.02).sum()
        assert binom.ppf(1e-9, 1000, 0.9) <= inside <= binom.isf(1e-9, 1000, 0.93)

    def test_joint_intervals_hold_together(self):
        """4,000 times 50 cells: all inside at once as often as said."""
        level = find_joint_level(F(9, 10), 50)
        from dither.laws import LaplaceErrorLaw

        half = LaplaceErrorLaw(F(30)).interval(level)
        together = (np.abs(noise.discrete_laplace(30, (4000, 50))) <= half).all(axis=1).sum()
        assert binom.ppf(1e-9, 4000, 0.9) <= together <= binom.isf(1e-9, 4000, 0.93)

    def test_keys_that_are_not_listed(self, con):
        shown = con.preview(KEYS, epsilon=1)
        keys = next(
            e
            for e in con._kernel.price(con.request(KEYS, epsilon=1)).steps
            if e.step.family.endswith("keys")
        )
        assert (
            shown.smallest_group == find_error_law(keys.mechanism).size_shown(F(95, 100))
            and shown.rows is None
        )
        assert find_error_law(keys.mechanism).chance(shown.smallest_group) >= 0.95
        assert f"a group of {shown.smallest_group:,} persons is shown with 95%" in " ".join(
            str(shown).split()
        )

    def test_what_is_left(self, con):
        shown = con.preview(SQL, epsilon=3)
        assert "afterwards 7, about 2 more" in " ".join(str(shown).split())
        too_much = con.preview(SQL, epsilon=11)
        assert not too_much.fits and "it does not fit the budget" in str(too_much)

    def test_public_conditions_are_known_before(self, con):
        sql = (
            "SELECT c.county, COUNT(v.cost) AS n FROM counties c LEFT JOIN visits v ON "
            "c.county = v.county GROUP BY 1"
        )
        assert con.preview(sql, epsilon=1).rows == 4


class TestPrices:
    @pytest.mark.parametrize("within", mark_rest([200, 30], quick=1))
    def test_the_least_price_for_an_accuracy(self, con, within):
        """Laplace: epsilon = D ln(1/beta) / t, up to whole numbers and three digits."""
        shown = con.preview("SELECT COUNT(*) AS n FROM visits", within=within)
        assert shown.column("n").half_width <= within
        assert float(shown.price) == pytest.approx(20 * math.log(20) / within, rel=0.03)
        cheaper = con.preview("SELECT COUNT(*) AS n FROM visits", epsilon=shown.price * F(97, 100))
        assert cheaper.column("n").half_width > within
        assert f"this is the least price for n ± {within}" in str(shown)

    def test_one_column_of_several_and_averages(self, con):
        shown = con.preview(SQL, within={"m": 400}, group_size=2000)
        assert shown.column("m").half_width <= 400 and set(shown.within) == {"m"}
        with pytest.raises(ParameterError, match="group_size=1000"):
            con.preview(SQL, within={"m": 400})
        with pytest.raises(ParameterError, match="value columns"):
            con.preview(SQL, within={"ward": 4})
        with pytest.raises(ParameterError, match="leave epsilon= and rho= out"):
            con.preview(SQL, within=4, epsilon=1)
        with pytest.raises(ParameterError, match="quantile"):
            con.preview("SELECT MEDIAN(cost) AS q FROM visits", within=4)

    def test_it_says_when_the_price_does_not_fit(self, con):
        shown = con.preview("SELECT COUNT(*) AS n FROM visits", within=1)
        assert not shown.fits and "it does not fit the budget" in " ".join(str(shown).split())

    def test_impossible_wishes(self):
        with pytest.raises(ParameterError, match="no price up to 1000"):
            find_least_price(lambda price: False)
        assert find_least_price(lambda price: True) == F(1, 10**6)
        for wish in (F(1, 7), F(22, 7), F(999)):
            found = find_least_price(lambda price, wish=wish: price >= wish)
            assert wish <= found <= wish * F(1011, 1000)


class TestExplanations:
    def test_everything_that_is_known_and_no_data(self, con, monkeypatch):
        monkeypatch.setattr(Measurer, "measure", lambda *_: pytest.fail("read data"))
        spent = con.budget().pots[0].spent
        for sql in (SQL, KEYS, "SELECT MEDIAN(cost) FROM visits"):
            found = con.sql(f"explain privacy {sql}", epsilon=1)
            assert isinstance(found, Result) and isinstance(found.explanation, Explanation)
            assert found.to_dict()["mechanism"] == [step.mechanism for step in found.steps]
            with pytest.raises(ParameterError, match="an explanation holds no answer"):
                found.certificate()
            words = str(found)
            for part in (
                "share",
                "one unit moves it by",
                "plan of step 0",
                "Scan table=visits",
                "left in the budget",
            ):
                assert part in words
            assert sum(step.share for step in found.steps) == 1
        assert con.budget().pots[0].spent == spent

    def test_sensitivity_and_scale_are_those_of_the_kernel(self, con):
        found = con.explain(SQL, epsilon=1)
        priced = con._kernel.price(con.request(SQL, epsilon=1))
        assert [step.scale for step in found.steps] == [
            float(each.mechanism.scale) for each in priced.steps
        ]
        assert found.steps[0].sensitivity == "20 rows of at most (1, 1, 250,000)"
        one = con.explain("SELECT ward, COUNT(*) FROM visits GROUP BY ward", epsilon=1)
        assert one.steps[0].sensitivity.startswith("L1 20,")
        assert con.explain(KEYS, epsilon=1).steps[0].sensitivity == "20 keys"
        median = con.explain("SELECT ward, MEDIAN(cost) FROM visits GROUP BY ward", epsilon=1)
        assert median.steps[0].sensitivity == "20 rows in all cells together"


class TestHistory:
    def test_only_what_this_pot_paid_for(self, tmp_path):
        con = asked.connection(tmp_path / "c", rows=asked.few_rows(3))
        assert len(con.history()) == 0
        res = con.sql(SQL, epsilon=1)
        con.sql(SQL, epsilon=1)
        shown = con.history()
        assert len(shown) == 1 and shown.releases[0].release_id == res.info["release_id"]
        assert shown.raw(res.info["release_id"])[0] == tuple(
            res.raw["step_0"].drop_null().to_pylist()
        )
        assert "from visits by ward" in shown.releases[0].asks and "epsilon" in str(shown)
        with pytest.raises(Exception, match="paid for no release"):
            shown.raw(999)


COUNTS = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
CHOICES = {
    "having": f"{COUNTS} HAVING COUNT(*) > 30",
    "outer where": f"SELECT ward, n FROM ({COUNTS}) WHERE n > 30",
    "limit": f"{COUNTS} ORDER BY n DESC LIMIT 2",
    "case": "SELECT ward, CASE WHEN COUNT(*) > 30 THEN COUNT(*) END AS n FROM visits GROUP BY ward",
    "else": "SELECT ward, CASE WHEN COUNT(*) > 30 THEN COUNT(*) ELSE 0 END AS n FROM "
    "visits GROUP BY ward",
    "if": "SELECT ward, IF(COUNT(*) > 30, COUNT(*), COUNT_IF(urgent)) AS n FROM visits "
    "GROUP BY ward",
    "nullif": "SELECT ward, NULLIF(COUNT(*), 7) AS n FROM visits GROUP BY ward",
    "coalesce": "SELECT ward, COALESCE(n, 0) AS n FROM "
    f"({COUNTS.replace('COUNT(*)', 'NULLIF(COUNT(*), 7)')})",
    "public": "SELECT ward, CASE WHEN ward = 'north' THEN COUNT(*) END AS n FROM visits "
    "GROUP BY ward",
}
CANDIDATES = {"limit": (2, 4), "if": (4, 8), "public": (1, 1)}


class TestChoices:
    """Where noisy values choose what is shown, a preview states the widest interval that the result
    can have."""

    @pytest.mark.parametrize("name", CHOICES)
    def test_no_interval_is_wider_than_its_preview(self, con, name):
        shown = con.preview(CHOICES[name], epsilon=F(1, 20)).column("n")
        fewest, candidates = CANDIDATES.get(name, (1, 4))
        assert shown.half_width == pytest.approx(
            _half_width(con, CHOICES[name], fewest, candidates), abs=1
        )
        table = con.sql(CHOICES[name], epsilon=F(1, 20)).to_dict()
        rows = zip(table["n"], table["n_low"], table["n_high"], strict=True)
        assert all(high - value <= shown.half_width for value, _, high in rows if high is not None)
        on_choices = [note for note in shown.notes if not note.startswith("its noise grows")]
        assert (name == "public") == (not on_choices)

    def test_a_built_question_is_previewed_as_its_sql(self, con):
        built = con.table("visits").group_by("ward").agg(n=count()).having("n > 30")
        assert built.preview(epsilon=1).column("n") == con.preview(built.sql, epsilon=1).column("n")
        assert "noisy values choose what is shown" in str(built.preview(epsilon=1))

    def test_keys_that_are_not_listed_have_no_figure(self, con):
        shown = con.preview(f"{KEYS} HAVING COUNT(*) > 30", epsilon=1)
        assert shown.column("n").half_width is None and "pass group_size=" not in str(shown)
        assert "not known either" in " ".join(str(shown).split())
        with pytest.raises(ParameterError, match="declare the keys"):
            con.preview(f"{KEYS} HAVING COUNT(*) > 30", within=50)

    def test_constants_and_texts_have_no_figure(self, con):
        for value in ("1", "'busy'"):
            sql = (
                f"SELECT ward, CASE WHEN COUNT(*) > 30 THEN {value} END AS n FROM visits "
                "GROUP BY ward"
            )
            shown = con.preview(sql, epsilon=1, group_size=100)
            assert shown.column("n").half_width is None is shown.column("n").relative_error
            with pytest.raises(ParameterError, match="has no interval"):
                con.preview(sql, within=50)

    def test_a_level_that_the_result_does_not_reach_has_no_figure(self, con):
        """Points reach this level for one row, and not for four."""
        sql = "SELECT ward, VARIANCE(cost) AS v FROM visits GROUP BY ward"
        terms = {"epsilon": F(1, 20), "confidence": 1 - F(1, 60_000)}
        assert con.preview(sql, group_size=10**7, **terms).column("v").half_width is None
        assert set(con.sql(sql, **terms).to_dict()["v_high"]) == {None}

    def test_the_least_price_pays_for_the_widest(self, con):
        plain, chosen = (con.preview(sql, within=200).price for sql in (COUNTS, CHOICES["having"]))
        assert chosen > plain


def _half_width(con, sql, fewest, candidates):
    mechanisms = [
        each.mechanism for each in con._kernel.price(con.request(sql, epsilon=F(1, 20))).steps
    ]
    level = 1 - F(5, 100) * F(fewest, candidates)
    laws = [law for mechanism in mechanisms for law in _laws(mechanism)]
    return max(law.interval(level) for law in laws)


def _laws(mechanism):
    return [
        find_error_law(mechanism, column)
        for column in range(len(getattr(mechanism, "sides", (1,))))
    ]


@pytest.mark.parametrize(
    "terms",
    mark_rest(
        [
            {"epsilon": 1},
            {"epsilon": "1/3", "group_size": 2000, "confidence": F(9, 10)},
            {"within": {"n": 50}},
        ],
        quick=1,
    ),
    ids=str,
)
@pytest.mark.parametrize(
    "sql",
    [
        SQL,
        "SELECT diagnosis, COUNT(*) AS n FROM visits GROUP BY diagnosis ORDER BY n DESC LIMIT 2",
        "SELECT MEDIAN(cost) AS n FROM visits",
    ],
)
def test_a_preview_is_the_same_after_a_trip_through_json(con, sql, terms):
    try:
        shown = con.preview(sql, **terms)
    except DitherError:
        assert (
            "diagnosis" in sql or "MEDIAN" in sql
        )  # no delta for keys here; a quantile has no width
        return
    read = read_preview(read_json(canonical.dumps(write_preview(shown))))
    assert read == shown
    assert read.lines() == shown.lines() and str(read) == str(shown)
    with pytest.raises(ParameterError):
        read_preview({**write_preview(shown), "rows": "3"})


class TestLimits:
    """What a preview says of limits and keys before anything is paid."""

    def test_a_wide_limit_says_that_a_better_one_can_be_bought(self, con):
        preview = con.preview(SQL, epsilon=1)
        words = _words(preview)
        assert 'con.suggest("limits", sql, epsilon=0.1)' in words
        assert words.count("its noise grows with the limits of 20 rows of visits per person") == 1
        assert "n, m: its noise grows" in words

    def test_a_narrow_limit_says_nothing(self, con):
        preview = con.preview("SELECT COUNT(*) AS n FROM patients", epsilon=1)
        assert "its noise grows" not in _words(preview)
