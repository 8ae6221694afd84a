"""Fixtures that stop the clock and set defaults of arguments."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.build import NOW

Defaults = Callable[..., None]


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop Unix time at NOW. The monotonic clock of the event loop goes on."""
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setattr(time, "time_ns", lambda: int(NOW) * 1_000_000_000)


@pytest.fixture
def set_defaults(monkeypatch: pytest.MonkeyPatch) -> Defaults:
    """Set the defaults of a function's arguments by name, for arguments that its caller does not pass on."""

    def replace(function: Any, **values: Any) -> None:
        before = {name: p.default for name, p in inspect.signature(function).parameters.items()}
        assert before.keys() >= values.keys(), f"{function} has lost one of {[*values]}"
        new = {name: values.get(name, value) for name, value in before.items()}
        given = tuple(value for value in new.values() if value is not inspect.Parameter.empty)
        monkeypatch.setattr(function, "__defaults__", given)

    return replace
