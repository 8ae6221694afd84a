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
_GRID_SECONDS = 0.25  # between two starts, or two ends, that are tried


def loop(hosts: Sequence[HostRecording], recording_seconds: float) -> tuple[float, float]:
    """Return start and end, in seconds, of a part in which all ranks end the same number of steps.

    Of all such parts it is the one that ends last; of those that end then, the longest. Raises ZmonError if there is
    none.
    """
    num_lengths = int((LONGEST_SECONDS - SHORTEST_SECONDS) / _GRID_SECONDS)
    num_ends = int(_END_SECONDS / _GRID_SECONDS)
    for num_cut, num_shorter in product(range(num_ends), range(num_lengths)):
        end = recording_seconds - _GRID_SECONDS * num_cut
        start = end - LONGEST_SECONDS + _GRID_SECONDS * num_shorter
        if len(_numbers_of_steps(hosts, start, end)) <= 1:
            return start, end
    raise ZmonError("no part of the recording can be repeated", "its ranks are never in step", "Record it again")


def _numbers_of_steps(hosts: Sequence[HostRecording], start: float, end: float) -> set[int]:
    """Return how many steps the ranks ended between two times, each number once; empty if no host answered."""
    numbers = set()
    for host in hosts:
        before, after = _report(host, start), _report(host, end)
        if before is not None and after is not None:
            earlier = {rank.run_uid: rank.steps for rank in before.ranks}
            numbers |= {rank.steps - earlier.get(rank.run_uid, 0) for rank in after.ranks}
    return numbers


def _report(host: HostRecording, at: float) -> AgentReport | None:
    """Return the newest report of a host at a time, or None if it did not answer then."""
    return next((report.report for report in reversed(host.reports) if report.at <= at), None)
