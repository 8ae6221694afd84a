"""Replays a step log through the detectors of the hub, with the snapshots that a hub would have built.

Pure. Each pass of the replay has the same number of steps, so the clocks of two hosts are never compared. A log has no
processes, sockets or devices, so detectors that need them report nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from zmon import detectors
from zmon.detectors.slow import Straggler
from zmon.detectors.suppression import Remaining, suppress
from zmon.hub.config import HubConfig
from zmon.hub.job_state import JobState
from zmon.job.time_account import Account
from zmon.offline.analyze.rows import StepTable, rank_state
from zmon.schema.api.agent import AgentReport
from zmon.schema.finding import Finding
from zmon.schema.host import HostSample
from zmon.schema.job_snapshot import AgentStatus, Snapshot
from zmon.schema.limits import MAX_NAMED_MISSING
from zmon.schema.measures import NS, UNKNOWN, is_aligned
from zmon.schema.rank import RankState
from zmon.schema.steps import DURATION, MEAN, MEAN_STEPS, SAME_SIZE_SENT, START, STEP, Steps

MIN_STEPS = 2 * Straggler.num_steps  # with fewer, no detector compares ranks

_FindingKey = tuple[str, str, tuple[int, ...], tuple[str, ...]]  # detector, cause, ranks and hosts, while it is open


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
    ranks: int  # number of ranks that have steps; at most world_size
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
    ranks = log.ranks(attempt)
    world_size = max(ranks) + 1
    steps = sorted({step for rank_steps in ranks.values() for step in rank_steps.column(STEP)})
    states = tuple(
        rank_state(log.job_id, attempt, rank, world_size, log.hosts[attempt, rank], log.roles.get((attempt, rank), ""))
        for rank in ranks
    )
    job_state = JobState({state.run_uid for state in states}, world_size, Account(log.job_id))
    spans = _Spans(log, attempt)
    for snapshot in _snapshots(log, attempt, states, steps, job_state):
        detected = {detector.name: detector.detect(snapshot) for detector in active} if log.has_exposed_time else {}
        spans.update(snapshot, suppress(detected))
    return Attempt(attempt, job_state, len(ranks), world_size, len(steps), spans.spans)


class _Spans:
    """The findings of one attempt up to the present pass, and the steps during which each was open."""

    def __init__(self, log: StepTable, attempt: int) -> None:
        self.spans: list[FindingSpan] = []
        self._log, self._attempt = log, attempt
        self._open: dict[_FindingKey, FindingSpan] = {}

    def update(self, snapshot: Snapshot, remaining: Remaining) -> None:
        """Open, update and end spans, given the findings of a pass that nothing suppresses."""
        first_step, last_step = (self._log.number(snapshot.steps[end].step) for end in (0, -1))
        findings = [finding for reported in remaining.findings.values() for finding in reported]
        current = {(finding.detector, finding.cause, finding.ranks, finding.hosts): finding for finding in findings}
        for key, finding in current.items():
            if key not in self._open:
                self._open[key] = FindingSpan(finding, self._attempt, first_step, last_step)
                self.spans.append(self._open[key])
            span = self._open[key]
            span.finding = finding if finding.step is None else replace(finding, step=self._log.number(finding.step))
            span.last_step = last_step
        for key in self._open.keys() - current.keys():
            if self._open[key].finding.detector not in remaining.held_open:
                del self._open[key]


def _snapshots(
    log: StepTable, attempt: int, states: tuple[RankState, ...], steps: list[int], job_state: JobState
) -> Iterator[Snapshot]:
    """Yield the snapshot of every pass that a hub would have made during the attempt."""
    rank_steps = [log.steps[attempt, state.rank] for state in states]
    steps_per_pass = _steps_per_pass(rank_steps[0], log.every)
    stride = 1  # a hub gets every stride-th step. A log too short for detectors to compare ranks keeps all steps
    while len(steps) >= MIN_STEPS and steps_per_pass / stride > HubConfig.about_steps:
        stride *= 2
    agents = tuple(AgentStatus(host, host, True, 0.0) for host in sorted({state.host for state in states}))
    aligned = tuple(dict.fromkeys(name for steps in rank_steps for name in steps.columns if is_aligned(name)))
    names = (STEP, SAME_SIZE_SENT, *aligned, MEAN_STEPS, *(MEAN + name for name in aligned))  # of `_SampledRank.rows`
    samples = [_SampledRank(steps, aligned, log.every) for steps in rank_steps]
    first_start = rank_steps[0].column(START)[0] * NS
    world_size = states[0].world_size
    reported = {state.rank for state in states}
    missing = tuple(islice((rank for rank in range(world_size) if rank not in reported), MAX_NAMED_MISSING))
    for begin in range(0, len(steps), steps_per_pass):
        in_pass = steps[begin : begin + steps_per_pass]
        sampled = [step for step in in_pass if step % (stride * log.every) == 0]
        rows = {state.run_uid: rank.rows(sampled, stride) for state, rank in zip(states, samples, strict=True)}
        new = Steps.from_rows(names, rows)
        starts = (rank.start(step) for rank in samples for step in sampled)
        time = next((start for start in starts if start is not None), first_start)
        current = tuple(replace(state, step=in_pass[-1]) for state in states)
        snapshot = Snapshot(log.job_id, time, attempt, world_size, current, missing, (), agents)
        report = AgentReport("log", time, "", current, HostSample(), (), {log.job_id: (new,)})
        if (full := job_state.add(snapshot, [report])).steps:
            yield full


def _steps_per_pass(steps: Steps, every: int) -> int:
    """Return how many steps of the log a rank makes between two passes of a hub."""
    median_seconds = statistics.median(seconds for seconds in steps.values(DURATION) if seconds is not None)
    return max(1, round(HubConfig.interval_seconds / median_seconds / every))


class _SampledRank:
    """The steps of one rank, of which a hub would get some."""

    def __init__(self, steps: Steps, aligned: Sequence[str], every: int) -> None:
        """`aligned`: the columns that a hub compares. The log has the steps whose number is a multiple of `every`."""
        self._every = every
        self._row_of = {step: row for row, step in enumerate(steps.column(STEP))}
        self._starts = steps.column(START)
        self._rows = list(zip(*(steps.column(name) for name in (SAME_SIZE_SENT, *aligned)), strict=True))

    def start(self, step: int) -> float | None:
        """Return when a step began, in unix seconds; None if the rank does not have it."""
        row = self._row_of.get(step)
        return None if row is None else self._starts[row] * NS

    def rows(self, steps: Sequence[int], stride: int) -> list[tuple[int, ...]]:
        """Return the rows of these steps, each with the mean of the last `stride` steps in the log."""
        rows = []
        for step in steps:
            since = [self._row_of.get(step - past * self._every) for past in range(stride)]
            known = [self._rows[row] for row in since if row is not None]
            if since[0] is not None:
                step_row = known[0]
                has_mean = stride > 1 and len(known) == stride
                mean = [_mean(numbers) for numbers in zip(*known, strict=True)] if has_mean else step_row
                rows.append((step, *step_row, stride if has_mean else 0, *mean[1:]))
        return rows


def _mean(numbers: Sequence[int]) -> int:
    return UNKNOWN if UNKNOWN in numbers else round(sum(numbers) / len(numbers))
