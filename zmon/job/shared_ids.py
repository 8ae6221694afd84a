"""Separate jobs with the same job id: those of several users, and launches of one user that live at the same time.

Pure. The first user of a job id keeps it. The job of another user gets a name with the number of that user, for as long
as it lives. A user may have another uid on another host, so ranks of two uids can be one job. They are two jobs if both
have a rank with the same number, or if their launches differ in size. On one host the agent has separated them already:
it has given ranks another name, and here they are judged by the id that they wanted. Launches of one user are separated
by `second_launches`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """Yield names for a user's job without end: its id, then the id with the number of the user and a counter."""
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
        ranks_of: defaultdict[str, defaultdict[int, list[RankState]]] = defaultdict(lambda: defaultdict(list))
        owned = [(r.host, s, s.owner) for r in (*reports, *silent) for s in r.ranks if s.owner is not None]
        for _, state, uid in owned:
            ranks_of[_wanted_id(state)][uid].append(state)
        first_uids = {job_id: _first_uids(by_uid) for job_id, by_uid in ranks_of.items()}
        names = self._owners.update((job_id, uid) for job_id, by_uid in first_uids.items() for uid in by_uid.values())
        user_jobs = {(job_id, uid): ranks for job_id, by_uid in ranks_of.items() for uid, ranks in by_uid.items()}
        second_ids = self._launches.update(user_jobs, {report.host for report in silent})
        result: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for host, state, uid in owned:
            job_id = _wanted_id(state)
            if second_ids and state.launch_id in second_ids.get((job_id, uid), ()):
                name = second_job_id(job_id, state.launch_id)
            else:
                name = names[job_id, first_uids[job_id][uid]]
            if name != state.job_id:
                result[host][state.job_id] = name
        return {**result}


def _wanted_id(state: RankState) -> str:
    return state.wanted_job_id or state.job_id


@dataclass
class _UsersLaunch:
    """The ranks that may form one launch, of one or several uids."""

    ranks: set[tuple[int, int]] = field(default_factory=set)  # world size and number of each
    hosts: set[str] = field(default_factory=set)

    def can_have(self, other: _UsersLaunch) -> bool:
        """Return True if the other ranks can be a part of this launch."""
        sizes, other_sizes = {size for size, _ in self.ranks}, {size for size, _ in other.ranks}
        return sizes == other_sizes and not self.ranks & other.ranks and not self.hosts & other.hosts


def _first_uids(by_uid: Mapping[int, Sequence[RankState]]) -> dict[int, int]:
    """Return for each uid the first uid whose ranks form one job with its ranks; mostly the uid itself."""
    if len(by_uid) == 1:
        return {uid: uid for uid in by_uid}
    first_uids: dict[int, int] = {}
    launches: dict[int, _UsersLaunch] = {}  # by first uid

    def order(uid: int) -> tuple[bool, float, int]:  # users whose job an agent has renamed come last
        ranks = by_uid[uid]
        return any(r.wanted_job_id for r in ranks), -max(map(seconds_since_start, ranks)), uid

    for uid in sorted(by_uid, key=order):
        newest = newest_attempt(by_uid[uid])
        part = _UsersLaunch({(r.world_size, r.rank) for r in newest}, {r.host for r in newest})
        first_uids[uid] = next((first for first, launch in launches.items() if launch.can_have(part)), uid)
        launch = launches.setdefault(first_uids[uid], _UsersLaunch())
        launch.ranks |= part.ranks
        launch.hosts |= part.hosts
    return first_uids


def renamed(report: AgentReport, names: Mapping[str, Names]) -> AgentReport:
    """Return a report with the names of its jobs."""
    if not (new_names := names.get(report.host)):
        return report
    return replace(
        report,
        ranks=tuple(
            replace(r, job_id=new_names[r.job_id], wanted_job_id=_wanted_id(r)) if r.job_id in new_names else r
            for r in report.ranks
        ),
        steps={new_names.get(job_id, job_id): steps for job_id, steps in report.steps.items()},
        sample=_renamed_sample(report.sample, new_names),
    )


def renamed_window(window: HostWindow, names: Mapping[str, Names]) -> HostWindow:
    """Return the hardware of a host with the names of its jobs."""
    if not (new_names := names.get(window.host)):
        return window
    return replace(
        window,
        before=_renamed_sample(window.before, new_names),
        now=_renamed_sample(window.now, new_names),
        recent=_renamed_tcp(window.recent, new_names),
    )


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
