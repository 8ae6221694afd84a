"""Tests of the state of one host: lasting faults of its GPUs, and what cannot be known."""

from dataclasses import replace

import pytest

from tests.build import agent_report
from zmon.doctor.host_state import State, host_state
from zmon.schema.host import GpuSample, HostSample, NicSample, SourceStatus

GOOD = GpuSample("0", "GPU-a")


def state(*gpus, sources=(), **sample):
    report = agent_report()
    return host_state(replace(report, sample=HostSample(gpus=gpus or None, **sample), sources=tuple(sources)))


def source(absent):
    return SourceStatus("gpu", False, absent, 5.0, 1.0, 3, "the driver does not answer")


def test_host_without_a_fault_is_ok():
    assert state(GOOD, replace(GOOD, gpu="1", uuid="GPU-b")) == (State.OK, "2 GPUs without a fault")


def test_host_without_gpus_is_ok_and_the_reason_is_told():
    assert state(sources=[source(absent=True)]) == (State.OK, "no GPU: the driver does not answer")


def test_gpus_that_nobody_reads_are_unknown():
    assert state() == (State.UNKNOWN, "the agent does not read GPUs yet, or runs --without gpu")


@pytest.mark.parametrize(
    ("gpu", "text"),
    [
        (replace(GOOD, lost=True), "fault: GPU 0: it fell off the bus"),
        (replace(GOOD, repair_pending=True), "fault: GPU 0: its memory needs a reset"),
    ],
)
def test_fault_that_lasts_is_a_fault(gpu, text):
    of_host = state(replace(GOOD, gpu="1", uuid="GPU-b"), gpu)
    assert of_host.state == State.FAULT
    assert of_host.reason.startswith(text)


def test_several_faults_are_counted():
    lost = replace(GOOD, lost=True)
    assert state(lost, replace(lost, gpu="1", uuid="GPU-b")).reason.endswith("(and 1 more)")


def test_gpus_that_cannot_be_read_are_unknown():
    assert state(sources=[source(absent=False)]) == (
        State.UNKNOWN,
        "the agent cannot read the GPUs: the driver does not answer",
    )


@pytest.mark.parametrize(
    "gpu",
    [
        replace(GOOD, xid_errors={79: 3, 13: 1}, ecc_errors={"volatile_uncorrected": 2}),
        replace(GOOD, throttled={"hw_thermal": True}),
    ],
    ids=["errors of the past", "heat"],
)
def test_what_does_not_last_is_no_fault_of_the_host(gpu):
    assert state(gpu).state == State.OK


def test_link_that_is_down_is_no_fault_as_nobody_knows_whether_it_is_used():
    assert state(GOOD, nics=(NicSample("eth3", "tcp", False, None, None, None, {}),)).state == State.OK
