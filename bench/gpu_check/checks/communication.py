"""Checks exposed communication: a wait behind a kernel is exposed only as far as the kernel is shorter."""

from __future__ import annotations

from collections.abc import Iterator

from bench.gpu_check.kit import Kit
from bench.gpu_check.records import HIDDEN_SHARES, Overlaps
from bench.gpu_check.result import FAILED, NOT_CHECKED, Result, outcome_of
from bench.gpu_check.settings import Setting
from zmon.schema.measures import NS
from zmon.schema.steps import Steps

SHORTEST_WAIT_SECONDS = 1e-3  # a shorter wait cannot be told from the launches around it
# The collective shares the memory of the device with nothing, so it takes as long as alone, give or take its clocks.
NCCL_SECONDS = 0.2e-3
NCCL_RATIO = 0.15  # of the wait, in addition
GLOO_SECONDS = 0.1  # two processes wake up at any time; the waits are 0.4, 0.2 and 0 s
_LIMIT_SECONDS = 90.0


def run(kit: Kit, setting: Setting) -> Iterator[Result]:
    """Run the job and compare every rank."""
    job = kit.run(setting, "communication", seconds=_LIMIT_SECONDS)
    for rank, (box, overlaps) in enumerate(zip(job.boxes(), job.records(Overlaps), strict=True)):
        yield from compare(f"rank {rank}: " if job.ranks > 1 else "", setting.backend, overlaps, box.steps)


def compare(prefix: str, backend: str, overlaps: Overlaps, steps: Steps) -> Iterator[Result]:
    """Yield a result for each kernel."""
    by_nccl = backend == "nccl"
    subject = f"{prefix}exposed {overlaps.op}"
    if by_nccl and overlaps.waits < SHORTEST_WAIT_SECONDS:
        yield Result(subject, NOT_CHECKED, note=f"the collective takes only {overlaps.waits * 1e6:.0f} µs")
        return
    if steps.num_rows != len(HIDDEN_SHARES):
        yield Result(subject, FAILED, note=f"the box has {steps.num_rows} steps of {len(HIDDEN_SHARES)}")
        return
    limit = NCCL_SECONDS + NCCL_RATIO * overlaps.waits if by_nccl else GLOO_SECONDS
    calls, times = steps.column(f"calls_{overlaps.op}"), steps.column(f"exposed_{overlaps.op}")
    for share, expected, count, ns in zip(HIDDEN_SHARES, overlaps.expected_exposed, calls, times, strict=True):
        exposed = ns * NS
        holds = count > 0 and abs(exposed - expected) <= limit
        yield Result(
            f"{subject} behind a kernel of {share:g} × the wait",
            outcome_of(holds), exposed * 1e3, "ms", f"{expected * 1e3:.2f} ms ± {limit * 1e3:.2f}",
        )  # fmt: skip
