"""Results made from results: their bias is the one that is stated, totals add up, raw values
stay."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction as F
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

from dither import ParameterError, RefusedError
from dither.answer.derive import _compute_empty_bias
from dither.answer.result import make_result
from dither.laws import find_error_law
from dither.plan.norms import Sensitivity
from dither.privacy import noise
from dither.privacy.kernel.release import Version
from dither.privacy.mechanisms import IntegerBox, IntegerGaussian, IntegerLaplace
from dither.question.recipe import Output
from tests.answer import handmade
from tests.case_lists import mark_between, mark_rest
from tests.datasets import clinic

INFO = {
    "measure": "epsilon", "charged": "1/1", "pot": "total", "repeated": False, "sql": "SELECT ...",
    "unit": "person",
    "neighbours": "add_remove", "unprotected": [],
}  # fmt: skip


def released(recipe, exact, scales, family=IntegerLaplace):
    """Real noise on given cells."""
    draw = noise.discrete_laplace if family is IntegerLaplace else noise.discrete_gaussian
    values, steps = [], []
    for cells, scale in zip(exact, scales, strict=True):
        values.append(tuple(int(v) for v in np.array(cells) + draw(scale, len(cells))))
        steps.append(SimpleNamespace(mechanism=family(F(scale), Sensitivity.of()), width=2**62))
    version = Version(1, clinic.catalog(), "", "prod")
    release = SimpleNamespace(
        values=tuple(values), priced=SimpleNamespace(steps=steps), version=version
    )
    return make_result(release, recipe, 0.9, INFO)


class TestNonnegative:
    def test_values_and_ends_are_not_negative_and_raw_stays(self):
        plain = handmade.by_ward(
            Output("n", handmade.COUNT, "value", "COUNT(*)"), Output("c", handmade.TOTAL, "value")
        )
        found = released(plain, [[0] * 4] * 3, [50, 50, 50])
        clean = found.nonnegative()
        assert min(clean.to_dict()["n"] + clean.to_dict()["n_low"]) >= 0
        assert clean.to_dict()["c"] == found.to_dict()["c"] and clean.raw.equals(found.raw)
        assert "biases it upwards, by 25 in an empty cell" in clean.notes[
            0
        ] and "do not add cells up" in str(clean)
        assert min(found.nonnegative("c").to_dict()["c"]) >= 0
        assert clean.table.schema.equals(found.table.schema, check_metadata=True)
        with pytest.raises(ParameterError, match="no value column"):
            found.nonnegative("ward")

    @pytest.mark.parametrize(
        "mechanism",
        mark_between(
            [
                IntegerLaplace(F(40), Sensitivity.of()),
                IntegerGaussian(F(40), Sensitivity.of()),
                IntegerBox(F(40), (1, 1), 1),
                IntegerBox(F(40), (1, 7, 500), 1),
            ],
            step=2,
        ),
        ids=["Laplace", "Gaussian", "box of 2", "box of 3"],
    )
    def test_the_stated_bias_is_the_bias(self, mechanism):
        """E max(0, Z): b/2, s/sqrt(2 pi), or b (d+1)/4; 200,000 draws, six deviations of their
        mean."""
        cells = np.zeros((200_000, len(getattr(mechanism, "sides", "1"))), np.int64)
        drawn = np.maximum(0, mechanism.release(cells)[:, 0].astype(np.float64))
        steps = [SimpleNamespace(mechanism=mechanism)]
        result = SimpleNamespace(_release=SimpleNamespace(priced=SimpleNamespace(steps=steps)))
        stated = _compute_empty_bias(result, SimpleNamespace(scale=F(40), steps=(0,)))
        assert drawn.mean() == pytest.approx(stated, abs=6 * drawn.std() / math.sqrt(200_000))


class TestConsistent:
    EXACT = [[10, 20, 30, 40, 50, 60, 70, 80], [0] * 8, [30, 70, 110, 150], [0] * 4, [360], [0]]

    def test_totals_are_the_sums_of_their_parts(self):
        found = released(handmade.rollup(), self.EXACT, [30, 30, 20, 20, 10, 10])
        clean = found.consistent()
        n = clean.to_dict()["n"]
        assert [n[2 * i] + n[2 * i + 1] for i in range(4)] == pytest.approx(n[8:12])
        assert sum(n[8:12]) == pytest.approx(n[12])
        assert clean.to_dict()["mean"] == found.to_dict()["mean"] and clean.raw.equals(found.raw)
        assert "totals equal the sums of their parts" in clean.notes[0]

    def test_noise_that_is_next_to_nothing_can_be_fitted(self):
        """Below a scale of about 1/745 the variance is 0 in float64."""
        found = released(handmade.rollup(), self.EXACT, [F(1, 900)] * 6).consistent().to_dict()
        assert found["n"] == pytest.approx([*self.EXACT[0], *self.EXACT[2], *self.EXACT[4]])

    def test_two_levels_against_the_closed_form(self):
        """child += (total - sum) v / (v0 + k v)."""
        recipe = handmade.rollup()
        recipe = replace(recipe, sets=recipe.sets[1:], queries=recipe.queries)
        found = released(recipe, self.EXACT, [30, 30, 40, 40, 7, 7])
        raw = [list(found.raw[f"step_{i}"].drop_null().to_pylist()) for i in (2, 4)]
        v, v0 = (find_error_law(IntegerLaplace(F(s), Sensitivity.of())).variance for s in (40, 7))
        shift = (raw[1][0] - sum(raw[0])) * v / (v0 + 4 * v)
        assert found.consistent().to_dict()["n"][:4] == pytest.approx(
            [each + shift for each in raw[0]]
        )

    @pytest.mark.parametrize("family", mark_rest([IntegerLaplace, IntegerGaussian], quick=1))
    def test_the_fit_is_closer_and_its_intervals_cover(self, family):
        """100 fits: every cell covered nine times in ten, and less squared error than before."""
        self.fits(family, 100)

    @pytest.mark.soak
    @pytest.mark.parametrize("family", [IntegerLaplace, IntegerGaussian])
    def test_the_fit_covers_over_500_repetitions(self, family):
        self.fits(family, 500)

    def fits(self, family, repetitions):
        hits, before, after = np.zeros(13), np.zeros(13), np.zeros(13)
        counts = replace(handmade.rollup(), outputs=handmade.rollup().outputs[:3])
        exact = np.array([*self.EXACT[0], *self.EXACT[2], *self.EXACT[4]])
        for _ in range(repetitions):
            found = released(counts, self.EXACT, [30, 30, 30, 30, 30, 30], family)
            clean = found.consistent().to_dict()
            hits += (np.array(clean["n_low"]) <= exact) & (exact <= np.array(clean["n_high"]))
            before += (np.array(found.to_dict()["n"]) - exact) ** 2
            after += (np.array(clean["n"]) - exact) ** 2
        print(
            f"{family.__name__}: coverage at 90 % {hits / repetitions}, squared error "
            f"{after.sum() / before.sum():.3f}"
        )
        assert (hits >= binom.ppf(1e-9, repetitions, 0.9)).all()
        assert after.sum() < 0.8 * before.sum()

    def test_fitted_rows_that_noise_chose_hold_all_at_once(self):
        """They share their noise: no share of misses is known for those shown, only that none
        misses."""
        counts = replace(handmade.rollup(), outputs=handmade.rollup().outputs[:3])
        having = handmade.apply("ge", handmade.COUNT, handmade.number(300))
        plain = released(counts, self.EXACT, [2] * 6)
        chosen = replace(plain, _recipe=replace(counts, having=having)).consistent().to_dict()
        assert chosen["ward"] == [None]  # the total alone
        law = find_error_law(IntegerLaplace(F(2), Sensitivity.of()))
        fitted = plain.consistent().to_dict()
        wider = F(law.interval(1 - F(1, 10) / 13), law.interval(F(9, 10)))
        half = fitted["n_high"][-1] - fitted["n"][-1]
        assert chosen["n_high"][0] - chosen["n"][0] == pytest.approx(half * float(wider))
        two = handmade.apply("ge", handmade.COUNT, handmade.number(130))
        both = replace(plain, _recipe=replace(counts, having=two)).consistent().to_dict()
        assert len(both["n"]) == 2
        assert both["n_high"][-1] - both["n"][-1] == pytest.approx(half * float(wider))

    def test_refusals(self):
        with pytest.raises(RefusedError, match="ROLLUP"):
            released(handmade.by_ward(), [[0] * 4] * 3, [1, 1, 1]).consistent()
