"""docs/how-to/add-a-mechanism.md, followed to the letter in a copy of the source, up to an answered
question."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dither.publish import seal
from tests.datasets.clinic import open_total, register, row

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "add-a-mechanism.md").read_text()
MOST_EDITED = 4
ADDED = re.compile(r"^\+(?!\+\+)(.*)", re.MULTILINE)
NEW_FILES = dict(re.findall(r"^```py\n# (\S+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
DIFFS = re.findall(r"^```diff\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
EDITED = [re.search(r"^\+\+\+ b/(\S+)$", diff, re.MULTILINE)[1] for diff in DIFFS]

LAW = """
from fractions import Fraction
import numpy as np
from dither.laws.steps import StepsErrorLaw
from dither.laws import law_from_json, law_to_json

for epsilon, width, flat in ((Fraction(6), 180, 8), (Fraction(1), 5, 2), (Fraction(3, 2), 7, 0)):
    law = StepsErrorLaw(epsilon, width, flat)
    assert law_from_json(law_to_json(law)) == law
    z = np.arange(-200 * width, 200 * width + 1)
    level = np.ceil(np.maximum(0, np.abs(z) - flat) / width)
    mass = np.exp(-float(epsilon) * level)
    mass /= mass.sum()
    for moved in range(1, width + 1):  # the guarantee itself, at every neighbour
        assert np.abs(level[moved:] - level[:-moved]).max() == 1
    assert abs(law.variance / (z**2 * mass).sum() - 1) < 1e-9
    mean = (np.maximum(0, z) * mass).sum()
    assert abs(law.positive_mean * float(law.noise_scale) / mean - 1) < 1e-9
    for t in (-width - 1, -1, 0, 1, flat, flat + 1, width, 3 * width + 2):
        assert abs(law.above(np.array([float(t)]))[0] - mass[z > t].sum()) < 1e-12
    half = law.interval(0.95)
    assert mass[np.abs(z) <= half].sum() >= 0.95 > mass[np.abs(z) < half].sum()
    shares = np.array([0.001, 0.3, 0.5, 0.9, 0.9999])
    sums = np.cumsum(mass)
    assert law.inverse(shares).tolist() == [float(z[np.searchsorted(sums, s)]) for s in shares]
"""
DRAWS = """
from fractions import Fraction
import numpy as np
from scipy.stats import chi2
from dither.laws import find_error_law
from dither.plan.norms import Sensitivity
from dither.privacy.mechanisms.steps import IntegerSteps

COUNT = 200_000
mechanism = IntegerSteps(Fraction(1), Sensitivity.of(largest=3), flat=1)
drawn = mechanism.release(np.zeros(COUNT, np.int64))
z = np.arange(-10, 11)
expected = COUNT * np.exp(-np.ceil(np.maximum(0, np.abs(z) - 1) / 3))
expected *= find_error_law(mechanism)._peak
counts = np.array([(drawn == place).sum() for place in z])
assert chi2.sf((((counts - expected) ** 2) / expected).sum(), len(z) - 1) > 1e-9
"""
SHOWN = """
import json
(column,) = (column for column in answer.columns if column.name == "kilos")
print("MECHANISM", column.mechanism, column.noise)
print("ROW", json.dumps({name: float(values[0]) for name, values in answer.to_dict().items()}))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with the page's files in it and its edits applied."""
    root = tmp_path_factory.mktemp("steps")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name, code in NEW_FILES.items():
        if name.startswith("src/"):
            assert not (ROOT / name).exists()
            (root / name).write_text(code)
    for diff in DIFFS:
        subprocess.run(
            ["git", "apply", "--unidiff-zero"], cwd=root, input=diff, text=True, check=True
        )
    return root


def run_python(source: Path, code: str, folder: Path) -> str:
    """What a script prints that imports the copied source."""
    place = {
        "PYTHONPATH": str(source / "src"),
        "XDG_STATE_HOME": str(folder / "xdg"),
        "COLUMNS": "160",
    }
    command = [sys.executable, "-c", code]
    ran = subprocess.run(
        command, cwd=folder, env={**os.environ, **place}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_page_edits_few_files_that_exist() -> None:
    """Box noise edited 15 files, ten of them in `answer/`."""
    later = re.findall(r"`((?:src|docs)/[\w/.-]+)`", PAGE.split("## Before it ships")[1])
    edited = {*EDITED, *later}
    assert len(EDITED) == 2 and len(later) == 2
    assert all((ROOT / name).exists() for name in edited)
    assert len(edited) <= MOST_EDITED
    assert not [name for name in edited if "/answer/" in name or "/publish/" in name]
    assert all(len(ADDED.findall(diff)) == 2 for diff in DIFFS)  # an import and a line of the table


def test_the_law_of_the_page_is_that_of_its_noise_and_keeps_its_promise(
    source: Path, tmp_path: Path
) -> None:
    run_python(source, LAW, tmp_path)
    run_python(source, DRAWS, tmp_path)


def test_a_question_is_answered_by_the_new_family(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    _, place = register(tmp_path, [row(str(i), str(i % 40), weight="70") for i in range(100)])
    open_total(place)
    printed = run_python(source, NEW_FILES["ask.py"] + SHOWN, tmp_path)
    assert (
        "IntegerSteps" in printed and "stepped noise of scale 30 on every count or sum" in printed
    )
    assert "MECHANISM IntegerSteps" in printed
    answered = json.loads(printed.split("ROW ")[1].splitlines()[0])
    assert answered["kilos_low"] < answered["kilos"] < answered["kilos_high"]
    text = (tmp_path / "certificate.json").read_text()
    assert seal.check(text).problems == ()
    certificate = json.loads(text)
    (mechanism,) = certificate["body"]["mechanisms"]
    assert mechanism["family"] == "steps" and mechanism["mechanism"] == "IntegerSteps"
    assert mechanism["loss"]["type"] == "pure" and mechanism["scale"] == "30"


def test_without_the_page_laplace_noise_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question of the page is answered by the new family because it errs less, not because it
    must."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    _, place = register(tmp_path, [row(str(i), str(i % 40), weight="70") for i in range(100)])
    open_total(place)
    printed = run_python(ROOT, NEW_FILES["ask.py"] + SHOWN, tmp_path)
    assert "MECHANISM IntegerLaplace" in printed
