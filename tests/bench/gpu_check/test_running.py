"""Tests of the run of a check: the settings that a machine has, checks that break, and the end of the time."""

import time
from dataclasses import replace

import pytest

from bench.gpu_check.kit import OUT_OF_TIME, Check, Kit
from bench.gpu_check.result import FAILED, NOT_CHECKED, PASSED, Result
from bench.gpu_check.running import results
from bench.gpu_check.settings import GPU_EACH, ON_CPU, ONE_RANK
from bench.ranks import JobFailed
from tests.bench.gpu_check.machines import DEVICE, WITH_GPU, WITHOUT_GPU

OUTPUT = """the job failed with exit code 1:
[rank0]: Traceback (most recent call last):
[rank0]: RuntimeError: CUDA error: out of memory
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: worker
"""


def kit(tmp_path, machine, seconds=60.0):
    return Kit(machine, tmp_path, time.monotonic() + seconds)


def check(run):
    return Check("name", "Title", (ONE_RANK, GPU_EACH, ON_CPU), run)


def passes(kit, setting):
    yield Result(setting.backend, PASSED)


def outcomes(ran):
    return [(result.what, result.outcome, result.setting) for result in ran]


TWO_GPUS = replace(WITH_GPU, torch=replace(WITH_GPU.torch, devices=(DEVICE, DEVICE)))
NEEDS_2 = "this machine has 1 GPU, and this needs 2"


LEFT_OUT = {
    "no GPU": (WITHOUT_GPU, 60.0, {ONE_RANK: WITHOUT_GPU.no_gpu, GPU_EACH: WITHOUT_GPU.no_gpu, ON_CPU: ""}),
    "one GPU": (WITH_GPU, 60.0, {ONE_RANK: "", GPU_EACH: NEEDS_2}),
    "two GPUs": (TWO_GPUS, 60.0, {ONE_RANK: "", GPU_EACH: ""}),
    "after the end of the time": (
        WITHOUT_GPU,
        0.0,
        {ONE_RANK: WITHOUT_GPU.no_gpu, GPU_EACH: WITHOUT_GPU.no_gpu, ON_CPU: OUT_OF_TIME},
    ),
}


@pytest.mark.parametrize(("machine", "seconds", "expected"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_settings_that_a_machine_has_run_and_the_others_have_a_reason(tmp_path, machine, seconds, expected):
    ran = list(results(check(passes), kit(tmp_path, machine, seconds)))
    assert outcomes(ran) == [
        ("Title", NOT_CHECKED, setting.name) if reason else (setting.backend, PASSED, setting.name)
        for setting, reason in expected.items()
    ]
    assert [result.note for result in ran] == list(expected.values())


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (JobFailed(OUTPUT), "the job failed with exit code 1: [rank0]: RuntimeError: CUDA error: out of memory"),
        (KeyError("rank"), "the check broke: KeyError: 'rank'"),
    ],
)
def test_check_that_breaks_has_failed_and_keeps_its_other_results(tmp_path, error, note):
    def breaks(kit, setting):
        yield Result("before", PASSED)
        raise error

    ran = list(results(check(breaks), kit(tmp_path, WITH_GPU)))
    assert outcomes(ran)[:2] == [("before", PASSED, ONE_RANK.name), ("Title", FAILED, ONE_RANK.name)]
    assert ran[1].note == note


def test_check_that_the_end_of_the_time_cuts_off_has_not_failed(tmp_path):
    scene = kit(tmp_path, WITH_GPU, seconds=0.05)

    def is_cut_off(kit, setting):
        time.sleep(0.06)
        yield Result("finding", FAILED)

    first, *_ = results(check(is_cut_off), scene)
    assert (first.what, first.outcome, first.note) == ("finding", NOT_CHECKED, OUT_OF_TIME)
