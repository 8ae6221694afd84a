"""Complete the report of a restarted agent with what its earlier reports had shown about ends.

An agent learns how a process ended only while it watches the process. An agent that was restarted looks at boxes of
ranks that had ended before, and cannot know how.
"""

from __future__ import annotations

from dataclasses import replace

from zmon.job.timeline import later
from zmon.schema.api.agent import AgentReport
from zmon.schema.rank import RankState


def with_earlier_ends(report: AgentReport, earlier: AgentReport, seconds: float) -> AgentReport:
    """Return the report with the ends of ranks and launchers that the agent of the same host reported earlier.

    `seconds`: the time between the two reports.
    """
    unsure = {state.run_uid for state in report.ranks if not state.watched}
    before = {s.run_uid: s for s in earlier.ranks if s.run_uid in unsure or s.launcher_gone_seconds is not None}
    if not before:
        return report
    ranks = (_completed(s, before[s.run_uid], seconds) if s.run_uid in before else s for s in report.ranks)
    return replace(report, ranks=tuple(ranks))


def _completed(state: RankState, earlier: RankState, seconds: float) -> RankState:
    ages = (state.launcher_gone_seconds, later(earlier.launcher_gone_seconds, seconds))
    completed = replace(
        state,
        launcher_status=state.launcher_status or earlier.launcher_status,
        launcher_gone_seconds=max((age for age in ages if age is not None), default=None),
        relaunched_seconds=later(earlier.relaunched_seconds, seconds)
        if state.relaunched_seconds is None
        else state.relaunched_seconds,
    )
    if state.watched or state.gone_seconds is None:
        return completed
    if earlier.alive:  # it ended after the earlier report
        return replace(completed, gone_seconds=min(state.gone_seconds, seconds))
    return replace(
        completed,
        exit_status=earlier.exit_status,
        gone_seconds=later(earlier.gone_seconds, seconds),
        watched=earlier.watched,
    )
