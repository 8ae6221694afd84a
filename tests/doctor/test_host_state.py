"""Tests of the state of one host: lasting faults of its GPUs, and what cannot be known."""

from dataclasses import replace

import pytest

from tests.build import agent_report
from zmon.doctor.host_state import State, host_state
from zmon.schema.host import GpuSample, HostSample, NicSample, SourceStatus

GOOD = GpuSample("0", "GPU-a")
OTHER = replace(GOOD, gpu="1", uuid="GPU-b")


def state(*gpus, sources=(), **sample):
    report = agent_report()
    return host_state(replace(report, sample=HostSample(gpus=gpus or None, **sample), sources=tuple(sources)))


def source(absent):
    return SourceStatus("gpu", False, absent, 5.0, 1.0, 3, "the driver does not answer")


LINK = NicSample("eth3", "tcp", False, None, None, None, {})  # nobody knows whether it is used
PAST = replace(GOOD, xid_errors={79: 3, 13: 1}, ecc_errors={"volatile_uncorrected": 2})
STATES = {
    "no fault": (state(GOOD, OTHER), State.OK, "2 GPUs without a fault"),
    "no GPU": (state(sources=[source(absent=True)]), State.OK, "no GPU: the driver does not answer"),
    "errors of the past": (state(PAST), State.OK, "1 GPU without a fault"),
    "heat": (state(replace(GOOD, throttled={"hw_thermal": True})), State.OK, "1 GPU without a fault"),
    "link that is down": (state(GOOD, nics=(LINK,)), State.OK, "1 GPU without a fault"),
    "nobody reads them": (state(), State.UNKNOWN, "the agent does not read GPUs yet, or runs --without gpu"),
    "driver does not answer": (
        state(sources=[source(absent=False)]),
        State.UNKNOWN,
        "the agent cannot read the GPUs: the driver does not answer",
    ),
}


@pytest.mark.parametrize(("of_host", "expected", "reason"), STATES.values(), ids=STATES)
def test_state_of_a_host_without_a_lasting_fault(of_host, expected, reason):
    assert of_host == (expected, reason)


@pytest.mark.parametrize(
    ("gpu", "text"),
    [
        (replace(GOOD, lost=True), "fault: GPU 0: it fell off the bus"),
        (replace(GOOD, repair_pending=True), "fault: GPU 0: its memory needs a reset"),
    ],
)
def test_fault_that_lasts_is_a_fault(gpu, text):
    of_host = state(OTHER, gpu)
    assert of_host.state == State.FAULT
    assert of_host.reason.startswith(text)


def test_several_faults_are_counted():
    assert state(replace(GOOD, lost=True), replace(OTHER, lost=True)).reason.endswith("(and 1 more)")
