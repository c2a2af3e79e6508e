"""CPU seconds of each test (user and system, reaped children included), summed after the run.

A worker of pytest-xdist attaches the seconds to its reports; the controller adds them up.
"""

import os
from collections import Counter

import pytest

CPU_SECONDS = "cpu_seconds"
DEAREST_TESTS = 20
START_AND_COLLECTION = "start, collection"


def read_cpu_seconds() -> float:
    """CPU seconds that this process and its reaped children have used so far."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def find_folder(nodeid: str) -> str:
    """The folder below the root's first level that holds a test.

    >>> find_folder("tests/ledger/test_pots.py::test_pots")
    'tests/ledger'
    >>> find_folder("src/dither/privacy/losses.py::dither.privacy.losses.Loss")
    'src/dither'
    >>> find_folder("tests/test_docs.py::test_docs")
    'tests'
    """
    path = nodeid.partition("::")[0]
    return "/".join(path.split("/")[:-1][:2])


class CpuReport:
    """Pytest plugin: measures where tests run, prints where reports arrive."""

    def __init__(self) -> None:
        self.last_reading = 0.0
        self.worker_seconds = 0.0
        self.seconds_by_test: Counter[str] = Counter()

    def pytest_runtest_logstart(self) -> None:
        self.last_reading = read_cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        report = yield
        reading = read_cpu_seconds()
        report.user_properties.append((CPU_SECONDS, reading - self.last_reading))
        self.last_reading = reading
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == CPU_SECONDS:
                self.seconds_by_test[report.nodeid] += value

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        worker_output = getattr(session.config, "workeroutput", None)
        if worker_output is not None:
            worker_output[CPU_SECONDS] = read_cpu_seconds()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node) -> None:
        self.worker_seconds += getattr(node, "workeroutput", {}).get(CPU_SECONDS, 0.0)

    def pytest_terminal_summary(self, terminalreporter) -> None:
        terminalreporter.section("CPU seconds")
        for line in self.format_lines():
            terminalreporter.write_line(line)

    def format_lines(self) -> list[str]:
        """The table by folder, dearest first, then the dearest tests."""
        folders = self.sum_by_folder()
        total = max(self.count_total_seconds(), folders.total())  # a killed worker tells no total
        folders[START_AND_COLLECTION] = total - folders.total()
        lines = [f"{seconds:9.1f}  {folder}" for folder, seconds in folders.most_common()]
        lines.append(f"{total:9.1f}  together ({total / 60:.1f} minutes)")
        lines.append(f"The {DEAREST_TESTS} dearest tests:")
        dearest = self.seconds_by_test.most_common(DEAREST_TESTS)
        return lines + [f"{seconds:9.1f}  {nodeid}" for nodeid, seconds in dearest]

    def count_total_seconds(self) -> float:
        """CPU seconds of the whole run: the workers (children of this process) counted once."""
        if self.worker_seconds == 0:
            return read_cpu_seconds()
        times = os.times()
        return self.worker_seconds + times.user + times.system

    def sum_by_folder(self) -> Counter[str]:
        folders: Counter[str] = Counter()
        for nodeid, seconds in self.seconds_by_test.items():
            folders[find_folder(nodeid)] += seconds
        return folders
