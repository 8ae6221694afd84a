"""What waits for a module is called right after its import, and its failure is not the import's."""

import importlib
import sys

import pytest

from zmon.probe.hooks import later


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that can be imported; everything is put back."""
    (tmp_path / "awaited_by_zmon.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    monkeypatch.setattr(later, "_waiting", {})
    yield "awaited_by_zmon"
    sys.modules.pop("awaited_by_zmon", None)


def test_module_that_is_loaded_is_handed_over_at_once():
    found = []
    later.when_imported("sys", found.append)
    assert found == [sys]


def test_module_is_handed_over_after_its_import_once(module):
    found = []
    later.when_imported(module, lambda loaded: found.append(loaded.answer))
    assert found == []
    importlib.reload(importlib.import_module(module))
    assert found == [42]


def test_failure_of_what_waits_is_not_the_imports(module, capsys):
    later.when_imported(module, lambda loaded: 1 / 0)
    assert importlib.import_module(module).answer == 42
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_import_that_failed_is_waited_for_again(module, tmp_path):
    found = []
    (tmp_path / f"{module}.py").write_text("raise ValueError('half written')\n")
    later.when_imported(module, found.append)
    with pytest.raises(ValueError, match="half written"):
        importlib.import_module(module)
    (tmp_path / f"{module}.py").write_text("answer = 42  # now it works\n")
    importlib.invalidate_caches()
    assert importlib.import_module(module).answer == 42
    assert len(found) == 1


def test_module_that_is_nowhere_is_an_import_error(module):
    later.when_imported("nowhere_to_be_found", print)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nowhere_to_be_found")
