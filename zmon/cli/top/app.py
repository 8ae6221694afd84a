"""The screen of `zmon top`: jobs, findings and ranks, requested from the hub and updated once a second."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from zmon.cli.top import panels
from zmon.cli.top.lines import Lines, Selectable
from zmon.cli.top.panels import HubState
from zmon.client import AsyncHub
from zmon.errors import NotServed, Unreachable
from zmon.schema.api import RankRow
from zmon.schema.http_config import HttpConfig

_STDOUT = 1  # the file descriptor
INTERVAL_SECONDS = 1.0  # between requests
TIMEOUT_SECONDS = 2.0  # of one request
MAX_RANKS = 512  # rows of ranks; of a larger job the most urgent ones are requested
WINDOW_SECONDS = 60.0  # the shares of the time categories are over this time
HELP_TEXT = """\
up, down   select a job             enter   show only that job, or all
tab        go to the next panel     q       quit

jobs       > selected, ! has findings
           step time: median of the recent steps
           most time in: largest time category of the last minute
findings   worst first; "next" is the step to take
ranks      ! culprit
           phase / op: current phase or collective
           for: time since the rank entered it
           self: self time in the last step (own phases)
           exposed: exposed time in the last step (collectives)
           The others wait for the rank with the longest self time.

Grey: old data. The first line says how old it is.
unknown: no data. It does not mean zero.
"""

Ask = Callable[[str | None, float], Awaitable[HubState]]


@asynccontextmanager
async def connect(url: str, http: HttpConfig | None = None, socket: Path | None = None) -> AsyncIterator[Ask]:
    """Yield `ask(job_id, now)`: jobs, open findings, and the ranks of that job. `ask` raises Unreachable.

    `socket`: the Unix socket at which the hub listens; None: it has the address in the URL.
    """
    async with AsyncHub(url, http=http, timeout=TIMEOUT_SECONDS, socket=socket) as hub:

        async def ranks(job_id: str | None) -> tuple[tuple[RankRow, ...], str]:
            if job_id is None:
                return (), ""
            try:
                answer = await hub.ranks(job_id, MAX_RANKS, order="urgency")
            except NotServed:
                return (), "ranks unknown: the hub has another version, or no longer knows the job"
            except Unreachable as error:
                return (), f"ranks unknown: {error}"
            more = answer.num_rows - len(answer.ranks)
            note = f"{more:,} more ranks, none of them more urgent; the page Ranks of the dashboard has all"
            return tuple(answer.ranks), note if more > 0 else ""

        async def ask(job_id: str | None, now: float) -> HubState:
            jobs, findings, (rows, note) = await asyncio.gather(hub.jobs(), hub.findings(active=True), ranks(job_id))
            return HubState(
                time=now,
                blind=jobs.blind,
                jobs=tuple(jobs.jobs),
                findings=tuple(findings.findings),
                ranks_job_id=job_id,
                ranks=rows,
                ranks_note=note,
                hub_as_of=jobs.as_of,
            )

        yield ask


class _Accounts(NamedTuple):
    """The time accounts of all jobs at one moment."""

    time: float  # unix seconds
    seconds: Mapping[str, Mapping[str, float]]  # by job id and time category


class Help(ModalScreen[None]):
    """The help screen; q, escape, enter or ? closes it."""

    CSS = """
    Help { align: center middle; }
    Help VerticalScroll { width: 70; height: auto; max-height: 90%; border: round; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("q,escape,question_mark", "dismiss", "back")]

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(HELP_TEXT, markup=False)


class Top(App[None]):
    """The app with three panels: jobs, findings, and the ranks of the selected job."""

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
        Binding("enter", "alone", "this job only / all", priority=True),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("question_mark", "help", "help", key_display="?"),
    ]

    def __init__(
        self,
        url: str,
        connect: Callable[[str], AbstractAsyncContextManager[Ask]] = connect,
        clock: Callable[[], float] = time.time,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        super().__init__(ansi_color=True)  # uses the colours of the terminal, or none if NO_COLOR is set
        self.theme = "ansi-dark"
        self._url, self._connect, self._clock, self._interval = url, connect, clock, interval
        self._hub_state: HubState | None = None  # the newest one; None: the hub has not answered yet
        self._outage: panels.Outage | None = None  # None: the hub answers
        self._selected: str | None = None  # the id of a job
        self._alone = False  # the selected job is shown without the others
        self._accounts: deque[_Accounts] = deque()  # of the last minute, the oldest first
        self._ask_now = asyncio.Event()
        self._state_line = Static(id="state", markup=False)
        self._jobs = Selectable(panels.JOB_COLUMNS, "jobs")
        self._findings = Static(id="findings", markup=False)
        self._job = Static(id="job", markup=False)
        self._ranks = Lines(panels.RANK_COLUMNS, "ranks")

    def compose(self) -> ComposeResult:
        yield self._state_line
        yield self._jobs
        with VerticalScroll(id="trouble"):
            yield self._findings
        yield self._job
        yield self._ranks
        yield Footer()

    def on_mount(self) -> None:
        self._jobs.focus()
        self._draw()
        self.run_worker(self._watch())
        # The first line changes without an answer: how long an outage lasts, and how old the data is.
        self.set_interval(self._interval, self._draw)
        if not self.is_headless:
            self.set_interval(self._interval, self._end_without_terminal)

    def _end_without_terminal(self) -> None:
        """End after a hangup without SIGHUP, as under `docker exec`: textual would read it in a tight loop."""
        if not os.isatty(_STDOUT):
            self.exit()

    async def _watch(self) -> None:
        """Ask the hub once per interval, and at once after another job was selected."""
        async with self._connect(self._url) as ask:
            while True:
                self._ask_now.clear()
                try:
                    state = await ask(self._selected, self._clock())
                except Unreachable as error:
                    since = self._outage.since if self._outage else self._clock()
                    self._outage = panels.Outage(since, str(error))
                else:
                    self._hub_state, self._outage = state, None
                    self._remember(state)
                self._draw()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._interval):
                        await self._ask_now.wait()

    def _remember(self, state: HubState) -> None:
        """Add the time accounts of the jobs, and drop those that the window no longer needs."""
        self._accounts.append(_Accounts(state.time, {job.job_id: job.time for job in state.jobs}))
        while len(self._accounts) > 1 and state.time - self._accounts[1].time >= WINDOW_SECONDS:
            self._accounts.popleft()

    def _draw(self) -> None:
        """Show the newest state of the hub in all panels."""
        state, now = self._hub_state, self._clock()
        self._state_line.update(panels.state_line(self._url, state, self._outage, now))
        self.set_class(self._outage is not None or (state is not None and state.blind), "old")
        if state is None:
            return
        before = self._accounts[0].seconds if len(self._accounts) > 1 else {}
        self._select(panels.still_selected(state, self._selected))
        self._jobs.show(panels.job_rows(state, self._selected, before, self.size.width))
        self._findings.update(panels.findings_panel(state, self._selected if self._alone else None))
        self._job.update(panels.job_line(state, self._selected, before))
        self._ranks.show(panels.rank_rows(state, self._selected))

    def _select(self, job_id: str | None) -> None:
        """Select a job, and ask the hub for its ranks at once if it is another one."""
        if job_id != self._selected:
            self._selected = job_id
            self._ask_now.set()

    def action_select(self, rows: int) -> None:
        """Select the job this many rows further down; a negative number goes up."""
        if self._hub_state is not None and self._hub_state.jobs:
            jobs = [job.job_id for job in self._hub_state.listed]
            row = 0
            if self._selected in jobs:
                row = min(max(0, jobs.index(self._selected) + rows), len(jobs) - 1)
            self._select(jobs[row])
            self._draw()
            self._jobs.scroll_to_row(row)

    def on_resize(self) -> None:
        """Draw again, because names have more or less room."""
        self._draw()

    def action_alone(self) -> None:
        """Switch between the selected job alone, with its findings and ranks, and all jobs."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
            return
        self._alone = not self._alone
        self.set_class(self._alone, "alone")
        (self._ranks if self._alone else self._jobs).focus()
        self._draw()

    def action_help(self) -> None:
        if len(self.screen_stack) == 1:
            self.push_screen(Help())
