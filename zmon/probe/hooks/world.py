"""Records the identity of the rank when it joins a process group: rank, backend, device, timeout, and earlier steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from zmon import probe
from zmon.probe.hooks import collectives, reducer, runners, simple_reducer
from zmon.probe.hooks.device import identify_device
from zmon.probe.hooks.replacing import replace, wrapper_of
from zmon.schema.names import COLLECTIVE_TIMEOUT, STEPS_BEFORE_JOIN


def install() -> None:
    """Wrap the functions that create and destroy process groups, once."""
    init, destroy = distributed_c10d.init_process_group, distributed_c10d.destroy_process_group
    if not hasattr(init, "__zmon__"):
        replace({init: _wrap(init, _on_joined, runners.begin_join), destroy: _wrap(destroy, _on_destroyed)})


def _on_joined(*args: Any, **kwargs: Any) -> None:
    _forget_groups()
    init_method = kwargs.get("init_method", args[1] if len(args) > 1 else None)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    probe.start_as_rank(rank, world_size, init_method)
    probe.check_place(rank, world_size)
    _begin_counts()
    runners.end_join()
    probe.identify(backend=dist.get_backend())
    identify_device()
    probe.set_label(COLLECTIVE_TIMEOUT, collective_timeout(distributed_c10d._get_default_group(), os.environ))


def _begin_counts() -> None:
    """Begin to count collectives anew, and note how many steps this process had finished before its peers joined it.

    A rank that heals in its process joins again. A peer whose process is new counts steps and collectives from 0.
    """
    timeline = probe.current
    if timeline is not None:
        timeline.leave_groups()
        num_steps = timeline.step - 1  # on a GPU the ledger is some steps behind
        probe.set_label(STEPS_BEFORE_JOIN, str(num_steps) if num_steps > 0 else "")


def collective_timeout(group: Any, env: Mapping[str, str]) -> str:
    """Return the seconds after which torch ends a collective of this group; "" if it never does, or if that is unknown.

    The watchdog of NCCL ends it, unless its handling of errors is switched off
    (https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html). gloo raises in the rank that waits.
    """
    backends = {group._get_backend(device) for device in group._device_types}
    is_off = env.get("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "0" and env.get("TORCH_NCCL_BLOCKING_WAIT", "0") == "0"
    if is_off and any(backend.name() == "nccl" for backend in backends):
        return ""
    timeouts = [backend.options._timeout.total_seconds() for backend in backends if hasattr(backend, "options")]
    return f"{min(timeouts):.12g}" if timeouts else ""


def _on_destroyed(*_: Any, **__: Any) -> None:
    _forget_groups()
    runners.leave_groups()


def _forget_groups() -> None:
    collectives.forget_groups()
    reducer.forget_groups()
    simple_reducer.withdraw()


def _wrap(
    original: Callable[..., Any], after: Callable[..., None], before: Callable[[], None] = lambda: None
) -> Callable[..., Any]:
    """Wrap a function so that `before` and `after` are called too; `after` gets the arguments of the call."""

    @wrapper_of(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        before()
        result = original(*args, **kwargs)
        try:
            after(*args, **kwargs)
        except Exception as error:
            probe.complain(f"cannot record the process group of this rank: {error!r}")
        return result

    return call
