"""Calls back when a module is imported, for modules that are too slow to import in a job that may not need them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from zmon import probe

_waiting: dict[str, Callable[[Any], None]] = {}  # callbacks by module name


def when_imported(name: str, callback: Callable[[Any], None]) -> None:
    """Call `callback` with the module: now if it is loaded, else right after its import."""
    if name in sys.modules:
        probe.guarded(callback)(sys.modules[name])
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _waiting[name] = callback


class _Finder:
    """An import finder that finds modules as usual and makes their loader call back.

    It stays in sys.meta_path. If it were removed during an import in another thread, that import would skip a finder.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an awaited module; None for all other modules, which the other finders find."""
        if name not in _waiting or (spec := PathFinder.find_spec(name, path, target)) is None or spec.loader is None:
            return None
        loader, execute = spec.loader, spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # restores the loader
            execute(module)
            if (callback := _waiting.pop(name, None)) is not None:
                probe.guarded(callback)(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
