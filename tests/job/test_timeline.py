"""Tests of the assignment of ranks to launches. A snapshot has the ranks of the newest launch, from all hosts."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import NOW, agent_report, agent_status, dead, finished, killed, rank_state
from zmon.job.restarts import seconds_since_start
from zmon.job.timeline import newest_attempt, snapshots
from zmon.schema.host import HostSample, HostWindow

PRESENT = NOW + 600  # when the agents report


def launch_ranks(attempt=0, time=NOW, ranks=4, launcher="900@1", hosts=("node-a",), world_size=None, **changes):
    """Return all ranks of one launch in their first step, spread over the hosts in turn."""
    of_launch = {"attempt": attempt, "launcher": launcher, "world_size": world_size or ranks, **changes}
    return [
        rank_state(
            rank, run_uid=f"{launcher}-{attempt}-{rank}", host=hosts[rank % len(hosts)],
            **{**first_step(time + rank * 0.01), **of_launch},
        )
        for rank in range(ranks)
    ]  # fmt: skip


def next_launch(time=NOW, **changes):
    """Return all ranks of a launch whose launcher was started again: its attempts begin at 0."""
    return launch_ranks(0, time, launcher="950@7", **changes)


def first_step(time):
    """Return the fields of a rank that started at this time and is in its first step."""
    return {"start": time, "steps": 0, "step_seconds_total": 0.0, "open_seconds": PRESENT - time}


def started(ranks, seconds_ago):
    """Return the ranks, which started `seconds_ago` and are in their first step."""
    return [replace(r, **first_step(PRESENT - seconds_ago)) for r in ranks]


def ended_early(ranks):
    """Return the ranks, which ended 3 s after their start."""
    return [replace(r, alive=False, gone_seconds=seconds_since_start(r) - 3) for r in ranks]


def ended(ranks, seconds_ago, **changes):
    """Return the ranks, which ended `seconds_ago`, after 100 steps in 30 s."""
    trained = {"steps": 100, "step_seconds_total": 30.0 + seconds_ago, "open_seconds": 0.0}
    return [replace(r, alive=False, gone_seconds=seconds_ago, **{**trained, **changes}) for r in ranks]


def with_clock_ahead(ranks, host, seconds):
    """Return the ranks after the clock of this host was set ahead by these seconds."""
    return [replace(r, start=r.start + seconds) if r.host == host else r for r in ranks]


def pod(rank, start=0.5, **changes):
    """Return a rank whose launcher is of this rank only, as in a pod with one GPU."""
    return rank_state(rank, **first_step(NOW + start), run_uid=f"pod-{rank}", launcher="1@130", **changes)


def run_uids(ranks):
    return [r.run_uid for r in ranks]


OLD, NEW = launch_ranks(0, NOW), launch_ranks(1, NOW + 40)
TWO_HOSTS = {"hosts": ("node-a", "node-b"), "max_restarts": 0}
ONE_HOST = {"max_restarts": 0}
EARLIER_AND_NEWEST = {  # ranks of earlier launches, and ranks of the newest one
    "a lower attempt": (ended_early(OLD), NEW),
    "a lower attempt, while the newest starts": (ended_early(OLD), launch_ranks(1, NOW + 5)[:2]),
    "a higher attempt of an earlier launcher": (ended_early(launch_ranks(2, NOW)), next_launch(NOW + 100)),
    "more ranks before a restart": (ended_early(OLD), launch_ranks(1, NOW + 40, ranks=2)),
    # their boxes were never overwritten
    "more ranks of an earlier launcher": (ended_early(launch_ranks(0, ranks=8))[4:], next_launch(NOW + 500)),
    # with an attempt number that the job sets itself
    "more ranks of the same launcher": (ended_early(OLD)[2:], launch_ranks(0, NOW + 5, ranks=2)),
    "an earlier launcher, while the newest starts": (ended_early(OLD)[2:], next_launch(NOW + 500)[:2]),
    # a supervisor starts torchrun anew at once, and the ranks start one after the other
    "a supervisor restarts on one host": (
        ended(launch_ranks(0, NOW - 42, **ONE_HOST), 12.0)[1:],
        started(next_launch(NOW - 3, **ONE_HOST), 3.0)[:1]),
    "a supervisor restarts on two hosts": (
        ended(launch_ranks(0, NOW - 42, **TWO_HOSTS), 12.0)[1:],
        started(next_launch(NOW - 3, **TWO_HOSTS), 3.0)[:1]),
    "the earlier launch ended in init": (
        ended(launch_ranks(0, NOW - 20, **ONE_HOST), 12.0, steps=0)[1:],
        started(next_launch(NOW - 3, **ONE_HOST), 3.0)[:1]),
    "no launcher restarts ranks": (
        ended(launch_ranks(0, max_restarts=None), 12.0, steps=0, step_seconds_total=90.0)[1:],
        started(next_launch(NOW - 3, max_restarts=None), 3.0)[:1]),
    "a rank moved to another host": (ended_early(launch_ranks(hosts=("node-b",))[:1]), launch_ranks(0, NOW + 500)),
    # the job moved from a host whose clock is 15 minutes ahead
    "an earlier launch on a host whose clock is ahead": (
        with_clock_ahead(ended(launch_ranks(hosts=("node-a", "node-b")), 60.0), "node-b", 900.0),
        started(next_launch(hosts=("node-a", "node-c")), 40.0)),
    "a second launch ended beside one that lives": (ended(next_launch(), 5.0), OLD),
    "a second launch of another size ended beside one that lives": (ended(next_launch(ranks=2), 5.0), OLD),
    "a second launch ended beside one that loses a rank later": (
        ended(next_launch(), 60.0), [*OLD[:3], *ended(OLD[3:], 1.0)]),
    "the only rank of a launch started the next one, which has ended": (
        launch_ranks(0, NOW - 40, ranks=1, superseded=True), ended(launch_ranks(1), 5.0)),
    "a rank outlives its launch and the next one": (
        [*OLD[:1], *ended(OLD[1:], 90.0)], ended(launch_ranks(1), 20.0)),
}  # fmt: skip
ONE_LAUNCH = {
    "no ranks": [],
    "one launcher": OLD,
    "all ranks are dead": [dead(rank) for rank in range(4)],
    "a rank is dead": [*OLD[:3], killed(3, start=NOW, run_uid="dead", launcher="900@1")],
    "a rank died after the others had begun": [
        *started(launch_ranks(0, NOW - 30, ranks=3, world_size=4), 30.0), *ended([pod(3, -31)], 20.0, steps=0)],
    "a rank died in init before a pod on another host began": [
        *started(launch_ranks(0, NOW - 5, ranks=3, world_size=4), 5.0),
        *ended([pod(3, -31, host="node-b")], 20.0, steps=0)],
    # two pods with one GPU each on a node, or `torchrun --nnodes=2` on one machine
    "two launchers on a host": [*launch_ranks(ranks=2, launcher="1@100", world_size=4), pod(2), pod(3)],
    # a pod may wait for its image, or a node may boot late
    "launchers start minutes apart": [*launch_ranks(ranks=2, launcher="1@100", world_size=4), pod(2, 300), pod(3, 300)],
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), EARLIER_AND_NEWEST.values(), ids=EARLIER_AND_NEWEST)
def test_ranks_of_earlier_launches_are_left_out(old, new):
    assert newest_attempt(old + new) == newest_attempt(new + old) == tuple(new)


@pytest.mark.parametrize("ranks", ONE_LAUNCH.values(), ids=ONE_LAUNCH)
def test_ranks_of_one_launch_are_together_by_rank(ranks):
    assert newest_attempt(reversed(ranks)) == tuple(ranks)


@pytest.mark.parametrize(("number", "missing"), [(4, ()), (2, (2, 3))])
def test_snapshot_has_the_world_size_and_missing_ranks_of_the_newest_launch(number, missing):
    new = next_launch(NOW + 500)[:number]
    (job,) = snapshots([agent_report(*ended_early(launch_ranks(ranks=8))[2:], *new)], [], [], NOW)
    assert (job.world_size, job.missing, run_uids(job.ranks)) == (4, missing, run_uids(new))


@settings(deadline=None)  # on a busy machine an example takes any time
@given(
    st.sampled_from(sorted(EARLIER_AND_NEWEST)), st.randoms(), st.lists(st.floats(-3600, 3600), min_size=3, max_size=3)
)
def test_clock_offsets_and_order_of_ranks_do_not_matter(situation, random, offsets):
    old, new = EARLIER_AND_NEWEST[situation]
    ranks = random.sample([*old, *new], len(old) + len(new))
    for host, offset in zip(("node-a", "node-b", "node-c"), offsets, strict=True):
        ranks = with_clock_ahead(ranks, host, offset)
    assert run_uids(newest_attempt(ranks)) == run_uids(new)


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


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(rank_state(0), True, id="lives"),
        pytest.param(dead(0, 5.0), True, id="just died"),
        pytest.param(dead(0, 61.0), False, id="long dead"),
        pytest.param(finished(0), False, id="done"),
    ],
)
def test_snapshot_has_the_hardware_of_hosts_that_the_job_has_not_left(state, expected):
    windows = [HostWindow(host, 60.0, HostSample(), HostSample()) for host in ("node-a", "node-z")]
    (job,) = snapshots([agent_report(state)], [], [], NOW, windows)
    assert [window.host for window in job.hardware] == ["node-a"] * expected
