"""The text of a renderable in a terminal, and the card of a watch that tests change."""

from dataclasses import replace
from io import StringIO

from rich.console import Console

from tests.build import NOW, finding
from zmon.cli.render.verdict import VerdictCard, WatchedJob
from zmon.schema.job import JobView

VIEW = JobView(
    job_id="job-1", attempt=0, world_size=2, ranks_seen=2, state="done", step=400, step_seconds=0.0812,
    step_seconds_p95=0.095, samples_per_second=3204.0, report={},
    time={"forward": 60.0, "data": 30.0, "all_reduce": 9.5}, hosts=("node-a",), labels={}, findings=(),
    samples_source="loader",
)  # fmt: skip
JOB = WatchedJob(VIEW, findings=(), began=NOW - 100, steps=400, num_living=0)
DONE = VerdictCard(
    command="python train.py", ending="exit code 0", seconds=104.0, jobs=(JOB,), folder="zmon-job-1/ has report.html"
)
CRASH = finding(cause="rank_exited", ranks=(1,), summary="rank 1 raised ValueError", detail="Read its log.")
UNSEEN = replace(JOB, view=replace(VIEW, ranks_seen=1, time={}, step_seconds=None, samples_per_second=None))


def with_job(signalled=None, **changes):
    """Return the card with these changes of its job."""
    return replace(DONE, jobs=(replace(JOB, **changes),), signalled=signalled)


def text_of(renderable, width=200):
    """Return what a terminal of this width shows, without colours."""
    out = StringIO()
    Console(file=out, width=width).print(renderable)
    return out.getvalue()
