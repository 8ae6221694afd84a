"""Tests of the assignment of ranks to launches. A snapshot has the ranks of the newest launch, from all hosts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import NOW, agent_report, agent_status, dead, finished, killed, rank_state
from zmon.job.timeline import newest_attempt, snapshots
from zmon.schema.host import HostSample, HostWindow


def launch_ranks(attempt=0, time=NOW, ranks=4, launcher="900@1", hosts=("node-a",), world_size=None, **changes):
    """Return all ranks of one launch, spread over the hosts in turn."""
    return [
        rank_state(
            rank,
            attempt=attempt,
            start=time + rank * 0.01,
            run_uid=f"{launcher}-{attempt}-{rank}",
            world_size=world_size or ranks,
            host=hosts[rank % len(hosts)],
            launcher=launcher,
            **changes,
        )
        for rank in range(ranks)
    ]


def as_dead(states):
    """Return the same ranks, dead."""
    return [replace(s, alive=False, gone_seconds=30.0) for s in states]


def uids(states):
    return [s.run_uid for s in states]


def test_newest_attempt_of_no_ranks_is_empty():
    assert newest_attempt([]) == ()


def test_newest_attempt_is_sorted_by_rank():
    ranks = launch_ranks()
    assert newest_attempt(reversed(ranks)) == tuple(ranks)


def test_higher_attempt_replaces_the_previous_attempt():
    old, new = as_dead(launch_ranks(0, NOW)), launch_ranks(1, NOW + 40)
    assert uids(newest_attempt(old + new)) == uids(new)


def test_newer_launch_replaces_a_higher_attempt():
    """The launcher itself was restarted, and its restart count begins anew."""
    old, new = as_dead(launch_ranks(2, NOW)), launch_ranks(0, NOW + 100, launcher="950@7")
    assert uids(newest_attempt(old + new)) == uids(new)


def test_restart_with_fewer_ranks_has_their_world_size():
    old, new = as_dead(launch_ranks(0, NOW, ranks=4)), launch_ranks(1, NOW + 40, ranks=2)
    (job,) = snapshots([agent_report(*old, *new)], [], [], NOW)
    assert (job.world_size, job.missing) == (2, ())
    assert uids(job.ranks) == uids(new)


def test_boxes_of_an_earlier_larger_launch_are_ignored():
    """Job id and attempt number are the same, and the boxes of ranks 4 to 7 were never overwritten."""
    old, new = as_dead(launch_ranks(0, NOW, ranks=8)), launch_ranks(0, NOW + 500, ranks=4, launcher="950@7")
    assert uids(newest_attempt(old[4:] + new)) == uids(new)


def test_boxes_of_an_earlier_launch_are_ignored_during_a_start():
    old, new = as_dead(launch_ranks(0, NOW)), launch_ranks(0, NOW + 500, launcher="950@7")[:2]
    (job,) = snapshots([agent_report(*old[2:], *new)], [], [], NOW)
    assert uids(job.ranks) == uids(new)
    assert job.missing == (2, 3)


def gone(states, seconds, **changes):
    """Return ranks that ended so long ago, after 30 s of training."""
    return [replace(s, alive=False, gone_seconds=seconds, step_seconds_total=30.0 + seconds, **changes) for s in states]


def began(states, seconds):
    """Return ranks that began so long ago and have not finished a step."""
    return [replace(s, steps=0, step_seconds_total=0.0, open_seconds=seconds) for s in states]


@pytest.mark.parametrize("hosts", [("node-a",), ("node-a", "node-b")], ids=["one host", "two hosts"])
def test_ranks_of_a_launch_that_a_supervisor_replaced_at_once_are_ignored(hosts):
    """It starts torchrun anew, so the attempt number is 0 again, and the ranks start one after the other."""
    old = gone(launch_ranks(0, NOW - 42, hosts=hosts, max_restarts=0), 12.0)
    new = began(launch_ranks(0, NOW - 3, hosts=hosts, launcher="950@7", max_restarts=0), 3.0)[:1]
    assert uids(newest_attempt(old[1:] + new)) == uids(new)


def test_ranks_of_a_launch_that_ended_in_init_are_ignored_once_torchrun_has_started_the_next():
    old = gone(launch_ranks(0, NOW - 20, max_restarts=0), 12.0, steps=0)
    new = began(launch_ranks(0, NOW - 3, launcher="950@7", max_restarts=0), 3.0)[:1]
    assert uids(newest_attempt(old[1:] + new)) == uids(new)


def test_rank_that_died_after_the_others_had_begun_belongs_to_their_launch():
    """Each rank has a launcher of its own, as in a pod with one GPU."""
    living = began(launch_ranks(0, NOW - 30, ranks=3, world_size=4), 30.0)
    died = gone([rank_state(3, start=NOW - 31, run_uid="dead", launcher="1@130")], 20.0, steps=0)
    assert uids(newest_attempt(living + died)) == [*uids(living), "dead"]


def test_rank_that_died_in_init_before_a_pod_on_another_host_began_belongs_to_the_launch():
    died = gone([rank_state(3, start=NOW - 31, run_uid="dead", launcher="1@130", host="node-b")], 20.0, steps=0)
    late = began(launch_ranks(0, NOW - 5, ranks=3, world_size=4), 5.0)
    assert "dead" in uids(newest_attempt(late + died))


def test_ranks_of_the_previous_attempt_are_ignored_during_a_restart():
    old, new = as_dead(launch_ranks(0, NOW)), launch_ranks(1, NOW + 5)[:2]
    assert uids(newest_attempt(old + new)) == uids(new)


def test_ranks_above_the_newest_world_size_are_ignored():
    """The same launcher restarted the job on fewer ranks, with an attempt number that the job sets itself."""
    old, new = as_dead(launch_ranks(0, NOW, ranks=4)), launch_ranks(0, NOW + 5, ranks=2)
    assert uids(newest_attempt(old[2:] + new)) == uids(new)


def test_rank_that_moved_to_another_host_replaces_its_old_state():
    old = [replace(s, host="node-b", alive=False) for s in launch_ranks(0, NOW)[:1]]
    new = launch_ranks(0, NOW + 500)
    assert uids(newest_attempt(old + new)) == uids(new)


def test_dead_ranks_of_the_newest_launch_are_included():
    ranks = [*launch_ranks()[:3], killed(3, start=NOW, run_uid="dead", launcher="900@1")]
    assert len(newest_attempt(ranks)) == 4


def test_two_launchers_on_a_host_belong_to_the_same_launch():
    """Two pods with one GPU each on a node, or `torchrun --nnodes=2` on one machine, have a launcher each."""
    first = launch_ranks(0, NOW, ranks=2, launcher="1@100", world_size=4)
    second = [
        rank_state(rank, start=NOW + 0.5, run_uid=f"two-{rank}", world_size=4, launcher="1@130") for rank in (2, 3)
    ]
    assert uids(newest_attempt(first + second)) == uids(first + second)


def test_launchers_that_start_minutes_apart_belong_to_the_same_launch():
    """A pod may wait for its image, or a node may boot late: a rank that is alive belongs to the job."""
    first = launch_ranks(0, NOW, ranks=2, launcher="1@100", world_size=4)
    second = [rank_state(rank, start=NOW + 300, run_uid=f"two-{rank}", launcher="1@30100") for rank in (2, 3)]
    assert uids(newest_attempt(first + second)) == uids(first + second)


@given(st.permutations(range(8)), st.floats(-3600, 3600), st.floats(-3600, 3600))
def test_clock_offsets_and_order_of_ranks_do_not_matter(order, shift_a, shift_b):
    shift = {"node-a": shift_a, "node-b": shift_b}
    hosts = ("node-a", "node-b")
    old, new = as_dead(launch_ranks(0, NOW, hosts=hosts)), launch_ranks(1, NOW + 40, hosts=hosts)
    ranks = [replace(s, start=s.start + shift[s.host]) for s in old + new]
    assert uids(newest_attempt([ranks[i] for i in order])) == uids(new)


def test_each_job_has_a_snapshot_across_all_agents():
    a = agent_report(rank_state(0, world_size=2), rank_state(0, job_id="other", world_size=1))
    b = agent_report(rank_state(1, world_size=2, host="node-b"), host="node-b")
    agents = [agent_status("node-a"), agent_status("node-b")]
    job, other = snapshots([a, b], [], agents, NOW)
    assert (job.job_id, other.job_id) == ("job", "other")
    assert [r.host for r in job.ranks] == ["node-a", "node-b"]
    assert [r.rank for r in other.ranks] == [0]
    assert job.missing == other.missing == ()
    assert job.agents == tuple(agents)
    assert job.time == NOW


def test_ranks_without_a_report_are_missing():
    (job,) = snapshots([agent_report(rank_state(0), rank_state(2))], [], [], NOW)
    assert job.missing == (1, 3)
    assert [r.rank for r in job.ranks] == [0, 2]


@pytest.mark.parametrize("order", [1, -1])
def test_launch_of_dead_ranks_has_a_snapshot(order):
    ranks = [dead(rank) for rank in range(4)]
    (job,) = snapshots([agent_report(*ranks[::order])], [], [], NOW)
    assert [r.alive for r in job.ranks] == [False] * 4


def test_snapshot_has_the_hardware_of_its_own_hosts_only():
    windows = [HostWindow(host, 60.0, HostSample(), HostSample()) for host in ("node-a", "node-z")]
    (job,) = snapshots([agent_report(rank_state(0))], [], [], NOW, windows)
    assert [window.host for window in job.hardware] == ["node-a"]


@pytest.mark.parametrize(
    ("state", "expected"),
    [(rank_state(0), True), (dead(0, 5.0), True), (dead(0, 61.0), False), (finished(0), False)],
    ids=["lives", "just died", "long dead", "done"],
)
def test_snapshot_has_no_hardware_of_a_host_that_the_job_left(state, expected):
    window = HostWindow("node-a", 60.0, HostSample(), HostSample())
    (job,) = snapshots([agent_report(state)], [], [], NOW, [window])
    assert bool(job.hardware) is expected
