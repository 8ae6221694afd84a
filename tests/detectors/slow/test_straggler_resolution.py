"""Tests of the end of a straggler's finding: it resolves well below its thresholds, and not while nothing is known."""

from dataclasses import replace

import pytest

from tests.build import finding, waiting
from tests.detectors.slow.slow_jobs import (
    GOOD,
    HOSTS,
    cards,
    connected,
    healthy_steps,
    job,
    later_steps,
    rank,
    steps,
    with_slow_rank,
)
from zmon.detectors.slow.straggler import Straggler

RANK_1_FINDING = finding(detector="straggler", cause="compute_straggler", ranks=(1,), hosts=("node-b",))


@pytest.mark.parametrize(
    ("own", "over"),
    [(0.060, True), (0.066, True), (0.076, False), (0.075, False)],
    ids=["well", "near", "less", "slow"],
)
def test_finding_resolves_only_well_below_the_threshold(own, over):
    now = job(healthy_steps(), later_steps(20, *with_slow_rank(1, own=own)))
    assert Straggler().detect(now) == ()
    assert Straggler().can_resolve(now, RANK_1_FINDING) is over


@pytest.mark.parametrize(("quick", "over"), [(6, False), (7, True)])
def test_finding_resolves_after_the_rank_was_quick_for_enough_steps(quick, over):
    now = job(later_steps(40, *with_slow_rank(1, own=0.100)), later_steps(quick))
    assert Straggler().can_resolve(now, RANK_1_FINDING) is over


def test_finding_resolves_if_the_newest_steps_are_quick_on_average():
    """Half of the ranks are above the threshold even in a healthy job if there is much jitter."""
    quick = [later_steps(1, *with_slow_rank(1, own=own)) for own in (0.070, 0.046, 0.069, 0.046, 0.070, 0.046, 0.055)]
    now = job(later_steps(40, *with_slow_rank(1, own=0.100)), *quick)
    assert Straggler().can_resolve(now, RANK_1_FINDING)


def test_finding_stays_open_while_the_job_is_stalled_or_unwatched():
    now = job(healthy_steps())
    stalled = replace(now, ranks=tuple(waiting(number, device="cpu", host=HOSTS[number]) for number in range(4)))
    assert not Straggler().can_resolve(stalled, RANK_1_FINDING)
    assert not Straggler().can_resolve(replace(now, unwatched=now.ranks[:1]), RANK_1_FINDING)
    assert not Straggler().can_resolve(job(steps(4, stands_for=2)), RANK_1_FINDING)


def test_finding_resolves_when_the_job_finishes():
    assert Straggler().can_resolve(job(later_steps(20, *with_slow_rank(1, own=0.100)), activity="done"), RANK_1_FINDING)


def test_slow_network_resolves_when_exposed_time_is_normal_again():
    open_finding = finding(detector="straggler", cause="network_slow", ranks=(), hosts=("node-c",))
    assert not Straggler().can_resolve(
        job(healthy_steps(), later_steps(20, *[rank(exchange=0.060)] * 4), baseline=GOOD), open_finding
    )
    assert Straggler().can_resolve(job(healthy_steps(), baseline=GOOD), open_finding)


def test_slow_network_resolves_when_its_links_are_as_fast_as_others():
    """Collectives may be most of the step by design."""
    open_finding = finding(detector="straggler", cause="network_slow", ranks=(), hosts=("node-c",))
    now = steps(40, *[rank(exchange=0.090)] * 4, stands_for=2)
    assert Straggler().can_resolve(job(now, hardware=connected(busy=0.1)), open_finding)
    assert not Straggler().can_resolve(job(now, hardware=connected()), open_finding)
    assert not Straggler().can_resolve(job(now), open_finding)


def test_hot_gpu_finding_stays_open_while_its_driver_does_not_answer():
    open_finding = finding(detector="straggler", cause="thermal_throttle", ranks=(1,), hosts=("node-b",))
    assert not Straggler().can_resolve(job(healthy_steps()), open_finding)
    assert Straggler().can_resolve(job(healthy_steps(), hardware=cards((), (), (), ())), open_finding)


def test_finding_resolves_if_the_culprit_or_all_other_ranks_are_gone():
    now = job(healthy_steps(), later_steps(20, *with_slow_rank(1, own=0.100)))
    assert Straggler().can_resolve(replace(now, world_size=1, ranks=now.ranks[:1]), RANK_1_FINDING)
    without = tuple(r for r in now.ranks if r.rank != 1)
    assert Straggler().can_resolve(replace(now, ranks=without, missing=(1,)), RANK_1_FINDING)


def test_finding_stays_open_while_an_agent_is_silent():
    now = job(healthy_steps(), later_steps(20, *with_slow_rank(1, own=0.060)))
    for number in (1, 2):
        unwatched = tuple(r for r in now.ranks if r.rank == number)
        watched = tuple(r for r in now.ranks if r.rank != number)
        assert not Straggler().can_resolve(replace(now, ranks=watched, unwatched=unwatched), RANK_1_FINDING)
