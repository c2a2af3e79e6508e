"""Expressions, foreign notations and the command line."""

import importlib
import json

import pytest
from typer.testing import CliRunner

from dither import accounting as acc
from dither.accounting.expressions import write_expression
from dither.errors import ParameterError, QueryError, RefusedError

command = importlib.import_module("dither.cli.account")


def test_expressions_mean_what_they_say():
    assert (
        acc.parse("10000 * poisson(0.01, gaussian(1.1))")
        == acc.PoissonSampled(0.01, acc.Gaussian(1.1)) * 10_000
    )
    assert acc.parse("laplace(2, sensitivity=4) * 3 + pure(1/3)") == acc.Laplace(
        2, 4
    ) * 3 + acc.Pure("1/3")
    assert acc.parse("parallel(pure(1), 2*pure(0.5))") == acc.Parallel(
        (acc.Pure(1), acc.Pure(0.5) * 2)
    )
    assert acc.parse("(pure(1)+zcdp(0.1))*2").count == 2
    assert acc.parse("gaussian(1)", neighbours="replace", unit="person").unit == "person"
    assert (
        acc.parse("fixed_size(1, 100, gaussian_sum(1.1, 1))", neighbours="replace").population_size
        == 100
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gauss(1)",
        "gaussian(1",
        "2*3",
        "gaussian(1)*gaussian(2)",
        "gaussian(0)",
        "pure(1) $",
        "1.5*pure(1)",
        "poisson(0.1)",
        "pure(1)+",
        "__import__('os')",
        "pure(1) pure(2)",
        "pure(wrong=1)",
        "gaussian(-1)",
    ],
)
def test_wrong_expressions_are_refused_with_the_place(text):
    with pytest.raises(QueryError, match="character"):
        acc.parse(text)


def test_relations_in_an_expression_do_not_mix():
    with pytest.raises(ParameterError, match="neighbours"):
        acc.parse("rr(1) + gaussian(1)")


def test_dp_events():
    dp = pytest.importorskip("dp_accounting")
    event = dp.ComposedDpEvent(
        [
            dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.1)), 100),
            dp.LaplaceDpEvent(10.0),
        ]
    )
    assert acc.from_dp_event(event) == acc.PoissonSampled(
        0.01, acc.Gaussian(1.1)
    ) * 100 + acc.Laplace(10)
    # the peer ignores this count and reports 0.1001
    rr = dp.SelfComposedDpEvent(dp.RandomizedResponseDpEvent(0.95, 2), 100)
    assert acc.epsilon(acc.from_dp_event(rr, neighbours="replace"), 1e-6).lower == pytest.approx(
        4.7789, abs=2e-3
    )
    with pytest.raises(RefusedError, match="clip"):
        acc.from_dp_event(
            dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.1)), neighbours="replace"
        )
    with pytest.raises(RefusedError, match="replace"):
        acc.from_dp_event(dp.SampledWithoutReplacementDpEvent(100, 1, dp.GaussianDpEvent(1.0)))
    with pytest.raises(RefusedError):
        acc.from_dp_event(dp.NonPrivateDpEvent())


def test_printed_dp_events_are_read_and_never_evaluated():
    dp = pytest.importorskip("dp_accounting")
    event = dp.ComposedDpEvent(
        [
            dp.NoOpDpEvent(),
            dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.1)), 10),
            dp.LaplaceDpEvent(2.5),
            dp.dp_event.DiscreteLaplaceDpEvent(0.1, 3),
            dp.ZCDpEvent(0.1, 0.0),
        ]
    )
    assert acc.parse_dp_event(repr(event)) == acc.from_dp_event(event)
    for text in (
        "__import__('os').getcwd()",
        "GaussianDpEvent(",
        "GaussianDpEvent(noise=1)",
        "1 + 1",
        "Event(x=[y])",
    ):
        with pytest.raises(RefusedError, match="cannot be read"):
            acc.parse_dp_event(text)


def test_opacus_histories():
    loss = acc.from_opacus([(1.1, 0.01, 5000), (1.1, 0.01, 5000)], clip_norm=3)
    assert acc.epsilon(loss, 1e-5).upper == pytest.approx(5.19258344588316, rel=1e-9)


def test_command_line(tmp_path):
    runner = CliRunner()
    picture = tmp_path / "ladder.png"
    shown = runner.invoke(
        command.app,
        [
            "100 * pure(0.1)",
            "--delta",
            "1e-6",
            "--epsilon",
            "5",
            "--units",
            "10",
            "--plot",
            str(picture),
        ],
    )
    assert shown.exit_code == 0, shown.output
    assert "4.77457" in shown.output
    assert "1/n" not in shown.output
    assert picture.stat().st_size > 1000
    told = runner.invoke(command.app, ["100 * pure(0.1)", "--json"])
    tree = json.loads(told.output)
    assert tree["epsilon"]["lower"] <= 4.77456758810799 <= tree["epsilon"]["upper"]
    assert [rung["name"] for rung in tree["ladder"]] == [
        "basic",
        "advanced",
        "zCDP",
        "Renyi",
        "exact",
    ]
    assert tree["validity"] == "plan fixed in advance"
    saved = tmp_path / "loss.json"
    saved.write_text(json.dumps((acc.Pure(0.1) * 100).to_json()))
    again = runner.invoke(command.app, [str(saved), "--json"])
    assert json.loads(again.output)["epsilon"] == tree["epsilon"]
    history = tmp_path / "history.json"
    history.write_text("[[1.1, 0.01, 10000]]")
    trained = runner.invoke(command.app, ["--opacus", str(history), "--delta", "1e-5", "--json"])
    assert json.loads(trained.output)["epsilon"]["upper"] == pytest.approx(
        5.19258344588316, rel=1e-9
    )
    history.write_text('{"history": [[1.1, 0.01, 10000]], "mechanism": "rdp"}')
    state = runner.invoke(command.app, ["--opacus", str(history), "--delta", "1e-5", "--json"])
    assert json.loads(state.output)["epsilon"] == json.loads(trained.output)["epsilon"]
    printed = tmp_path / "event.txt"
    printed.write_text(
        "SelfComposedDpEvent(event=PoissonSampledDpEvent(sampling_probability=0.01, "
        "event=GaussianDpEvent(noise_multiplier=1.1)), count=10000)"
    )
    foreign = runner.invoke(command.app, ["--dp-event", str(printed), "--delta", "1e-5", "--json"])
    assert json.loads(foreign.output)["epsilon"] == json.loads(trained.output)["epsilon"]
    wrong = runner.invoke(command.app, ["100 * laplac(10)"])
    assert wrong.exit_code == 2
    assert "unknown loss" in wrong.output


@pytest.mark.parametrize(
    "text",
    [
        "gaussian(1.1)",
        "gaussian(1.1, 3)",
        "100 * poisson(0.01, gaussian(1.1)) + laplace(2, 4)",
        "3 * (pure(0.1) + 2 * approx(1/3, 1e-9))",
        "discrete_gaussian(10, 3)",
        "discrete_laplace(7/3, 1)",
        "fixed_size(10, 1000, exponential(0.5))",
        "parallel(zcdp(0.5), rdp(2, 1))",
        "gaussian_sum(2, 5)",
    ],
)
def test_a_loss_is_written_as_it_is_read(text):
    """`dither account` names the workload in the words that a person would type."""
    loss = acc.parse(text)
    assert write_expression(loss) == text
    assert acc.parse(write_expression(loss)) == loss


def test_the_command_rounds_ends_of_a_bracket_outwards():
    """Ends have six digits, the lower end cut and the upper end rounded up."""
    shown = CliRunner().invoke(
        command.app, ["10000 * poisson(0.01, gaussian(1.1))", "--delta", "1e-5"]
    )
    assert shown.exit_code == 0
    words = " ".join(shown.output.split())
    assert words.startswith("10000 * poisson(0.01, gaussian(1.1)), add_remove")
    assert "epsilon lies in [5.19258, 5.19259] at delta 1e-5," in words
    assert "Fraction" not in words
    assert "Repeated(" not in words
