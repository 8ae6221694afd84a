"""A hub that says what the test wants, and `zmon top` in a terminal of a given size."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec

from tests.build import NOW, finding
from zmon.cli.top.app import Top
from zmon.cli.top.picture import Picture
from zmon.errors import Unreachable
from zmon.schema.api import RankRow
from zmon.schema.job import JobView

PERIOD_SECONDS = 0.1  # more often, and the app is never idle: the pilot then waits a whole second after each key
SPENT = {"forward": 41.0, "all_to_all": 32.0, "backward": 20.0, "imbalance": 7.0}
FROZEN = finding(
    job_id="dlrm-7", step=604, lost_gpu_hours=0.4, onset=NOW - 192,
    summary="rank 2 on node-a froze at step 604 during train: process 1002 is stopped (state T) for 192.0 s; 3 of 3 "
    "others wait in all_to_all",
    detail="On node-a: `ps -o pid,stat,wchan:32,cmd -p 1002`; if it was stopped by mistake or by a debugger: "
    "`kill -CONT 1002`. If it stops again, end the job and look at who signals it.",
)  # fmt: skip


def job(job_id="dlrm-7", **changes):
    """A job of four ranks that trains."""
    well = JobView(job_id, 0, 4, 4, "train", 604, 0.0832, 0.1, 18618.0, {"loss": 0.5}, dict(SPENT), ("node-a",), {}, ())
    return replace(well, **changes)


def row(rank, **changes):
    """A rank that trains."""
    well = RankRow(
        rank, "node-a", 1000 + rank, True, "R", None, "train", "forward", 604, None, None, 0.004, 0.0,
        self_seconds=0.06, exposed_seconds=0.02,
    )  # fmt: skip
    return msgspec.structs.replace(well, **changes)


def waiting(rank):
    """A rank that waits for the others in a collective."""
    return row(rank, op="all_to_all", sequence=1812, state_seconds=192.0, process_state="S")


def healthy():
    """One job that is well."""
    return Picture(NOW, False, (job(),), (), "dlrm-7", tuple(map(row, range(4))))


def stalled():
    """Rank 2 is stopped, the others wait for it."""
    ranks = (*map(waiting, (0, 1, 3)), row(2, process_state="T", state_seconds=192.0))
    sick = job(state="stalled", findings=("f1",), step_seconds=None, samples_per_second=None)
    return Picture(NOW, False, (sick,), (FROZEN,), "dlrm-7", ranks)


class Hub:
    """What it says; `gone`: why it does not answer."""

    def __init__(self, picture):
        self.picture, self.gone, self.now = picture, None, NOW
        self.asked = []

    @asynccontextmanager
    async def connect(self, _):
        async def ask(job_id, now):
            self.asked.append(job_id)
            if self.gone:
                raise Unreachable(self.gone)
            return replace(self.picture, at=now, jobs=tuple(map(self.gone_on, self.picture.jobs)))

        yield ask

    def gone_on(self, job):
        """A job that trains spends time from answer to answer."""
        passed = len(self.asked) if job.state == "train" else 1
        return replace(job, time={cause: seconds * passed for cause, seconds in job.time.items()})

    @asynccontextmanager
    async def top(self, width=80, height=24):
        """The app after its first pictures, and what drives it."""
        app = Top("http://hub:9781", self.connect, lambda: self.now, PERIOD_SECONDS)
        async with app.run_test(size=(width, height)) as pilot:
            await self.settle(pilot)
            yield app, pilot

    async def settle(self, pilot):
        """Until the next two pictures are drawn."""
        seen = len(self.asked)
        async with asyncio.timeout(10):
            while len(self.asked) < seen + 2 and pilot.app.is_running:
                await pilot.pause(0.01)
        await pilot.pause()


def screen(app):
    """What stands in the terminal, as lines without colour."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)
