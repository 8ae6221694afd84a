"""The agent and the hub of one launch, in a thread of `zmon watch`.

They are those of `zmon agent` and `zmon hub`. Both listen at Unix sockets in a private folder, so nobody else can ask
them: the hub asks the agent, and the screen of --top asks the hub.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from aiohttp.web import AppRunner, UnixSite

from zmon.agent import Agent, AgentConfig
from zmon.cli.log_format import PlainFormatter
from zmon.cli.render.card import card_lines, finding_lines
from zmon.cli.render.time_advice import Advice
from zmon.cli.render.verdict import WatchedJob, watched_part
from zmon.cli.watch.leftovers import remove_boxes
from zmon.cli.watch.outcome import outcome_card, unwatched_card
from zmon.cli.watch.screen import Screen
from zmon.cli.watch.watched_command import WatchedCommand
from zmon.detectors import ALL
from zmon.hub import Hub, HubConfig
from zmon.hub.memory import limit_cycle_searches
from zmon.job.outcome import ended_launch
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.ended_launch import CANCELLED
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.limits import host_name

AGENT_SOCKET, HUB_SOCKET = "agent", "hub.socket"  # names of files in the temporary folder
AGENT_URL = "http://agent"  # in requests over the socket; the name is not resolved
# The detector `coverage` would report the ranks of other nodes as missing, which a watch never sees.
DETECTORS = tuple(detector for detector in ALL if detector.name != "coverage")
_TICK_SECONDS = 0.25  # between two looks at the hub
# How long the end of the command is judged: the hub needs this time for a rank that is gone, and for what that causes.
_SETTLE_SECONDS = 3.0
_CLEAN_SECONDS = 0.6  # the same if all ranks finished their training
_RECORD_SECONDS = 8.0  # the same if there are recipients of notices: the hub records an end 5 s after the last rank
_SEND_SECONDS = 5.0  # for notices that are on their way
_START_SECONDS = 60.0  # ranks start sooner, unless their command does other work first
_NO_RANK = (
    f"zmon: no process of the command trains with torch after {_START_SECONDS:.0f} s. If torchrun or another launcher "
    "waits for other nodes: start it on each of them, and check that all name the same address and port, and that no "
    "firewall closes this port\n"
)
FOLDER_PREFIX = "zmon-watch-"  # of the name of the temporary folder
_MAX_PARENT_LENGTH = 70  # letters of the path of its parent: the path of a Unix socket has at most 107


def observe(run: WatchedCommand) -> list[str]:
    """Watch a run until its command has ended and its end is judged. Write the files, and return the card's lines."""
    if not isinstance(run.root, Path):
        run.ended.wait()
        return [] if run.child.refused else card_lines(unwatched_card(run, Advice(str(run.root), "")))
    parent = tempfile.gettempdir()
    if len(parent) > _MAX_PARENT_LENGTH:
        parent = "/tmp"
    data_dir = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent))
    try:
        _log_to(data_dir / "zmon.log")
        host = host_name(os.environ.get("ZMON_HOST") or os.environ.get("NODE_NAME") or socket.gethostname())
        observer = Observer(run, AgentConfig(run.root, host, data_dir=data_dir, watch=run.launch.number))
        asyncio.run(observer.observe())
        if run.child.refused:
            return []
        card = outcome_card(run, observer.jobs.values(), observer.steps, data_dir, host)
        remove_boxes(run.root, observer.jobs, run.launch.number)
        return card_lines(card)
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


def _log_to(path: Path) -> None:
    """Log to a file. Without a handler, Python writes warnings to stderr, where a slow reader would delay watch."""
    handler = logging.FileHandler(path)
    handler.setFormatter(PlainFormatter())
    logging.getLogger().addHandler(handler)
    logging.raiseExceptions = False  # a full disk is no reason to write to stderr either


class Observer:
    """The agent and the hub of one launch, and the jobs that they watch."""

    def __init__(self, run: WatchedCommand, config: AgentConfig) -> None:
        self._run = run
        self._config = config
        self.jobs: dict[str, WatchedJob] = {}  # by job id
        self.steps: dict[str, tuple[AlignedStep, ...]] = {}  # the recent ones, by job id
        self._screen: Screen | None = None
        self._severities: dict[str, str] = {}  # those that stderr or the screen has shown, by id of the finding
        self._has_noted_start = False

    async def observe(self) -> None:
        """Run agent and hub until the command has ended and its end is judged."""
        limit_cycle_searches()
        data_dir = self._config.data_dir
        assert data_dir is not None
        agent_socket, hub_socket = data_dir / AGENT_SOCKET, data_dir / HUB_SOCKET
        recipients = self._run.options.recipients
        config = HubConfig((AGENT_URL,), data_dir / "hub", DETECTORS, socket=agent_socket, recipients=recipients)
        agent, hub = Agent(self._config), Hub(config)
        async with AsyncExitStack() as stack:
            for daemon, path in ((agent, agent_socket), (hub, hub_socket)):
                runner = AppRunner(daemon.app(), access_log=None)
                stack.push_async_callback(runner.cleanup)
                await runner.setup()
                await UnixSite(runner, str(path)).start()
            if self._run.options.output:
                self._screen = Screen(hub_socket)
                stack.push_async_callback(asyncio.to_thread, self._screen.close)
            await self._follow(hub)
            if hub.notifier is not None:
                await asyncio.to_thread(hub.notifier.close, _SEND_SECONDS)

    async def _follow(self, hub: Hub) -> None:
        """Look at the hub until the command has ended and its end is judged, or somebody cannot wait."""
        ended_at: float | None = None
        while not self._run.hurry.is_set():
            self._read(hub)
            if self._run.ended.is_set():
                now = time.monotonic()
                ended_at = ended_at or now
                if now - ended_at >= _seconds_to_judge(hub):
                    return
            else:
                self._note_long_start()
            await asyncio.sleep(_TICK_SECONDS)

    def _read(self, hub: Hub) -> None:
        """Store the state of each job, and announce findings that are new."""
        findings = hub.journal.all()  # newest first
        views = {view.job_id: view for view in hub.reported_jobs()}
        for snapshot in hub.snapshots:
            of_job = tuple(finding for finding in findings if finding.job_id == snapshot.job_id)
            view = views[snapshot.job_id]
            self.jobs[snapshot.job_id] = watched_job(snapshot, view, of_job)
            self.steps[snapshot.job_id] = snapshot.steps
            for finding in reversed(of_job):
                self._announce(finding, view)

    def _announce(self, finding: Finding, view: JobView) -> None:
        """Write to stderr that a finding has opened, or has another severity, unless the screen shows it."""
        if self._severities.get(finding.id) == finding.severity:
            return
        self._severities[finding.id] = finding.severity
        job_id = view.job_id if len(self.jobs) > 1 else ""
        self._say("\n".join(finding_lines(finding, watched_part(view), job_id)) + "\n")

    def _note_long_start(self) -> None:
        """Write to stderr, once, that no rank has started for long: a launcher may wait for other nodes in vain."""
        if not self.jobs and not self._has_noted_start and time.time() - self._run.began >= _START_SECONDS:
            self._has_noted_start = True
            self._say(_NO_RANK)

    def _say(self, text: str) -> None:
        if not self._run.options.quiet and (self._screen is None or not self._screen.is_open):
            self._run.messages.say(text)


def _seconds_to_judge(hub: Hub) -> float:
    """Return how long after the end of the command the hub needs to judge its end, and to record it for notices."""
    if hub.notifier is not None:
        is_recorded = bool(hub.snapshots) and all(map(hub.ends.has, hub.snapshots))
        return 0.0 if is_recorded else _RECORD_SECONDS
    is_stalled = any(finding.is_stall for finding in hub.journal.active())
    return _CLEAN_SECONDS if not is_stalled and all(map(_has_finished, hub.snapshots)) else _SETTLE_SECONDS


def _has_finished(snapshot: Snapshot) -> bool:
    """Return True if every rank has ended after the end of its training."""
    return all(rank.activity == "done" and not rank.alive for rank in snapshot.reported_ranks)


def watched_job(snapshot: Snapshot, view: JobView, findings: tuple[Finding, ...]) -> WatchedJob:
    """Return what the card says about the job in this snapshot, which is its last one."""
    ranks = snapshot.reported_ranks
    return WatchedJob(
        view,
        findings,
        began=min(rank.start for rank in ranks),
        steps=max(rank.steps for rank in ranks),
        num_living=sum(rank.alive for rank in ranks),
        edges=tuple(sorted({rank.edge for rank in ranks})),
        finished=_has_finished(snapshot),
        cancelled=_cancelled(snapshot),
        superseded=all(rank.superseded for rank in ranks),
    )


def _cancelled(snapshot: Snapshot) -> str:
    """Return how a signal to its ranks ended a job without a fault; "" if none did, or if a rank lives."""
    if not snapshot.ranks or any(rank.alive for rank in snapshot.ranks):
        return ""
    end = ended_launch(snapshot, None, None)
    return end.summary if end.outcome == CANCELLED else ""
