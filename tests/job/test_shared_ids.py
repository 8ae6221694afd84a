"""Tests of jobs with the same id of users on several hosts: two jobs, unless their ranks are parts of one launch."""

from dataclasses import replace

from tests.build import JOB, NOW, agent_report, rank_state
from zmon.job.shared_ids import SharedIds, renamed
from zmon.job.timeline import snapshots
from zmon.schema.steps import Steps


def report(host, ranks, owner, start=NOW - 60, world_size=4, run="run", **changes):
    states = [
        rank_state(
            r, host=host, owner=owner, start=start, world_size=world_size, run_uid=f"{host}-{run}-{r}", **changes
        )
        for r in ranks
    ]
    return replace(agent_report(*states), host=host)


def jobs(*reports, ids=None):
    """Return the hosts of the ranks of each job."""
    names = (ids or SharedIds()).names(reports)
    joined = snapshots([renamed(r, names) for r in reports], (), (), NOW)
    return {snapshot.job_id: sorted({r.host for r in snapshot.ranks}) for snapshot in joined}


def test_ranks_with_the_same_numbers_and_two_users_are_two_jobs():
    ours, other = report("a", range(4), 1, start=NOW - 600), report("b", range(4), 2)
    assert jobs(ours, other) == {JOB: ["a"], f"{JOB}.uid2": ["b"]}
    (state, *_) = renamed(other, SharedIds().names([ours, other])).ranks
    assert (state.job_id, state.wanted_job_id) == (f"{JOB}.uid2", JOB)


def test_launches_of_different_sizes_and_two_users_are_two_jobs():
    assert jobs(report("a", (0, 1), 1, start=NOW - 600), report("b", (2,), 2, world_size=8)) == {
        JOB: ["a"], f"{JOB}.uid2": ["b"],
    }  # fmt: skip


def test_job_whose_user_has_another_uid_on_each_host_is_one_job():
    assert jobs(report("a", (0, 1), 1), report("b", (2, 3), 2)) == {JOB: ["a", "b"]}


def test_ranks_of_agents_that_do_not_report_owners_are_one_job():
    assert jobs(report("a", (0, 1), None), report("b", (2, 3), None)) == {JOB: ["a", "b"]}


def test_job_of_one_user_on_two_hosts_is_one_job_also_after_a_restart():
    """The dead ranks of the previous launch have the same numbers."""
    assert jobs(report("a", (0, 1), 1), report("b", range(4), 1, start=NOW - 5)) == {JOB: ["b"]}


def test_later_user_does_not_take_the_name_of_a_job_that_has_it():
    ids, ours = SharedIds(), report("a", range(4), 2)
    assert jobs(ours, ids=ids) == {JOB: ["a"]}
    forged = report("b", range(4), 1, start=0.0)
    assert jobs(ours, forged, ids=ids) == {JOB: ["a"], f"{JOB}.uid1": ["b"]}
    assert jobs(forged, ids=ids) == {f"{JOB}.uid1": ["b"]}


def on_host_of_another_user(owner, ranks, start=NOW - 60):
    """Return the report of host `a`: a job of user 1, and ranks of another user, which the agent has renamed."""
    ours, other = report("a", range(4), 1, start=NOW - 600), report("a", ranks, owner, start, run="other")
    named = [replace(r, job_id=f"{JOB}.uid{owner}", wanted_job_id=JOB) for r in other.ranks]
    return replace(agent_report(*ours.ranks, *named), host="a")


def test_job_that_one_of_its_agents_has_renamed_is_one_job():
    assert jobs(on_host_of_another_user(2, (0, 1)), report("b", (2, 3), 2)) == {JOB: ["a"], f"{JOB}.uid2": ["a", "b"]}


def test_ranks_that_an_agent_has_separated_are_not_joined():
    ours = on_host_of_another_user(2, (2, 3))
    ours = replace(ours, ranks=tuple(r for r in ours.ranks if r.wanted_job_id or r.rank < 2))
    assert jobs(ours) == {JOB: ["a"], f"{JOB}.uid2": ["a"]}


def test_user_whom_an_agent_has_renamed_does_not_become_the_first():
    forged = on_host_of_another_user(2, range(4), start=0.0)
    assert SharedIds().names([forged]) == {}


def test_steps_and_hardware_follow_their_job():
    ours, other = report("a", range(4), 1, start=NOW - 600), report("b", range(4), 2)
    steps = Steps(("b-run-0",), (0,))
    other = replace(other, steps={JOB: (steps,), "else": (steps,)})
    later = renamed(other, SharedIds().names([ours, other]))
    assert later.steps == {f"{JOB}.uid2": (steps,), "else": (steps,)}
    assert renamed(ours, SharedIds().names([ours, other])) is ours
