"""Collect the evidence about one rank of this node, dead or alive.

A dead rank has no stacks, but the end of its standard error is still there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from zmon.agent import evidence
from zmon.agent.poller import Poller
from zmon.agent.redaction import redacted
from zmon.agent.sources.boxes import Boxes
from zmon.agent.sources.stderr import StderrEnd, StderrSource
from zmon.agent.worker_socket import WorkerSocket, worker_socket
from zmon.job.job_frame import is_outside
from zmon.process import ProcessId
from zmon.schema.api import EvidenceRequest, RankEvidence
from zmon.schema.training_loops import TrainingLoop, from_text

T = TypeVar("T")
_ANSWER_SECONDS = 1.0  # to read the end of a file, which takes for ever while its file system hangs


class RankLocation(NamedTuple):
    """The process and the worker server of a rank."""

    run_uid: str
    process: ProcessId | None  # None if the rank is gone, in another PID namespace or hidden
    socket: WorkerSocket
    alive: bool
    loops: tuple[TrainingLoop, ...]  # around its training steps; empty: unknown


def locate_rank(boxes: Boxes, request: EvidenceRequest) -> RankLocation | None:
    """Return the requested start of a rank, or the newest one if the request names none. None: not on this node.

    Only for the thread that scans the boxes.
    """
    # A hub may have another name for the job, if users on several hosts chose its id. The run uid is enough.
    candidates = [
        box
        for box, state in boxes.ranks()
        if str(state.rank) == request.rank
        and (state.job_id == request.job_id if request.run is None else state.run_uid == request.run)
    ]
    box = max(candidates, key=lambda box: box.identity.start_unix, default=None)
    if box is None:
        return None
    identity = box.latest_identity
    socket = worker_socket(box.path, box.owner, identity.socket)
    return RankLocation(box.run_uid, box.process, socket, box.alive, from_text(identity.loops))


class StderrTails:
    """The end of each rank's stderr, read in a thread of its own, because a file may hang."""

    def __init__(self, runs: Callable[[], Mapping[str, ProcessId]], timeout_seconds: float) -> None:
        self._source = StderrSource(runs)
        self.poller = Poller(self._source.name, self._source.read, self._source.interval_seconds, timeout_seconds)

    async def read(self, run_uid: str) -> StderrEnd:
        """Return the end of the stderr of one start of a rank, or the reason why there is none."""
        answer = asyncio.wrap_future(self.poller.ask(lambda: self._source.tail(run_uid)))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            return StderrEnd(error=f"no answer within {_ANSWER_SECONDS:g} s: does its file system hang?")


async def rank_evidence(request: EvidenceRequest, rank: RankLocation, tails: StderrTails | None) -> RankEvidence:
    """Return the evidence about a rank, without what looks like a secret."""
    process, stderr = await asyncio.gather(_from_process(request, rank), _stderr_tail(rank, tails))
    return RankEvidence(
        request.job_id,
        int(request.rank),
        run_uid=rank.run_uid,
        alive=rank.alive,
        pid=process.pid,
        wchan=process.wchan,
        stack=_redacted(process.stack),
        stack_error=_redacted(process.stack_error),
        flight=process.flight,
        flight_error=_redacted(process.flight_error),
        stderr_tail=_redacted(stderr.text),
        stderr_error=_redacted(stderr.error),
        stderr_path=_redacted(stderr.path),
        stderr_shared=stderr.is_shared,
        work=process.work,
        outside_loops=is_outside(rank.loops, process.stack or ""),
    )


async def _from_process(request: EvidenceRequest, rank: RankLocation) -> evidence.ProcessEvidence:
    if not rank.alive:
        return evidence.GONE
    return await evidence.gather(rank.process, rank.socket, stacks=request.stacks, flights=request.flights)


async def _stderr_tail(rank: RankLocation, tails: StderrTails | None) -> StderrEnd:
    if tails is None:
        return StderrEnd(error="the agent runs --without stderr")
    return await tails.read(rank.run_uid)


def _redacted(value: T) -> T | str:
    return redacted(value) if isinstance(value, str) else value
