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
    """Return a function that sets defaults of another function by name, for arguments that callers do not pass on."""

    def replace(function: Any, **values: Any) -> None:
        parameters = inspect.signature(function).parameters
        assert parameters.keys() >= values.keys(), f"{function} has lost one of {[*values]}"
        all_values = [values.get(name, parameter.default) for name, parameter in parameters.items()]
        defaults = tuple(value for value in all_values if value is not inspect.Parameter.empty)
        monkeypatch.setattr(function, "__defaults__", defaults)

    return replace
