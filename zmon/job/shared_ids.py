"""Separates jobs with the same job id: those of several users, and launches of one user that live at the same time.

Pure. The first user of a job id keeps it. The job of another user gets a name with the number of that user, for as long
as it lives. A user may have another uid on another host, so ranks of two users can be one job. They are two jobs if
both have a rank with the same number, or if their launches differ in size. On one host the agent has separated them
already: ranks that it has given another name are judged by the id that they have by themselves.
Launches of one user are separated by `second_launches`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Generic, TypeVar

from zmon.job.restarts import seconds_since_start
from zmon.job.second_launches import SecondLaunches
from zmon.job.timeline import newest_attempt
from zmon.schema.api.agent import AgentReport
from zmon.schema.host import HostSample, HostWindow, ProcessSample, TcpPeer, TcpSample
from zmon.schema.names import MAX_JOB_ID_LETTERS, second_job_id
from zmon.schema.rank import RankState

Item = TypeVar("Item", ProcessSample, TcpPeer)
Owner = TypeVar("Owner", int, tuple[int, str])  # a user, or a user of a pod
Names = Mapping[str, str]  # job id of the agent → name of the job


class JobOwners(Generic[Owner]):
    """The name of each job of one host, by its id and its user."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, Owner], str] = {}

    def update(self, jobs: Iterable[tuple[str, Owner]]) -> dict[tuple[str, Owner], str]:
        """Return the names, given the id and the user of each job that exists, the oldest one first."""
        present = dict.fromkeys(jobs)
        self._names = {job: name for job, name in self._names.items() if job in present}
        names = set(self._names.values())
        for job in present:
            if job not in self._names:
                job_id, owner = job
                uid = owner if isinstance(owner, int) else owner[0]
                self._names[job] = next(name for name in _candidates(job_id, uid) if name not in names)
                names.add(self._names[job])
        return self._names


def _candidates(job_id: str, owner: int) -> Iterable[str]:
    yield job_id
    for number in count(1):
        suffix = f".uid{owner}" if number == 1 else f".uid{owner}-{number}"
        yield job_id[: MAX_JOB_ID_LETTERS - len(suffix)] + suffix


class SharedIds:
    """The names of all jobs, by host and job id of the agent; a job that has a name keeps it."""

    def __init__(self) -> None:
        self._owners: JobOwners[int] = JobOwners()
        self._launches = SecondLaunches()

    def names(self, reports: Sequence[AgentReport], silent: Sequence[AgentReport] = ()) -> Mapping[str, Names]:
        """Return the names that differ from the job ids in these reports, by host.

        `silent` has the last reports of agents that do not answer now.
        """
        by_job: defaultdict[str, defaultdict[int, list[RankState]]] = defaultdict(lambda: defaultdict(list))
        owned = [(r.host, s, s.owner) for r in (*reports, *silent) for s in r.ranks if s.owner is not None]
        for _, state, owner in owned:
            by_job[_own_id(state)][owner].append(state)
        users = {job_id: _separate_users(by_owner) for job_id, by_owner in by_job.items()}
        names = self._owners.update((job_id, first) for job_id, firsts in users.items() for first in firsts.values())
        of_users = {(job_id, owner): ranks for job_id, owners in by_job.items() for owner, ranks in owners.items()}
        second = self._launches.update(of_users, {report.host for report in silent})
        result: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for host, state, owner in owned:
            job_id = _own_id(state)
            if second and state.launch_id in second.get((job_id, owner), ()):
                name = second_job_id(job_id, state.launch_id)
            else:
                name = names[job_id, users[job_id][owner]]
            if name != state.job_id:
                result[host][state.job_id] = name
        return {**result}


def _own_id(state: RankState) -> str:
    return state.wanted_job_id or state.job_id


def _separate_users(by_owner: Mapping[int, Sequence[RankState]]) -> dict[int, int]:
    """Return for each user the first one with whom the ranks form one job."""
    if len(by_owner) == 1:
        return {owner: owner for owner in by_owner}
    firsts: dict[int, int] = {}
    launches: dict[int, set[tuple[int, int]]] = {}  # world size and number of each rank, by first user
    hosts: defaultdict[int, set[str]] = defaultdict(set)

    def order(owner: int) -> tuple[bool, float, int]:  # a user who came second on one host is not the first of all
        ranks = by_owner[owner]
        return any(r.wanted_job_id for r in ranks), -max(map(seconds_since_start, ranks)), owner

    for owner in sorted(by_owner, key=order):
        newest = newest_attempt(by_owner[owner])
        ranks, own_hosts = {(r.world_size, r.rank) for r in newest}, {r.host for r in newest}
        first = next((f for f, o in launches.items() if _complement(ranks, o) and not own_hosts & hosts[f]), owner)
        firsts[owner] = first
        launches.setdefault(first, set()).update(ranks)
        hosts[first] |= own_hosts
    return firsts


def _complement(ranks: set[tuple[int, int]], others: set[tuple[int, int]]) -> bool:
    """Return True if two sets of ranks, each with its world size, can be parts of one launch."""
    return not ranks & others and {size for size, _ in ranks} == {size for size, _ in others}


def renamed(report: AgentReport, names: Mapping[str, Names]) -> AgentReport:
    """Return a report with the names of its jobs."""
    if not (of_host := names.get(report.host)):
        return report
    return replace(
        report,
        ranks=tuple(_renamed_rank(r, of_host) if r.job_id in of_host else r for r in report.ranks),
        steps={of_host.get(job_id, job_id): steps for job_id, steps in report.steps.items()},
        sample=_renamed_sample(report.sample, of_host),
    )


def renamed_window(window: HostWindow, names: Mapping[str, Names]) -> HostWindow:
    """Return the hardware of a host with the names of its jobs."""
    if not (of_host := names.get(window.host)):
        return window
    return replace(
        window,
        before=_renamed_sample(window.before, of_host),
        now=_renamed_sample(window.now, of_host),
        recent=_renamed_tcp(window.recent, of_host),
    )


def _renamed_rank(state: RankState, names: Names) -> RankState:
    return replace(state, job_id=names[state.job_id], wanted_job_id=state.wanted_job_id or state.job_id)


def _renamed_sample(sample: HostSample, names: Names) -> HostSample:
    return replace(
        sample,
        tcp=_renamed_tcp(sample.tcp, names),
        processes=None if sample.processes is None else tuple(_renamed_items(sample.processes, names)),
        cgroups=None if sample.cgroups is None else tuple(
            replace(group, ranks=tuple((names.get(job_id, job_id), rank) for job_id, rank in group.ranks))
            for group in sample.cgroups
        ),
    )  # fmt: skip


def _renamed_tcp(tcp: TcpSample | None, names: Names) -> TcpSample | None:
    return None if tcp is None else replace(tcp, peers=tuple(_renamed_items(tcp.peers, names)))


def _renamed_items(items: Iterable[Item], names: Names) -> Iterator[Item]:
    return (replace(item, job_id=names.get(item.job_id, item.job_id)) for item in items)
