"""Find the part of a recording that can be played again and again: every rank does as many steps in it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from zmon.errors import ZmonError
from zmon.schema.api.agent import AgentReport
from zmon.stack.replay import HostRecording

LONGEST_SECONDS, SHORTEST_SECONDS = 40.0, 15.0
_END_SECONDS = 10.0  # the part ends this long before the end of the recording, at most
_STEP_SECONDS = 0.25


def loop(hosts: Sequence[HostRecording], ends: float) -> tuple[float, float]:
    """Return start and end of the longest such part, in seconds. Raises ZmonError if there is none."""
    early = [_STEP_SECONDS * n for n in range(int((LONGEST_SECONDS - SHORTEST_SECONDS) / _STEP_SECONDS))]
    late = [_STEP_SECONDS * n for n in range(int(_END_SECONDS / _STEP_SECONDS))]
    for back, cut in product(late, early):
        end = ends - back
        start = end - LONGEST_SECONDS + cut
        if len(_rises(hosts, start, end)) <= 1:
            return start, end
    raise ZmonError("no part of the recording can be repeated", "its ranks are never in step", "Record it again")


def _rises(hosts: Sequence[HostRecording], start: float, end: float) -> set[int]:
    """Return by how many steps the ranks got on between two times; empty if no host answered."""
    rises = set()
    for host in hosts:
        before, after = _report(host, start), _report(host, end)
        if before is not None and after is not None:
            earlier = {rank.run_uid: rank.steps for rank in before.ranks}
            rises |= {rank.steps - earlier.get(rank.run_uid, 0) for rank in after.ranks}
    return rises


def _report(host: HostRecording, at: float) -> AgentReport | None:
    return next((report.report for report in reversed(host.reports) if report.at <= at), None)
