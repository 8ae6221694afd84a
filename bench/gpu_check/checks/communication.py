"""Checks exposed communication: the part of a wait during which a kernel runs is not exposed."""

from __future__ import annotations

from collections.abc import Iterator

from bench.gpu_check.kit import Kit
from bench.gpu_check.records import OverlapSteps
from bench.gpu_check.result import FAILED, NOT_CHECKED, Result, outcome_of
from bench.gpu_check.settings import Setting
from zmon.schema.measures import NS
from zmon.schema.steps import Steps

SHORTEST_WAIT_SECONDS = 1e-3  # a shorter wait cannot be told from the launches around it
# Limits of the difference between exposed and expected time. The kernel does not use the memory of the device, so the
# collective takes as long as alone, except that the clocks of the device vary.
NCCL_SECONDS = 0.2e-3
NCCL_RATIO = 0.15  # of the wait, in addition
GLOO_SECONDS = 0.1  # the operating system wakes up two processes at any time; 0.4, 0.2 and 0 s are expected
_LIMIT_SECONDS = 90.0


def run(kit: Kit, setting: Setting) -> Iterator[Result]:
    """Run the job and compare every rank."""
    job = kit.run(setting, "communication", seconds=_LIMIT_SECONDS)
    for rank, (box, overlaps) in enumerate(zip(job.boxes(), job.records(OverlapSteps), strict=True)):
        yield from compare(f"rank {rank}: " if job.num_ranks > 1 else "", setting.backend, overlaps, box.steps)


def compare(prefix: str, backend: str, overlaps: OverlapSteps, steps: Steps) -> Iterator[Result]:
    """Yield a result for each step of the job: its exposed time in the box against the expected one."""
    by_nccl = backend == "nccl"
    subject = f"{prefix}exposed {overlaps.op}"
    if by_nccl and overlaps.wait_seconds < SHORTEST_WAIT_SECONDS:
        yield Result(subject, NOT_CHECKED, note=f"the collective takes only {overlaps.wait_seconds * 1e6:.0f} µs")
        return
    if steps.num_rows != len(overlaps.steps):
        yield Result(subject, FAILED, note=f"the box has {steps.num_rows} steps of {len(overlaps.steps)}")
        return
    limit = NCCL_SECONDS + NCCL_RATIO * overlaps.wait_seconds if by_nccl else GLOO_SECONDS
    calls, times = steps.column(f"calls_{overlaps.op}"), steps.column(f"exposed_{overlaps.op}")
    for step, num_calls, ns in zip(overlaps.steps, calls, times, strict=True):
        exposed = ns * NS
        expected = step.expected_exposed_seconds
        holds = num_calls > 0 and abs(exposed - expected) <= limit
        yield Result(
            f"{subject} behind a kernel of {step.kernel_ratio:g} × the wait",
            outcome_of(holds), exposed * 1e3, "ms", f"{expected * 1e3:.2f} ms ± {limit * 1e3:.2f}",
        )  # fmt: skip
