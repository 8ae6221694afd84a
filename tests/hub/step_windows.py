"""Snapshots of a job whose last step window is given, for tests of its baseline and of predictions from it."""

from dataclasses import replace

from tests.build import job_steps, rank_state, snapshot
from zmon.schema.aligned_step import StepWindow


def step_window(seconds=0.02, samples=128):
    """Return a window of 200 steps of this length, half of it self time and half exposed time."""
    half = seconds / 2
    return StepWindow(200, seconds, self_seconds=half, data_seconds=0.0, exposed_seconds=half, samples=samples)


def job(now=None, baseline=None, **changes):
    """Return the snapshot of a job of four ranks. `now`: its last step window; `baseline`: its healthy one."""
    job_ = snapshot(*(rank_state(rank, **changes) for rank in range(4)))
    step_windows = (now,) if now else ()
    return replace(job_, step_windows=step_windows, baseline=baseline, steps=tuple(job_steps(16)))
