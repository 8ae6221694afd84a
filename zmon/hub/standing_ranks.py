"""Samples the ranks that others wait for while a job stands still: stacks, processor time, bytes, wait channels.

Two samples distinguish a pause with work from a hang (zmon/job/standing.py). Sampling begins before the leases end, so
that the first diagnosis has samples, and continues until a rank moves. Only a few ranks are sampled, because a sample
takes an agent about 10 ms.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import aiohttp

from zmon.detectors.stall import Stall
from zmon.hub.agent_link import AgentLink
from zmon.hub.agent_poller import evidence_of
from zmon.hub.config import HubConfig
from zmon.hub.job_state import JobState, JobStates
from zmon.hub.stall_evidence import standing_frame
from zmon.hub.standing_observation import StandingObservation
from zmon.job.standing import WorkHistory, extended_history, work_sample
from zmon.schema.api import RankEvidence
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

_FAST_SECONDS = 1.0  # between the first samples, which decide whether a finding opens and how severe it is
_FAST_SAMPLES = 15  # samples of each rank, so for the first 15 s
_SLOW_SECONDS = 4.0  # between later samples


class StandingRanks:
    """The observer of ranks that stand still; the stall detector selects the ranks."""

    def __init__(self, config: HubConfig, links: Sequence[AgentLink], job_states: JobStates, stall: Stall) -> None:
        self._config, self._links, self._job_states, self._stall = config, links, job_states, stall
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by job; a task ends when the next sample is due

    def update(self, session: aiohttp.ClientSession, snapshot: Snapshot) -> None:
        """Sample the ranks of this job that others wait for, unless the last sample is recent.

        Forget the samples when the job moves on.
        """
        job_id, job_state = snapshot.job_id, self._job_states.state_of(snapshot)
        if job_id in self._tasks and self._tasks[job_id].done():
            del self._tasks[job_id]
        if not self._stall.stands_still(snapshot):
            job_state.work_histories = {}
        elif job_id not in self._tasks:
            ranks = self._stall.ranks_to_look_at(snapshot)[: self._config.max_stacks]
            if ranks:
                self._tasks[job_id] = asyncio.create_task(self._sample(session, job_state, ranks))

    def cancel(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _sample(self, session: aiohttp.ClientSession, job_state: JobState, ranks: Sequence[RankState]) -> None:
        """Take a sample of each rank, add it to the job's state, and wait until the next sample is due."""
        began = time.monotonic()
        stacks = [r.rank for r in ranks]
        answers = await evidence_of(session, self._config, self._links, ranks, stacks, flights=False)
        histories: dict[int, StandingObservation[WorkHistory]] = {}
        for state in ranks:
            answer = answers.get(state.rank)
            if not isinstance(answer, RankEvidence):
                continue
            if answer.outside_loops:
                job_state.outside_loops[state.run_uid] = state.steps
            elif answer.outside_loops is False:  # not None, which is unknown
                job_state.outside_loops.pop(state.run_uid, None)
            sample = work_sample(answer, began)
            if sample is None:
                continue
            earlier = job_state.work_histories.get(state.rank)
            history = earlier.value if earlier and earlier.is_valid(state) else None
            histories[state.rank] = StandingObservation.of(state, extended_history(history, sample))
            if frame := standing_frame(state, answer):
                job_state.frames[state.rank] = frame
        job_state.work_histories = histories
        fewest = min((latest.value.num_samples for latest in histories.values()), default=0)
        pause = _FAST_SECONDS if fewest < _FAST_SAMPLES else _SLOW_SECONDS
        await asyncio.sleep(max(0.0, began + pause - time.monotonic()))
