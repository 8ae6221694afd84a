"""A fixture: the directory of a demo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory for the demo; processes that a failed test leaves running are killed."""
    yield tmp_path
    for process in psutil.process_iter():
        try:
            if process.environ().get("ZMON_TEST_DIRECTORY") == str(tmp_path):
                process.kill()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
