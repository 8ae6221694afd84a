"""Fixtures: servers with scripted answers, and the directory of a demo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from tests.cli.running_demo import processes_of
from tests.http_server import FakeServer


@pytest.fixture
def fake_server() -> Iterator[Callable[..., FakeServer]]:
    """Return a function that starts a server with these answers; the servers end with the test."""
    with ExitStack() as stack:

        def start(answers):
            server = FakeServer(answers)
            stack.callback(server.close)
            return server

        yield start


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory for the demo; processes that a failed test leaves running are killed."""
    yield tmp_path
    for process in processes_of(tmp_path):
        with suppress(psutil.NoSuchProcess):
            process.kill()
