"""The gathering of evidence about stalled jobs, in the background: stacks, collectives in flight, end of stderr.

Flight records are gathered shortly before the leases end, for the first diagnosis: on a GPU they are the best evidence.
The agent of a dead culprit is asked as well, because it has the end of the rank's stderr. Findings other than stalls
get no such evidence: their ranks go on, so a stack shows nothing, and the request costs the ranks time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import aiohttp
from msgspec import UNSET
from msgspec.structs import replace

from zmon.hub.agent_link import AgentLink
from zmon.hub.agent_poller import evidence_of
from zmon.hub.config import HubConfig
from zmon.hub.job_state import JobStates
from zmon.hub.journal import Journal
from zmon.hub.standing_observation import StandingObservation, place
from zmon.job.job_frame import job_frame
from zmon.job.standing_out import standing_out
from zmon.schema.api import RankEvidence
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.flight import FlightRecord
from zmon.schema.gathered import FlightRow, PendingRow, RankStack, StderrTail
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState
from zmon.schema.row import row_of
from zmon.schema.unknown import Unknown

_MAX_PENDING = 4  # collectives in flight that a row shows
# All ranks must have stood still for this long, a few passes of the hub, before they are asked again. Ranks that go on
# within a step, such as those of an evaluation, would be asked at each collective.
_SETTLED_SECONDS = 1.0


class EvidenceGatherer:
    """The gatherer of evidence: it asks once for each diagnosis of a stall, and again after a rank has moved."""

    def __init__(
        self,
        config: HubConfig,
        links: Sequence[AgentLink],
        journal: Journal,
        job_states: JobStates,
        stands_still: Callable[[Snapshot], bool],
    ) -> None:
        """`stands_still` returns True if the leases of all ranks are about to end."""
        self._config, self._links, self._journal, self._job_states = config, links, journal, job_states
        self._stands_still = stands_still
        self._diagnoses: dict[str, tuple[object, ...]] = {}  # the last diagnosis with gathered evidence, by finding
        self._places: dict[str, list[tuple[object, ...]]] = {}  # the places of the ranks at that diagnosis, by finding
        self._tasks: dict[str, asyncio.Task[None]] = {}  # the latest task, by finding
        self._ahead_tasks: dict[str, asyncio.Task[None]] = {}  # tasks for leases that are about to end, by job

    def update(self, session: aiohttp.ClientSession, snapshot: Snapshot) -> None:
        """Start to gather evidence about this job if its diagnosis is new, or if its leases are about to end."""
        active = [finding for finding in self._journal.active() if finding.is_stall]
        self._diagnoses = {f.id: self._diagnoses[f.id] for f in active if f.id in self._diagnoses}
        self._places = {finding_id: self._places[finding_id] for finding_id in self._diagnoses}
        self._tasks = {finding_id: task for finding_id, task in self._tasks.items() if not task.done()}
        job_findings = [finding for finding in active if finding.job_id == snapshot.job_id]
        if not job_findings:
            self._gather_ahead(session, snapshot)
        for finding in filter(self._journal.is_reported, job_findings):  # else its ranks go on, or were started again
            # With the steps, a second pause is a new diagnosis: a finding stays open for seconds after its pause.
            diagnosis = (finding.cause, finding.ranks, finding.step, [r.steps for r in snapshot.ranks])
            places = [place(r) for r in snapshot.ranks]
            has_moved = self._places.get(finding.id) != places and _has_settled(snapshot)
            if self._diagnoses.get(finding.id) != diagnosis or has_moved:
                self._diagnoses[finding.id], self._places[finding.id] = diagnosis, places
                self._tasks[finding.id] = asyncio.create_task(self._gather(session, snapshot, finding))

    async def wait(self, finding_id: str) -> None:
        """Wait until no evidence is being gathered for that finding."""
        while task := self._tasks.get(finding_id):
            await asyncio.wait([task])
            if self._tasks.get(finding_id) is task:
                del self._tasks[finding_id]

    def cancel(self) -> None:
        for task in (*self._tasks.values(), *self._ahead_tasks.values()):
            task.cancel()

    def _gather_ahead(self, session: aiohttp.ClientSession, snapshot: Snapshot) -> None:
        """Gather flight records once if the leases of all ranks are about to end; forget them when a rank goes on."""
        if not self._stands_still(snapshot):
            self._job_states.state_of(snapshot).flights = {}
            if task := self._ahead_tasks.pop(snapshot.job_id, None):
                task.cancel()
        elif snapshot.job_id not in self._ahead_tasks:
            self._ahead_tasks[snapshot.job_id] = asyncio.create_task(self._gather_flights(session, snapshot))

    async def _gather_flights(self, session: aiohttp.ClientSession, snapshot: Snapshot) -> None:
        job_state = self._job_states.state_of(snapshot)
        ranks = self._ranks_for_flights(snapshot)
        job_state.flights = standing_flights(ranks, await self._ask(session, ranks))

    def _ranks_for_flights(self, snapshot: Snapshot) -> Sequence[RankState]:
        """Return the living ranks whose flight records are gathered."""
        return standing_out([r for r in snapshot.ranks if r.alive], self._config.max_flights)

    async def _ask(
        self, session: aiohttp.ClientSession, ranks: Sequence[RankState], stacks: Collection[int] = ()
    ) -> dict[int, RankEvidence | Unknown]:
        without_agent = {r.rank: Unknown(f"the agent on {r.host} is no longer a target") for r in ranks}
        return {**without_agent, **await evidence_of(session, self._config, self._links, ranks, stacks)}

    async def _gather(self, session: aiohttp.ClientSession, snapshot: Snapshot, finding: Finding) -> None:
        """Gather flight records, and the stacks and the end of stderr of a few ranks.

        Flight records are those of all living ranks, or of ranks that stand out in a job of more than `max_flights`.
        Stacks are those of the culprits, or of living ranks if there is no culprit: of `max_stacks` ranks at most.
        """
        job_state = self._job_states.state_of(snapshot)  # before the request: the job may be relaunched meanwhile
        flight_ranks = self._ranks_for_flights(snapshot)
        stack_ranks = _ranks_for_stacks(snapshot, finding)[: self._config.max_stacks]
        stack_numbers = sorted({r.rank for r in stack_ranks})
        targets = {r.rank: r for r in (*flight_ranks, *stack_ranks)}
        answers = await self._ask(session, [targets[rank] for rank in sorted(targets)], stack_numbers)
        flight_answers = {r.rank: answers[r.rank] for r in flight_ranks}
        job_state.flights = standing_flights(flight_ranks, flight_answers)
        job_state.frames = {r.rank: frame for r in stack_ranks if (frame := standing_frame(r, answers[r.rank]))}
        earlier = _earlier_rows(self._journal.find(finding.id) or finding, snapshot, answers)
        stacks = {str(rank): earlier.stacks.get(str(rank)) or _stack(answers[rank]) for rank in stack_numbers}
        tails = {str(rank): _stderr(answers[rank]) for rank in stack_numbers}
        gathered = Evidence(
            in_flight={**flight_table(snapshot, flight_answers), **earlier.flights},
            stacks=stacks if stack_ranks else UNSET,
            stderr_tail=tails if finding.ranks else UNSET,
            owners=tuple(dict.fromkeys(r.owner for r in stack_ranks)) if stack_ranks else UNSET,
        )
        self._journal.attach(finding.id, gathered)


def _has_settled(snapshot: Snapshot) -> bool:
    """Return True if no rank has changed its phase or its collective for a while."""
    return all(r.state_seconds >= _SETTLED_SECONDS for r in snapshot.ranks if r.alive and r.activity != "done")


def _ranks_for_stacks(snapshot: Snapshot, finding: Finding) -> list[RankState]:
    """Return the ranks whose stacks show most: the culprits, or else the living ones, first those in no collective."""
    if finding.ranks:
        return [r for r in snapshot.ranks if r.rank in finding.ranks]
    return sorted((r for r in snapshot.ranks if r.alive), key=lambda r: r.in_flight is not None)


def standing_frame(state: RankState, answer: RankEvidence | Unknown) -> StandingObservation[str] | None:
    """Return the innermost frame of the job's own code in an answer, or None. `state` is from before the request."""
    stack = answer.stack if isinstance(answer, RankEvidence) else None
    frame = job_frame(stack) if stack else None
    return StandingObservation.of(state, frame) if frame else None


def standing_flights(
    ranks: Sequence[RankState], answers: Mapping[int, RankEvidence | Unknown]
) -> dict[int, StandingObservation[FlightRecord]]:
    """Return the flight records in the answers, by rank. `ranks` are from before the request; some have no record."""
    return {
        r.rank: StandingObservation.of(r, answer.flight)
        for r in ranks
        if isinstance(answer := answers[r.rank], RankEvidence) and answer.flight is not None
    }


class _EarlierRows(NamedTuple):
    """The rows, by rank, of ranks whose process has ended since they were gathered: no later ones can be gathered."""

    flights: Mapping[str, FlightRow]
    stacks: Mapping[str, RankStack]


def _earlier_rows(finding: Finding, snapshot: Snapshot, answers: Mapping[int, RankEvidence | Unknown]) -> _EarlierRows:
    """Return the rows that stay in the evidence. A person, or zmon, may have killed the ranks that hung."""
    stacks = finding.evidence.stacks or {}
    uids = {r.run_uid for r in snapshot.ranks}
    if not any(row.run_uid in uids for row in stacks.values()):
        return _EarlierRows({}, {})  # they are of an earlier launch
    dead = {r.rank for r in snapshot.ranks if not r.alive}
    dead |= {rank for rank, answer in answers.items() if isinstance(answer, RankEvidence) and not answer.alive}
    names = set(map(str, dead))
    flights = finding.evidence.in_flight or {}
    return _EarlierRows(
        {rank: row for rank, row in flights.items() if rank in names and row.pending is not UNSET},
        {rank: replace(row, alive=False) for rank, row in stacks.items() if rank in names and row.stack},
    )


def _stack(answer: RankEvidence | Unknown) -> RankStack:
    """Return the stack of a rank, or why it is unknown."""
    return RankStack(stack_error=answer.reason) if isinstance(answer, Unknown) else row_of(RankStack, answer)


def _stderr(answer: RankEvidence | Unknown) -> StderrTail:
    """Return the end of a rank's stderr, or why it is unknown."""
    if isinstance(answer, Unknown):
        return StderrTail(text=None, error=answer.reason, path=None, shared=False)
    return StderrTail(
        answer.stderr_tail, answer.stderr_error, path=answer.stderr_path or None, shared=bool(answer.stderr_shared)
    )


def flight_table(snapshot: Snapshot, answers: Mapping[int, RankEvidence | Unknown]) -> dict[str, FlightRow]:
    """Return a row for each rank: its collectives in flight, or why they are unknown. Keys are ranks, in order."""
    rows = {r.rank: FlightRow(error="its process is gone") for r in snapshot.ranks if not r.alive}
    rows |= {r.rank: FlightRow(error="its agent is silent") for r in snapshot.unwatched}
    rows |= {rank: FlightRow(error="no agent has reported it") for rank in snapshot.missing}
    rows |= {rank: _flight_row(answer) for rank, answer in answers.items()}
    return {str(rank): row for rank, row in sorted(rows.items())}


def _flight_row(answer: RankEvidence | Unknown) -> FlightRow:
    if isinstance(answer, Unknown):
        return FlightRow(error=answer.reason)
    flight = answer.flight
    if flight is None:
        return FlightRow(error=answer.flight_error or "its agent is older and has no flight records")
    pending = tuple(row_of(PendingRow, operation) for operation in flight.pending[:_MAX_PENDING])
    return FlightRow(pending, flight.num_pending, flight.last, error=answer.flight_error or UNSET)
