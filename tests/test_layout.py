"""The project as a newcomer finds it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dither
from dither.cli.main import app
from dither.errors import RefusedError
from dither.rules import PrivacyRule

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("folder", ["privacy", "plan"])
def test_no_file_of_the_small_proved_core_is_above_four_hundred_lines(folder):
    files = list((ROOT / "src" / "dither" / folder).rglob("*.py"))
    assert files
    long = {
        str(file.relative_to(ROOT)): n
        for file in files
        if (n := len(file.read_text().splitlines())) > 400
    }
    assert long == {}


def test_there_is_one_version():
    assert SETTINGS["project"]["dynamic"] == ["version"]
    assert SETTINGS["tool"]["hatch"]["version"]["path"] == "src/dither/version.py"
    assert re.search(
        rf"^## {re.escape(dither.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert CliRunner().invoke(app, ["--version"]).output == f"dither {dither.__version__}\n"


def test_the_wheel_holds_the_library_and_nothing_of_the_tests(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        text = b"".join(archive.read(name) for name in names if name.endswith(".py"))
    assert "dither/py.typed" in names and "dither/privacy/noise/source.py" in names
    assert not [name for name in names if not name.startswith(("dither/", "dither-"))]
    assert not [name for name in names if "test" in name.lower()]
    assert b"TestSource" not in text and b"numpy.random" not in text


def test_the_demo_runs_and_shows_preview_answer_intervals_and_budget(tmp_path):
    result = CliRunner().invoke(
        app, ["demo", "--people", "50", "--report", str(tmp_path / "report.html")]
    )
    assert result.exit_code == 0
    for part in (
        "Protected:",
        "noise scale",
        "95% interval",
        "ceiling",
        "cannot pay",
        "the ledger verifies",
    ):
        assert part in result.output


def test_an_error_of_the_command_line_is_one_line_without_a_traceback(monkeypatch, capsys):
    def refuse() -> None:
        raise RefusedError("no such thing [/]", rule=PrivacyRule.NO_RULE)

    command = sys.modules["dither.cli.main"]  # the package's attribute `main` is the function
    monkeypatch.setattr(command, "app", refuse)
    with pytest.raises(SystemExit) as stopped:
        command.main()
    assert stopped.value.code == 1
    shown = " ".join(capsys.readouterr().err.split())
    assert shown == "RefusedError: no such thing [/] [rule: what has no rule is refused]"


def test_the_licence_the_types_and_the_entry_point_are_declared():
    project = SETTINGS["project"]
    assert project["license"] == "Apache-2.0" and (ROOT / "LICENSE").exists()
    assert project["requires-python"] == ">=3.11"
    assert project["scripts"] == {"dither": "dither.cli:main"}
    assert (ROOT / "src" / "dither" / "py.typed").exists()


@pytest.mark.parametrize(
    "target", ["demo", "test", "lint", "docs", "bench", "dist", "setup-all", "test-all", "soak"]
)
def test_the_makefile_has_the_targets_that_the_readme_and_ci_use(target):
    assert re.search(rf"^{target}: .*##", (ROOT / "Makefile").read_text(), re.MULTILINE)


def read_recipe(target: str) -> str:
    """A target of the Makefile: its line and its commands."""
    (recipe,) = re.findall(
        rf"^{re.escape(target)}:.*\n(?:\t.*\n)*", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    return recipe


def test_test_all_installs_what_tests_need_and_a_skip_fails_it():
    recipe = read_recipe("test-all")
    assert recipe.startswith("test-all: setup-all ")
    assert "-m 'not soak'" in recipe and "--no-skips" in recipe
    assert "'.[test,lint,docs,bench,fuzz,browser,spark,torch]'" in read_recipe("$(STAMP_ALL)")


def test_the_default_run_installs_the_extras_of_setup_alone():
    assert read_recipe("test").startswith("test: $(STAMP) ")
    assert "'.[test,lint,docs]'" in read_recipe("$(STAMP)")


@pytest.mark.parametrize("marker", ["all", "soak"])
def test_contributing_says_what_each_marker_means(marker):
    assert any(
        line.startswith(f"{marker}: ")
        for line in SETTINGS["tool"]["pytest"]["ini_options"]["markers"]
    )
    assert re.search(rf"^\| `{marker}` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)


TESTS = ROOT / "tests"
FOLDERS_WITH_DIGITS = {"tests/state/0.1"}
PATH_TRICKS = ("sys" + ".path", "syspath" + "_prepend", "pytest" + "_plugins")


def list_test_files() -> list[Path]:
    """Every file of the tests but what Python compiled."""
    return [path for path in TESTS.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def list_test_folders() -> set[Path]:
    return {folder for file in list_test_files() for folder in file.relative_to(ROOT).parents}


def test_test_folders_are_named_after_what_they_test_not_by_number():
    with_digits = {str(folder) for folder in list_test_folders() if re.search(r"\d", folder.name)}
    assert with_digits == FOLDERS_WITH_DIGITS


def test_test_folders_are_rooms_of_the_library():
    library = ROOT / "src" / "dither"
    rooms = {
        path.name
        for layer in (library, library / "privacy")
        for path in layer.iterdir()
        if path.is_dir()
    }
    folders = {folder.name for folder in list_test_folders() if folder.parent == Path("tests")}
    assert folders - rooms == {"datasets", "published_bugs", "state"}


def test_every_folder_with_test_code_is_a_package():
    folders = {file.parent for file in list_test_files() if file.suffix == ".py"}
    assert TESTS in folders and len(folders) > 10
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def find_path_tricks(text: str) -> list[str]:
    """What makes the import of a test depend on more than its name."""
    relative = re.findall(r"^\s*from \.", text, re.MULTILINE)
    return [trick for trick in PATH_TRICKS if trick in text] + relative


def test_tests_are_imported_by_their_full_names():
    texts = {
        str(file.relative_to(ROOT)): file.read_text()
        for file in list_test_files()
        if file.suffix == ".py"
    }
    assert {
        name: tricks for name, text in texts.items() if (tricks := find_path_tricks(text))
    } == {}
    assert find_path_tricks(
        f"import sys\n{PATH_TRICKS[0]}.insert(0, 'x')\n    from .clinic import row\n"
    ) == [
        PATH_TRICKS[0],
        "    from .",
    ]
    options = SETTINGS["tool"]["pytest"]["ini_options"]
    assert "--import-mode=importlib" in options["addopts"]
    assert options["pythonpath"] == ["."]


def list_calls(function: str) -> list[tuple[str, str | None]]:
    """Every call of a function in the library, as (file, the function that calls it)."""
    calls: list[tuple[str, str | None]] = []

    def visit(node: ast.AST, inside: str | None, file: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = child.name if isinstance(child, ast.FunctionDef) else inside
            if isinstance(child, ast.Call) and ast.unparse(child.func) == function:
                calls.append((file, name))
            visit(child, name, file)

    for path in sorted((ROOT / "src" / "dither").rglob("*.py")):
        visit(ast.parse(path.read_text()), None, str(path.relative_to(ROOT / "src" / "dither")))
    return calls


def test_frozen_values_are_set_when_they_are_made_and_never_after():
    calls = list_calls("object.__setattr__")
    assert len(calls) > 20
    assert [call for call in calls if call[1] != "__post_init__"] == []


def test_no_look_up_by_identity_outlives_a_call():
    """Where nodes are looked up by `id`, the table belongs to one question or one function."""
    files = {file for file, _ in list_calls("id")}
    of_one_call = {"plan/analyse.py", "audit/black_box.py", "privacy/kernel/copying.py"}
    assert {file for file in files if not file.startswith("sql/")} <= of_one_call
