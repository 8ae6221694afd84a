"""Choose what the recorded agent of one host answers at a given time. Pure.

After its end, the last part of a recording, from `repeats_from` to `ends`, is played again and again. Each time is a
*round*. Each report has a number, which is the cursor of its steps. Numbers count on in every round. For example, a
recording has the reports 0 to 9, and the last four repeat. Then number 10 is report 6 again, in the first round.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from zmon.schema.api import RankEvidence, SnapshotRequest
from zmon.schema.api.agent import AgentReport
from zmon.schema.rank import RankState
from zmon.schema.steps import SAME_SIZE_SENT, STEP, Steps
from zmon.stack.replay import HostRecording, RecordedEvidence, RecordedReport, Recording
from zmon.stack.replay.clocks import Loop, later_steps, move

_MAX_REPORTS = 600  # an answer has the steps of at most so many reports


class _Increase(NamedTuple):
    """The increase of the step number, the clock and the sent bytes of a rank in one round."""

    num_steps: int = 0
    seconds: float = 0.0
    sent_bytes: int = 0

    def times(self, rounds: int) -> _Increase:
        """Return the increase in so many rounds."""
        return _Increase(rounds * self.num_steps, rounds * self.seconds, rounds * self.sent_bytes)


@dataclass(frozen=True)
class RecordedHost:
    """The agent of one host. `at` is in seconds since the recording began to be played; it may be beyond its end."""

    recording: Recording
    host: HostRecording

    def recorded_report(self, at: float) -> RecordedReport:
        """Return the report that is played at this time, unchanged."""
        _, recorded_at = self._locate(at)
        return self.host.reports[self._index(recorded_at)]

    def report(self, at: float, shift_seconds: float, request: SnapshotRequest) -> AgentReport | None:
        """Return the answer to a request, with all dates later by `shift_seconds`; None: there is no answer."""
        rounds, recorded_at = self._locate(at)
        report = self._report(recorded_at)
        if report is None:
            return None
        report = move(report, shift_seconds, self._loop(self._report, rounds))
        ranks = tuple(rank for rank in report.ranks if request.job_id in (None, rank.job_id))
        number = self._index(recorded_at) + rounds * self._reports_per_round
        return replace(
            report,
            ranks=ranks,
            cursor=number,
            steps=self._steps(ranks, request, number),
            plans={} if request.plans == report.plans_version else report.plans,
        )

    def evidence(self, at: float, shift_seconds: float, rank: int) -> RankEvidence | None:
        """Return the evidence about a rank: the latest by then, or else the first; None: none was recorded."""
        of_rank = [recorded for recorded in self.host.evidence if recorded.evidence.rank == rank]
        if not of_rank:
            return None

        def latest(recorded_at: float) -> RankEvidence:
            return of_rank[_latest(of_rank, recorded_at)].evidence

        rounds, recorded_at = self._locate(at)
        return move(latest(recorded_at), shift_seconds, self._loop(latest, rounds))

    def _locate(self, at: float) -> tuple[int, float]:
        """Return how many rounds have begun by this time, and the time in the recording that is played."""
        start, end = self.recording.repeats_from, self.recording.ends
        if at < end:
            return 0, at
        return 1 + int((at - end) // (end - start)), start + (at - end) % (end - start)

    def _loop(self, answer: Callable[[float], Any], rounds: int) -> Loop | None:
        """Return the loop of an answer; None before the first round. `answer` takes the time in the recording."""
        start, end = self.recording.repeats_from, self.recording.ends
        return Loop(answer(start), answer(end), rounds, end - start) if rounds else None

    def _index(self, recorded_at: float) -> int:
        return _latest(self.host.reports, recorded_at)

    def _report(self, recorded_at: float) -> AgentReport | None:
        return self.host.reports[self._index(recorded_at)].report

    @cached_property
    def _last_before_round(self) -> int:
        """The index of the report after which a round begins."""
        return self._index(self.recording.repeats_from)

    @cached_property
    def _last_of_round(self) -> int:
        """The index of the last report of a round."""
        return self._index(self.recording.ends)

    @property
    def _reports_per_round(self) -> int:
        return self._last_of_round - self._last_before_round

    def _steps(
        self, ranks: tuple[RankState, ...], request: SnapshotRequest, number: int
    ) -> dict[str, tuple[Steps, ...]]:
        """Return the steps after the report of the request's cursor up to this one, in a part for each rank."""
        if request.since < 0:
            return {}
        numbers = range(max(request.since + 1, number - _MAX_REPORTS + 1), number + 1)
        by_job: dict[str, tuple[Steps, ...]] = {}
        for rank in ranks:
            part = Steps.join(steps for n in numbers for steps in self._steps_in_report(rank, n))
            if 0 < request.last < part.num_rows:
                part = part.select(range(part.num_rows - request.last, part.num_rows))
            by_job[rank.job_id] = (*by_job.get(rank.job_id, ()), part)
        return by_job

    def _steps_in_report(self, rank: RankState, number: int) -> Iterator[Steps]:
        """Yield the steps of a rank in the report with this number, as they are in its round."""
        beyond = number - self._last_of_round  # above 0: how many reports after the end of the recording
        rounds = 1 + (beyond - 1) // self._reports_per_round if beyond > 0 else 0
        for steps in self._recorded_steps(rank, number - rounds * self._reports_per_round):
            increase = self._increases.get(rank.run_uid, _Increase())
            yield later_steps(steps, *increase.times(rounds)) if rounds else steps

    def _recorded_steps(self, rank: RankState, index: int) -> Iterator[Steps]:
        report = self.host.reports[index].report
        for part in report.steps.get(rank.job_id, ()) if report else ():
            steps = part.of_rank(rank.run_uid)
            if steps.num_rows:
                yield steps

    @cached_property
    def _increases(self) -> Mapping[str, _Increase]:
        """The increase of each rank in one round, by run uid. A rank that one end of the round lacks is left out."""
        first, last = self._report(self.recording.repeats_from), self._report(self.recording.ends)
        if first is None or last is None:
            return {}
        seconds = (last.monotonic or 0.0) - (first.monotonic or 0.0)
        steps_at_first = {rank.run_uid: rank.steps for rank in first.ranks}
        increases = {}
        for rank in last.ranks:
            if rank.run_uid in steps_at_first:
                num_steps = rank.steps - steps_at_first[rank.run_uid]
                increases[rank.run_uid] = _Increase(num_steps, seconds, round(num_steps * self._bytes_per_step(rank)))
        return increases

    def _bytes_per_step(self, rank: RankState) -> float:
        """Return the mean of the bytes that a rank sends in a step of a round."""
        indices = range(self._last_before_round + 1, self._last_of_round + 1)
        in_round = Steps.join(steps for index in indices for steps in self._recorded_steps(rank, index))
        if not in_round.num_rows:
            return 0.0
        numbers, sent = in_round.column(STEP), in_round.column(SAME_SIZE_SENT)
        return float((sent[-1] - sent[0]) / max(1, numbers[-1] - numbers[0]))


def _latest(records: Sequence[RecordedReport] | Sequence[RecordedEvidence], recorded_at: float) -> int:
    """Return the index of the latest record at this time in the recording, or else of the first one."""
    return max(0, bisect_right(records, recorded_at, key=lambda record: record.at) - 1)
