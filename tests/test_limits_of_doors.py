"""Numbers and texts without end at the other doors: the command line, stored documents, local
protocols, noise."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dither import CatalogError, DitherError, ParameterError, local
from dither.catalog.file.importing import import_catalog
from dither.cli.main import app
from dither.local.aggregator import Aggregator
from dither.local.devicefile import budget_file
from dither.mechanisms import IntegerGaussian, IntegerLaplace, SparseVector, Staircase
from dither.plan.norms import Sensitivity
from dither.privacy.noise import discrete_laplace
from dither.state import State
from dither.steward import open_pot
from tests.datasets import clinic
from tests.time_guard import time_guard

run = CliRunner().invoke
QUESTION = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A registered catalog without a pot: what is refused leaves nothing behind."""
    folder = tmp_path_factory.mktemp("clinic")
    (folder / "clinic.yaml").write_text(clinic.CATALOG)
    clinic.write_csv(folder / "visits.csv", [clinic.row(f"v{i}", f"p{i}") for i in range(5)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("xdg")))
        assert run(app, ["register", str(folder / "clinic.yaml")]).exit_code == 0
        yield str(folder / "clinic.yaml")


BOMB = "1e-99999999"
PREVIEW = ["preview", "{}", QUESTION]
OPEN = ["budget", "open", "{}", "total", "--question", "How busy are the wards?", "--population",
        "residents of the county", "--recipient", "the hospital board"]  # fmt: skip
APPROX = [*OPEN, "--rule", "approx", "--epsilon", "1", "--ceiling", "2", "--delta"]


@pytest.mark.parametrize(
    "arguments",
    [
        [*PREVIEW, "--epsilon", BOMB],
        [*PREVIEW, "--within", BOMB],
        [*PREVIEW, "--epsilon", "1", "--confidence", BOMB],
        [*PREVIEW, "--epsilon", "1", "--weight", f"n={BOMB}"],
        [*PREVIEW, "--epsilon", "1", "--max-groups", "9" * 400],
        [*OPEN, "--epsilon", BOMB, "--ceiling", "1"],
        [
            *OPEN,
            "--rule",
            "approx",
            "--epsilon",
            "1",
            "--ceiling",
            "2",
            "--delta",
            BOMB,
            "--delta-per-question",
            BOMB,
        ],
        [
            *OPEN,
            "--rule",
            "approx",
            "--epsilon",
            "1",
            "--ceiling",
            "2",
            "--delta",
            "1e-9",
            "--delta-per-question",
            "1e-400",
        ],
        ["account", f"{BOMB} * laplace(1)"],
        ["account", '{"type": "pure", "v": ' + "9" * 5_000 + "}"],
        ["account", '{"a": ' * 100_000],
        ["interpret", "--epsilon", BOMB, "--delta", "0", "--unit", "person"],
        ["interpret", "--epsilon", "1e400", "--delta", "1e-400", "--unit", "person"],
        ["local", "simulate", "--epsilon", BOMB],
    ],
    ids=range(14),
)
def test_the_command_line_refuses_numbers_without_end(arguments, file):
    with time_guard():
        result = run(app, [each.format(file) if each == "{}" else each for each in arguments])
    assert result.exit_code != 0
    assert isinstance(result.exception, (DitherError, SystemExit)), repr(result.exception)[:200]


def test_a_pot_states_deltas_that_can_be_computed_with(file):
    with pytest.raises(
        ParameterError, match="delta_per_question must lie between 1e-300 and 1e300"
    ):
        deltas = {"delta": "1e-9", "delta_per_question": "1e-400"}
        terms = {"rule": "approx", "epsilon": 1, "ceiling": 2, "purpose": clinic.PURPOSE, **deltas}
        open_pot(State.beside(Path(file)), clinic.catalog(), "total", **terms)


def test_stored_documents_nested_without_end_are_refused(tmp_path):
    deep = "[" * 100_000
    (tmp_path / "budget").write_text(deep)
    with pytest.raises(ParameterError, match="no readable budget"):
        budget_file(tmp_path / "budget", 1)
    stored = Aggregator(local.Direct(1, 4)).to_bytes()
    head = stored[:5] + len(deep).to_bytes(4, "little") + deep.encode()
    with pytest.raises(ParameterError, match="no readable head"):
        Aggregator.from_bytes(head)


@pytest.mark.parametrize("kind", ["smartnoise", "dbt"])
@pytest.mark.parametrize("text", ["[" * 500, "x: y\n" * 300_000], ids=["deep", "long"])
def test_an_imported_catalog_is_bounded(kind, text):
    with time_guard(), pytest.raises(CatalogError):
        import_catalog(kind, text)


HUGE = 10**5_000


@pytest.mark.parametrize(
    "work",
    [
        lambda: local.Direct("1e-99999999", 4),
        lambda: local.Direct(1, HUGE),
        lambda: local.best_vector(1, 0),
        lambda: local.best_vector(1, HUGE),
        lambda: IntegerLaplace(Fraction(10) ** 400, Sensitivity.of(cells=1)),
        lambda: IntegerGaussian(Fraction(10) ** 400, Sensitivity.of(cells=1)),
        lambda: SparseVector.for_epsilon(1, hits=HUGE),
        lambda: Staircase.for_epsilon("1e-400", Sensitivity.of(cells=1)),
        lambda: discrete_laplace(HUGE),
        lambda: Sensitivity.of(cells=-HUGE),
    ],
    ids=range(10),
)
def test_library_doors_refuse_numbers_without_end(work):
    with time_guard(), pytest.raises(ParameterError):
        work()


def test_a_certificate_of_values_nested_without_end_is_no_opening():
    from dither.publish.commitment import opens

    with pytest.raises(DitherError, match="columns and nonce"):
        opens("[" * 100_000, "0" * 64)
    with pytest.raises(DitherError, match="columns and nonce"):
        opens(
            json.dumps({"columns": {}, "nonce": ""})[:-1] + ', "x": ' + "9" * 5_000 + "}", "0" * 64
        )
