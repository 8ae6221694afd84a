"""Tests of callbacks that run after the import of a module. A callback that fails does not harm the import."""

import importlib
import sys

import pytest

from zmon.probe.hooks import later


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Yield the name of a module that can be imported; all global state is restored afterwards."""
    (tmp_path / "awaited_by_zmon.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    monkeypatch.setattr(later, "_waiting", {})
    yield "awaited_by_zmon"
    sys.modules.pop("awaited_by_zmon", None)


def test_callback_for_a_loaded_module_runs_at_once():
    calls = []
    later.when_imported("sys", calls.append)
    assert calls == [sys]


def test_callback_runs_once_after_the_import(module):
    calls = []
    later.when_imported(module, lambda loaded: calls.append(loaded.answer))
    assert calls == []
    importlib.reload(importlib.import_module(module))
    assert calls == [42]


def test_callback_that_fails_does_not_harm_the_import(module, capsys):
    later.when_imported(module, lambda loaded: 1 / 0)
    assert importlib.import_module(module).answer == 42
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_callback_for_a_loaded_module_that_fails_does_not_end_the_hook(capsys):
    later.when_imported("sys", lambda loaded: loaded.unheard_of)
    assert "unheard_of" in capsys.readouterr().err


def test_callback_runs_at_the_first_import_that_succeeds(module, tmp_path):
    calls = []
    (tmp_path / f"{module}.py").write_text("raise ValueError('half written')\n")
    later.when_imported(module, calls.append)
    with pytest.raises(ValueError, match="half written"):
        importlib.import_module(module)
    (tmp_path / f"{module}.py").write_text("answer = 42  # now it works\n")
    importlib.invalidate_caches()
    assert importlib.import_module(module).answer == 42
    assert len(calls) == 1


def test_missing_module_is_an_import_error(module):
    later.when_imported("nowhere_to_be_found", print)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nowhere_to_be_found")
