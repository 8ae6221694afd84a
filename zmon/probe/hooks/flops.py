"""Counts the floating-point operations of one step, once, if the job does not declare them with `zmon.work(flops=…)`.

In the fourth step of this process a dispatch mode sees each call of torch's operators, and `zmon.probe.operations`
counts its operations. All ranks count the same step. It may be slow, so it is one of the first: until five steps are
done, training has the long lease of initialization (zmon/job/lease.py). Later steps have as many operations, or as many
for each sample, if the samples are known.

A job that torch has compiled is not counted, because compiled code makes no calls of operators. A job that replays
graphs of a GPU or launches kernels past torch's operators is not counted either. Such jobs declare their operations. A
step that fails, or in which the rank evaluates or starts a thread, is not counted: the next step is tried. The mode
ends before a fork, because a loader worker would inherit it.

`ZMON_FLOPS=off` switches it off.
"""

from __future__ import annotations

import os
import sys

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from zmon import probe
from zmon.probe.hooks import compilation
from zmon.probe.hooks.counting_mode import CountingMode
from zmon.probe.ledger import Ledger
from zmon.probe.operations import Operations
from zmon.probe.rank import RankTimeline
from zmon.schema.names import FLOPS_SOURCES

FIRST_STEP = 4  # the step that is counted: by then the model is compiled, if it is
LAST_STEP = 8  # if the job evaluates or forks at that time, the next steps are tried up to this one
MAX_UNCOUNTED_SHARE = 0.05  # of the time of the step; if more is unknown, the count would mislead
_, COUNTED = FLOPS_SOURCES
# Libraries whose matrix products go past the operators of torch, in some of their versions.
_OUTSIDE = ("flash_attn", "mamba_ssm", "transformer_engine")


def install() -> None:
    """Watch the ends of the first steps, until one is counted."""
    timeline = probe.current
    if timeline is not None and os.environ.get("ZMON_FLOPS", "once") != "off":
        count = _StepCount(timeline)
        timeline.ledger.memory_reader = count
        os.register_at_fork(before=count.discard)


class _StepCount:
    """The reader of the device's memory during the first steps; a ledger calls it at the end of each of them."""

    def __init__(self, timeline: RankTimeline) -> None:
        self._timeline, self._reader = timeline, timeline.ledger.memory_reader
        self._step = 0  # the number of steps that have ended on the host; the device may be behind
        self._is_done = False
        self._mode: CountingMode | None = None
        self._modes: list[CountingMode] = []  # torch still has them, because the job entered a mode of its own later
        self._interruptions_before = 0, 0  # `_interruptions` when the counted step began

    def __call__(self) -> tuple[int, int, int] | None:
        ledger = self._timeline.ledger
        try:
            self._step += 1
            mode = self.discard()
            self._is_done = self._is_done or self._end_step(ledger, mode)
        except Exception as error:
            self._is_done = True
            self.discard()
            probe.complain(f"the operations of a step could not be counted: {error!r}")
        if self._is_done and not self._modes:
            ledger.memory_reader = self._reader
        else:
            ledger.read_memory_at_next_step()
        return self._reader() if self._reader is not None else None

    def _end_step(self, ledger: Ledger, mode: CountingMode | None) -> bool:
        """Begin to count at the end of a step, or publish the count; return True if nothing is left to do."""
        if ledger.declared_dtype is not None:
            return True
        if reason := _obstacle():
            probe.identify(uncounted=f"{reason}: it must declare its operations with zmon.work(flops=…)")
            return True
        if mode is not None and mode.is_whole and self._interruptions == self._interruptions_before:
            _publish(ledger, mode)
            return True
        if self._step >= LAST_STEP:
            probe.identify(uncounted=f"none of the steps {FIRST_STEP} to {LAST_STEP} could be counted as a whole")
            return True
        # Within a mode of the job, the end of the job's mode would remove this mode instead.
        if self._step >= FIRST_STEP - 1 and _get_current_dispatch_mode() is None:
            self._interruptions_before, self._mode = self._interruptions, CountingMode()
            self._mode.begin()
        return False

    @property
    def _interruptions(self) -> tuple[int, int]:
        """When the current activity began, which is later if the rank evaluated or saved; steps that failed."""
        return self._timeline._activity_since, self._timeline.ledger.failed_steps

    def discard(self) -> CountingMode | None:
        """Stop counting, and return the mode if it was active until now."""
        mode, self._mode = self._mode, None
        if mode is not None:
            mode.end()
            self._modes.append(mode)
        while self._modes and self._modes[-1].leave():
            self._modes.pop()
        return mode


def _obstacle() -> str:
    """Return why the operations of this job cannot be counted; "": they can."""
    if compilation.num_compilations:
        return "torch compiles this job"
    library = next((name for name in _OUTSIDE if name in sys.modules), "")
    return f"{library} computes outside the operators of torch" if library else ""


def _publish(ledger: Ledger, mode: CountingMode) -> None:
    """Write the count into the box, unless too much of the step is unknown."""
    step: Operations = mode.operations()
    share, names = sum(step.uncounted.values()), ", ".join(list(step.uncounted)[:3])
    on_gpu = torch.cuda.is_initialized()  # then the time of a call on the host is not its share of the step
    left_out = f"operations that zmon cannot count: {names}" if names else ""
    if names and not on_gpu:
        left_out = f"{share:.1%} of a step is in {left_out}"
    if mode.replays.num_calls:
        probe.identify(uncounted="kernels of graphs that are replayed cannot be counted")
    elif mode.launches.num_calls:
        probe.identify(uncounted="kernels of Triton cannot be counted")
    elif not step.total:
        probe.identify(uncounted=left_out or "the step that zmon counted has no matrix product")
    elif names and (on_gpu or share > MAX_UNCOUNTED_SHARE):
        probe.identify(uncounted=left_out)
    else:
        shares = {dtype: flops / step.total for dtype, flops in step.by_dtype.items()}
        probe.identify(flops_source=COUNTED, flops_dtypes=shares, uncounted=left_out)
        ledger.expect_flops(step.total)
