"""Choose the answers of the recorded agent of one host at a time. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from zmon.schema.api import RankEvidence, SnapshotRequest
from zmon.schema.api.agent import AgentReport
from zmon.schema.rank import RankState
from zmon.schema.steps import SAME_SIZE_SENT, STEP, Steps
from zmon.stack.replay import HostRecording, RecordedReport, Recording
from zmon.stack.replay.clocks import Loop, later_steps, move

_MAX_REPORTS = 600  # whose steps one answer has: a history goes no further back


@dataclass(frozen=True)
class RecordedHost:
    """The agent of one host, as it was recorded. `at` is in seconds since the beginning of the recording.

    Each report that is played has a number, which is the cursor of its steps: the numbers go on in each round.
    """

    recording: Recording
    host: HostRecording

    def recorded_report(self, at: float) -> RecordedReport:
        _, within = self._round(at)
        return self.host.reports[self._index(within)]

    def report(self, at: float, later: float, request: SnapshotRequest) -> AgentReport | None:
        """Return the answer to a request, with all dates later by `later` seconds; None: there is no answer."""
        rounds, within = self._round(at)
        index = self._index(within)
        report = self.host.reports[index].report
        if report is None:
            return None
        number = index
        loop = None
        if rounds:
            number = self._loop_end + (rounds - 1) * self._loop_length + index - self._loop_start
            loop = Loop(self._report(self._loop_start), self._report(self._loop_end), rounds, self._loop_seconds)
        report = move(report, later, loop)
        ranks = tuple(rank for rank in report.ranks if request.job_id in (None, rank.job_id))
        return replace(
            report,
            ranks=ranks,
            cursor=number,
            steps=self._steps(ranks, request, number),
            plans={} if request.plans == report.plans_version else report.plans,
        )

    def evidence(self, at: float, later: float, rank: int) -> RankEvidence | None:
        """Return the evidence about a rank: the latest by then, or else the first; None: none was recorded."""
        evidence = [each for each in self.host.evidence if each.evidence.rank == rank]
        if not evidence:
            return None

        def latest(time: float) -> RankEvidence:
            return evidence[max(0, bisect_right(evidence, time, key=lambda each: each.at) - 1)].evidence

        rounds, within = self._round(at)
        start, end = self.recording.repeats_from, self.recording.ends
        loop = Loop(latest(start), latest(end), rounds, self._loop_seconds) if rounds else None
        return move(latest(within), later, loop)

    @property
    def _loop_seconds(self) -> float:
        return self.recording.ends - self.recording.repeats_from

    @cached_property
    def _loop_start(self) -> int:
        """The index of the report after which a round begins."""
        return self._index(self.recording.repeats_from)

    @cached_property
    def _loop_end(self) -> int:
        """The index of the report with which a round ends."""
        return self._index(self.recording.ends)

    @property
    def _loop_length(self) -> int:
        """The number of reports in a round."""
        return self._loop_end - self._loop_start

    def _round(self, at: float) -> tuple[int, float]:
        """Return how often the recording has ended by this time, and the place in it."""
        extra = at - self.recording.ends
        if extra < 0:
            return 0, at
        return 1 + int(extra // self._loop_seconds), self.recording.repeats_from + extra % self._loop_seconds

    def _index(self, within: float) -> int:
        return max(0, bisect_right(self.host.reports, within, key=lambda each: each.at) - 1)

    def _report(self, index: int) -> AgentReport | None:
        return self.host.reports[index].report

    def _steps(
        self, ranks: tuple[RankState, ...], request: SnapshotRequest, number: int
    ) -> dict[str, tuple[Steps, ...]]:
        """Return the steps after the report of the request's cursor up to this one, in a part for each rank."""
        if request.since < 0:
            return {}
        numbers = range(max(request.since + 1, number - _MAX_REPORTS + 1), number + 1)
        steps: dict[str, tuple[Steps, ...]] = {}
        for rank in ranks:
            part = Steps.join(self._parts(rank.job_id, rank.run_uid, numbers))
            if 0 < request.last < part.num_rows:
                part = part.select(range(part.num_rows - request.last, part.num_rows))
            steps[rank.job_id] = (*steps.get(rank.job_id, ()), part)
        return steps

    def _parts(self, job_id: str, run_uid: str, numbers: range) -> Iterator[Steps]:
        """Yield the steps of a rank in each of these reports."""
        for number in numbers:
            rounds, index = self._place(number)
            for steps in self._recorded_steps(job_id, run_uid, index):
                yield later_steps(steps, *self._rises(job_id, run_uid).in_rounds(rounds)) if rounds else steps

    def _place(self, number: int) -> tuple[int, int]:
        """Return how often the recording had ended at the report with this number, and its index."""
        if number <= self._loop_end:
            return 0, number
        rounds, place = divmod(number - self._loop_end - 1, self._loop_length)
        return rounds + 1, self._loop_start + 1 + place

    def _recorded_steps(self, job_id: str, run_uid: str, index: int) -> Iterator[Steps]:
        report = self._report(index)
        for part in report.steps.get(job_id, ()) if report else ():
            steps = part.of_rank(run_uid)
            if steps.num_rows:
                yield steps

    def _rises(self, job_id: str, run_uid: str) -> _Rises:
        """Return the increase of what the steps of a rank count, in one round."""
        if run_uid not in self._rises_by_uid:
            first, last = self._report(self._loop_start), self._report(self._loop_end)
            loop_steps = Steps.join(self._parts(job_id, run_uid, range(self._loop_start + 1, self._loop_end + 1)))
            self._rises_by_uid[run_uid] = _rises_between(first, last, run_uid, loop_steps)
        return self._rises_by_uid[run_uid]

    @cached_property
    def _rises_by_uid(self) -> dict[str, _Rises]:
        return {}


class _Rises(NamedTuple):
    """The increase of what the steps of a rank count, in one round."""

    num_steps: int = 0
    seconds: float = 0.0
    sent_bytes: int = 0

    def in_rounds(self, rounds: int) -> tuple[int, float, int]:
        """Return the increases in so many rounds."""
        return rounds * self.num_steps, rounds * self.seconds, rounds * self.sent_bytes


def _rises_between(first: AgentReport | None, last: AgentReport | None, run_uid: str, loop_steps: Steps) -> _Rises:
    """Return the increases from one report to another; `loop_steps`: the steps of the rank between them."""
    counts = [rank.steps for report in (first, last) if report for rank in report.ranks if rank.run_uid == run_uid]
    if first is None or last is None or len(counts) != 2:
        return _Rises()
    num_steps = counts[1] - counts[0]
    numbers, sent = loop_steps.column(STEP), loop_steps.column(SAME_SIZE_SENT)
    per_step = (sent[-1] - sent[0]) / max(1, numbers[-1] - numbers[0]) if len(sent) else 0.0
    return _Rises(num_steps, (last.monotonic or 0.0) - (first.monotonic or 0.0), round(per_step * num_steps))
