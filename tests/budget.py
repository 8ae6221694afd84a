"""Skip the tests that have not begun by a given time, and list them: `pytest -p tests.budget --until UNIX_SECONDS`.

CI runs the slow tests in the rest of its hour. Tests that do not fit are no failure, but they are reported.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

LEFT_OUT = "left out: the budget is spent"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --until."""
    parser.addoption("--until", type=float, metavar="UNIX_SECONDS", help="begin no test after this time")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test if no time is left."""
    until = item.config.getoption("--until")
    if until is not None and time.time() >= until:
        pytest.skip(LEFT_OUT)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the tests that were skipped."""
    skipped = terminalreporter.stats.get("skipped", ())
    names = [report.nodeid for report in skipped if LEFT_OUT in str(report.longrepr)]
    if names:
        terminalreporter.section(f"{len(names)} tests did not run: the budget is spent")
        for name in names:
            terminalreporter.line(name)
