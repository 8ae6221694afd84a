"""Tests of the detector `slowdown`.

A job that has been slower than its baseline for a while is reported with the part of the step that grew.
"""

from dataclasses import replace

import pytest

from tests.build import dead, job_steps, rank_state, snapshot
from tests.steps import changed
from zmon.detectors import ALL
from zmon.detectors.slow.slowdown import Slowdown
from zmon.detectors.suppression import suppress
from zmon.job.baseline import BaselineLearner
from zmon.schema.host import HostLoad, HostSample, HostWindow

RANKS = [rank_state(rank) for rank in range(4)]
GIB = 2**30


def steps_for(seconds, data=0.010, own=0.040, exchange=0.050, times=1.0, **others):
    """Return this many seconds of steps of 100 ms, of four equal ranks."""
    step = times * (data + own + exchange)
    rank = {"phases": {"data": times * data, "forward": times * own}, "ops": {"all_to_all": times * exchange}}
    return job_steps(round(seconds / step), **{**rank, **others})


HEALTHY = steps_for(60)


def job_with(*parts, hardware=(), world_size=4):
    """Return the snapshot of a job after these steps."""
    learning, steps = BaselineLearner(), []
    for steps_of_part in parts:
        learning.add(steps_of_part)
        steps = [*steps, *steps_of_part]
    known = [replace(r, world_size=world_size) for r in RANKS[:world_size]]
    job = snapshot(*known, hardware=hardware)
    return replace(job, steps=tuple(steps[-64:]), step_windows=tuple(learning.step_windows), baseline=learning.baseline)


def detect(*parts, **others):
    return next(iter(Slowdown().detect(job_with(*parts, **others))), None)


def reporting_detectors(*parts, **others):
    """Return the names of the detectors that report such a job after suppression."""
    job = job_with(*parts, **others)
    left = suppress({detector.name: detector.detect(job) for detector in ALL})
    return {name for name, findings in left.findings.items() if findings}


def window(pressure=(), swapped=0):
    """Return a host that waited for these seconds of the last sixty, by resource."""

    def load(seconds, swap):
        waits = dict.fromkeys(("cpu", "memory", "io"), 100.0)
        return HostSample(load=HostLoad({}, 8 * GIB, 16 * GIB, swap, pressure_seconds={**waits, **seconds}))

    waited = {resource: 100.0 + seconds for resource, seconds in dict(pressure).items()}
    return HostWindow("node-a", 60.0, load({}, 0), load(waited, swapped))


# -- causes ------------------------------------------------------------------------------------------------


def test_cause_is_the_network_if_only_collectives_take_longer():
    finding = detect(HEALTHY, steps_for(60, exchange=0.150))
    assert (finding.detector, finding.cause, finding.severity) == ("slowdown", "network", "warning")
    assert (finding.ranks, finding.hosts) == ((), ())
    assert "a step takes 2.00 × the baseline (threshold 1.3 ×): 200.0 ms" in finding.summary
    assert "the exposed time in collectives grew most, by 100.0 ms" in finding.summary


def test_cause_is_the_input_if_ranks_wait_longer_for_data():
    finding = detect(HEALTHY, steps_for(60, data=0.100))
    assert finding.cause == "input"
    assert "the wait for data grew most, by 90.0 ms" in finding.summary


def test_cause_is_the_input_if_slow_batches_move_between_ranks():
    quick = {"phases": {"data": 0.010, "forward": 0.040}, "ops": {"all_to_all": 0.150}}
    slow = {"phases": {"data": 0.110, "forward": 0.040}, "ops": {"all_to_all": 0.050}}
    turns = [job_steps(1, *(slow if rank == step % 4 else quick for rank in range(4))) for step in range(300)]
    assert detect(HEALTHY, [step for (step,) in turns]).cause == "input"


def test_cause_is_the_input_while_most_of_the_recent_steps_were_not_slow_yet():
    quick = {"phases": {"data": 0.010, "forward": 0.040}, "ops": {"all_to_all": 1.150}}
    slow = {"phases": {"data": 1.110, "forward": 0.040}, "ops": {"all_to_all": 0.050}}
    turns = [job_steps(1, *(slow if rank == step % 4 else quick for rank in range(4))) for step in range(31)]
    assert detect(HEALTHY, [step for (step,) in turns]).cause == "input"


@pytest.mark.parametrize(
    ("of_data", "host"),
    [(0.0, window({"memory": 12.0})), (0.0, window(swapped=GIB)), (0.1, window({"memory": 12.0}))],
)
def test_cause_is_memory_if_a_host_swaps_or_waits_for_memory(of_data, host):
    finding = detect(HEALTHY, steps_for(60, data=0.010 + of_data, own=0.140 - of_data), hardware=[host])
    assert finding.cause == "memory"
    assert "node-a is short of memory" in finding.summary


@pytest.mark.parametrize("hardware", [[], [window()], [window({"memory": 3.0}, 1000)]])
def test_cause_is_unknown_if_ranks_compute_longer(hardware):
    finding = detect(HEALTHY, steps_for(60, own=0.140), hardware=hardware)
    assert finding.cause == "unknown"
    assert "the ranks' self time grew most" in finding.summary


def test_cause_is_not_the_network_if_processes_wait_for_cores():
    finding = detect(HEALTHY, steps_for(60, exchange=0.150), hardware=[window({"cpu": 30.0})])
    assert finding.cause == "unknown"
    assert "processes wait for a core on node-a" in finding.summary


def test_cause_is_not_the_network_if_ranks_compute_longer_too():
    assert detect(HEALTHY, steps_for(60, own=0.060, exchange=0.150)).cause == "unknown"


def test_onset_is_the_start_of_the_slow_steps():
    finding = detect(HEALTHY, steps_for(60, exchange=0.150))
    assert finding.detected - finding.onset == pytest.approx(60, abs=6)


# -- quiet -------------------------------------------------------------------------------------------------


def test_slowdown_reports_nothing_while_the_job_keeps_its_speed():
    assert detect(HEALTHY, steps_for(120)) is None


def test_slowdown_reports_nothing_when_steps_are_a_fifth_slower():
    assert detect(HEALTHY, steps_for(120, times=1.2)) is None


@pytest.mark.parametrize("seconds", [2.0, 10.0, 25.0])
def test_slowdown_reports_nothing_during_short_contention(seconds):
    assert detect(HEALTHY, steps_for(seconds, times=2.0)) is None


def test_slowdown_ignores_unwatched_steps():
    """The agent was away for a minute, and the host is busy while it starts."""
    first, *others = steps_for(4, times=2.0)
    assert detect(HEALTHY, [replace(first, stands_for=300), *others]) is None


@pytest.mark.parametrize("pause", [1.0, 40.0])
def test_slowdown_reports_nothing_after_a_single_pause(pause):
    assert detect(HEALTHY, job_steps(1, phases={"forward": pause}), steps_for(20)) is None


def test_slowdown_reports_nothing_when_every_tenth_step_writes_a_log():
    tenth = [*steps_for(0.9), *steps_for(0.5, own=0.440)]
    assert detect(HEALTHY, [step for _ in range(60) for step in tenth]) is None


@pytest.mark.parametrize("samples", [64, 16])
def test_slowdown_reports_nothing_when_the_batch_size_changes(samples):
    assert detect(HEALTHY, steps_for(10, times=2.0, samples=samples)) is None
    assert detect(HEALTHY, steps_for(120, times=2.0, samples=samples)) is None


@pytest.mark.parametrize("seconds", [5, 15])
def test_slowdown_reports_nothing_while_a_job_warms_up(seconds):
    assert detect(steps_for(seconds, times=3.0)) is None
    assert detect(steps_for(seconds, times=3.0), steps_for(60)) is None


def test_slowdown_reports_nothing_after_a_restart():
    """The job restarted on fewer ranks, so its baseline is learned again."""
    assert detect(steps_for(120, times=2.0), world_size=2) is None


def test_slowdown_reports_nothing_after_the_job_has_recovered():
    assert detect(HEALTHY, steps_for(60, exchange=0.150), steps_for(10)) is None
    assert detect(HEALTHY, steps_for(60, exchange=0.150), steps_for(2)) is None


def test_slowdown_ignores_an_ended_job():
    over = replace(job_with(HEALTHY, steps_for(60, exchange=0.150)), ranks=tuple(dead(rank) for rank in range(4)))
    assert Slowdown().detect(over) == ()


def test_uneven_work_is_reported_as_imbalance_and_not_as_slowdown():
    hot = {"phases": {"embedding": 0.150}, "ops": {"all_to_all": 0.050}}
    quick = {"phases": {"embedding": 0.050}, "ops": {"all_to_all": 0.150}}
    steps = job_steps(300, quick, quick, hot, quick)
    assert reporting_detectors(HEALTHY, [changed(step, lookups=(100, 100, 300, 100)) for step in steps]) == {
        "imbalance"
    }


def test_slow_rank_is_reported_as_straggler_and_not_as_slowdown():
    quick = {"phases": {"forward": 0.050}, "ops": {"all_to_all": 0.150}}
    slow = {"phases": {"forward": 0.150}, "ops": {"all_to_all": 0.050}}
    assert reporting_detectors(HEALTHY, job_steps(300, quick, quick, slow, quick)) == {"straggler"}


# -- resolution --------------------------------------------------------------------------------------------


def test_finding_stays_open_until_a_baseline_is_known():
    finding = detect(HEALTHY, steps_for(60, exchange=0.150))
    assert not Slowdown().can_resolve(job_with(steps_for(10, exchange=0.150)), finding)
    assert Slowdown().can_resolve(job_with(HEALTHY), finding)


def test_restarted_hub_resolves_only_if_batch_or_world_size_changed():
    finding = detect(HEALTHY, steps_for(60, exchange=0.150))
    assert not Slowdown().can_resolve(job_with(steps_for(60, exchange=0.150)), finding)
    assert Slowdown().can_resolve(job_with(steps_for(60, exchange=0.150, samples=64)), finding)
    assert Slowdown().can_resolve(job_with(steps_for(60, exchange=0.150), world_size=2), finding)


def test_finding_resolves_when_a_new_launch_is_slow_from_its_first_step():
    """The baseline of the new launch is learned from slow steps."""
    finding = detect(HEALTHY, steps_for(60, exchange=0.150))
    now = job_with(steps_for(60, exchange=0.150))
    again = replace(now, ranks=tuple(replace(r, run_uid=f"again-{r.rank}") for r in now.ranks))
    assert Slowdown().can_resolve(again, finding)


def test_finding_stays_open_until_a_restarted_hub_sees_all_ranks():
    finding = detect(HEALTHY, steps_for(60, exchange=0.150))
    now = job_with(steps_for(60, exchange=0.150))
    assert not Slowdown().can_resolve(replace(now, ranks=now.ranks[:2], missing=(2, 3)), finding)


def test_lost_gpu_hours_are_the_time_beyond_the_baseline():
    on_gpus = job_with(HEALTHY, steps_for(60, exchange=0.150))
    on_gpus = replace(on_gpus, ranks=tuple(replace(r, device=f"GPU-{r.rank}") for r in on_gpus.ranks))
    (finding,) = Slowdown().detect(on_gpus)
    assert finding.lost_gpu_hours == pytest.approx(0.5 * 4 * (finding.detected - finding.onset) / 3600)


def test_slowdown_is_inert_without_a_baseline():
    assert Slowdown().inert_reason(job_with(HEALTHY)) is None
    assert "too few steps to have a baseline" in Slowdown().inert_reason(job_with(steps_for(10)))
