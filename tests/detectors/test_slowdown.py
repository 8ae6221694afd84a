"""Test that a job is reported if it has been slower than its baseline for a while, with the part that grew."""

from dataclasses import replace

import pytest

from tests.build import dead, job_steps, rank_state, snapshot
from zmon.detectors import ALL
from zmon.detectors.slowdown import Slowdown
from zmon.detectors.suppression import suppress
from zmon.job.baseline import BaselineLearner
from zmon.schema.host import HostLoad, HostSample, HostWindow

RANKS = [rank_state(rank) for rank in range(4)]
GIB = 2**30


def part(seconds, data=0.010, own=0.040, exchange=0.050, times=1.0, **others):
    """Return this many seconds of steps of 100 ms, of four equal ranks."""
    step = times * (data + own + exchange)
    rank = {"phases": {"data": times * data, "forward": times * own}, "ops": {"all_to_all": times * exchange}}
    return job_steps(round(seconds / step), **{**rank, **others})


WELL = part(60)


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


def reported(*parts, **others):
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


def test_exchange_that_takes_longer_while_ranks_stay_as_quick_is_the_network():
    finding = detect(WELL, part(60, exchange=0.150))
    assert (finding.detector, finding.cause, finding.severity) == ("slowdown", "network", "warning")
    assert (finding.ranks, finding.hosts) == ((), ())
    assert "a step takes 2.00 × the baseline (threshold 1.3 ×): 200.0 ms" in finding.summary
    assert "the exposed time in collectives grew most, by 100.0 ms" in finding.summary


def test_longer_wait_for_data_is_the_input():
    finding = detect(WELL, part(60, data=0.100))
    assert finding.cause == "input"
    assert "the wait for data grew most, by 90.0 ms" in finding.summary


def test_slow_batches_that_strike_another_rank_in_each_step_are_the_inputs():
    quick = {"phases": {"data": 0.010, "forward": 0.040}, "ops": {"all_to_all": 0.150}}
    slow = {"phases": {"data": 0.110, "forward": 0.040}, "ops": {"all_to_all": 0.050}}
    turns = [job_steps(1, *(slow if rank == step % 4 else quick for rank in range(4))) for step in range(300)]
    assert detect(WELL, [step for (step,) in turns]).cause == "input"


@pytest.mark.parametrize(
    ("of_data", "host"),
    [(0.0, window({"memory": 12.0})), (0.0, window(swapped=GIB)), (0.1, window({"memory": 12.0}))],
)
def test_hosts_that_swap_are_short_of_memory(of_data, host):
    finding = detect(WELL, part(60, data=0.010 + of_data, own=0.140 - of_data), hardware=[host])
    assert finding.cause == "memory"
    assert "node-a is short of memory" in finding.summary


@pytest.mark.parametrize("hardware", [[], [window()], [window({"memory": 3.0}, 1000)]])
def test_ranks_that_compute_for_longer_are_slow_for_no_reason_known(hardware):
    finding = detect(WELL, part(60, own=0.140), hardware=hardware)
    assert finding.cause == "unknown"
    assert "the ranks' self time grew most" in finding.summary


def test_network_is_not_blamed_where_processes_wait_for_cores():
    finding = detect(WELL, part(60, exchange=0.150), hardware=[window({"cpu": 30.0})])
    assert finding.cause == "unknown"
    assert "processes wait for a core on node-a" in finding.summary


def test_network_is_not_blamed_where_ranks_are_slower_too():
    assert detect(WELL, part(60, own=0.060, exchange=0.150)).cause == "unknown"


def test_onset_is_where_it_began():
    finding = detect(WELL, part(60, exchange=0.150))
    assert finding.detected - finding.onset == pytest.approx(60, abs=6)


# -- quiet -------------------------------------------------------------------------------------------------


def test_slowdown_reports_nothing_while_the_job_is_as_quick_as_it_was():
    assert detect(WELL, part(120)) is None


def test_slowdown_reports_nothing_when_steps_are_a_fifth_slower():
    assert detect(WELL, part(120, times=1.2)) is None


@pytest.mark.parametrize("seconds", [2.0, 10.0, 25.0])
def test_slowdown_reports_nothing_during_contention_that_passes(seconds):
    assert detect(WELL, part(seconds, times=2.0)) is None


def test_slowdown_ignores_unwatched_steps():
    """The agent was away for a minute, and the host is busy while it starts."""
    first, *others = part(4, times=2.0)
    assert detect(WELL, [replace(first, stands_for=300), *others]) is None


@pytest.mark.parametrize("pause", [1.0, 40.0])
def test_slowdown_reports_nothing_after_one_pause(pause):
    assert detect(WELL, job_steps(1, phases={"forward": pause}), part(20)) is None


def test_slowdown_reports_nothing_when_every_tenth_step_writes_a_log():
    tenth = [*part(0.9), *part(0.5, own=0.440)]
    assert detect(WELL, [step for _ in range(60) for step in tenth]) is None


@pytest.mark.parametrize("samples", [64, 16])
def test_slowdown_reports_nothing_when_the_batch_size_changes(samples):
    assert detect(WELL, part(10, times=2.0, samples=samples)) is None
    assert detect(WELL, part(120, times=2.0, samples=samples)) is None


@pytest.mark.parametrize("seconds", [5, 15])
def test_slowdown_reports_nothing_while_a_job_warms_up(seconds):
    assert detect(part(seconds, times=3.0)) is None
    assert detect(part(seconds, times=3.0), part(60)) is None


def test_slowdown_reports_nothing_after_a_restart():
    """The baseline is learned again, because fewer ranks take longer."""
    assert detect(part(120, times=2.0), world_size=2) is None


def test_slowdown_reports_nothing_when_it_is_over():
    assert detect(WELL, part(60, exchange=0.150), part(10)) is None
    assert detect(WELL, part(60, exchange=0.150), part(2)) is None


def test_slowdown_ignores_a_job_that_is_over():
    over = replace(job_with(WELL, part(60, exchange=0.150)), ranks=tuple(dead(rank) for rank in range(4)))
    assert Slowdown().detect(over) == ()


def test_slowdown_reports_nothing_when_uneven_work_explains_it():
    hot = {"phases": {"embedding": 0.150}, "ops": {"all_to_all": 0.050}}
    quick = {"phases": {"embedding": 0.050}, "ops": {"all_to_all": 0.150}}
    steps = job_steps(300, quick, quick, hot, quick)
    assert reported(WELL, [replace(step, lookups=(100, 100, 300, 100)) for step in steps]) == {"imbalance"}


def test_slowdown_reports_nothing_when_one_rank_explains_it():
    quick = {"phases": {"forward": 0.050}, "ops": {"all_to_all": 0.150}}
    slow = {"phases": {"forward": 0.150}, "ops": {"all_to_all": 0.050}}
    assert reported(WELL, job_steps(300, quick, quick, slow, quick)) == {"straggler"}


# -- the end -----------------------------------------------------------------------------------------------


def test_fault_is_not_over_before_a_baseline_is_known():
    finding = detect(WELL, part(60, exchange=0.150))
    assert not Slowdown().can_resolve(job_with(part(10, exchange=0.150)), finding)
    assert Slowdown().can_resolve(job_with(WELL), finding)


def test_fault_is_not_over_when_a_restarted_hub_knows_only_slow_steps():
    finding = detect(WELL, part(60, exchange=0.150))
    assert not Slowdown().can_resolve(job_with(part(60, exchange=0.150)), finding)
    assert Slowdown().can_resolve(job_with(part(60, exchange=0.150, samples=64)), finding)
    assert Slowdown().can_resolve(job_with(part(60, exchange=0.150), world_size=2), finding)


def test_fault_is_over_when_a_new_start_is_as_slow_from_its_first_step():
    """The baseline of the new kind of step is not known yet."""
    finding = detect(WELL, part(60, exchange=0.150))
    now = job_with(part(60, exchange=0.150))
    again = replace(now, ranks=tuple(replace(r, run_uid=f"again-{r.rank}") for r in now.ranks))
    assert Slowdown().can_resolve(again, finding)


def test_finding_stays_open_until_a_restarted_hub_sees_all_ranks():
    finding = detect(WELL, part(60, exchange=0.150))
    now = job_with(part(60, exchange=0.150))
    assert not Slowdown().can_resolve(replace(now, ranks=now.ranks[:2], missing=(2, 3)), finding)


def test_cost_is_the_part_of_the_time_that_is_beyond_the_baseline():
    on_gpus = job_with(WELL, part(60, exchange=0.150))
    on_gpus = replace(on_gpus, ranks=tuple(replace(r, device=f"GPU-{r.rank}") for r in on_gpus.ranks))
    (finding,) = Slowdown().detect(on_gpus)
    assert finding.lost_gpu_hours == pytest.approx(0.5 * 4 * (finding.detected - finding.onset) / 3600)


def test_slowdown_is_inert_without_a_baseline():
    assert Slowdown().inert_reason(job_with(WELL)) is None
    assert "too few steps to have a baseline" in Slowdown().inert_reason(job_with(part(10)))
