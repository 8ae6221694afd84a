"""A time by which a run of the tests has to begin each: those left are skipped, and named. `pytest -p tests.budget`.

CI runs the slow tests with what is left of its hour. What the hour cannot hold is no failure, and no secret.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

LEFT_OUT = "left out: the budget is spent"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --until."""
    parser.addoption("--until", type=float, metavar="UNIX_SECONDS", help="begin no test later than that")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a test out where no time is left."""
    until = item.config.getoption("--until")
    if until is not None and time.time() >= until:
        pytest.skip(LEFT_OUT)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name what was left out."""
    skipped = terminalreporter.stats.get("skipped", ())
    names = [report.nodeid for report in skipped if LEFT_OUT in str(report.longrepr)]
    if names:
        terminalreporter.section(f"{len(names)} tests did not run: the budget is spent")
        for name in names:
            terminalreporter.line(name)
