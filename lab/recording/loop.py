"""Find the part of a recording that can be repeated: all ranks end the same number of steps in it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from zmon.errors import ZmonError
from zmon.schema.api.agent import AgentReport
from zmon.stack.replay import HostRecording

LONGEST_SECONDS = 40.0
SHORTEST_SECONDS = 15.0
_END_SECONDS = 10.0  # the part ends this long before the end of the recording, at most
_STEP_SECONDS = 0.25


def loop(hosts: Sequence[HostRecording], recording_seconds: float) -> tuple[float, float]:
    """Return start and end in seconds of the part that ends last, and is the longest of those that end then.

    Raises ZmonError if there is none.
    """
    starts_later = [_STEP_SECONDS * n for n in range(int((LONGEST_SECONDS - SHORTEST_SECONDS) / _STEP_SECONDS))]
    ends_earlier = [_STEP_SECONDS * n for n in range(int(_END_SECONDS / _STEP_SECONDS))]
    for earlier, later in product(ends_earlier, starts_later):
        end = recording_seconds - earlier
        start = end - LONGEST_SECONDS + later
        if len(_rises(hosts, start, end)) <= 1:
            return start, end
    raise ZmonError("no part of the recording can be repeated", "its ranks are never in step", "Record it again")


def _rises(hosts: Sequence[HostRecording], start: float, end: float) -> set[int]:
    """Return the numbers of steps that ranks ended between two times; empty if no host answered."""
    rises = set()
    for host in hosts:
        before, after = _report(host, start), _report(host, end)
        if before is not None and after is not None:
            earlier = {rank.run_uid: rank.steps for rank in before.ranks}
            rises |= {rank.steps - earlier.get(rank.run_uid, 0) for rank in after.ranks}
    return rises


def _report(host: HostRecording, at: float) -> AgentReport | None:
    return next((report.report for report in reversed(host.reports) if report.at <= at), None)
