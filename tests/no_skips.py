"""Turns skips into failures, for runs that have everything a test could need (`make test-all`)."""

import pytest

REMEDY = "skipped, and --no-skips allows none: install what it needs (make setup-all)"


class FailSkippedTests:
    """Pytest plugin: a test or a module that skips fails with the reason it gave."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        report = yield
        if not hasattr(report, "wasxfail"):
            fail_skipped(report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self):
        report = yield
        fail_skipped(report)
        return report


def fail_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped:
        _, _, reason = report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: {REMEDY}\n{reason}"
