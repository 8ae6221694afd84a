"""Replays a step log through the detectors of the hub, with the snapshots that a hub would have built.

Pure. Time is counted in steps; the clocks of two hosts are never compared. A log has no processes, sockets or devices,
so detectors that need them report nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from zmon import detectors
from zmon.detectors.straggler import Straggler
from zmon.detectors.suppression import suppress
from zmon.hub.config import HubConfig
from zmon.hub.job_state import JobState
from zmon.job.time_account import Account
from zmon.offline.analyze.rank_states import rank_state
from zmon.offline.analyze.rows import StepTable
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.packed import with_columns
from zmon.schema.finding import Finding
from zmon.schema.host import HostSample
from zmon.schema.job_snapshot import AgentStatus, Snapshot
from zmon.schema.limits import MAX_NAMED_MISSING
from zmon.schema.rank import RankState
from zmon.schema.step import Measures, OpTotals, StepRecord

MIN_STEPS = 2 * Straggler.num_steps  # with fewer, no detector compares ranks


@dataclass
class FindingSpan:
    """A finding and the steps during which it was open."""

    finding: Finding
    attempt: int
    first_step: int
    last_step: int


@dataclass
class Attempt:
    """The result of replaying one attempt of a job."""

    number: int
    job_state: JobState
    ranks: int  # number of ranks that have records; at most world_size
    world_size: int
    num_steps: int  # steps that at least one rank has in the log
    spans: list[FindingSpan]


def is_conclusive(log: StepTable, attempts: Sequence[Attempt]) -> bool:
    """Return True if the absence of findings means that the ranks are even: some attempt has enough steps."""
    return log.has_exposed_time and any(
        attempt.job_state.time.num_steps and attempt.num_steps >= MIN_STEPS for attempt in attempts
    )


def play(log: StepTable, attempt: int, active: Sequence[detectors.Detector] = detectors.ALL) -> Attempt:
    """Replay one attempt pass by pass with these detectors, and return their findings."""
    ranks = sorted(rank for number, rank in log.records if number == attempt)
    steps = sorted({step for rank in ranks for step in log.records[attempt, rank]})
    states = tuple(
        rank_state(
            log.job_id, attempt, rank, max(ranks) + 1, log.hosts[attempt, rank], log.roles.get((attempt, rank), "")
        )
        for rank in ranks
    )
    job_state = JobState({s.run_uid for s in states}, max(ranks) + 1, Account(log.job_id))
    result = Attempt(attempt, job_state, len(ranks), max(ranks) + 1, len(steps), [])
    open_spans: dict[tuple[str, str, tuple[int, ...], tuple[str, ...]], FindingSpan] = {}
    for snapshot in _snapshots(log, attempt, states, steps, job_state):
        current = {}
        detected = {detector.name: detector.detect(snapshot) for detector in active} if log.has_exposed_time else {}
        remaining = suppress(detected)
        for name, findings in remaining.findings.items():
            for finding in findings:
                current[name, finding.cause, finding.ranks, finding.hosts] = finding
        for key, finding in current.items():
            span = open_spans.get(key)
            if span is None:
                span = open_spans[key] = FindingSpan(finding, attempt, log.number(snapshot.steps[0].step), 0)
                result.spans.append(span)
            span.finding = finding if finding.step is None else replace(finding, step=log.number(finding.step))
            span.last_step = log.number(snapshot.steps[-1].step)
        for key in [key for key in open_spans if key not in current and key[0] not in remaining.held_open]:
            del open_spans[key]
    return result


def _snapshots(
    log: StepTable, attempt: int, states: tuple[RankState, ...], steps: list[int], job_state: JobState
) -> Iterator[Snapshot]:
    """Yield the snapshot of every pass that a hub would have made during the attempt."""
    first = next(iter(log.records[attempt, states[0].rank].values()))
    median_seconds = statistics.median(r.duration for r in log.records[attempt, states[0].rank].values())
    steps_per_pass = max(1, round(HubConfig.interval_seconds / median_seconds / log.every))
    every = 1
    while steps_per_pass / every > HubConfig.about_records:
        every *= 2
    agents = tuple(AgentStatus(host, host, True, 0.0) for host in sorted({s.host for s in states}))
    reported = {s.rank for s in states}
    missing = tuple(islice((r for r in range(states[0].world_size) if r not in reported), MAX_NAMED_MISSING))
    for begin in range(0, len(steps), steps_per_pass):
        sampled = [step for step in steps[begin : begin + steps_per_pass] if step % (every * log.every) == 0]
        records = {s.run_uid: _records(log, attempt, s.rank, sampled, every) for s in states}
        time = next((record.start for rank_records in records.values() for record in rank_records), first.start)
        current = tuple(replace(s, step=steps[min(begin + steps_per_pass, len(steps)) - 1]) for s in states)
        snapshot = Snapshot(log.job_id, time, attempt, states[0].world_size, current, missing, (), agents)
        report = AgentReport("log", time, "", current, HostSample(), (), {log.job_id: records})
        if (full := job_state.add(snapshot, [with_columns(report)])).steps:
            yield full


def _records(log: StepTable, attempt: int, rank: int, steps: list[int], every: int) -> tuple[StepRecord, ...]:
    """Return a rank's records of these steps, each with the mean of the steps since the one before it."""
    records = log.records[attempt, rank]
    sampled = []
    for step in steps:
        since = [records.get(step - past * log.every) for past in range(every)]
        measures = [record.measures for record in since if record is not None]
        if step in records:
            mean = _mean(measures) if every > 1 and len(measures) == every else None
            sampled.append(replace(records[step], mean=mean))
    return tuple(sampled)


def _mean(steps: Sequence[Measures]) -> Measures:
    """Return the mean of the measures that detectors compare, over at least one step."""
    number = len(steps)
    phases, ops = {p for m in steps for p in m.phases}, {op for m in steps for op in m.ops}
    totals = {op: [m.ops.get(op, OpTotals()) for m in steps] for op in ops}
    return Measures(
        {phase: sum(m.phases.get(phase, 0.0) for m in steps) / number for phase in phases},
        {
            op: OpTotals(
                exposed_seconds=sum(t.exposed_seconds for t in step_totals) / number,
                sent_bytes=round(sum(t.sent_bytes for t in step_totals) / number),
                received_bytes=round(sum(t.received_bytes for t in step_totals) / number),
            )
            for op, step_totals in totals.items()
        },
        _known_mean([m.samples for m in steps]),
        _known_mean([m.lookups for m in steps]),
        flops=_known_mean([m.flops for m in steps]),
        memory_traffic_bytes=_known_mean([m.memory_traffic_bytes for m in steps]),
    )


def _known_mean(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return round(sum(known) / len(known)) if len(known) == len(amounts) else None
