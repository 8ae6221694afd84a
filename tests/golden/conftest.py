"""A clock that stands still, and seams that are arguments with defaults."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.build import NOW

Defaults = Callable[..., None]


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unix time stands at NOW. The monotonic clock of the event loop goes on."""
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setattr(time, "time_ns", lambda: int(NOW) * 1_000_000_000)


@pytest.fixture
def defaults(monkeypatch: pytest.MonkeyPatch) -> Defaults:
    """Set the defaults of a function's arguments by name: a seam that its caller does not pass on."""

    def replace(function: Any, **values: Any) -> None:
        told = {name: p.default for name, p in inspect.signature(function).parameters.items()}
        assert told.keys() >= values.keys(), f"{function} has lost one of {[*values]}"
        new = {name: values.get(name, value) for name, value in told.items()}
        given = tuple(value for value in new.values() if value is not inspect.Parameter.empty)
        monkeypatch.setattr(function, "__defaults__", given)

    return replace
