"""Calls back when a module is imported, for those that cost too much to import for a job that may never need them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from zmon import probe

_waiting: dict[str, Callable[[Any], None]] = {}


def when_imported(name: str, then: Callable[[Any], None]) -> None:
    """Call `then` with the module: now, if it is loaded, else right after its import."""
    if name in sys.modules:
        then(sys.modules[name])
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _waiting[name] = then


class _Finder:
    """Finds what others would find, and has its loader call back. It stays among the finders: taking one away under a
    running import of another thread makes that one skip the next."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module that is waited for; None for all else, which the other finders know."""
        if name not in _waiting or (spec := PathFinder.find_spec(name, path, target)) is None or spec.loader is None:
            return None
        loader, execute = spec.loader, spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # the loader is again as it was
            execute(module)
            if (then := _waiting.pop(name, None)) is not None:
                probe.guarded(then)(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
