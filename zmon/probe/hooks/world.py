"""Records the identity of the rank when it joins a process group: rank, backend, device, and group names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from zmon import probe
from zmon.probe.hooks import collectives, reducer, runners, simple_reducer
from zmon.probe.hooks.device import identify_device
from zmon.probe.hooks.replacing import replace, wrapper_of


def install() -> None:
    """Wrap the functions that create and destroy process groups, once."""
    init, destroy = distributed_c10d.init_process_group, distributed_c10d.destroy_process_group
    if not hasattr(init, "__zmon__"):
        replace({init: _wrap(init, _on_joined), destroy: _wrap(destroy, _on_destroyed)})


def _on_joined(*args: Any, **kwargs: Any) -> None:
    _forget_groups()
    init_method = kwargs.get("init_method", args[1] if len(args) > 1 else None)
    probe.start_as_rank(dist.get_rank(), dist.get_world_size(), init_method)
    probe.record_result("")  # a process that joins again has more to do
    probe.identify(backend=dist.get_backend())
    identify_device()


def _on_destroyed(*_: Any, **__: Any) -> None:
    _forget_groups()
    runners.leave_groups()


def _forget_groups() -> None:
    collectives.forget_groups()
    reducer.forget_groups()
    simple_reducer.withdraw()


def _wrap(original: Callable[..., Any], callback: Callable[..., None]) -> Callable[..., Any]:
    @wrapper_of(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        try:
            callback(*args, **kwargs)
        except Exception as error:
            probe.complain(f"cannot record the process group of this rank: {error!r}")
        return result

    return call
