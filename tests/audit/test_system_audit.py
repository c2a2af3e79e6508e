"""End to end: nothing of ours depends on one person whatever pair is tried; planted leaks on the
path are found."""

import math
from unittest import mock

import numpy as np
import pytest
from typer.testing import CliRunner

from dither import session
from dither.audit import questions, sensitivity_check, system
from dither.audit.report import Section, to_html, to_json, write
from dither.audit.system import audit_system, refuse_prod
from dither.cli.audit_system import Registrar
from dither.cli.main import app
from dither.errors import QueryError, RefusedError
from dither.plan.algebra import Cells, Count, Keys, Scan
from dither.plan.norms import Sensitivity
from dither.plan.sensitivity import Reach
from tests.case_lists import mark_rest


@pytest.mark.parametrize("seconds", mark_rest([0, 60], quick=1))
def test_tiny_neighbouring_databases_show_no_fault(tmp_path, seconds):
    """One pair at least: of its twenty questions one in ten is refused, all with probability
    1e-20."""
    found = audit_system(Registrar(tmp_path), seconds=seconds, alpha=1e-9)
    assert found.faults == []
    assert (
        found.pairs >= 1
        and found.row_pairs >= 40
        and sum(found.answered.values()) >= 1
        and found.verdicts
    )
    assert sum(found.measured.values()) >= sum(found.answered.values())


def run(tmp_path, **options):
    return audit_system(
        Registrar(tmp_path), seconds=0, per_pair=6, alpha=1e-6, row_pairs=0, **options
    )


def only(sql):
    return mock.patch.object(questions, "question", return_value=sql)


def pair():
    """One more person, with three visits."""
    others = ["a,f,30", "b,m,40"]
    visits = ["v1,a,north,flu,ash,1,10,true"]
    theirs = [f"w{i},victim,south,flu,ash,5,500,true" for i in range(3)]
    files = (
        questions._files(others, visits),
        questions._files([*others, "victim,f,50"], [*visits, *theirs]),
    )
    return mock.patch.object(questions, "neighbours", return_value=files)


COUNTS = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


def test_an_answer_without_noise_is_seen(tmp_path):
    from dither.privacy.mechanisms import IntegerLaplace
    from dither.privacy.mechanisms.additive import exact_integers

    silent = mock.patch.object(
        IntegerLaplace, "release", lambda self, values, source=None: exact_integers(values)
    )
    with pair(), only(COUNTS):
        assert run(tmp_path / "a", black_box_runs=60).faults == []
        with silent:
            assert any(
                "black box" in fault for fault in run(tmp_path / "b", black_box_runs=60).faults
            )


def test_a_sensitivity_that_is_too_small_is_seen(tmp_path):
    with (
        pair(),
        only(COUNTS),
        mock.patch.object(sensitivity_check, "sensitivity", return_value=Sensitivity.of(largest=1)),
    ):
        assert any("moved by" in fault for fault in run(tmp_path, black_box_share=0).faults)


KEYED = "SELECT diag, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY diag"
JOINED = (
    "SELECT v.diag, COUNT(*) AS n FROM patients p JOIN visits v ON p.person = "
    "v.person GROUP BY v.diag"
)
MEDIAN = "SELECT ward, MEDIAN(cost) AS m FROM visits GROUP BY ward"


CLAIMS = [
    (
        JOINED,
        "sensitivity",
        Sensitivity.of(largest=1),
        "cells of unlisted keys",
        "l1 moved by 3, claimed 1",
    ),
    (MEDIAN, "touched", Reach(3, 1, 2), "quantile counts", "rows of a cell moved by 3, claimed 2"),
    (KEYED, "sensitivity", Sensitivity.of(largest=1), "cells of unlisted keys", "l1 moved by"),
    (KEYED, "touched", Reach(0, 0, 0), "owners of unlisted keys", "l0 moved by 1, claimed 0"),
]


@pytest.mark.parametrize(("sql", "claim", "too_small", "kind", "told"), mark_rest(CLAIMS, quick=1))
def test_claims_about_unlisted_keys_joins_and_quantiles_are_checked(
    tmp_path, sql, claim, too_small, kind, told
):
    """Exactly, key by key and point by point; a claim that is too small is seen."""
    with pair(), only(sql):
        found = run(tmp_path / "a", black_box_share=0)
        assert found.faults == [] and found.measured[kind] >= 6
        with mock.patch.object(sensitivity_check, claim, return_value=too_small):
            assert any(told in fault for fault in run(tmp_path / "b", black_box_share=0).faults)


def test_what_only_one_side_has_counts_as_moved():
    keys = Keys(Scan("visits"), ("diag",))
    assert sensitivity_check.flatten_measured(keys, {("flu",): 2, (None,): 1}) == {
        (("flu",), 0, 0): 2,
        ((None,), 0, 0): 1,
    }
    cells = Cells(Scan("visits"), ("ward",), (Count(),))
    assert sensitivity_check.flatten_measured(cells, [[4], [0]]) == {((), 0, 0): 4, ((), 1, 0): 0}
    assert sensitivity_check.list_broken_claims(
        cells, [[[4]], [[4], [0]]], mock.Mock(), mock.Mock()
    ) == ["the number of cells depends on data"]


def test_the_accused_rollup_of_two_keys_is_innocent_with_one(tmp_path):
    """Replayed: a ROLLUP was accused of l1 5 > 3 when the two sides had keys of their own.

    Which three of a person's seven visits are kept follows from the installation's key. With one
    key for both sides only the newcomer's rows move; with two, rows of others move as well, and a
    true claim looks false.
    """
    cells = [
        (ward, urgent) for ward in ("north", "south", "attic") for urgent in ("true", "false", "")
    ]
    others = [f"p{i},f,30" for i in range(4)]
    visits = [
        f"v{i}{j},p{i},{w},flu,ash,1,10,{u}" for i in range(4) for j, (w, u) in enumerate(cells)
    ]
    theirs = [f"w{j},victim,{w},flu,ash,1,10,{u}" for j, (w, u) in enumerate(cells)]
    files = (
        questions._files(others, visits),
        questions._files([*others, "victim,f,50"], [*visits, *theirs]),
    )
    keys = [bytes([i]) * 32 for i in range(2)]
    same = Registrar(tmp_path / "same", keys[0])
    apart = iter([Registrar(tmp_path / f"apart{i}", key) for i, key in enumerate(keys)] * 9)

    def with_two_keys(catalog, given):
        return next(apart)(catalog, given)

    asked = {"seconds": 0, "per_pair": 1, "alpha": 1e-6, "row_pairs": 0, "black_box_share": 0}
    sql = "SELECT ward, urgent, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward, urgent)"
    with mock.patch.object(questions, "neighbours", return_value=files), only(sql):
        assert audit_system(same, **asked).faults == []
        accused = audit_system(with_two_keys, **asked).faults
    assert any("l1 moved by" in fault for fault in accused), accused


def test_rows_of_others_that_move_are_seen(tmp_path):
    """Rows that move although they are not the newcomer's: here, because another one is called the
    newcomer."""
    with pair(), only(COUNTS):
        assert run(tmp_path / "a", black_box_share=0).faults == []
        with mock.patch.object(questions, "NEWCOMER", "somebody else"):
            assert any(
                "of others" in fault for fault in run(tmp_path / "b", black_box_share=0).faults
            )


def test_a_shape_or_a_refusal_that_depends_on_data_is_seen(tmp_path):
    real = session.Connection.bind
    calls = []

    def moody(self, sql):
        calls.append(sql)
        if len(calls) % 2:
            raise QueryError("not today")
        return real(self, sql)

    with pair(), only(COUNTS), mock.patch.object(session.Connection, "bind", moody):
        assert any(
            "binding depends" in fault for fault in run(tmp_path / "a", black_box_share=0).faults
        )
    with (
        pair(),
        only(COUNTS),
        mock.patch.object(system, "_describe_shape", side_effect=range(1000)),
    ):
        assert any(
            "shape of an answer" in fault for fault in run(tmp_path / "b", black_box_share=0).faults
        )


def test_a_prod_lineage_is_refused_before_anything_is_read(tmp_path):
    """Rule audits-never-read-prod."""
    place = Registrar(tmp_path)(questions.CATALOG, questions._files([], []))
    try:
        refuse_prod(place.connection)
        with mock.patch.object(
            type(place.connection._kernel.version), "context", "prod", create=True
        ):
            prod = mock.Mock(kernel=mock.Mock(at=mock.Mock(context="prod")))
            with pytest.raises(RefusedError, match="prod"):
                refuse_prod(prod)
    finally:
        place.close()


def test_questions_cover_every_form_and_neighbours_differ_in_one_person():
    asked = {form() for form in questions.FORMS for _ in range(20)}
    for word in (
        "SUM",
        "COUNT(*)",
        "GROUP BY",
        "JOIN",
        "DISTINCT",
        "QUANTILE",
        "ROLLUP",
        "LEAST",
        "diag",
    ):
        assert any(word in sql for sql in asked), word
    for _ in range(50):
        one, two = questions.neighbours()
        extra = set(two["visits.csv"].splitlines()) - set(one["visits.csv"].splitlines())
        assert (
            all(",victim," in line for line in extra) and one["counties.csv"] == two["counties.csv"]
        )


def test_the_report_needs_nothing_from_outside_and_says_its_limits(tmp_path):
    from dither import audit
    from dither.privacy.noise import discrete_laplace

    def half(count, size):
        return count + discrete_laplace(1, size)

    verdict = audit.test(half, 0, 1, epsilon=0.5, budget=audit.Budget(4_000))
    page, plain = write(
        tmp_path / "a.html",
        "Title <&>",
        [Section("One", ("text",), ("a", "b"), (("1", "2"),), (verdict,))],
    )
    text = page.read_text()
    for part in (
        "Title &lt;&amp;&gt;",
        "violated",
        "<svg",
        "never a proof",
        "ceiling",
        "guessing",
        "not tested",
    ):
        assert part in text, part
    for part in (
        'name="viewport"',
        "prefers-color-scheme: dark",
        "max-width: 48rem",
        "why this verdict",
    ):
        assert part in text, part
    assert (
        "src=" not in text and "href=" not in text and "url(" not in text and "<script" not in text
    )
    data = to_json("t", [Section("One", verdicts=(verdict,))])
    assert data["sections"][0]["verdicts"][0]["outcome"] == "violated" and plain.exists()
    assert to_html("t", []).startswith("<!doctype html>")


def test_the_claimed_curve_lies_above_the_measured_bound_unless_the_claim_is_refuted():
    """And below a claimed point it is the best that the point leaves: the largest p - e^a q over
    all allowed (p, q)."""
    from dither import audit, local
    from dither.audit import report
    from dither.privacy.noise import SystemSource

    grid = np.linspace(0, 1, 20_001)
    for epsilon, delta, at in ((1.0, 0.01, 0.4), (0.5, 0.0, 0.0), (3.0, 0.2, 1.0)):
        grow = math.exp(epsilon)
        most = np.minimum(1, np.minimum(grow * grid + delta, 1 - (1 - grid - delta) / grow))
        best = float((most - math.exp(at) * grid).max())
        found = report._read_promise(mock.Mock(epsilon=epsilon, delta=delta), at, math.nan)
        assert found - 2e-3 <= best <= found + 1e-12
    coin = local.Direct(1, domain=2)

    def answer(value, size):
        return coin.randomise(np.full(size, value), SystemSource())

    spend = audit.Budget(20_000, 1e-9)
    for claim, holds in ((1.0, True), (0.5, False)):
        verdict = audit.test(answer, 0, 1, epsilon=claim, budget=spend)
        above = [
            report._read_promise(verdict, at, said) >= shown for at, said, shown in verdict.profile
        ]
        assert all(above) == holds and verdict.violated != holds
        assert verdict.area > 0.5 and report._largest_area(verdict) == pytest.approx(
            1 / (1 + math.exp(-claim)), abs=1e-3
        )


def test_the_commands_on_a_function_of_ones_own(tmp_path):
    code = tmp_path / "mine.py"
    code.write_text(
        "from dither.privacy.noise import discrete_laplace\n"
        "def answer(rows):\n    return sum(rows) + discrete_laplace(1)\n"
    )
    common = [f"{code}:answer", "--first", "[1, 1]", "--second", "[1]", "--runs", "3000"]
    fine = CliRunner().invoke(app, ["audit", "function", *common, "--epsilon", "1"])
    assert fine.exit_code == 0 and "not refuted" in fine.output
    report = tmp_path / "out.html"
    broken = CliRunner().invoke(
        app, ["audit", "function", *common, "--epsilon", "0.3", "--report", str(report)]
    )
    assert broken.exit_code == 1 and "violated" in broken.output and report.exists()
    for where in ("nothing", f"{code}:missing", "no_file.py:f"):
        assert (
            CliRunner()
            .invoke(app, ["audit", "function", where, *common[1:], "--epsilon", "1"])
            .exit_code
            != 0
        )
    ran = CliRunner().invoke(app, ["audit", "accountant", "--compositions", "2", "--runs", "20000"])
    assert ran.exit_code == 0 and "0 of" in ran.output


def test_neighbours_are_two_states_of_one_installation(tmp_path):
    """Which rows of a person are kept depends on the key: with two keys other people's rows would
    move as well."""
    register = Registrar(tmp_path)
    places = [register(questions.CATALOG, each) for each in questions.neighbours()]
    keys = {place._state.key_file.read_bytes() for place in places}
    for place in places:
        place.close()
    assert len(keys) == 1
