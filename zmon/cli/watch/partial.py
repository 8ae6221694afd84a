"""The steps of a job of which only some ranks are seen, from the step log of one of them.

The hub aligns steps over all ranks, and knows no step of such a job. What one rank did is known all the same; the time
that it waited for others is in its collectives.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from zmon.cli.render.verdict import WatchedJob
from zmon.schema.measures import NS
from zmon.schema.steps import DURATION
from zmon.stats import quantile
from zmon.steplog import read_runs
from zmon.steplog.files import child_path

_PARTS = ("phase_", "exposed_")  # the columns that sum to a step


def with_steps_of_one_rank(job: WatchedJob, log: Path) -> WatchedJob:
    """Return the job with the step time, and the time by category, of its first watched rank. `log`: the step log."""
    runs, _ = read_runs(child_path(log, job.view.job_id))
    attempt = max((run.run.attempt for run in runs), default=0)
    last = [run for run in runs if run.run.attempt == attempt]
    if not last:
        return job
    first = min(last, key=lambda run: (run.run.rank, -run.run.start))
    seconds: list[float] = []
    parts: defaultdict[str, float] = defaultdict(float)
    for chunk in first.chunks():
        seconds += (number * NS for number in chunk.steps.column(DURATION))
        for name in chunk.steps.columns:
            prefix = next((prefix for prefix in _PARTS if name.startswith(prefix)), None)
            if prefix:
                parts[name.removeprefix(prefix)] += sum(chunk.steps.column(name)) * NS
    view = replace(
        job.view, step_seconds=quantile(seconds, 0.5), step_seconds_p95=quantile(seconds, 0.95), time=dict(parts)
    )
    return replace(job, view=view, of_rank=first.run.rank)
