"""`zmon top`: the jobs, what is wrong with them and their ranks, as they are now; or how old the last picture is."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Static

from zmon.cli.top.asking import Ask, hub
from zmon.cli.top.help import Help
from zmon.cli.top.lines import Choice, Lines
from zmon.cli.top.picture import (
    JOB_COLUMNS,
    RANK_COLUMNS,
    Picture,
    Silence,
    findings_of,
    job_line,
    job_rows,
    rank_rows,
    state_line,
    still_chosen,
)
from zmon.errors import Unreachable

INTERVAL_SECONDS = 1.0
WINDOW_SECONDS = 60.0  # over which it is told where the time of a job goes


class Top(App[None]):
    """Three panels: jobs, findings, the ranks of the chosen job."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #state { height: auto; text-style: bold; }
    #jobs { height: auto; max-height: 35%; }
    #trouble { height: auto; max-height: 45%; margin: 1 0; }
    #job { height: auto; max-height: 4; }
    #ranks { height: 1fr; min-height: 3; }
    .alone #jobs { display: none; }
    .alone #trouble { max-height: 60%; }
    .old #jobs, .old #findings, .old #job, .old #ranks { text-opacity: 50%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("enter", "alone", "this job alone / all", priority=True),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("question_mark", "help", "help", key_display="?"),
    ]

    def __init__(
        self,
        url: str,
        connect: Callable[[str], AbstractAsyncContextManager[Ask]] = hub,
        clock: Callable[[], float] = time.time,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        super().__init__(ansi_color=True)  # the terminal's own colours, and none at all with NO_COLOR
        self.theme = "ansi-dark"
        self._url, self._connect, self._clock, self._interval = url, connect, clock, interval
        self._picture: Picture | None = None
        self._silence: Silence | None = None
        self._chosen: str | None = None
        self._alone = False
        self._spent: deque[tuple[float, Mapping[str, Mapping[str, float]]]] = deque()  # by job and cause, with the time
        self._hurry = asyncio.Event()
        self._state, self._findings, self._job = (
            Static(id=name, markup=False) for name in ("state", "findings", "job")
        )
        self._jobs, self._ranks = Choice(JOB_COLUMNS, "jobs"), Lines(RANK_COLUMNS, "ranks")

    def compose(self) -> ComposeResult:
        """Top to bottom."""
        yield self._state
        yield self._jobs
        with VerticalScroll(id="trouble"):
            yield self._findings
        yield self._job
        yield self._ranks
        yield Footer()

    def on_mount(self) -> None:
        """Begin to ask."""
        self._jobs.focus()
        self._draw()
        self.run_worker(self._watch())
        self.set_interval(self._interval, self._draw)  # ages grow while the hub is silent

    async def _watch(self) -> None:
        """Ask for ever: once an interval, and at once where another job was chosen."""
        async with self._connect(self._url) as ask:
            while True:
                self._hurry.clear()
                try:
                    picture = await ask(self._chosen, self._clock())
                except Unreachable as error:
                    since = self._silence.since if self._silence else self._clock()
                    self._silence = Silence(since, str(error))
                else:
                    self._picture, self._silence = picture, None
                    self._remember(picture)
                self._draw()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._interval):
                        await self._hurry.wait()

    def _remember(self, picture: Picture) -> None:
        self._spent.append((picture.at, {job.job_id: job.time for job in picture.jobs}))
        while len(self._spent) > 1 and picture.at - self._spent[1][0] >= WINDOW_SECONDS:
            self._spent.popleft()

    def _draw(self) -> None:
        """Say in every panel what is known."""
        picture, now = self._picture, self._clock()
        self._state.update(state_line(self._url, picture, self._silence, now))
        self.set_class(self._silence is not None or (picture is not None and picture.blind), "old")
        if picture is None:
            return
        before = self._spent[0][1] if len(self._spent) > 1 else {}
        self._choose(still_chosen(picture, self._chosen))
        self._jobs.show(job_rows(picture, self._chosen, before, self.size.width))
        self._findings.update(findings_of(picture, self._chosen if self._alone else None))
        self._job.update(job_line(picture, self._chosen, before))
        self._ranks.show(rank_rows(picture, self._chosen))

    def _choose(self, job_id: str | None) -> None:
        if job_id != self._chosen:
            self._chosen = job_id
            self._hurry.set()

    def action_choose(self, by: int) -> None:
        """The job so many lines further down."""
        if self._picture is not None and self._picture.jobs:
            jobs = [job.job_id for job in self._picture.listed]
            at = min(max(0, jobs.index(self._chosen) + by), len(jobs) - 1) if self._chosen in jobs else 0
            self._choose(jobs[at])
            self._draw()
            self._jobs.keep_in_sight(at)

    def on_resize(self) -> None:
        """Names have more room, or less."""
        self._draw()

    def action_alone(self) -> None:
        """The chosen job with its findings and ranks, or all jobs again."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
            return
        self._alone = not self._alone
        self.set_class(self._alone, "alone")
        (self._ranks if self._alone else self._jobs).focus()
        self._draw()

    def action_help(self) -> None:
        """What the words mean."""
        if len(self.screen_stack) == 1:
            self.push_screen(Help())
