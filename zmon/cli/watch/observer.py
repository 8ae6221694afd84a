"""The agent and the hub of one launch, in a thread of `zmon watch`.

They are those of `zmon agent` and `zmon hub`. The hub asks the agent over a Unix socket in a private folder, so nobody
else can ask it, and the hub itself does not listen.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from aiohttp.web import AppRunner, UnixSite

from zmon.agent import Agent, AgentConfig
from zmon.cli.daemon import PlainFormatter
from zmon.cli.render.card import Card, WatchedJob, card_lines, finding_lines
from zmon.cli.watch.child import ending
from zmon.cli.watch.watching import Run
from zmon.detectors import ALL
from zmon.hub import Hub, HubConfig
from zmon.hub.memory import search_seldom
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.job_snapshot import Snapshot

_NOTHING = "no process of it trained with torch under zmon"
AGENT = "http://agent"  # the name in requests over the socket; it is not resolved
# Ranks of other nodes are not missing: nobody watches them.
_DETECTORS = tuple(detector for detector in ALL if detector.name != "coverage")
_TICK_SECONDS = 0.25
# After the end of the command: a rank that is gone has been judged by then, and a fault that follows has joined.
SETTLE_SECONDS = 3.0
_CLEAN_SECONDS = 0.6  # the same if every rank said that it was done


def observe(run: Run) -> list[str]:
    """Watch a run until its command has ended and that is judged. Return the lines of the card."""
    if run.root is None:
        run.ended.wait()
        return card_lines(_card(run, "there is no folder in memory for black boxes"))
    data_dir = Path(tempfile.mkdtemp(prefix="zmon-watch-"))
    handler = logging.FileHandler(data_dir / "zmon.log", delay=True)
    handler.setFormatter(PlainFormatter())
    logging.getLogger().addHandler(handler)  # without one, Python writes warnings to stderr, which nobody may read
    try:
        host = os.environ.get("ZMON_HOST") or os.environ.get("NODE_NAME") or socket.gethostname()
        observer = Observer(run, AgentConfig(run.root, host, data_dir=data_dir, watch=run.launch.number))
        asyncio.run(observer.observe())
        return card_lines(_card(run, "" if observer.jobs else _NOTHING, observer.jobs.values()))
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


def _card(run: Run, unwatched: str, jobs: Iterable[WatchedJob] = ()) -> Card:
    child = run.child
    return Card(
        shlex.join(run.command),
        ending(child.status or 0),
        child.ended - run.began,
        tuple(f"{sent.name} by {sent.sender}" for sent in child.signals),
        tuple(sorted(jobs, key=lambda job: job.began)),
        unwatched,
    )


class Observer:
    """Agent and hub of one launch, and what they have seen."""

    def __init__(self, run: Run, config: AgentConfig) -> None:
        self._command, self._config = run, config
        self.jobs: dict[str, WatchedJob] = {}  # by job id
        self._told: dict[str, str] = {}  # severity by finding

    async def observe(self) -> None:
        """Run agent and hub until the command has ended and that is judged."""
        search_seldom()
        data_dir = self._config.data_dir
        assert data_dir is not None
        path = data_dir / "agent"
        agent, hub = Agent(self._config), Hub(HubConfig((AGENT,), data_dir / "hub", _DETECTORS, socket=path))
        agent_runner, hub_runner = (AppRunner(part.app(), access_log=None) for part in (agent, hub))
        await agent_runner.setup()
        try:
            await UnixSite(agent_runner, str(path)).start()
            await hub_runner.setup()
            try:
                await self._follow(hub)
            finally:
                await hub_runner.cleanup()
            self._look(hub)  # capsules were written meanwhile
        finally:
            await agent_runner.cleanup()

    async def _follow(self, hub: Hub) -> None:
        """Look at the hub until the command has ended and its end is judged."""
        finished_at: float | None = None
        while not self._command.at_once.is_set():
            self._look(hub)
            if self._command.ended.is_set():
                now = time.monotonic()
                finished_at = finished_at or now
                if now - finished_at >= (_CLEAN_SECONDS if self._is_clean(hub) else SETTLE_SECONDS):
                    return
            await asyncio.sleep(_TICK_SECONDS)

    def _is_clean(self, hub: Hub) -> bool:
        """Return True if no rank is known, or every rank has said that it was done and nothing stalls."""
        ranks = [rank for snapshot in hub.snapshots for rank in snapshot.reported_ranks]
        stalled = any(finding.is_stall for finding in hub.journal.active())
        return not stalled and all(rank.activity == "done" and not rank.alive for rank in ranks)

    def _look(self, hub: Hub) -> None:
        findings = hub.journal.all()  # newest first
        for finding in reversed(findings):
            if self._told.get(finding.id) != finding.severity:
                self._told[finding.id] = finding.severity
                self._command.messages.say("\n".join(finding_lines(finding)) + "\n")
        views = {view.job_id: view for view in hub.reported_jobs()}
        for snapshot in hub.snapshots:
            of_job = tuple(finding for finding in findings if finding.job_id == snapshot.job_id)
            self.jobs[snapshot.job_id] = _watched(snapshot, views[snapshot.job_id], of_job)


def _watched(snapshot: Snapshot, view: JobView, findings: tuple[Finding, ...]) -> WatchedJob:
    ranks = snapshot.reported_ranks
    return WatchedJob(
        view,
        findings,
        began=min(rank.start for rank in ranks),
        steps=max(rank.steps for rank in ranks),
        num_living=sum(rank.alive for rank in ranks),
        edges=tuple(sorted({rank.edge for rank in ranks})),
    )
