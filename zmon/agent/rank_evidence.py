"""Collect the evidence about one rank of this node, dead or alive.

A dead rank has no stacks, but the end of its standard error is still there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from zmon.agent import evidence
from zmon.agent.poller import Poller
from zmon.agent.redaction import redacted
from zmon.agent.sources.boxes import Boxes
from zmon.agent.sources.stderr import StderrSource
from zmon.agent.worker_socket import WorkerSocket, worker_socket
from zmon.process import ProcessId

_ANSWER_SECONDS = 1.0


class RankLocation(NamedTuple):
    """The process and the worker server of a rank."""

    run_uid: str
    process: ProcessId | None  # None if the rank is gone, in another PID namespace or hidden
    socket: WorkerSocket
    alive: bool


def locate_rank(boxes: Boxes, job_id: str, rank: str, run_uid: str | None) -> RankLocation | None:
    """Return the rank with this run uid, or its newest start if that is None. None if it is not on this node.

    Only for the thread that scans the boxes.
    """
    # A hub may have another name for the job, if users on several hosts chose its id. The run uid is enough.
    candidates = [
        box
        for box, state in boxes.ranks()
        if str(state.rank) == rank and (state.job_id == job_id if run_uid is None else state.run_uid == run_uid)
    ]
    box = max(candidates, key=lambda box: box.identity.start_unix, default=None)
    if box is None:
        return None
    socket = worker_socket(box.path, box.owner, box.socket_name)
    return RankLocation(box.run_uid, box.process, socket, box.alive)


class StderrTails:
    """The end of each rank's stderr, read in a thread of its own, because a file may hang."""

    def __init__(self, runs: Callable[[], Mapping[str, ProcessId]], timeout_seconds: float) -> None:
        self._source = StderrSource(runs)
        self.poller = Poller(self._source.name, self._source.read, self._source.interval_seconds, timeout_seconds)

    async def read(self, run_uid: str) -> dict[str, Any]:
        """Return the end of the stderr of one start of a rank, or the reason why there is none."""
        answer = asyncio.wrap_future(self.poller.ask(lambda: self._source.tail(run_uid)))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            return {
                "stderr_tail": None,
                "stderr_error": f"no answer within {_ANSWER_SECONDS:g} s: does its file system hang?",
            }


async def rank_evidence(
    rank: RankLocation, tails: StderrTails | None, stacks: bool, flights: bool = True
) -> dict[str, Any]:
    """Return the fields of `RankEvidence` that are not in the rank's box."""

    async def stderr() -> dict[str, Any]:
        if tails is None:
            return {"stderr_tail": None, "stderr_error": "the agent runs --without stderr"}
        return await tails.read(rank.run_uid)

    async def process() -> dict[str, Any]:
        if not rank.alive:
            return evidence.GONE
        return await evidence.gather(rank.process, rank.socket, stacks=stacks, flights=flights)

    from_process, from_stderr = await asyncio.gather(process(), stderr())
    gathered = {**from_process, **from_stderr}
    texts = {name: redacted(value) for name, value in gathered.items() if isinstance(value, str)}
    return {"run_uid": rank.run_uid, "alive": rank.alive, **gathered, **texts}
