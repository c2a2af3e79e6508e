"""Test runs of a small project with our conftest: the CPU report and --no-skips."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.case_lists import mark_rest
from tests.cpu_report import CpuReport

TESTS = Path(__file__).parent
QUICK = "def test_quick():\n    pass\n"
BUSY = """
import time

def test_busy():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
"""
BUSY_CHILD = """
import subprocess, sys

def test_busy_child():
    code = "import time\\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-S", "-c", code], check=True)
"""
SKIPS = """
import pytest

def test_skips():
    pytest.skip("needs a browser")

@pytest.mark.xfail
def test_expected_failure():
    assert False
"""
SKIPS_ALL = "import pytest\npytest.importorskip('no_such_module')\n"


def run_pytest(
    folder: Path,
    files: dict[str, str],
    *options: str,
) -> subprocess.CompletedProcess[str]:
    """Runs a project of these test files, with a copy of our conftest."""
    shutil.copy(TESTS / "conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    environment = os.environ | {
        "PYTHONPATH": str(TESTS.parent),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def read_seconds(output: str, name: str) -> float:
    """The CPU seconds that the report shows beside a folder or a test."""
    (seconds,) = re.findall(rf"^ +([\d.]+)  {re.escape(name)}", output, re.MULTILINE)
    return float(seconds)


@pytest.mark.parametrize("workers", mark_rest([["-p", "xdist", "-n", "2"], []], quick=1))
def test_the_cpu_report_adds_up_folders_and_names_the_dearest_tests(tmp_path, workers):
    files = {
        "dear/test_busy.py": BUSY,
        "dear/test_busy_child.py": BUSY_CHILD,
        "cheap/test_quick.py": QUICK,
    }
    done = run_pytest(tmp_path, files, *workers)
    assert done.returncode == 0, done.stdout
    assert read_seconds(done.stdout, "dear/test_busy.py::test_busy") >= 0.3
    assert read_seconds(done.stdout, "dear/test_busy_child.py::test_busy_child") >= 0.3
    dear = read_seconds(done.stdout, "dear\n")
    cheap = read_seconds(done.stdout, "cheap\n")
    start = read_seconds(done.stdout, "start, collection")
    together = read_seconds(done.stdout, "together")
    assert dear >= 0.6 > cheap
    assert start > 0
    assert together == pytest.approx(dear + cheap + start, abs=0.2)  # each is rounded to a tenth


def test_the_cpu_report_shows_the_twenty_dearest_tests_alone():
    report = CpuReport()
    for number in range(1, 31):
        report.seconds_by_test[f"tests/test_{number}.py::test"] = number
    shown = [line.split()[1] for line in report.format_lines() if line.endswith("::test")]
    assert shown == [f"tests/test_{number}.py::test" for number in range(30, 10, -1)]


def test_a_worker_that_was_killed_leaves_no_negative_seconds():
    report = CpuReport()
    report.seconds_by_test["tests/test_long.py::test"] = 99_999.0
    report.worker_seconds = 5.0
    text = "\n".join(report.format_lines())
    assert read_seconds(text, "start, collection") == 0
    assert read_seconds(text, "together") == 99_999.0


@pytest.mark.parametrize("workers", mark_rest([[], ["-p", "xdist", "-n", "2"]], quick=1))
def test_no_skips_fails_a_run_that_skips_a_test_and_names_it(tmp_path, workers):
    files = {"test_quick.py": QUICK, "test_skips.py": SKIPS}
    done = run_pytest(tmp_path, files, "--no-skips", *workers)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "test_skips.py::test_skips: skipped" in done.stdout
    assert "needs a browser" in done.stdout
    assert "1 failed, 1 passed, 1 xfailed" in done.stdout


def test_no_skips_fails_a_run_that_skips_a_module_and_names_it(tmp_path):
    files = {"test_quick.py": QUICK, "test_skips_all.py": SKIPS_ALL}
    done = run_pytest(tmp_path, files, "--no-skips")
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout
    assert "test_skips_all.py: skipped" in done.stdout
    assert "no_such_module" in done.stdout


def test_without_the_option_a_skip_is_no_failure(tmp_path):
    done = run_pytest(tmp_path, {"test_quick.py": QUICK, "test_skips.py": SKIPS})
    assert done.returncode == 0, done.stdout
    assert "1 passed, 1 skipped, 1 xfailed" in done.stdout
