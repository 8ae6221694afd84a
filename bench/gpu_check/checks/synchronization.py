"""Checks that a watched step never waits for the device: its host returns while a long kernel runs."""

from __future__ import annotations

from collections.abc import Iterator

from bench.gpu_check.kit import Kit
from bench.gpu_check.records import SubmittedSteps
from bench.gpu_check.result import NOT_CHECKED, Result, outcome_of
from bench.gpu_check.settings import Setting

# Limit of the host's time, as a ratio of the kernel's duration. Submitting steps takes milliseconds, but a step that
# waits for the device takes as long as the kernel.
WAIT_RATIO = 0.5
_LIMIT_SECONDS = 60.0  # of the job; it takes a few seconds, so a longer job hangs


def run(kit: Kit, setting: Setting) -> Iterator[Result]:
    """Run the job and compare the time of its host with the duration of the kernel."""
    job = kit.run(setting, "synchronization", seconds=_LIMIT_SECONDS)
    yield from compare(job.records(SubmittedSteps)[0])


def compare(steps: SubmittedSteps) -> Iterator[Result]:
    """Yield three results. The first is NOT_CHECKED if the step waits for the device without zmon, too."""
    limit = WAIT_RATIO * steps.kernel_seconds
    subject = "submitting watched steps behind a long kernel"
    compared_with = f"{steps.absent_seconds * 1e3:.1f} ms without zmon; kernel {steps.kernel_seconds * 1e3:.0f} ms"
    if steps.absent_seconds > limit:
        yield Result(subject, NOT_CHECKED, note=f"the step waits without zmon too: {compared_with}")
    else:
        outcome = outcome_of(steps.watched_seconds <= limit)
        yield Result(subject, outcome, steps.watched_seconds * 1e3, unit="ms", compared_with=compared_with)
    yield Result(
        'watched steps under set_sync_debug_mode("error")', outcome_of(not steps.error),
        steps.error or "no call synchronizes", compared_with="no error", note="covers torch's operators only",
    )  # fmt: skip
    yield Result(
        "records dropped under that mode", outcome_of(not steps.num_dropped), steps.num_dropped, compared_with="0"
    )
