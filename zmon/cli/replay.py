"""`zmon demo --replay`: play a recorded job to the hub, and print the findings of the hub."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from zmon.cli.one_machine import announcer, stop_event, unless_stopped
from zmon.cli.render.card import finding_lines
from zmon.cli.render.demo import recording_lines, url_table
from zmon.client import AsyncHub
from zmon.errors import PartFailed, Unreachable
from zmon.schema.finding import Finding
from zmon.stack import Stack, StackConfig
from zmon.stack.replay import load
from zmon.stack.replay.stack import ReplayStack

_POLL_SECONDS = 0.5  # between two requests to the hub


def play(name: str, config: StackConfig, seconds: float | None) -> None:
    """Play a recording until Ctrl-C, or for `seconds`. Raises UsageError for an unknown name, and PartFailed.

    All data is in a temporary directory, so that it never mixes with data of this machine. The directory is deleted at
    the end, but stays for its logs if a part fails.
    """
    recording = load(name)
    console = Console(markup=False)
    data_dir = Path(tempfile.mkdtemp(prefix="zmon-replay-"))

    async def run() -> bool:
        """Return True if the replay was stopped, or every part is healthy at its end."""
        deadline = None if seconds is None else time.monotonic() + seconds
        stop = stop_event()
        stack = ReplayStack(name, recording, replace(config, data_dir=data_dir), announcer(console))
        try:
            await stack.start()
            for line in recording_lines(recording, stack.fault_time):
                console.print(line, highlight=False, soft_wrap=True)
            await unless_stopped(stack.ready(), stop)
            if stop.is_set():
                return True
            console.print(url_table(stack.urls, data_dir, stack.has_dashboard))
            await _show_findings(stack, recording.job_id, console, stop, deadline)
            return stop.is_set() or not await stack.unhealthy()
        finally:
            await stack.stop()

    if not asyncio.run(run()):
        raise PartFailed("the replay failed", "a part died", f"See the logs in {data_dir / 'logs'}")
    shutil.rmtree(data_dir, ignore_errors=True)


async def _show_findings(
    stack: Stack, job_id: str, console: Console, stop: asyncio.Event, deadline: float | None
) -> None:
    """Print each new finding of the hub about the job, until `stop` is set or the deadline has passed."""
    printed: set[str] = set()
    async with AsyncHub(stack.urls.hub, timeout=2.0) as hub:
        while not stop.is_set() and (deadline is None or time.monotonic() < deadline):
            findings: Sequence[Finding] = ()
            with contextlib.suppress(Unreachable):  # the stack restarts the hub and prints a message
                findings = (await hub.findings(job_id)).findings
            for finding in reversed(findings):  # the oldest first
                if finding.id not in printed:
                    lines = finding_lines(finding, job_id=job_id)
                    console.print("\n".join(lines), highlight=False, soft_wrap=True)
                    printed.add(finding.id)
            await unless_stopped(asyncio.sleep(_POLL_SECONDS), stop)
