"""Checks the allocator's figures in the box against torch.cuda.memory_stats, and against the driver's figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.gpu_check.kit import Kit
from bench.gpu_check.records import AllocatorFigures
from bench.gpu_check.result import FAILED, NOT_CHECKED, Result, outcome_of
from bench.gpu_check.settings import Setting
from bench.rows import MIB_PER_BYTE
from zmon.schema.measures import UNKNOWN

CONTEXT_BYTES = 2 << 30  # the limit for memory of a process outside the allocator: its CUDA context and libraries
_LIMIT_SECONDS = 60.0


def run(kit: Kit, setting: Setting) -> Iterator[Result]:
    """Run the job and compare."""
    job = kit.run(setting, "allocator", seconds=_LIMIT_SECONDS)
    yield from compare(job.boxes()[0].memory, job.records(AllocatorFigures)[0])


def compare(memory: Sequence[int], figures: AllocatorFigures) -> Iterator[Result]:
    """Yield a result for each kind of memory. Both figures must be equal, because nothing was allocated meanwhile."""
    allocated, reserved, _ = memory
    if allocated == UNKNOWN:
        yield Result("memory in the box", FAILED, note="the box has none")
        return
    by_torch_allocator = figures.allocated, figures.reserved, figures.peak
    for kind, in_box, by_torch in zip(("allocated", "reserved", "peak"), memory, by_torch_allocator, strict=True):
        compared_with = f"memory_stats: {by_torch * MIB_PER_BYTE:,.1f} MiB"
        yield Result(f"memory {kind}", outcome_of(in_box == by_torch), in_box * MIB_PER_BYTE, "MiB", compared_with)
    subject = "memory reserved, and that of the process"
    used = figures.process_bytes
    if used is None:
        yield Result(subject, NOT_CHECKED, note="nvidia-smi does not list the process (another PID namespace?)")
    else:
        holds = reserved <= used <= reserved + CONTEXT_BYTES
        context = f"nvidia-smi: {used * MIB_PER_BYTE:,.0f} MiB with the CUDA context"
        yield Result(subject, outcome_of(holds), reserved * MIB_PER_BYTE, unit="MiB", compared_with=context)
