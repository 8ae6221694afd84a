"""Tests of the jobs of the kit on a simulated GPU, each with its check; only a real GPU shows what they measure."""

import json
from dataclasses import replace

import pytest

from bench.gpu_check import records
from bench.gpu_check.checks import allocator, communication, cost, events, synchronization, training
from bench.gpu_check.kit import read_box
from bench.gpu_check.result import FAILED, MEASURED, NOT_CHECKED, PASSED
from bench.gpu_check.settings import ALONE, ONE_RANK
from bench.switching import MODES, costs
from tests.bench.gpu_check import simulated_gpu
from tests.bench.gpu_check.machines import WITH_GPU
from tests.ports import free_port

pytestmark = pytest.mark.e2e
SCRIPT = """
from tests.bench.gpu_check import simulated_gpu
simulated_gpu.install()
from {package} import {name}
{before}
{name}.main({folder!r}, *{arguments!r})
"""
MACHINE = replace(WITH_GPU, uuids=(f"GPU-{simulated_gpu.UUID}",))


@pytest.fixture
def run_job(start_rank, tmp_path):
    """Return a function that runs a job on one rank, and returns its box."""

    def run(name, *arguments, package="bench.gpu_check.jobs", before=""):
        folder = str(tmp_path)
        script = SCRIPT.format(package=package, name=name, folder=folder, arguments=arguments, before=before)
        rank = start_rank(script, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), GLOO_SOCKET_IFNAME="lo")
        assert rank.wait(90) == 0, rank.output
        assert "zmon:" not in rank.output
        return read_box(rank.box)

    return run


def outcomes(results):
    return {result.what: result.outcome for result in results}


def test_phases_by_device_events_are_the_times_of_the_kernels(run_job, tmp_path):
    box = run_job("events", ALONE.key)
    record = records.read(tmp_path, 0, records.TimedKernels)
    assert record.has_device_events
    *phases, _ = events.compare(record, box.steps)  # the last one compares the host's time, which is real
    assert [(result.what, result.outcome) for result in phases] == [
        (f"largest difference of phase {phase}", PASSED) for phase in ("forward", "backward", "optimizer")
    ]
    assert max(result.figure for result in phases) < 1  # µs
    wrong = replace(record, steps=tuple({**step, "backward": 0.0055} for step in record.steps))
    assert FAILED in outcomes(list(events.compare(wrong, box.steps))[:3]).values()


@pytest.mark.slow  # another job of the kit is in every run
def test_marks_are_measured_in_every_mode_by_turns(run_job, tmp_path):
    run_job("marks", ALONE.key, "4")
    mark_costs = records.read(tmp_path, 0, records.MarkCosts)
    assert {len(blocks) for blocks in mark_costs.by_mode.values()} == {4}
    results = list(cost.compare_marks(mark_costs))
    assert [result.what for result in results] == [
        "added by a change of phase with host clock", "added by a change of phase with device events",
    ]  # fmt: skip
    assert results[0].outcome == MEASURED


# The probe reads the allocator at most once a second.
SHORT_ALLOCATOR = "allocator.HELD_BYTES = allocator.FREED_BYTES = 1000; allocator._STEADY_SECONDS = 1.5"


def test_allocator_figures_in_the_box_are_those_of_torch(run_job, tmp_path):
    box = run_job("allocator", ALONE.key, before=SHORT_ALLOCATOR)
    figures = records.read(tmp_path, 0, records.AllocatorFigures)
    results = outcomes(allocator.compare(box.memory, figures))
    assert set(results.values()) == {PASSED, NOT_CHECKED}  # nvidia-smi does not list the process
    assert FAILED in outcomes(allocator.compare(box.memory, replace(figures, peak=1))).values()


def test_training_on_the_device_has_every_step_and_collective(run_job, tmp_path):
    box = run_job("parallel", ONE_RANK.key, "ddp", "20")
    record = records.read(tmp_path, 0, records.TrainedRank)
    results = outcomes(training.compare(MACHINE, replace(ONE_RANK, backend="gloo"), 20, [box], [record]))
    assert results.pop("sum of the steps, of the host's time from first to last") == FAILED  # two clocks
    assert results.pop("overhead that zmon reports, per step") == MEASURED
    assert set(results.values()) == {PASSED}
    assert training.compare_collectives([box], [record]).outcome == PASSED


def test_watched_steps_do_not_wait_for_the_device(run_job, tmp_path):
    run_job("synchronization", ONE_RANK.key)
    record = records.read(tmp_path, 0, records.SubmittedSteps)
    assert (record.num_dropped, record.error) == (0, "")
    results = outcomes(synchronization.compare(record))
    assert results["records dropped under that mode"] == PASSED


@pytest.mark.slow  # another job of the kit is in every run
def test_wait_behind_a_kernel_has_a_step_for_each_length(run_job, tmp_path):
    before = "communication.torch.cuda.mem_get_info = lambda device: (1 << 22, 1 << 22)"
    box = run_job("communication", ONE_RANK.key, before=before)
    record = records.read(tmp_path, 0, records.OverlapSteps)
    assert record.op == "all_gather"
    assert list(box.steps.column("calls_all_gather")) == [1, 1, 1]
    (result,) = communication.compare("", "nccl", record, box.steps)
    assert result.outcome == NOT_CHECKED  # the simulated device does nothing in a collective


@pytest.mark.slow  # another job of the kit is in every run
def test_job_of_the_overhead_benchmark_runs_on_the_device(run_job, tmp_path):
    run_job("job", "ddp", "2", "0.02", "device", *MODES, package="bench")
    (rank_cost,) = costs([json.loads((tmp_path / "0.json").read_text())])
    results = list(cost.step_results("a step", rank_cost, is_limited=False))
    assert [result.what.removeprefix("a step: ") for result in results] == [
        "without zmon", "overhead that zmon reports", "added by zmon", "floor (A/A)", "of the step",
    ]  # fmt: skip
