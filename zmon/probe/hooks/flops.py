"""Counts the floating-point operations of one step, once, if the job does not declare them with `zmon.work(flops=…)`.

In the fourth step of this process each call of torch's operators passes through here (a dispatch mode), and
`zmon.probe.operations` counts. All ranks count the same step. It is one of the first, which may be slow: the lease of
training is learned from five steps (zmon/job/lease.py). Later steps have as many operations, or as many for each
sample, if the samples are known.

A job that torch has compiled is not counted: on torch 2.13 a function that ran in a dispatch mode is never compiled
again. Neither is one that replays graphs of a GPU, whose kernels belong to no call. Such jobs declare their operations.
The mode ends before a fork, because a loader worker would inherit it.

`ZMON_FLOPS=off` switches it off.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from threading import get_ident
from time import perf_counter_ns
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from zmon import probe
from zmon.probe.hooks import compilation
from zmon.probe.ledger import Ledger
from zmon.probe.operations import Count, Operations, OperatorCall
from zmon.probe.rank import RankTimeline
from zmon.schema.names import FLOPS_SOURCES

FIRST_STEP = 4  # the step that is counted: by then the model is compiled, if it is
LAST_STEP = 8  # if the job evaluates or forks at that time, the next steps are tried up to this one
MAX_UNCOUNTED_SHARE = 0.05  # of the time of the step; if more is unknown, the count would mislead
COUNTED = FLOPS_SOURCES[1]


def install() -> None:
    """Watch the ends of the first steps, until one is counted."""
    timeline = probe.current
    if timeline is not None and os.environ.get("ZMON_FLOPS", "once") != "off":
        count = _StepCount(timeline)
        timeline.ledger.memory_reader = count
        os.register_at_fork(before=count.discard)


class _StepCount:
    """The reader of the device's memory during the first steps; a ledger calls it at the end of a step."""

    def __init__(self, timeline: RankTimeline) -> None:
        self._timeline, self._reader = timeline, timeline.ledger.memory_reader
        self._mode: _CountingMode | None = None
        self._modes: list[_CountingMode] = []  # that torch still has, because the job has entered a mode of its own
        self._boundary = 0  # the number of boundaries before the step that is counted

    def __call__(self) -> tuple[int, int, int] | None:
        ledger = self._timeline.ledger
        try:
            done = self._end_step(ledger)
        except Exception as error:
            done = True
            self.discard()
            probe.complain(f"the operations of a step could not be counted: {error!r}")
        if done:
            ledger.memory_reader = self._reader
        else:
            ledger.read_memory_at_next_step()
        return self._reader() if self._reader is not None else None

    def _end_step(self, ledger: Ledger) -> bool:
        """Begin or end to count at the end of a step; return True if nothing is left to do."""
        step = ledger.steps + 1  # the one that ends now
        mode = self.discard()
        if ledger.declared_dtype is not None or step > LAST_STEP:
            return True
        if compilation.num_compilations:
            probe.identify(uncounted="torch compiles this job: it must declare its operations with zmon.work(flops=…)")
            return True
        # If the number grew by more than one, the rank evaluated or saved in the step.
        if mode is not None and mode.is_whole and ledger.boundaries == self._boundary + 1:
            _publish(ledger, mode.operations(), mode.replays.number > 0)
            return True
        # Within a mode of the job, the end of that one would remove this one instead.
        if FIRST_STEP - 1 <= step < LAST_STEP and _get_current_dispatch_mode() is None:
            self._boundary, self._mode = ledger.boundaries, _CountingMode()
            self._mode.begin()
        return False

    def discard(self) -> _CountingMode | None:
        """End to count, and return the mode if it was active until now."""
        mode, self._mode = self._mode, None
        if mode is not None:
            mode.end()
            self._modes.append(mode)
        while self._modes and self._modes[-1].leave():
            self._modes.pop()
        return mode


class _CountingMode(TorchDispatchMode):  # type: ignore[misc]
    """Sees each call of an operator of torch in this thread, and in those of autograd that work for it."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: else torch imports its compiler at the first call, for a job that may have no use for it."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True: else torch 2.13 never compiles a function again that it was to compile in the counted step."""
        return True

    def __init__(self) -> None:
        super().__init__()
        self.replays = _Replays()
        self.is_whole = False  # True: it saw all calls from `begin` to `end`
        self._count = Count()
        self._thread, self._begin, self._ns = get_ident(), perf_counter_ns(), 0
        self._active = True

    def begin(self) -> None:
        """Begin to see the calls."""
        self.__enter__()

    def end(self) -> None:
        """Stop to count."""
        self._active = False
        self._ns = perf_counter_ns() - self._begin
        self.replays.end()
        self.is_whole = self._is_innermost()

    def leave(self) -> bool:
        """See no more calls; return False if the job has entered a mode of its own since then, or in another thread."""
        if self._is_innermost():
            self.__exit__(None, None, None)
            return True
        return False

    def _is_innermost(self) -> bool:
        return get_ident() == self._thread and _get_current_dispatch_mode() is self

    def operations(self) -> Operations:
        """Return the operations that it saw."""
        return self._count.operations(self._ns)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if any(getattr(each, "__torch_dispatch__", None) is not _PLAIN for each in types):
            return NotImplemented  # such as a DTensor: its local tensors come here as well
        begin = perf_counter_ns()
        result = func(*args, **(kwargs or {}))
        if self._active:
            self._add(func._schema.name, args, perf_counter_ns() - begin)
        return result

    @probe.guarded
    def _add(self, name: str, args: Sequence[Any], elapsed: int) -> None:
        tensors = [each for each in args if isinstance(each, torch.Tensor) and not each.is_nested]
        shapes = [tuple(each.shape) if isinstance(each, torch.Tensor) and not each.is_nested else () for each in args]
        dtype = str(tensors[0].dtype).removeprefix("torch.") if tensors else ""
        self._count.add(OperatorCall(name, shapes, dtype, args, elapsed))


_PLAIN = torch.Tensor.__torch_dispatch__


class _Replays:
    """Counts the graphs of a GPU that are replayed, until `end`: their kernels belong to no call."""

    def __init__(self) -> None:
        self.number = 0
        self._original = original = torch.cuda.CUDAGraph.replay

        def replay(graph: torch.cuda.CUDAGraph) -> None:
            self.number += 1
            original(graph)

        self._counting = torch.cuda.CUDAGraph.replay = replay

    def end(self) -> None:
        """Put the original back, unless the job has wrapped it meanwhile."""
        if torch.cuda.CUDAGraph.replay is self._counting:
            torch.cuda.CUDAGraph.replay = self._original


def _publish(ledger: Ledger, step: Operations, replays: bool) -> None:
    """Write the count into the box, unless too much of the step is unknown."""
    share, names = sum(step.uncounted.values()), ", ".join(list(step.uncounted)[:3])
    on_gpu = torch.cuda.is_initialized()
    left_out = f"operations that zmon cannot count: {names}" if names else ""
    if names and not on_gpu:
        left_out = f"{share:.1%} of a step is in {left_out}"
    if replays:
        probe.identify(uncounted="kernels of graphs that are replayed cannot be counted")
    elif not step.total:
        probe.identify(uncounted=left_out or "the step that zmon counted has no matrix product")
    elif names and (on_gpu or share > MAX_UNCOUNTED_SHARE):
        probe.identify(uncounted=left_out)
    else:
        shares = {_on_device(dtype): flops / step.total for dtype, flops in step.by_dtype.items()}
        probe.identify(flops_source=COUNTED, flops_dtypes=shares, uncounted=left_out)
        ledger.expect_flops(step.total)


def _on_device(dtype: str) -> str:
    """Return the dtype in which the device computes: a GPU may round the factors of float32 products to tf32."""
    rounds = torch.cuda.is_initialized() and torch.get_float32_matmul_precision() != "highest"
    return "tf32" if dtype == "float32" and rounds else dtype
