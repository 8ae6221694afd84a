"""When the rank joins a process group: who it is, its backend and device, its groups' names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from zmon import probe
from zmon.probe.hooks import collectives, reducer
from zmon.probe.hooks.device import identify_device
from zmon.probe.hooks.replacing import replace


def install() -> None:
    """Watch process groups come and go, once."""
    init, destroy = distributed_c10d.init_process_group, distributed_c10d.destroy_process_group
    if not hasattr(init, "__zmon__"):
        replace({init: _after(init, _joined), destroy: _after(destroy, lambda *_, **__: _forget())})


def _joined(*args: Any, **kwargs: Any) -> None:
    _forget()
    init_method = kwargs.get("init_method", args[1] if len(args) > 1 else None)
    probe.turn_out(dist.get_rank(), dist.get_world_size(), init_method)
    probe.identify(backend=dist.get_backend())
    identify_device()


def _forget() -> None:
    collectives.forget_groups()
    reducer.forget_groups()


def _after(original: Callable[..., Any], then: Callable[..., None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        try:
            then(*args, **kwargs)
        except Exception as error:
            probe.complain(f"this rank's process group is not known: {error!r}")
        return result

    call.__zmon__ = True  # type: ignore[attr-defined]
    return call
