"""Tests of the comparisons of the kit's checks: what passes, what fails, and what cannot be told."""

from dataclasses import replace

import pytest

from bench.gpu_check import records
from bench.gpu_check.checks import communication, cost, graphs, stalls, synchronization, training, versions
from bench.gpu_check.kit import BoxContent
from bench.gpu_check.records import Capture, ProbeMode
from bench.gpu_check.result import FAILED, MEASURED, NOT_CHECKED, PASSED
from bench.gpu_check.settings import ONE_RANK
from bench.switching import Cost, Interval
from tests.bench.gpu_check.machines import UUID, WITH_GPU, WITHOUT_GPU
from tests.boxes import IDENTITY
from tests.build import finding
from tests.steps import Measures, OpTotals, StepRecord, steps_of
from zmon.box import layout
from zmon.schema.steps import Steps

RANK = records.TrainedRank(True, {"nccl:0": 30})


def step(number, start, duration=0.02, all_reduce=0.005):
    ops = {"all_reduce": OpTotals(1, exposed_seconds=all_reduce)}
    return StepRecord(number, start, duration, Measures({"forward": duration - all_reduce}, ops))


def box(num_steps=30, dropped=0, device=UUID, backend="nccl", host_seconds=0.02, num_collectives=30):
    last_boundary = [0] * (layout.BOUNDARY.size // 8)
    last_boundary[layout.STEPS] = num_steps
    last_boundary[layout.OVERHEAD] = 3_000_000
    last_boundary[layout.DROPPED] = dropped
    steps = steps_of({"": [step(number, number * host_seconds) for number in range(num_steps)]})
    return BoxContent(
        replace(IDENTITY, device=device, backend=backend), last_boundary, steps, {"0": num_collectives, "unused": 0}
    )


def failures(results):
    return [result.what for result in results if result.outcome == FAILED]


def compared(rank_box, rank=RANK, machine=WITH_GPU):
    return list(training.compare(machine, ONE_RANK, 30, [rank_box], [rank]))


def test_watched_training_passes():
    results = compared(box())
    assert failures(results) == []
    assert [result.what for result in results if result.outcome == MEASURED] == ["overhead that zmon reports, per step"]
    assert results[-1].figure == pytest.approx(100)  # µs


@pytest.mark.parametrize(
    ("rank_box", "rank", "failure"),
    [
        (box(num_steps=29), RANK, "steps in the box"),
        (box(dropped=1), RANK, "records that the probe dropped"),
        (box(backend="gloo"), RANK, "backend"),
        (box(device="cpu"), RANK, "device in the box"),
        (box(), replace(RANK, has_device_events=False), "times from device events"),
        (box(host_seconds=0.03), RANK, "sum of the steps, of the host's time from first to last"),
    ],
)
def test_watched_training_with_one_fault_fails_there(rank_box, rank, failure):
    assert failures(compared(rank_box, rank)) == [failure]


def test_step_whose_parts_do_not_sum_to_it_fails():
    *others, last = (step(number, number * 0.02) for number in range(30))
    odd = replace(box(), steps=steps_of({"": [*others, replace(last, duration=0.02001)]}))
    assert failures(compared(odd)) == ["largest difference of a step from the sum of its parts"]


def test_device_is_not_checked_without_nvidia_smi():
    machine = replace(WITH_GPU, uuids=(), smi_error="gone")
    (result,) = (result for result in compared(box(), machine=machine) if "device in" in result.what)
    assert (result.outcome, result.note) == (NOT_CHECKED, "gone")


@pytest.mark.parametrize(
    ("rank", "outcome"),
    [
        (RANK, PASSED),
        (replace(RANK, last_sequences={"nccl:0": 29}), FAILED),
        (replace(RANK, last_sequences={"nccl:0": 30, "nccl:1": 1}), FAILED),
        (replace(RANK, num_pending=1), FAILED),
        (records.TrainedRank(True, None, flight_error="the rank did not answer"), FAILED),
    ],
)
def test_collectives_are_those_of_the_flight_recorder(rank, outcome):
    assert training.compare_collectives([box()], [rank]).outcome == outcome


def test_collectives_in_the_report_are_those_of_the_rank_that_differs():
    result = training.compare_collectives([box(), box(num_collectives=29)], [RANK, RANK])
    assert (result.outcome, result.figure, result.compared_with) == (FAILED, "nccl:0 29", "flight recorder: nccl:0 30")


@pytest.mark.parametrize(("events", "outcome"), [(6e-6, PASSED), (90e-6, FAILED)])
def test_cost_of_a_mark_has_a_limit_with_events_only(events, outcome):
    seconds = {ProbeMode.ABSENT: 1e-6, ProbeMode.HOST_CLOCK: 99e-6, ProbeMode.EVENTS: events}
    by_mode = {mode: (cost_of_mark,) * 9 for mode, cost_of_mark in seconds.items()}
    costs = records.MarkCosts(by_mode, has_device_events=True)
    assert [result.outcome for result in cost.compare_marks(costs)] == [MEASURED, outcome]
    without_events = records.MarkCosts(by_mode, has_device_events=False)
    assert failures(cost.compare_marks(without_events)) == ["cost of a mark"]


@pytest.mark.parametrize(
    ("percent", "limited", "outcome"), [(0.4, True, PASSED), (2.5, True, FAILED), (25.0, False, MEASURED)]
)
def test_only_a_step_that_hides_the_host_has_a_limit(percent, limited, outcome):
    nothing, added = Interval(0.0, 0.0, 0.0), Interval(percent / 100, 0.001, 0.3)
    rank_cost = Cost(0, 1.0, nothing, nothing, added, nothing, nothing, 0.0)
    *_, result = cost.step_results("a step", rank_cost, limited)
    assert (result.what, result.outcome) == ("a step: of the step", outcome)


@pytest.mark.parametrize(
    ("watched", "absent", "outcome"), [(0.01, 0.008, PASSED), (1.0, 0.008, FAILED), (1.0, 1.0, NOT_CHECKED)]
)
def test_step_that_waits_only_with_zmon_fails(watched, absent, outcome):
    first, *others = synchronization.compare(records.SubmittedSteps(1.0, watched, absent, 0, ""))
    assert first.outcome == outcome
    assert failures(others) == []
    calls = records.SubmittedSteps(1.0, watched, absent, 2, "called a synchronizing CUDA operation")
    assert len(failures(list(synchronization.compare(calls))[1:])) == 2


def test_capture_that_only_zmon_breaks_or_changes_fails():
    captures = (
        Capture("gradients", False, "", 0.0),
        Capture("step", False, "", 0.0),
        Capture("both", False, "not supported", None),
        Capture("gradients", True, "", 1e-7),
        Capture("step", True, "operation not permitted when stream is capturing", None),
        Capture("both", True, "not supported", None),
    )
    results = list(graphs.compare(records.Captures(captures)))
    assert [result.outcome for result in results] == [PASSED, FAILED, NOT_CHECKED]
    assert results[1].note == "operation not permitted when stream is capturing"
    other_parameters = (Capture("step", False, "", 0.0), Capture("step", True, "", 0.1))
    assert failures(graphs.compare(records.Captures(other_parameters))) == ["capture and replay of step"]


def overlap_steps(op, wait_seconds):
    """Return the record of a rank with kernels of no duration, of half the wait, and of all of it."""
    hidden = (records.HiddenStep(ratio, wait_seconds * (1 - ratio)) for ratio in (0.0, 0.5, 1.0))
    return records.OverlapSteps(op, wait_seconds, tuple(hidden))


@pytest.mark.parametrize(
    ("backend", "exposed", "outcomes"),
    [
        ("nccl", (0.0061, 0.0029, 0.00001), [PASSED] * 3),
        ("nccl", (0.006, 0.006, 0.006), [PASSED, FAILED, FAILED]),  # hidden communication counts as exposed
        ("nccl", (0.0, 0.0, 0.0), [FAILED, FAILED, PASSED]),
        ("gloo", (0.08, 0.0, 0.0), [PASSED] * 3),
    ],
)
def test_exposed_time_is_what_the_kernel_does_not_hide(backend, exposed, outcomes):
    overlaps = overlap_steps("all_reduce", 0.006)
    steps = steps_of({"": [step(number, number, all_reduce=seconds) for number, seconds in enumerate(exposed)]})
    assert [result.outcome for result in communication.compare("", backend, overlaps, steps)] == outcomes


def test_kernels_that_hide_too_short_a_collective_are_not_checked():
    (result,) = communication.compare("", "nccl", overlap_steps("all_gather", 1e-5), Steps())
    assert (result.outcome, result.note) == (NOT_CHECKED, "the collective takes only 10 µs")


def test_kernels_fail_if_the_box_lacks_one_of_their_steps():
    steps = steps_of({"": [step(1, 0.0)]})
    results = communication.compare("", "nccl", overlap_steps("all_gather", 0.006), steps)
    assert failures(results) == ["exposed all_gather"]


@pytest.mark.parametrize(
    ("changes", "seconds", "outcome"),
    [
        ({}, 0.5, PASSED),
        ({}, 4.5, FAILED),  # late
        ({"cause": "compute_hang"}, 0.5, FAILED),
        ({"ranks": (0, 1)}, 0.5, FAILED),
    ],
)
def test_finding_must_name_cause_and_rank_in_time(changes, seconds, outcome):
    frozen = replace(finding(), **({"cause": "rank_frozen", "ranks": (1,)} | changes))
    assert stalls.compare_finding("frozen", "rank_frozen", 1, frozen, seconds).outcome == outcome
    missing = stalls.compare_finding("killed", "rank_exited", 1, None, 15.0)
    assert (missing.outcome, missing.note) == (FAILED, "no finding within 15 s")


@pytest.mark.parametrize(("culprits", "outcome"), [([(1,)], PASSED), ([(1,), (0,)], FAILED), ([], FAILED)])
def test_no_other_rank_may_be_named(culprits, outcome):
    assert stalls.compare_culprits(culprits, 1).outcome == outcome


def test_versions_and_devices_of_a_machine():
    assert failures(versions.compare(WITH_GPU)) == []
    old = replace(WITH_GPU, python="3.10.2", torch=replace(WITH_GPU.torch, torch="2.8.1"), uuids=("GPU-other",))
    assert failures(versions.compare(old)) == ["version of Python", "version of torch", "UUIDs of the GPUs"]
    (*_, missing) = versions.compare(WITHOUT_GPU)
    assert (missing.outcome, missing.note) == (NOT_CHECKED, WITHOUT_GPU.no_gpu_reason)
    (*_, missing) = versions.compare(replace(WITH_GPU, smi_error="nvidia-smi is not installed"))
    assert (missing.outcome, missing.note) == (NOT_CHECKED, "nvidia-smi is not installed")
