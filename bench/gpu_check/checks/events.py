"""Checks the truth of device events: recorded phases against kernels that the job times with its own events."""

from __future__ import annotations

from collections.abc import Iterator

from bench.gpu_check.kit import Kit
from bench.gpu_check.records import TimedKernels
from bench.gpu_check.result import FAILED, Result, outcome_of
from bench.gpu_check.settings import Setting
from bench.rows import US_PER_SECOND
from zmon.schema.measures import NS
from zmon.schema.steps import Steps

# A phase also has the gaps around its kernels: a few launches on the stream, microseconds each.
GAP_SECONDS = 50e-6
GAP_RATIO = 0.005  # of the phase, in addition
SUBMIT_RATIO = 0.5  # a host that waited for the device in a step would need all of its time
_LIMIT_SECONDS = 60.0


def run(kit: Kit, setting: Setting) -> Iterator[Result]:
    """Run the job and compare."""
    job = kit.run(setting, "events", seconds=_LIMIT_SECONDS)
    yield from compare(job.records(TimedKernels)[0], job.boxes()[0].steps)


def compare(kernels: TimedKernels, steps: Steps) -> Iterator[Result]:
    """Yield a result for each phase; the first step is left out, because the device was idle before it."""
    if not kernels.has_device_events or steps.num_rows != len(kernels.steps):
        note = f"{steps.num_rows} of {len(kernels.steps)} steps have a record"
        yield Result(
            "phases by device events", FAILED, note=note if kernels.has_device_events else "there are no events"
        )
        return
    for phase in kernels.steps[0]:
        timed_seconds = [step[phase] for step in kernels.steps[1:]]
        recorded = steps.column(f"phase_{phase}")[1:]
        differences = [abs(ns * NS - seconds) for ns, seconds in zip(recorded, timed_seconds, strict=True)]
        mean = sum(timed_seconds) / len(timed_seconds)
        limit = GAP_SECONDS + GAP_RATIO * mean
        yield Result(
            f"largest difference of phase {phase}",
            outcome_of(max(differences) <= limit), max(differences) * US_PER_SECOND, "µs",
            f"kernels of {mean * 1e3:.3f} ms by events of the job; limit {limit * US_PER_SECOND:.0f} µs",
        )  # fmt: skip
    holds = kernels.host_seconds < SUBMIT_RATIO * kernels.device_seconds
    compared_with = f"{kernels.device_seconds * 1e3:.0f} ms on the device"
    yield Result("submitting the steps", outcome_of(holds), kernels.host_seconds * 1e3, "ms", compared_with)
