"""Removes zmon from torch and installs it again, between two steps of a running job."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, MutableMapping
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import optimizer as optimizers

# Modes of a job
WATCHED = "watched"  # zmon records the rank
ABSENT = "absent"  # torch is in its state before zmon was loaded
AGAIN = "again"  # the same as absent: the difference of the two is the noise of the measurement (A/A)
IDLE = "idle"  # the hooks are installed, as under `zmon run`, but the process is not a rank
NEVER = "never"  # zmon is not even imported

_CLASSES = (dist.Work, dist.ProcessGroup, dist.Reducer, DistributedDataParallel, torch._C.Future)
OPTIMIZER_HOOKS = (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks)

Hooks = MutableMapping[int, Any]


class Change(NamedTuple):
    """A name in a module or a class that zmon has changed."""

    owner: Any
    name: str
    plain: object  # the value without zmon
    watching: object  # the value with zmon

    def is_made(self) -> bool:
        """Return True if the name has the value with zmon now."""
        return vars(self.owner)[self.name] is self.watching


def attach() -> tuple[float, float]:
    """Import zmon and attach this rank. Return the seconds of the import, and those of attaching."""
    begin = time.perf_counter()
    import zmon

    imported = time.perf_counter()
    if not zmon.attach():
        raise SystemExit("zmon did not attach")
    return imported - begin, time.perf_counter() - imported


class Switch:
    """All changes that zmon makes to torch and to the model, to be removed and installed again."""

    def __init__(self) -> None:
        names_before = names()
        self._classes_before = {key: value for key, value in names_before.items() if key[0] in _CLASSES}
        attach()
        from zmon import probe

        timeline = probe.current
        assert timeline is not None
        self._probe, self._timeline = probe, timeline
        self._changes = [
            Change(*key, names_before[key], value)
            for key, value in names().items()
            if key in names_before and names_before[key] is not value
        ]
        self._hooks: list[tuple[Hooks, dict[int, Any]]] = [(hooks, dict(hooks)) for hooks in OPTIMIZER_HOOKS]

    def settle(self, model: nn.Module) -> None:
        """Note what the first steps have changed: hooks on the model, and wrappers that zmon put on or took off."""
        self._changes = [change for change in self._changes if change.is_made()]
        known = {(change.owner, change.name) for change in self._changes}
        for (owner, name), plain in self._classes_before.items():
            value = vars(owner)[name]
            if (owner, name) not in known and value is not plain:
                self._changes.append(Change(owner, name, plain, value))
        for hooks in hooks_of(model):
            hooks_of_zmon = {key: hook for key, hook in hooks.items() if is_ours(hook)}
            if hooks_of_zmon:
                self._hooks.append((hooks, hooks_of_zmon))

    def to(self, mode: str) -> None:
        """Switch to a mode from the next step on."""
        is_absent = mode in (ABSENT, AGAIN)
        for change in self._changes:
            setattr(change.owner, change.name, change.plain if is_absent else change.watching)
        for hooks, hooks_of_zmon in self._hooks:
            for key, hook in hooks_of_zmon.items():
                if is_absent:
                    hooks.pop(key, None)
                else:
                    hooks.setdefault(key, hook)
        self._probe.current = self._timeline if mode == WATCHED else None
        if mode == WATCHED:
            self._timeline.turn_to(self._timeline.activity)  # the time without zmon belongs to no step

    def reported(self) -> float:
        """Return the overhead in seconds that zmon reports so far."""
        return self._timeline.ledger.overhead_ns * 1e-9


def names() -> dict[tuple[Any, str], object]:
    """Return the value of each name in a loaded module, or in a class that zmon changes, by owner and name."""
    owners = (*(module for module in sys.modules.values() if hasattr(module, "__dict__")), *_CLASSES)
    return {(owner, name): value for owner in owners for name, value in list(vars(owner).items())}


def hooks_of(model: nn.Module) -> Iterator[Hooks]:
    """Yield the hooks of the model's modules and parameters."""
    for module in model.modules():
        yield module._forward_pre_hooks
    for parameter in model.parameters():
        if parameter._post_accumulate_grad_hooks is not None:
            yield parameter._post_accumulate_grad_hooks


def is_ours(hook: object) -> bool:
    """Return True if the hook is one of zmon."""
    return str(getattr(hook, "__module__", "")).startswith("zmon.")
