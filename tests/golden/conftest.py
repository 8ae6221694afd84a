"""A fixture that stops the clock."""

from __future__ import annotations

import time

import pytest

from tests.build import NOW


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop Unix time at NOW. The monotonic clock of the event loop goes on."""
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setattr(time, "time_ns", lambda: int(NOW) * 1_000_000_000)
