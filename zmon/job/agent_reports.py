"""Make the reports of several agents comparable and complete, and leave out the jobs of other shards.

Pure. Two clocks are never compared directly: a report is late by the time that it took longer than the fastest report
of the last minutes. The shortest delay itself is not measured. An agent learns how a process ended only while it
watches the process. After its restart, it finds the boxes of ranks that ended before, and cannot know how they ended.
So their ends are taken from its earlier reports.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from zmon.schema.api.agent import AgentReport, Suspicion
from zmon.schema.rank import RankState
from zmon.schema.shard import Shard

# One report in this time comes without a delay. Clocks that follow NTP drift apart by some us/s, so by some ms.
WINDOW_SECONDS = 600.0


class _Arrival(NamedTuple):
    """The arrival of one report at the hub."""

    time: float  # seconds of the hub's clock
    difference: float  # from the time of the report by the clock of the agent's host


class ReportDelay:
    """The delay of the latest report of one agent, in seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._fastest: deque[_Arrival] = deque()  # both fields ascend

    def restart(self) -> None:
        """Forget all reports, because the clock of the agent's host is another one."""
        self.seconds = 0.0
        self._fastest.clear()

    def add(self, arrival: float, taken: float) -> None:
        """Add a report that arrived at a time of the hub's clock, and was taken at a time of the host's clock."""
        difference = arrival - taken
        while self._fastest and self._fastest[-1].difference >= difference:
            self._fastest.pop()
        self._fastest.append(_Arrival(arrival, difference))
        while arrival - self._fastest[0].time > WINDOW_SECONDS:
            self._fastest.popleft()
        self.seconds = difference - self._fastest[0].difference


def as_of_silence(report: AgentReport, seconds: float) -> AgentReport:
    """Return the last report of an agent that has been silent for `seconds`, with the ages of its ranks as of now.

    Launches are ordered by these ages. All else about the ranks is unknown now, and stays as it was reported.
    """
    ranks = (replace(r, open_seconds=r.open_seconds + seconds) for r in report.ranks)
    return replace(report, ranks=tuple(ranks))


def as_of_now(report: AgentReport, seconds: float) -> AgentReport:
    """Return a report that was taken `seconds` ago with the ages of ended ranks, and of those about to end, as of now.

    The ages of other ranks stay: such a rank may have gone on since then.
    """
    if not any(map(_is_ending, report.ranks)):
        return report
    return replace(report, ranks=tuple(_as_of_later(r, seconds) if _is_ending(r) else r for r in report.ranks))


def _is_ending(state: RankState) -> bool:
    """Return True if the rank has ended or is about to end."""
    return not state.alive or state.last_words is not None


def _as_of_later(state: RankState, seconds: float) -> RankState:
    """Return the state of a rank with all its ages larger by these seconds."""
    collective = state.in_flight
    return replace(
        state,
        gone_seconds=_later(state.gone_seconds, seconds),
        leaving_seconds=_later(state.leaving_seconds, seconds),
        last_words_seconds=_later(state.last_words_seconds, seconds),
        launcher_gone_seconds=_later(state.launcher_gone_seconds, seconds),
        relaunched_seconds=_later(state.relaunched_seconds, seconds),
        activity_seconds=state.activity_seconds + seconds,
        step_seconds=state.step_seconds + seconds,
        state_seconds=state.state_seconds + seconds,
        open_seconds=state.open_seconds + seconds,
        in_flight=None if collective is None else replace(collective, seconds=collective.seconds + seconds),
    )


def _later(age: float | None, seconds: float) -> float | None:
    """Return an age as it is `seconds` later; None stays unknown."""
    return None if age is None else age + seconds


def with_earlier_ends(report: AgentReport, earlier: AgentReport, seconds: float) -> AgentReport:
    """Return the report with the ends of ranks and launchers that the agent of the same host reported earlier.

    `seconds`: the time between the two reports.
    """
    unwatched = {state.run_uid for state in report.ranks if not state.watched}
    known = {s.run_uid: s for s in earlier.ranks if s.run_uid in unwatched or s.launcher_gone_seconds is not None}
    if not known:
        return report
    ranks = (_with_earlier_end(s, known[s.run_uid], seconds) if s.run_uid in known else s for s in report.ranks)
    return replace(report, ranks=tuple(ranks))


def _with_earlier_end(state: RankState, earlier: RankState, seconds: float) -> RankState:
    """Return the state of a rank with what its earlier state, from `seconds` ago, shows about its end."""
    launcher_ages = (state.launcher_gone_seconds, _later(earlier.launcher_gone_seconds, seconds))
    relaunched = state.relaunched_seconds
    with_launcher = replace(
        state,
        launcher_status=state.launcher_status or earlier.launcher_status,
        launcher_gone_seconds=max((age for age in launcher_ages if age is not None), default=None),
        relaunched_seconds=_later(earlier.relaunched_seconds, seconds) if relaunched is None else relaunched,
    )
    if state.watched or state.gone_seconds is None:
        return with_launcher
    if earlier.alive:  # it ended after the earlier report
        return replace(with_launcher, gone_seconds=min(state.gone_seconds, seconds))
    return replace(
        with_launcher,
        exit_status=earlier.exit_status,
        gone_seconds=_later(earlier.gone_seconds, seconds),
        watched=earlier.watched,
    )


def of_shard(report: AgentReport, shard: Shard) -> AgentReport:
    """Return the report without the ranks of other shards. A job whose id an agent has changed keeps its shard."""
    ranks = tuple(r for r in report.ranks if shard.has(r.wanted_job_id or r.job_id))
    job_ids = {r.job_id for r in ranks}
    return replace(
        report,
        ranks=ranks,
        steps={job_id: steps for job_id, steps in report.steps.items() if job_id in job_ids},
        unread=tuple(rank for rank in report.unread if shard.has(rank.job_id)),
    )


def suspects_of_shard(suspects: Iterable[Suspicion], shard: Shard) -> tuple[Suspicion, ...]:
    """Return the suspects of jobs of the shard."""
    return tuple(suspicion for suspicion in suspects if shard.has(suspicion.job_id))
