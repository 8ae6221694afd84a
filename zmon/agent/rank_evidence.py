"""What is one rank of this node stuck in, or what did it say last?

A dead one has no stack; what it wrote to its stderr is there still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from zmon.agent import evidence
from zmon.agent.poller import Poller
from zmon.agent.sources.boxes import Boxes
from zmon.agent.sources.stderr import StderrSource

_ANSWER_SECONDS = 1.0


class Whereabouts(NamedTuple):
    """Where a rank can be asked."""

    run_uid: str
    pid: int  # as seen from here; 0: gone, or in another PID namespace
    socket: Path
    alive: bool


def whereabouts(boxes: Boxes, job_id: str, rank: str, run_uid: str | None) -> Whereabouts | None:
    """That start of a rank, or its newest one; None: it is not on this node. For the thread that looks."""
    found = [box for box, state in boxes.ranks() if (state.job_id, str(state.rank)) == (job_id, rank)]
    wanted = [box for box in found if run_uid in (None, box.identity.run_uid)]
    box = max(wanted, key=lambda box: box.identity.start_unix, default=None)
    return None if box is None else Whereabouts(box.identity.run_uid, box.pid, box.socket, box.alive)


class LastLines:
    """What the ranks wrote to their stderr. The files are a source like the others: one that hangs holds up nobody."""

    def __init__(self, runs: Callable[[], Mapping[str, int]], timeout_seconds: float) -> None:
        self._source = StderrSource(runs)
        self.watch = Poller(self._source.name, self._source.read, self._source.interval_seconds, timeout_seconds)

    async def of(self, run_uid: str) -> dict[str, Any]:
        """The end of it, or why there is none."""
        answer = asyncio.wrap_future(self.watch.ask(lambda: self._source.tail(run_uid)))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            return {"stderr_tail": None, "stderr_error": f"no answer within {_ANSWER_SECONDS:g} s: a dead file system?"}


async def rank_evidence(of: Whereabouts, last_lines: LastLines | None, stacks: bool) -> dict[str, Any]:
    """All there is to know of it beyond its box."""

    async def lines() -> dict[str, Any]:
        if last_lines is None:
            return {"stderr_tail": None, "stderr_error": "the agent runs --without stderr"}
        return await last_lines.of(of.run_uid)

    async def stuck() -> dict[str, Any]:
        return await evidence.gather(of.pid, of.socket, stacks=stacks) if of.alive else evidence.GONE

    found, said = await asyncio.gather(stuck(), lines())
    return {"run_uid": of.run_uid, "alive": of.alive, **found, **said}
