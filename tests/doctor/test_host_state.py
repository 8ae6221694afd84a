"""Tests of the state of one host: lasting faults of its GPUs, and what cannot be known."""

from dataclasses import replace

import pytest

from tests.build import agent_report
from tests.doctor.scene import source
from zmon.doctor.host_state import State, host_state
from zmon.schema.host import GpuSample, HostSample, NicSample

GOOD = GpuSample("0", "GPU-a")
OTHER = replace(GOOD, gpu="1", uuid="GPU-b")


def state(*gpus, sources=(), **sample):
    """Return the state of a host whose agent reports these GPUs and sources."""
    report = agent_report()
    return host_state(replace(report, sample=HostSample(gpus=gpus or None, **sample), sources=tuple(sources)))


# Nobody knows whether this link is used.
LINK = NicSample(
    "eth3", transport="tcp", up=False, speed_bytes_per_second=None, received_bytes=None, transmitted_bytes=None,
    errors={},
)  # fmt: skip
NO_DRIVER = {"up": False, "error": "the driver does not answer"}
PAST = replace(GOOD, xid_errors={79: 3, 13: 1}, ecc_errors={"volatile_uncorrected": 2})
LOST = replace(GOOD, lost=True)
FELL_OFF = "fault: GPU 0: it fell off the bus; its rank cannot go on"
STATES = {  # the state of a host with these GPUs; what it must be, and its reason
    "no fault": (state(GOOD, OTHER), State.OK, "2 GPUs without a fault"),
    "no GPU": (
        state(sources=[source("gpu", absent=True, **NO_DRIVER)]), State.OK,
        "no GPU: the driver does not answer",
    ),
    "errors of the past": (state(PAST), State.OK, "1 GPU without a fault"),
    "heat": (state(replace(GOOD, throttled={"hw_thermal": True})), State.OK, "1 GPU without a fault"),
    "link that is down": (state(GOOD, nics=(LINK,)), State.OK, "1 GPU without a fault"),
    "nobody reads them": (state(), State.UNKNOWN, "the agent does not read GPUs yet, or runs --without gpu"),
    "driver does not answer": (
        state(sources=[source("gpu", **NO_DRIVER)]), State.UNKNOWN,
        "the agent cannot read the GPUs: the driver does not answer",
    ),
    "lost GPU": (state(OTHER, LOST), State.FAULT, FELL_OFF),
    "two lost GPUs": (state(LOST, replace(OTHER, lost=True)), State.FAULT, f"{FELL_OFF} (and 1 more)"),
    "GPU that needs a reset": (
        state(OTHER, replace(GOOD, repair_pending=True)), State.FAULT,
        "fault: GPU 0: its memory needs a reset to be repaired",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("of_host", "expected", "reason"), STATES.values(), ids=STATES)
def test_state_of_a_host_is_that_of_its_gpus_with_the_reason(of_host, expected, reason):
    assert of_host == (expected, reason)
