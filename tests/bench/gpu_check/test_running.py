"""Tests of the run of a check: the settings that a machine has, checks that break, and the time limit."""

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


def make_kit(tmp_path, machine, seconds=60.0):
    """Return the kit of a check on this machine, whose time is over after `seconds`."""
    return Kit(machine, tmp_path, time.monotonic() + seconds)


def make_check(run):
    return Check("name", "Title", (ONE_RANK, GPU_EACH, ON_CPU), run)


def passing(kit, setting):
    yield Result(setting.backend, PASSED)


def outcomes(reported):
    return [(result.what, result.outcome, result.setting) for result in reported]


TWO_GPUS = replace(WITH_GPU, torch=replace(WITH_GPU.torch, devices=(DEVICE, DEVICE)))
NO_GPU = WITHOUT_GPU.no_gpu_reason
NEEDS_2 = "this machine has 1 GPU, and this needs 2"
RUNS = ""  # in place of the reason why a setting is not run; a setting that does not apply is absent

SITUATIONS = {  # machine, seconds, and the reason of each setting
    "no GPU": (WITHOUT_GPU, 60.0, {ONE_RANK: NO_GPU, GPU_EACH: NO_GPU, ON_CPU: RUNS}),
    "one GPU": (WITH_GPU, 60.0, {ONE_RANK: RUNS, GPU_EACH: NEEDS_2}),
    "two GPUs": (TWO_GPUS, 60.0, {ONE_RANK: RUNS, GPU_EACH: RUNS}),
    "after the time limit": (WITHOUT_GPU, 0.0, {ONE_RANK: NO_GPU, GPU_EACH: NO_GPU, ON_CPU: OUT_OF_TIME}),
}


@pytest.mark.parametrize(("machine", "seconds", "reasons"), SITUATIONS.values(), ids=SITUATIONS)
def test_settings_that_are_not_available_give_a_reason(tmp_path, machine, seconds, reasons):
    reported = list(results(make_check(passing), make_kit(tmp_path, machine, seconds)))
    assert outcomes(reported) == [
        ("Title", NOT_CHECKED, setting.name) if reason else (setting.backend, PASSED, setting.name)
        for setting, reason in reasons.items()
    ]
    assert [result.note for result in reported] == list(reasons.values())


@pytest.mark.parametrize(
    ("error", "note"),
    [
        pytest.param(
            JobFailed(OUTPUT),
            "the job failed with exit code 1: [rank0]: RuntimeError: CUDA error: out of memory",
            id="its job fails",
        ),
        pytest.param(KeyError("rank"), "the check broke: KeyError: 'rank'", id="it raises"),
    ],
)
def test_check_that_breaks_keeps_its_earlier_results(tmp_path, error, note):
    def breaks(kit, setting):
        yield Result("before", PASSED)
        raise error

    before, broken, *_ = results(make_check(breaks), make_kit(tmp_path, WITH_GPU))
    assert (before.what, before.outcome, before.setting) == ("before", PASSED, ONE_RANK.name)
    assert (broken.what, broken.outcome, broken.setting, broken.note) == ("Title", FAILED, ONE_RANK.name, note)


def test_failure_after_the_time_limit_is_not_checked(tmp_path):
    """The time limit ends a job, so its failure does not count."""
    kit = make_kit(tmp_path, WITH_GPU, seconds=0.05)

    def fails_late(kit, setting):
        time.sleep(max(0.0, kit.deadline - time.monotonic()) + 0.01)
        yield Result("finding", FAILED)

    first, *_ = results(make_check(fails_late), kit)
    assert (first.what, first.outcome, first.note) == ("finding", NOT_CHECKED, OUT_OF_TIME)
