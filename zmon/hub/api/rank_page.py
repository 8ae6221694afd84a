"""The rows of ranks in an answer: one page of a job's ranks, and the rows in the evidence of a finding.

A job may have 16,384 ranks. Their rows take several megabytes, and nobody reads all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from zmon.detectors.new_finding import rank_row
from zmon.errors import UsageError
from zmon.schema.api import RankList, RankRow, RanksRequest, RankSummary
from zmon.schema.finding import Finding
from zmon.schema.gathered import FlightRow
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import severity_order
from zmon.schema.rank import RankState, RankStatus

MAX_MISSING = 64  # numbers of ranks in the list of those that no agent has reported
WAITING_SECONDS = 1.0  # shorter waits in a collective are part of every step
_CULPRIT, _DEAD, _OVERDUE, _UNWATCHED, _USUAL = range(5)  # levels of urgency

Key = Callable[[RankState], float | None]


class _Urgency(NamedTuple):
    """The urgency of a rank; the smallest is the most urgent."""

    level: int
    order: float = 0.0  # among the ranks of one level


def rank_page(snapshot: Snapshot, findings: Sequence[Finding], request: RanksRequest) -> RankList:
    """Return the requested rows, and a summary of all ranks. Raises UsageError if the order is unknown."""
    watched = {state.rank for state in snapshot.ranks}
    urgency = _urgency(snapshot.reported_ranks, watched, findings)
    states = [
        state
        for state in snapshot.reported_ranks
        if request.host in (None, state.host) and (not request.standing_out or urgency[state.rank].level < _USUAL)
    ]
    states = _in_order(states, request.order, urgency, snapshot)
    first = max(0, request.offset)
    end = len(states) if request.limit < 0 else first + request.limit
    rows = _rows(snapshot, states[first:end], watched)
    return RankList(request.job_id, rows, len(states), _summary(snapshot, watched, urgency))


def _rows(snapshot: Snapshot, states: Sequence[RankState], watched: Collection[int]) -> list[RankRow]:
    """Return a row for each of these ranks. The times of its last step are None before the first step of all ranks."""
    last = snapshot.steps[-1] if snapshot.steps else None
    return [
        RankRow(
            **msgspec.structs.asdict(rank_row(state)),
            watched=state.rank in watched,
            in_flight_seconds=state.in_flight.seconds if state.in_flight else None,
            self_seconds=last.self_seconds[state.rank] if last else None,
            exposed_seconds=last.exposed_of(state.rank) if last else None,
            step_seconds=None if state.last_step_time is None else round(state.step_seconds, 3),
        )
        for state in states
    ]


def _urgency(states: Sequence[RankState], watched: Collection[int], findings: Sequence[Finding]) -> dict[int, _Urgency]:
    """Return the urgency of each rank: culprits by severity first, and overdue ranks by their time."""
    culprits: dict[int, int] = {}
    for finding in findings:
        if finding.severity != "info":
            for rank in finding.ranks:
                order = -severity_order(finding.severity)  # the most severe first
                culprits[rank] = min(order, culprits.get(rank, order))

    def urgency(state: RankState) -> _Urgency:
        if state.rank in culprits:
            return _Urgency(_CULPRIT, culprits[state.rank])
        if not state.alive and state.activity != "done":
            return _Urgency(_DEAD)
        if state.overdue_seconds > 0:
            return _Urgency(_OVERDUE, -state.overdue_seconds)
        return _Urgency(_USUAL if state.rank in watched else _UNWATCHED)

    return {state.rank: urgency(state) for state in states}


def _in_order(states: list[RankState], order: str, urgency: dict[int, _Urgency], snapshot: Snapshot) -> list[RankState]:
    """Return the states in this order: `urgency`, or the name of a column, largest first if it begins with `-`.

    Ranks whose value is unknown come last.
    """
    states = sorted(states, key=lambda state: state.rank)
    if order == "urgency":
        return sorted(states, key=lambda state: urgency[state.rank])
    sign, name = (-1, order[1:]) if order.startswith("-") else (1, order)
    key = _keys(snapshot).get(name)
    if key is None:
        raise UsageError(
            f"no order {name}: use urgency, or one of {', '.join(_keys(snapshot))}, with - for largest first"
        )

    def position(state: RankState) -> float:
        value = key(state)
        return inf if value is None else sign * value

    return sorted(states, key=position)


def _keys(snapshot: Snapshot) -> dict[str, Key]:
    """Return the columns by which rows can be ordered."""
    last = snapshot.steps[-1] if snapshot.steps else None
    return {
        "rank": lambda state: state.rank,
        "step": lambda state: state.step,
        "self_seconds": lambda state: last.self_seconds[state.rank] if last else None,
        "exposed_seconds": lambda state: last.exposed_of(state.rank) if last else None,
        "in_flight_seconds": lambda state: state.in_flight.seconds if state.in_flight else None,
        "state_seconds": lambda state: state.state_seconds,
        "overdue_seconds": lambda state: state.overdue_seconds,
    }


def _summary(snapshot: Snapshot, watched: Collection[int], urgency: dict[int, _Urgency]) -> RankSummary:
    """Return the numbers of ranks in each state. Each rank that an agent has reported counts once."""
    states = snapshot.reported_ranks
    numbers = Counter(_state_word(state, watched) for state in states)
    return RankSummary(
        num_ranks=len(states),
        num_standing_out=sum(rank_urgency.level < _USUAL for rank_urgency in urgency.values()),
        num_missing=snapshot.num_missing,
        missing=snapshot.missing[:MAX_MISSING],
        by_state=dict(numbers.most_common()),
    )


def _state_word(state: RankState, watched: Collection[int]) -> str:
    if not state.alive and state.activity != "done":
        return "dead"
    if state.rank not in watched:
        return "unwatched"
    if state.overdue_seconds > 0:
        return "overdue"
    if state.in_flight and state.in_flight.seconds >= WAITING_SECONDS:
        return "waiting"
    return state.activity


def with_few_rows(finding: Finding, limit: int) -> Finding:
    """Return a finding whose evidence has at most `limit` rows of ranks, the culprits first, and counts the others."""
    rows = finding.evidence.ranks
    if rows is UNSET or len(rows) <= limit:
        return finding
    culprits = set(finding.ranks)
    first = sorted(rows, key=lambda row: row.rank not in culprits)[:limit]
    evidence = msgspec.structs.replace(
        finding.evidence,
        ranks=tuple(first),
        num_ranks_left_out=len(rows) - len(first) + (finding.evidence.num_ranks_left_out or 0),
        in_flight=_few_in_flight(finding, first),
    )
    return replace(finding, evidence=evidence)


def _few_in_flight(finding: Finding, rows: Sequence[RankStatus]) -> Mapping[str, FlightRow] | UnsetType:
    """Return the collectives in flight of these ranks."""
    in_flight = finding.evidence.in_flight
    if in_flight is UNSET:
        return UNSET
    names = {str(row.rank) for row in rows}
    return {rank: row for rank, row in in_flight.items() if rank in names}
