"""A fake hub, and `zmon top` in a terminal of a given size."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec

from tests.build import NOW, finding
from zmon.cli.top.app import Top
from zmon.cli.top.panels import HubState
from zmon.errors import Unreachable
from zmon.job.headline import with_headline
from zmon.schema.api import RankRow
from zmon.schema.job import JobView

PERIOD_SECONDS = 0.1  # with a shorter period the app is never idle, and the pilot waits a second after each key
TIME = {"forward": 41.0, "all_to_all": 32.0, "backward": 20.0, "imbalance": 7.0}
FROZEN = finding(
    job_id="dlrm-7", step=604, lost_gpu_hours=0.4, onset=NOW - 192,
    summary="rank 2 on node-a froze at step 604 during train: process 1002 is stopped (state T) for 192.0 s; 3 of 3 "
    "others wait in all_to_all",
    detail="On node-a: `ps -o pid,stat,wchan:32,cmd -p 1002`; if it was stopped by mistake or by a debugger: "
    "`kill -CONT 1002`. If it stops again, end the job and look at who signals it.",
)  # fmt: skip


def job(job_id="dlrm-7", **changes):
    """Return a job of four ranks that trains."""
    healthy = JobView(
        job_id=job_id, attempt=0, world_size=4, ranks_seen=4, state="train", step=604, step_seconds=0.0832,
        step_seconds_p95=0.1, samples_per_second=18618.0, report={"loss": 0.5}, time=dict(TIME), hosts=("node-a",),
        labels={}, findings=(),
    )  # fmt: skip
    return replace(healthy, **changes)


def row(rank, **changes):
    """Return a rank that trains."""
    healthy = RankRow(
        rank, host="node-a", pid=1000 + rank, alive=True, process_state="R", exit_status=None, activity="train",
        phase="forward", step=604, op=None, sequence=None, state_seconds=0.004, overdue_seconds=0.0, self_seconds=0.06,
        exposed_seconds=0.02,
    )  # fmt: skip
    return msgspec.structs.replace(healthy, **changes)


def waiting(rank):
    """Return a rank that waits for the others in a collective."""
    return row(rank, op="all_to_all", sequence=1812, state_seconds=192.0, process_state="S")


def healthy():
    """Return a state with one healthy job."""
    return HubState(
        time=NOW, blind=False, jobs=(job(),), findings=(), ranks_job_id="dlrm-7", ranks=tuple(map(row, range(4)))
    )


def stalled():
    """Return a state in which rank 2 is stopped and the others wait for it."""
    ranks = (*map(waiting, (0, 1, 3)), row(2, process_state="T", state_seconds=192.0))
    affected = job(state="stalled", findings=("f1",), step_seconds=None, samples_per_second=None)
    return HubState(
        time=NOW,
        blind=False,
        jobs=(with_headline(affected, (FROZEN,)),),
        findings=(FROZEN,),
        ranks_job_id="dlrm-7",
        ranks=ranks,
    )


class Hub:
    """A fake hub that answers with `state`, or does not answer for the reason `error`."""

    def __init__(self, state):
        self.state, self.error, self.now = state, None, NOW
        self.requests = []  # job ids

    @asynccontextmanager
    async def connect(self, _):
        async def ask(job_id, now):
            self.requests.append(job_id)
            if self.error:
                raise Unreachable(self.error)
            return replace(self.state, time=now, jobs=tuple(map(self._advanced, self.state.jobs)))

        yield ask

    def _advanced(self, job):
        """Return the job with more time in its account after each request, if it trains."""
        factor = len(self.requests) if job.state == "train" else 1
        return replace(job, time={category: seconds * factor for category, seconds in job.time.items()})

    async def settle(self, pilot):
        """Wait until the next two answers are drawn."""
        num_requests = len(self.requests)
        async with asyncio.timeout(10):
            while len(self.requests) < num_requests + 2 and pilot.app.is_running:
                await pilot.pause(0.01)
        await pilot.pause()


@asynccontextmanager
async def top(state, width=80, height=24):
    """Yield the app after its first updates, the pilot that drives it, and its hub."""
    hub = Hub(state)
    app = Top("http://hub:9781", hub.connect, lambda: hub.now, PERIOD_SECONDS)
    async with asyncio.timeout(30), app.run_test(size=(width, height)) as pilot:
        await hub.settle(pilot)
        yield app, pilot, hub


def screen(app):
    """Return the lines of the terminal without colours."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)
