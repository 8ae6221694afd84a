"""Tests of jobs with the same id of several users: two jobs, unless their ranks are parts of one launch."""

from dataclasses import replace

import pytest

from tests.build import JOB, NOW, agent_report, rank_state
from tests.detectors.network.hosts import IDLE
from zmon.job.shared_ids import JobOwners, SharedIds, renamed, renamed_window
from zmon.job.timeline import snapshots
from zmon.schema.host import CgroupSample, HostSample, HostWindow, ProcessSample, TcpPeer, TcpSample
from zmon.schema.steps import Steps

LONG = "x" * 64


# -- one host ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jobs", "names"),
    [
        ([("train", 1), ("train", 2), ("eval", 2)], ["train", "train.uid2", "eval"]),
        ([("train", 1), ("train.uid2", 3), ("train", 2)], ["train", "train.uid2", "train.uid2-2"]),
        ([(LONG, 1), (f"{LONG[:59]}.uid2", 3), (LONG, 2)], [LONG, f"{LONG[:59]}.uid2", f"{LONG[:57]}.uid2-2"]),
    ],
)
def test_first_user_keeps_the_job_id_and_no_name_is_given_twice(jobs, names):
    assert JobOwners().update(jobs) == dict(zip(jobs, names, strict=True))


def test_names_do_not_change_while_the_jobs_exist():
    owners = JobOwners()
    owners.update([("train", 2)])
    assert owners.update([("train", 1), ("train", 2)])["train", 2] == "train"
    assert owners.update([("train", 1)])["train", 1] == "train.uid1"
    owners.update([])
    assert owners.update([("train", 1)])["train", 1] == "train"


# -- several hosts -----------------------------------------------------------------------------------------


def report(host, ranks, owner, start=NOW - 60, world_size=4, run="run"):
    """Return the report of a host with these ranks of a user's job."""
    fields = {"host": host, "owner": owner, "start": start, "world_size": world_size}
    return agent_report(*(rank_state(r, run_uid=f"{host}-{run}-{r}", **fields) for r in ranks), host=host)


def with_renamed(owner, renamed_ranks, start=NOW - 60, kept_ranks=range(4)):
    """Return the report of host `a`: a job of user 1, and ranks of another user, which the agent has renamed."""
    first, other = report("a", kept_ranks, 1, NOW - 600), report("a", renamed_ranks, owner, start, run="other")
    states = [replace(r, job_id=f"{JOB}.uid{owner}", wanted_job_id=JOB) for r in other.ranks]
    return agent_report(*first.ranks, *states, host="a")


def jobs(*reports, ids=None):
    """Return the hosts of the ranks of each job."""
    names = (ids or SharedIds()).names(reports)
    joined = snapshots([renamed(r, names) for r in reports], (), (), NOW)
    return {snapshot.job_id: sorted({r.host for r in snapshot.ranks}) for snapshot in joined}


OURS = report("a", range(4), 1, NOW - 600)
OTHER = report("b", range(4), 2)
CASES = {
    "the same numbers": ([OURS, OTHER], {JOB: ["a"], f"{JOB}.uid2": ["b"]}),
    "other world sizes": (
        [report("a", (0, 1), 1, NOW - 600), report("b", (2,), 2, world_size=8)], {JOB: ["a"], f"{JOB}.uid2": ["b"]}),
    "one user with two uids": ([report("a", (0, 1), 1), report("b", (2, 3), 2)], {JOB: ["a", "b"]}),
    "agents report no owners": ([report("a", (0, 1), None), report("b", (2, 3), None)], {JOB: ["a", "b"]}),
    "one user restarts on another host": ([report("a", (0, 1), 1), report("b", range(4), 1, NOW - 5)], {JOB: ["b"]}),
    "one of two agents has renamed the job": (
        [with_renamed(2, (0, 1)), report("b", (2, 3), 2)], {JOB: ["a"], f"{JOB}.uid2": ["a", "b"]}),
    "an agent has separated the ranks": (
        [with_renamed(2, (2, 3), kept_ranks=(0, 1))], {JOB: ["a"], f"{JOB}.uid2": ["a"]}),
    "a renamed user claims an early start": (
        [with_renamed(2, range(4), start=0.0)], {JOB: ["a"], f"{JOB}.uid2": ["a"]}),
}  # fmt: skip


@pytest.mark.parametrize(("reports", "hosts"), CASES.values(), ids=CASES)
def test_job_of_another_user_has_another_name_unless_it_is_the_same_launch(reports, hosts):
    assert jobs(*reports) == hosts


def test_later_user_does_not_take_the_name_of_a_job_that_has_it():
    ids, genuine = SharedIds(), report("a", range(4), 2)
    assert jobs(genuine, ids=ids) == {JOB: ["a"]}
    forged = report("b", range(4), 1, start=0.0)
    assert jobs(genuine, forged, ids=ids) == {JOB: ["a"], f"{JOB}.uid1": ["b"]}
    assert jobs(forged, ids=ids) == {f"{JOB}.uid1": ["b"]}


def test_ranks_and_steps_have_the_name_of_their_job():
    steps, names = Steps(("b-run-0",), (0,)), SharedIds().names([OURS, OTHER])
    later = renamed(replace(OTHER, steps={JOB: (steps,), "else": (steps,)}), names)
    assert later.steps == {f"{JOB}.uid2": (steps,), "else": (steps,)}
    assert (later.ranks[0].job_id, later.ranks[0].wanted_job_id) == (f"{JOB}.uid2", JOB)
    assert renamed(OURS, names) is OURS


HARDWARE = HostSample(
    tcp=TcpSample(7, tuple(TcpPeer(job_id, 0, "10.0.0.2", num_sockets=2, **IDLE) for job_id in (JOB, "else"))),
    processes=tuple(ProcessSample(job_id, 0, 77) for job_id in (JOB, "else")),
    cgroups=(CgroupSample("/job", ((JOB, 0), ("else", 0)), *[None] * 5),),  # use and limits are unknown
)


def job_ids_of(sample):
    """Return the job ids of connections, processes and control groups."""
    groups = [job_id for group in sample.cgroups for job_id, _ in group.ranks]
    return [peer.job_id for peer in sample.tcp.peers], [process.job_id for process in sample.processes], groups


def test_hardware_has_the_name_of_its_job():
    names = SharedIds().names([OURS, OTHER])
    expected = ([f"{JOB}.uid2", "else"],) * 3
    assert job_ids_of(renamed(replace(OTHER, sample=HARDWARE), names).sample) == expected
    assert renamed(replace(OTHER, sample=HostSample()), names).sample == HostSample()  # unknown stays unknown
    window = HostWindow(OTHER.host, 60.0, HARDWARE, HARDWARE, recent=HARDWARE.tcp)
    later = renamed_window(window, names)
    assert (job_ids_of(later.before), job_ids_of(later.now)) == (expected, expected)
    assert [peer.job_id for peer in later.recent.peers] == expected[0]
    of_first = replace(window, host=OURS.host)
    assert renamed_window(of_first, names) is of_first
