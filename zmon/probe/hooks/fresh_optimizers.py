"""Tells which optimizer a new optimizer object stands for, because some jobs make a new object in every step.

MAML makes an object for each task, and some scripts make one for each batch. The new object stands for an object of the
same kind that is gone. Objects of one kind have the same class, as many parameters, and a first parameter of the same
shape. An object that refers to itself is gone only after a garbage collection. Until then the new object stands for one
that updated the same parameters and did not step again.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from torch._C import DisableTorchFunction

_MAX_KINDS = 64  # kinds of optimizers whose last objects are remembered after their end
_MAX_GONE = 64  # objects of one kind that ended, and that no new one stands for: a job may make one for each task
_MIN_OBJECTS = 2  # with fewer objects that update the same parameters, the new one may take turns with the other

_Key: TypeAlias = tuple[Any, ...]  # equal for optimizers that are alike


class _Known(NamedTuple):
    """An optimizer that has stepped."""

    ref: weakref.ref[Any]
    parameters: _Key


class FreshOptimizers:
    """The optimizers that have stepped, by weak reference."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}  # by id
        self._objects: dict[_Key, list[int]] = {}  # ids of the objects that update the same parameters, the newest last
        self._gone: dict[_Key, deque[int]] = {}  # ids of the objects that ended, by kind, the first to end is first

    def is_new(self, optimizer: Any) -> bool:
        """Note that an optimizer is about to step; return True if it has not stepped before."""
        address = id(optimizer)
        known = self._known.get(address)
        if known is None or known.ref() is not optimizer:
            return True
        if self._objects.get(known.parameters, [])[-1:] != [address]:  # an earlier object steps again
            self._objects[known.parameters] = [address]
        return False

    def add(self, optimizer: Any) -> int | None:
        """Add a new optimizer. Return the id of the one that it stands for from now on; None: it stands for itself."""
        address = id(optimizer)
        kind, parameters = _keys(optimizer)
        objects, gone = self._objects.setdefault(parameters, []), self._gone.get(kind, deque())
        previous = None
        if address in gone:  # the new object has the place in memory of its predecessor
            gone.remove(address)
        elif gone:
            previous = self._first_unknown(gone)
        elif len(objects) >= _MIN_OBJECTS:
            previous = objects.pop()
            self._known.pop(previous, None)
        objects.append(address)
        self._known[address] = _Known(weakref.ref(optimizer, self._on_end(address, kind)), parameters)
        return previous

    def _first_unknown(self, gone: deque[int]) -> int | None:
        """Return the object that ended first; an id that another object has got since then is dropped."""
        while gone:
            address = gone.popleft()
            if address not in self._known:
                return address
        return None

    def remembered_ids(self) -> set[int]:
        """Return the ids of the optimizers that may step again, and of those that a new one may stand for."""
        return {*self._known, *chain.from_iterable(list(self._gone.values()))}

    def _on_end(self, address: int, kind: _Key) -> Any:
        """Return the callback for the end of an object; it does nothing while Python clears the names of this file."""
        is_finalizing = sys.is_finalizing

        def note(ref: weakref.ref[Any]) -> None:
            if is_finalizing():
                return
            known = self._known.get(address)
            if known is None or known.ref is not ref:
                return  # another one stands for it already
            del self._known[address]
            objects = self._objects.get(known.parameters, [])
            if address in objects:
                objects.remove(address)
            if not objects:
                self._objects.pop(known.parameters, None)
            if kind in self._gone or len(self._gone) < _MAX_KINDS:
                self._gone.setdefault(kind, deque(maxlen=_MAX_GONE)).append(address)

        return note


def _keys(optimizer: Any) -> tuple[_Key, _Key]:
    """Return the key of the optimizer's kind, and the key of its parameters."""
    groups = [group["params"] for group in optimizer.param_groups]
    first = next((group[0] for group in groups if group), None)
    common = type(optimizer), *map(len, groups)
    with DisableTorchFunction():  # torch's ShardedTensor prints a warning when its class is asked
        shape = tuple(getattr(first, "shape", ()))
    return (*common, shape), (*common, id(first))
